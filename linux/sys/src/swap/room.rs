//! Whether the pages of a swap area have room, before it is switched off.
//!
//! swapoff(2) brings every page back and charges it to the control group of its owner. At a group's limit the kernel ends
//! members to make room, also with memory of the machine to spare. So each limited group, and the machine, must have room
//! for what comes back, in memory or in the swap that remains.

use std::path::{Path, PathBuf};

use warmswap_page::mib;

use super::Area;
use crate::memcg::{Group, Hierarchy};
use crate::meminfo::Meminfo;
use crate::process::MemoryUse;
use crate::zram::Device;
use crate::{FileError, Root};

/// Room that page tables and programs need meanwhile: this much, and a part of what comes back.
const MARGIN_BYTES: u64 = 1 << 20;

/// That part: page tables take a 512th, and programs go on.
const MARGIN_PART: u64 = 64;

/// The pages of a swap area have no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// In a control group.
    #[error(
        "the control group {} has {} in swap and room for {}: raise its limit, or end programs in it",
        group.display(), mib(*swapped_bytes), mib(*room_bytes)
    )]
    Group {
        /// Its folder.
        group: PathBuf,
        /// What comes back to it at most.
        swapped_bytes: u64,
        /// What it has room for.
        room_bytes: u64,
    },
    /// In the machine.
    #[error(
        "{} come back, and the machine has room for {}: end programs",
        mib(*needed_bytes), mib(*room_bytes)
    )]
    Machine {
        /// What comes back, less what its compressed form takes.
        needed_bytes: u64,
        /// Memory that is available, and swap that remains.
        room_bytes: u64,
    },
}

impl NoRoom {
    /// Whether this is why a swap area was not switched off.
    #[must_use]
    pub fn is_cause_of(error: &FileError) -> bool {
        let cause = error.source.get_ref();
        cause.is_some_and(|cause| cause.is::<Self>())
    }
}

/// Refuses to switch off the area at `path` while its pages have no room. An area that is not switched on needs none. Costs
/// about 20 µs a control group.
///
/// # Errors
/// [`FileError`] with [`NoRoom`] as its source, or one of reading.
pub fn check(root: &Root, path: &Path) -> Result<(), FileError> {
    let areas = super::areas(root)?;
    let (this, others): (Vec<Area>, Vec<Area>) =
        areas.into_iter().partition(|area| area.is_at(root, path));
    let used_bytes: u64 = this.iter().map(|area| area.used_bytes).sum();
    if used_bytes == 0 {
        return Ok(());
    }
    let refused = |why| FileError::new("swap off", path, std::io::Error::other(why));
    in_machine(root, &this, &others, used_bytes)?.map_err(refused)?;
    let free: u64 = others.iter().map(Area::free_bytes).sum();
    in_groups(root, used_bytes, free).map_err(refused)
}

fn with_margin(bytes: u64) -> u64 {
    bytes + bytes / MARGIN_PART + MARGIN_BYTES
}

fn in_machine(
    root: &Root,
    this: &[Area],
    others: &[Area],
    used_bytes: u64,
) -> Result<Result<(), NoRoom>, FileError> {
    let device = |area: &Area| Some(Device::new(root, area.zram_id()?));
    let pool_bytes: u64 = this
        .iter()
        .filter_map(|area| Some(device(area)?.stats().ok()?.memory_bytes))
        .sum();
    let needed_bytes = used_bytes.saturating_sub(pool_bytes);
    let room_bytes = Meminfo::read(root)?.available_bytes
        + others
            .iter()
            // What goes to memory in compressed form takes about half of its room there.
            .map(|area| match area.zram_id() {
                Some(_) => area.free_bytes() / 2,
                None => area.free_bytes(),
            })
            .sum::<u64>();
    Ok(match with_margin(needed_bytes) <= room_bytes {
        true => Ok(()),
        false => Err(NoRoom::Machine {
            needed_bytes,
            room_bytes,
        }),
    })
}

/// `swap_bytes` is free in swap that remains, for all groups together.
fn in_groups(root: &Root, used_bytes: u64, mut swap_bytes: u64) -> Result<(), NoRoom> {
    // Without a hierarchy there are no limits.
    let Ok(hierarchy) = Hierarchy::find(root) else {
        return Ok(());
    };
    for group in hierarchy.groups() {
        // One that has no limit, or went meanwhile, has room.
        let Ok(Some(limit_bytes)) = group.limit_bytes() else {
            continue;
        };
        let swapped_bytes = swapped(root, &group).min(used_bytes);
        if swapped_bytes == 0 {
            continue;
        }
        let Ok(stats) = group.stats() else {
            continue;
        };
        let charged = stats.usage_bytes.saturating_sub(stats.inactive_file_bytes);
        let room_bytes = limit_bytes.saturating_sub(charged);
        let short = with_margin(swapped_bytes).saturating_sub(room_bytes);
        if short > swap_bytes {
            return Err(NoRoom::Group {
                group: group.path().to_owned(),
                swapped_bytes,
                room_bytes: room_bytes + swap_bytes,
            });
        }
        swap_bytes -= short;
    }
    Ok(())
}

