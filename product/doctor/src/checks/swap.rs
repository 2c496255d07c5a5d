//! The kernel's own compressed swap, and groups that limit memory.

use warmswap_sys::memcg::{Hierarchy, Version, own_group};

use crate::{Check, Finding, Machine, Need, Part};

pub(super) const CHECKS: &[Check] = &[
    Check {
        key: "root",
        title: "root",
        purpose: "makes swap devices and memory groups",
        needs: &[
            (Part::Group, Need::Must),
            (Part::Daemon, Need::Must),
            (Part::Kernel, Need::Must),
            (Part::Record, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: root,
    },
    Check {
        key: "swap",
        title: "swap",
        purpose: "lets pages of programs leave memory",
        needs: &[
            (Part::Group, Need::Must),
            (Part::Daemon, Need::Must),
            (Part::Kernel, Need::Must),
            (Part::Record, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: swap,
    },
    Check {
        key: "swap_area",
        title: "swap area",
        purpose: "where pages go: one that is in use, or a zram device that can be made",
        needs: &[(Part::Daemon, Need::Must)],
        look: area,
    },
    Check {
        key: "zram",
        title: "zram",
        purpose: "a compressed swap device of our own",
        needs: &[
            (Part::Group, Need::Must),
            (Part::Kernel, Need::Must),
            (Part::Record, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: zram,
    },
    Check {
        key: "zram_lz4",
        title: "lz4 in zram",
        purpose: "the algorithm that is compared with",
        needs: &[
            (Part::Group, Need::Better),
            (Part::Kernel, Need::Better),
            (Part::Record, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: lz4,
    },
    Check {
        key: "memory_groups",
        title: "memory groups",
        purpose: "limit the memory of programs, and tell what they use",
        needs: &[
            (Part::Group, Need::Must),
            (Part::Kernel, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: groups,
    },
    Check {
        key: "group_swap",
        title: "swap of groups",
        purpose: "a program at its limit swaps, and is not ended",
        needs: &[(Part::Group, Need::Must)],
        look: group_swap,
    },
    Check {
        key: "pressure",
        title: "pressure (PSI)",
        purpose: "tells when memory becomes short",
        needs: &[(Part::Daemon, Need::Better), (Part::Kernel, Need::Better)],
        look: pressure,
    },
];

fn root(machine: &Machine) -> Finding {
    if machine.is_root() {
        Finding::there("this process is root's")
    } else {
        Finding::lacking("this process is not root's", "run the command with sudo")
    }
}

fn swap(machine: &Machine) -> Finding {
    let Some(areas) = machine.read("/proc/swaps") else {
        return Finding::lacking(
            "not in this kernel",
            "boot a kernel built with CONFIG_SWAP=y",
        );
    };
    let used = names(&areas);
    Finding::there(if used.is_empty() {
        "supported, none in use".to_owned()
    } else {
        format!("in use: {}", used.join(", "))
    })
}

/// The areas of `/proc/swaps`.
fn names(areas: &str) -> Vec<&str> {
    let lines = areas.lines().skip(1);
    lines
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

fn area(machine: &Machine) -> Finding {
    let areas = machine.read("/proc/swaps").unwrap_or_default();
    let used = names(&areas);
    if !used.is_empty() {
        return Finding::there(format!("in use: {}", used.join(", ")));
    }
    if machine.exists("/sys/class/zram-control") {
        return Finding::there("none in use; [zram0] in the configuration makes one");
    }
    Finding::lacking(
        "none in use, and no zram to make one",
        machine.as_root("modprobe zram num_devices=0"),
    )
}

fn zram(machine: &Machine) -> Finding {
    if machine.exists("/sys/class/zram-control") {
        Finding::there("there")
    } else {
        Finding::lacking(
            "/sys/class/zram-control is missing",
            machine.as_root("modprobe zram num_devices=0"),
        )
    }
}

/// Every device lists what the kernel was built with; without a device there is nobody to ask.
fn lz4(machine: &Machine) -> Finding {
    let devices = std::fs::read_dir(machine.root.path("/sys/block"));
    let mut names: Vec<_> = devices
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("zram"))
        .collect();
    names.sort();
    let Some(list) = names
        .iter()
        .find_map(|name| machine.read(&format!("/sys/block/{name}/comp_algorithm")))
    else {
        return Finding::unknown("no zram device is there to be asked");
    };
    let list = list.replace(['[', ']'], "");
    if list.split_whitespace().any(|name| name == "lz4") {
        Finding::there("there")
    } else {
        Finding::lacking(
            format!("this kernel's zram has {list}"),
            "boot a kernel built with CONFIG_ZRAM_BACKEND_LZ4=y (before 6.12: CONFIG_CRYPTO_LZ4)",
        )
    }
}

fn groups(machine: &Machine) -> Finding {
    match Hierarchy::find(&machine.root) {
        Ok(hierarchy) => Finding::there(match hierarchy.version {
            Version::V1 => "version 1",
            Version::V2 => "version 2",
        }),
        Err(_) => Finding::lacking(
            "no hierarchy with the memory controller is mounted",
            machine.as_root("mount -t cgroup2 none /sys/fs/cgroup"),
        ),
    }
}

/// With less swap than this, no limit on memory holds.
const LEAST_SWAP_MIB: u64 = 16;

fn group_swap(machine: &Machine) -> Finding {
    let Some(group) = own_group(&machine.root) else {
        return Finding::unknown("there is no memory group to ask");
    };
    // In version 1 a group of our own gets a value of its own.
    if group.version() == Version::V2 && group.swappiness(&machine.root) == Some(0) {
        return Finding::lacking(
            "vm.swappiness is 0: at its limit a program is ended, not swapped",
            machine.as_root("sysctl vm.swappiness=60"),
        );
    }
    match group.swap_room_bytes().map(|bytes| bytes >> 20) {
        Some(mib) if mib < LEAST_SWAP_MIB => Finding::lacking(
            format!("memory.swap.max of this control group leaves {mib} MiB of swap"),
            "run it in another control group (`systemd-run --scope`)",
        ),
        _ => Finding::there("allowed"),
    }
}

fn pressure(machine: &Machine) -> Finding {
    // Where it is switched off the file is there, and reading it fails.
    if machine.read("/proc/pressure/memory").is_some() {
        Finding::there("there")
    } else {
        Finding::lacking(
            "off, or not in this kernel",
            "boot with psi=1 (CONFIG_PSI=y)",
        )
    }
}
