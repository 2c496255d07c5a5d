//! The kernel's own compressed swap, and groups that limit memory.

use warmswap_page::mib;
use warmswap_sys::memcg::{Hierarchy, Version, own_group};

use crate::machine::Capability;
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
        key: "swapon",
        title: "swapon",
        purpose: "switches on a swap device of our own",
        needs: &[
            (Part::Group, Need::Must),
            (Part::Daemon, Need::Better),
            (Part::Kernel, Need::Must),
            (Part::Record, Need::Must),
            (Part::Bench, Need::Must),
        ],
        look: swapon,
    },
    Check {
        key: "zswap",
        title: "zswap",
        purpose: "pages in zram are compressed once",
        needs: &[
            (Part::Group, Need::Better),
            (Part::Daemon, Need::Better),
            (Part::Kernel, Need::Better),
        ],
        look: zswap,
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

/// Root of a container, or of a user namespace, has not every right of root.
fn swapon(machine: &Machine) -> Finding {
    const OUTSIDE: &str = "run the command as root of the machine, outside of containers";
    if machine.is_root() && !machine.can(Capability::SysAdmin) {
        return Finding::lacking("not allowed: CAP_SYS_ADMIN is missing", OUTSIDE);
    }
    if machine.is_root() && machine.is_in_user_namespace() {
        return Finding::lacking("not allowed: root of a user namespace", OUTSIDE);
    }
    match machine.kernel.swapon() {
        Ok(()) => Finding::there("allowed"),
        Err(error) if machine.is_root() => Finding::lacking(
            format!("refused, as by a filter of system calls: {error}"),
            OUTSIDE,
        ),
        Err(_) => Finding::lacking("for root alone", "run the command with sudo"),
    }
}

/// zswap takes pages on their way to every swap device.
fn zswap(machine: &Machine) -> Finding {
    const SETTING: &str = "/sys/module/zswap/parameters/enabled";
    let is_on = machine.read(SETTING).is_some_and(|value| value == "Y");
    let areas = machine.read("/proc/swaps").unwrap_or_default();
    let used = names(&areas);
    let is_zram = |path: &&str| path.contains("/zram");
    if !is_on {
        return Finding::there("off");
    }
    if !used.is_empty() && !used.iter().any(is_zram) {
        return Finding::there("on, before swap on a disk");
    }
    Finding::lacking(
        "on: it stands before zram, and pages are compressed twice",
        machine.as_root(&format!("sh -c 'echo N > {SETTING}'")),
    )
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
    let (has_zram, made) = (machine.exists("/sys/class/zram-control"), made(machine));
    if has_zram && made.state == crate::State::There && machine.kernel.swapon().is_ok() {
        return Finding::there("none in use; [zram0] in the configuration makes one");
    }
    if has_zram {
        let fix = made.fix.unwrap_or_else(|| {
            "switch swap on as root of the machine, or run the command there".to_owned()
        });
        return Finding::lacking("none in use, and none can be made here", fix);
    }
    Finding::lacking(
        "none in use, and no zram to make one",
        machine.as_root("modprobe zram num_devices=0"),
    )
}

fn zram(machine: &Machine) -> Finding {
    if machine.exists("/sys/class/zram-control") {
        made(machine)
    } else {
        Finding::lacking(
            "/sys/class/zram-control is missing",
            machine.as_root("modprobe zram num_devices=0"),
        )
    }
}

/// Whether a device can be set up, where there is zram.
fn made(machine: &Machine) -> Finding {
    match machine.is_read_only("/sys") {
        false => Finding::there("there"),
        true => Finding::lacking(
            "/sys is mounted read-only",
            machine.as_root("mount -o remount,rw /sys"),
        ),
    }
}

/// Every device lists what the kernel was built with; without a device there is nothing to ask.
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
            way_to_groups(machine),
        ),
    }
}

/// What gives a hierarchy with the memory controller, by what is mounted and what the kernel has.
fn way_to_groups(machine: &Machine) -> String {
    let controllers = machine.read("/proc/cgroups").unwrap_or_default();
    let memory = controllers
        .lines()
        .find(|line| line.starts_with("memory\t"));
    let mounts = machine.read("/proc/self/mounts").unwrap_or_default();
    let has = |kind: &str| {
        mounts
            .lines()
            .any(|line| line.split(' ').nth(2) == Some(kind))
    };
    match memory.and_then(|line| line.split('\t').nth(3)) {
        Some("0") => "boot with cgroup_enable=memory".to_owned(),
        None if !controllers.is_empty() => "boot a kernel built with CONFIG_MEMCG=y".to_owned(),
        // A second hierarchy would not get the controller, or hide those that are there.
        _ if has("cgroup") => machine.as_root(
            "sh -c 'mkdir -p /sys/fs/cgroup/memory && mount -t cgroup -o memory none /sys/fs/cgroup/memory'",
        ),
        _ if has("cgroup2") => "run the command outside of containers, or have the memory controller delegated to \
                                this control group (+memory in its parent's cgroup.subtree_control)"
            .to_owned(),
        _ => machine.as_root("mount -t cgroup2 none /sys/fs/cgroup"),
    }
}

/// With less swap than this, no limit on memory holds.
const LEAST_SWAP_BYTES: u64 = 16 << 20;

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
    match group.swap_room_bytes() {
        Some(bytes) if bytes < LEAST_SWAP_BYTES => Finding::lacking(
            format!(
                "memory.swap.max of this control group leaves {} of swap",
                mib(bytes)
            ),
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