/// What a group has in swap: by the kernel's account, or where it keeps none, by its processes.
fn swapped(root: &Root, group: &Group) -> u64 {
    if let Ok(Some(bytes)) = group.swapped_bytes() {
        return bytes;
    }
    let pids = group.pids().unwrap_or_default();
    let memory = pids
        .iter()
        .filter_map(|&pid| MemoryUse::read(root, pid).ok());
    memory.map(|memory| memory.swapped_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with 100 MiB in use of `/dev/zram1`, these other areas, so much available memory, and a group `g` of that
    /// version with these files.
    fn machine(
        version: u32,
        others: &str,
        available_mib: u64,
        group: &[(&str, u64)],
    ) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "proc/swaps",
            &format!(
                "Filename Type Size Used Priority\n/dev/zram1 partition 1048572 102400 100\n{others}"
            ),
        );
        write("sys/block/zram1/mm_stat", "1 1 20971520 0 1 0 0 0\n");
        let kib = available_mib << 10;
        write(
            "proc/meminfo",
            &format!("MemTotal: 8388608 kB\nMemAvailable: {kib} kB\n"),
        );
        let mounts = [
            "none /cg cgroup rw,memory 0 0\n",
            "none /cg cgroup2 rw 0 0\n",
        ];
        write("proc/self/mounts", mounts[version as usize - 1]);
        write("cg/cgroup.controllers", "memory\n");
        write("cg/a/g/cgroup.procs", "7\n");
        write("proc/7/status", "RssAnon: 1 kB\nVmSwap: 92160 kB\n");
        let stat = "total_rss 0\ntotal_cache 0\ntotal_inactive_file 5242880\ntotal_pgmajfault 0\n\
                    anon 0\nfile 0\ninactive_file 5242880\npgmajfault 0\n";
        write("cg/a/g/memory.stat", stat);
        for (name, mib) in group {
            write(&format!("cg/a/g/{name}"), &format!("{}\n", mib << 20));
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    fn check_on((_dir, root): &(tempfile::TempDir, Root)) -> Result<(), String> {
        check(root, &root.path("/dev/zram1")).map_err(|error| {
            assert!(NoRoom::is_cause_of(&error), "{error}");
            error.to_string()
        })
    }

    const V1: [&str; 3] = [
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "memory.memsw.usage_in_bytes",
    ];
    const V2: [&str; 3] = ["memory.max", "memory.current", "memory.swap.current"];

    /// Files of a group with that limit, in use and in swap.
    fn limits(version: u32, [limit, used, swapped]: [u64; 3]) -> Vec<(&'static str, u64)> {
        match version {
            1 => vec![(V1[0], limit), (V1[1], used), (V1[2], used + swapped)],
            _ => vec![(V2[0], limit), (V2[1], used), (V2[2], swapped)],
        }
    }

    #[test]
    fn a_group_at_its_limit_keeps_the_area_on_with_memory_to_spare() {
        for version in [1, 2] {
            let full = limits(version, [200, 200, 90]);
            let refused = check_on(&machine(version, "", 8000, &full)).unwrap_err();
            assert!(
                refused.contains("cg/a/g has 90 MiB in swap and room for 5 MiB"),
                "{refused}"
            );
            // Its pages find room in memory, in other swap, or are in another area.
            let roomy = limits(version, [300, 200, 90]);
            assert_eq!(check_on(&machine(version, "", 8000, &roomy)), Ok(()));
            let other = "/dev/sda2 partition 1048572 0 -2\n";
            assert_eq!(check_on(&machine(version, other, 8000, &full)), Ok(()));
            let empty = limits(version, [200, 200, 0]);
            assert_eq!(check_on(&machine(version, "", 8000, &empty)), Ok(()));
        }
    }

    #[test]
    fn without_an_account_of_swap_processes_are_asked() {
        let files = [(V1[0], 200), (V1[1], 200)];
        let refused = check_on(&machine(1, "", 8000, &files)).unwrap_err();
        assert!(refused.contains("90 MiB in swap"), "{refused}");
    }

    #[test]
    fn the_machine_must_have_room_for_what_does_not_free_memory() {
        // 80 MiB are needed: the pool of 20 MiB goes.
        let refused = check_on(&machine(2, "", 80, &[])).unwrap_err();
        assert!(refused.contains("80 MiB come back"), "{refused}");
        assert_eq!(check_on(&machine(2, "", 90, &[])), Ok(()));
        let disk = "/dev/sda2 partition 20480 0 -2\n";
        assert_eq!(check_on(&machine(2, disk, 70, &[])), Ok(()));
        let zram = "/dev/zram2 partition 20480 0 -2\n";
        assert!(check_on(&machine(2, zram, 70, &[])).is_err());
    }

    #[test]
    fn an_area_that_is_off_needs_no_room() {
        let machine = machine(1, "", 0, &[]);
        assert!(check(&machine.1, Path::new("/dev/zram9")).is_ok());
    }
}
