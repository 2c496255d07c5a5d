//! How the kernel hands out memory.

use warmswap_page::PAGE_BYTES;

use crate::{Check, Finding, Machine, Need, Part};

pub(super) const CHECKS: &[Check] = &[
    Check {
        key: "page_size",
        title: "page size",
        purpose: "all sizes and formats count pages of 4096 bytes",
        needs: &[
            (Part::Arena, Need::Must),
            (Part::Run, Need::Must),
            (Part::Group, Need::Must),
            (Part::Daemon, Need::Must),
            (Part::Kernel, Need::Must),
            (Part::Record, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: page_size,
    },
    Check {
        key: "overcommit",
        title: "overcommitted memory",
        purpose: "addresses for all regions are reserved before any page is used",
        needs: &[
            (Part::Arena, Need::Must),
            (Part::Run, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: overcommit,
    },
    Check {
        key: "mappings",
        title: "mappings",
        purpose: "pages in and out of staging split mappings",
        needs: &[(Part::Arena, Need::Better), (Part::Run, Need::Better)],
        look: mappings,
    },
    Check {
        key: "huge_pages",
        title: "huge pages",
        purpose: "the pool's memory is given back page by page",
        needs: &[(Part::Arena, Need::Better), (Part::Run, Need::Better)],
        look: huge_pages,
    },
];

fn page_size(machine: &Machine) -> Finding {
    match machine.kernel.page_bytes() {
        PAGE_BYTES => Finding::there("4096 bytes"),
        bytes => Finding::lacking(
            format!("{bytes} bytes"),
            "boot a kernel with pages of 4 KiB (on ARM: CONFIG_ARM64_4K_PAGES)",
        ),
    }
}

fn overcommit(machine: &Machine) -> Finding {
    match machine.number("/proc/sys/vm/overcommit_memory") {
        Some(2) => Finding::lacking(
            "refused: vm.overcommit_memory is 2",
            machine.sysctl("vm.overcommit_memory=0"),
        ),
        Some(mode) => Finding::there(format!("vm.overcommit_memory is {mode}")),
        None => Finding::unknown("vm.overcommit_memory cannot be read"),
    }
}

/// The kernel's own default.
const MAPPINGS: i64 = 65_530;

fn mappings(machine: &Machine) -> Finding {
    match machine.number("/proc/sys/vm/max_map_count") {
        Some(count) if count < MAPPINGS => Finding::lacking(
            format!("vm.max_map_count is {count}"),
            machine.sysctl(&format!("vm.max_map_count={MAPPINGS}")),
        ),
        Some(count) => Finding::there(format!("vm.max_map_count is {count}")),
        None => Finding::unknown("vm.max_map_count cannot be read"),
    }
}

fn huge_pages(machine: &Machine) -> Finding {
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Some(text) = machine.read(SETTING) else {
        return Finding::there("not in this kernel");
    };
    // The one in force stands in brackets.
    let chosen = text.split(['[', ']']).nth(1).unwrap_or("unknown");
    if chosen == "always" {
        let command = machine.as_root(&format!("sh -c 'echo madvise > {SETTING}'"));
        Finding::lacking("always", command)
    } else {
        Finding::there(chosen)
    }
}
