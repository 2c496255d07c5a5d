//! What can be seen and said of the memory of other processes.

use warmswap_sys::accessed::AccessedError;
use warmswap_sys::perf::PerfError;

use crate::machine::Capability;
use crate::{Check, Finding, Machine, Need, Part};

pub(super) const CHECKS: &[Check] = &[
    Check {
        key: "page_fault_events",
        title: "page-fault events",
        purpose: "tell which page was touched when",
        needs: &[(Part::Record, Need::Must)],
        look: events,
    },
    Check {
        key: "other_processes",
        title: "other processes",
        purpose: "page maps and contents of programs",
        needs: &[
            (Part::Daemon, Need::Must),
            (Part::Kernel, Need::Must),
            (Part::Record, Need::Must),
        ],
        look: other_processes,
    },
    Check {
        key: "process_madvise",
        title: "process_madvise",
        purpose: "pages other processes out and in",
        needs: &[
            (Part::Daemon, Need::Must),
            (Part::Kernel, Need::Must),
            (Part::Record, Need::Must),
        ],
        look: advice,
    },
    Check {
        key: "pagemap_scan",
        title: "PAGEMAP_SCAN",
        purpose: "finds pages in a page map by one call",
        needs: &[(Part::Daemon, Need::Better), (Part::Kernel, Need::Better)],
        look: pagemap_scan,
    },
    Check {
        key: "accessed_bits",
        title: "accessed bits",
        purpose: "tell which pages in memory are in use",
        needs: &[(Part::Daemon, Need::Better), (Part::Kernel, Need::Better)],
        look: accessed_bits,
    },
];

fn events(machine: &Machine) -> Finding {
    let paranoid = machine.number("/proc/sys/kernel/perf_event_paranoid");
    match (machine.kernel.page_fault_events(), paranoid) {
        (Ok(()), Some(level)) => {
            Finding::there(format!("allowed (kernel.perf_event_paranoid is {level})"))
        }
        (Ok(()), None) => Finding::there("allowed"),
        (Err(PerfError::Missing), _) | (_, None) => Finding::lacking(
            "not in this kernel",
            "boot a kernel built with CONFIG_PERF_EVENTS=y",
        ),
        (Err(PerfError::Permission { .. }), Some(level)) => Finding::lacking(
            format!("not allowed: kernel.perf_event_paranoid is {level}"),
            machine.sysctl("kernel.perf_event_paranoid=0"),
        ),
        (Err(error), _) => Finding::lacking(error.to_string(), "run the command with sudo"),
    }
}

fn other_processes(machine: &Machine) -> Finding {
    if machine.can(Capability::SysPtrace) || machine.can(Capability::SysAdmin) {
        return Finding::there("allowed (CAP_SYS_PTRACE)");
    }
    Finding::lacking("CAP_SYS_PTRACE is missing", "run the command with sudo")
}

fn advice(machine: &Machine) -> Finding {
    match machine.kernel.process_madvise() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Finding::lacking(
            "refused, as by a filter of system calls",
            "allow process_madvise there (seccomp), or run the command outside of containers",
        ),
        Err(error) => Finding::lacking(error.to_string(), "use Linux 5.10 or later"),
        Ok(()) if machine.can(Capability::SysNice) => Finding::there("there"),
        Ok(()) => Finding::lacking("CAP_SYS_NICE is missing", "run the command with sudo"),
    }
}

fn accessed_bits(machine: &Machine) -> Finding {
    let Err(error) = machine.kernel.accessed_bits() else {
        return Finding::there("can be read (BPF)");
    };
    let fix = match &error {
        AccessedError::Processor => "use a machine with an x86-64 processor",
        AccessedError::Types { .. } => "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        AccessedError::Program { .. } => {
            "run the command with sudo; lockdown of the kernel must not be confidentiality"
        }
        AccessedError::File(_) => "run the command with sudo",
        AccessedError::Layout => "nothing: faults alone are seen on this kernel",
    };
    Finding::lacking(error.to_string(), fix)
}

fn pagemap_scan(machine: &Machine) -> Finding {
    match machine.kernel.pagemap_scan() {
        Ok(true) => Finding::there("there"),
        Ok(false) => Finding::lacking("not in this kernel", "use Linux 6.7 or later"),
        Err(error) => Finding::lacking(
            error.to_string(),
            "mount /proc, and boot a kernel built with CONFIG_PROC_PAGE_MONITOR=y",
        ),
    }
}
