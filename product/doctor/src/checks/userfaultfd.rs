//! Page faults served by programs.

use warmswap_uffd::{DEVICE, Feature, Features, OpenError};

use crate::library::preload_library;
use crate::{Check, Finding, Machine, Need, Part};

pub(super) const CHECKS: &[Check] = &[
    Check {
        key: "preload_library",
        title: "preload library",
        purpose: "carries the pager into unmodified programs",
        needs: &[(Part::Run, Need::Must)],
        look: library,
    },
    Check {
        key: "userfaultfd",
        title: "userfaultfd",
        purpose: "hands the page faults of a program to its pager",
        needs: &[
            (Part::Arena, Need::Must),
            (Part::Run, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: any,
    },
    Check {
        key: "faults_in_system_calls",
        title: "faults within system calls",
        purpose: "lets programs pass swapped-out buffers to read(2) and the like",
        needs: &[(Part::Run, Need::Must)],
        look: everywhere,
    },
    Check {
        key: "layout_events",
        title: "events of fork and mremap",
        purpose: "keeps the pager's picture of an unmodified program true",
        needs: &[(Part::Run, Need::Must)],
        look: |machine| {
            let events = [
                Feature::EventFork,
                Feature::EventRemap,
                Feature::EventRemove,
                Feature::EventUnmap,
            ];
            features(machine, &events, "use Linux 4.11 or later")
        },
    },
    Check {
        key: "faults_by_signal",
        title: "faults by SIGBUS",
        purpose: "serves a fault in the thread that makes it",
        needs: &[(Part::Arena, Need::Must), (Part::Bench, Need::Must)],
        look: |machine| features(machine, &[Feature::Sigbus], "use Linux 4.14 or later"),
    },
    Check {
        key: "frame_moves",
        title: "UFFDIO_MOVE",
        purpose: "moves frames; without it `run` pages nothing, or copies with --mechanism copy",
        needs: &[
            (Part::Arena, Need::Better),
            (Part::Run, Need::Better),
            (Part::Bench, Need::Better),
        ],
        look: |machine| features(machine, &[Feature::Move], "use Linux 6.8 or later"),
    },
    Check {
        key: "write_protection",
        title: "write protection",
        purpose: "tells clean pages from dirty where frames cannot be moved",
        needs: &[(Part::Arena, Need::Better), (Part::Run, Need::Better)],
        look: |machine| features(machine, &[Feature::WriteProtect], "use Linux 5.7 or later"),
    },
];

fn library(machine: &Machine) -> Finding {
    match preload_library(machine) {
        Ok(path) => Finding::there(path.display().to_string()),
        Err(error) => Finding::lacking(
            error.to_string(),
            "install it there, name its file in WARMSWAP_PRELOAD, or `make build` and use target/release/warmswap",
        ),
    }
}

const ENOSYS: i32 = 38;
const EPERM: i32 = 1;

fn any(machine: &Machine) -> Finding {
    match machine.kernel.userfaultfd() {
        Ok(_) => Finding::there("there"),
        Err(OpenError::Open(error)) if error.raw_os_error() == Some(ENOSYS) => Finding::lacking(
            "not in this kernel",
            "boot a kernel built with CONFIG_USERFAULTFD=y, 5.11 or later",
        ),
        Err(OpenError::Open(error)) if error.raw_os_error() == Some(EPERM) => Finding::lacking(
            "forbidden to this process by a system-call filter",
            "allow the system call userfaultfd; with Docker: --security-opt seccomp=unconfined",
        ),
        Err(error) => Finding::lacking(error.to_string(), "use Linux 5.11 or later"),
    }
}

fn everywhere(machine: &Machine) -> Finding {
    if let Err(error) = machine.kernel.userfaultfd() {
        return Finding::lacking(format!("no userfaultfd ({error})"), "see userfaultfd");
    }
    match machine.kernel.userfaultfd_everywhere() {
        Ok(()) => Finding::there("allowed"),
        Err(error) => {
            let setting = machine.number("/proc/sys/vm/unprivileged_userfaultfd");
            let device = if machine.exists(DEVICE) {
                format!(", or for this user alone: sudo setfacl -m u:$USER:rw {DEVICE}")
            } else {
                String::new()
            };
            let found = match setting {
                Some(0) => "not allowed: vm.unprivileged_userfaultfd is 0, and CAP_SYS_PTRACE is \
                            missing"
                    .to_owned(),
                _ => error.to_string(),
            };
            let fix = machine.sysctl("vm.unprivileged_userfaultfd=1") + &device;
            Finding::lacking(found, fix)
        }
    }
}

fn features(machine: &Machine, wanted: &[Feature], fix: &str) -> Finding {
    let Ok(offered) = machine.kernel.userfaultfd() else {
        return Finding::lacking("no userfaultfd", "see userfaultfd");
    };
    let missing = Features::of(wanted).without(offered);
    if missing == Features::NONE {
        Finding::there("there")
    } else {
        Finding::lacking(format!("this kernel lacks {missing}"), fix)
    }
}
