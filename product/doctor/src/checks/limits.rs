//! Limits of this process, which its children inherit.

use warmswap_page::mib;

use crate::machine::Capability;
use crate::{Check, Finding, Machine, Need, Part};

pub(super) const CHECKS: &[Check] = &[
    Check {
        key: "address_space",
        title: "address space",
        purpose: "addresses for all regions are reserved before any page is used",
        needs: &[
            (Part::Arena, Need::Must),
            (Part::Run, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: address_space,
    },
    Check {
        key: "open_files",
        title: "open files",
        purpose: "the pager's descriptors stand beside those of the program",
        needs: &[(Part::Run, Need::Better)],
        look: open_files,
    },
    Check {
        key: "locked_memory",
        title: "locked memory",
        purpose: "buffers for page-fault events",
        needs: &[(Part::Record, Need::Must)],
        look: locked_memory,
    },
];

/// Addresses that are reserved, and as much again for everything else.
const ADDRESSES: u64 = 128 << 30;

fn address_space(machine: &Machine) -> Finding {
    match machine.limit("Max address space") {
        None => Finding::unknown("the limits cannot be read"),
        Some((u64::MAX, _)) => Finding::there("unlimited"),
        Some((soft, _)) if soft >= ADDRESSES => Finding::there(format!("{} GiB", soft >> 30)),
        Some((soft, hard)) => Finding::lacking(
            mib(soft),
            raise(hard, ADDRESSES, "ulimit -v unlimited", "as"),
        ),
    }
}

/// The pager needs a dozen; the rest is the program's.
const FILES: u64 = 256;

fn open_files(machine: &Machine) -> Finding {
    match machine.limit("Max open files") {
        None => Finding::unknown("the limits cannot be read"),
        Some((soft, _)) if soft >= FILES => Finding::there(soft.to_string()),
        Some((soft, hard)) => Finding::lacking(
            soft.to_string(),
            raise(hard, FILES, "ulimit -n 1024", "nofile"),
        ),
    }
}

/// One buffer a processor: 2048 pages and their header.
const EVENT_BUFFER_BYTES: u64 = 2049 * 4096;

fn locked_memory(machine: &Machine) -> Finding {
    if machine.can(Capability::IpcLock) {
        return Finding::there("no limit (CAP_IPC_LOCK)");
    }
    let needed = machine.processors() * EVENT_BUFFER_BYTES;
    match machine.limit("Max locked memory") {
        None => Finding::unknown("the limits cannot be read"),
        Some((soft, _)) if soft >= needed => Finding::there(format!("{} KiB", soft >> 10)),
        Some((soft, hard)) => {
            let command = format!("ulimit -l {}", needed >> 10);
            Finding::lacking(
                format!("{} KiB of {}", soft >> 10, needed >> 10),
                raise(hard, needed, &command, "memlock"),
            )
        }
    }
}

/// The shell's command; where the hard limit forbids it, where that is set.
fn raise(hard: u64, needed: u64, command: &str, item: &str) -> String {
    if hard >= needed {
        command.to_owned()
    } else {
        format!(
            "raise the hard limit `{item}` in /etc/security/limits.conf, log in anew, then {command}"
        )
    }
}
