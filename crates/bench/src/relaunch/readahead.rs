//! What disks read in advance of files while an arm runs.

use warmswap_sys::Root;
use warmswap_sys::readahead::{Disk, SUITS_LITTLE_MEMORY_KIB};
use warmswap_sys::tunable::Tunable;
use warmswap_sys::undo::Undo;

use super::limit::Setting;
use super::options::Arm;
use crate::BenchError;

/// It holds for programs that are started while this lives.
#[derive(Debug)]
pub struct Readahead(#[expect(dead_code, reason = "held")] Vec<Tunable>);

/// What each disk reads in advance of a file that is opened now, in KiB.
pub fn now(root: &Root) -> Vec<Setting> {
    let setting = |disk: Disk| Setting {
        name: disk.name,
        value: disk.readahead_kib.to_string(),
    };
    // Without the kernel's list nothing is known of it.
    let disks = Disk::all(root).unwrap_or_default();
    disks.into_iter().map(setting).collect()
}

impl Readahead {
    /// Sets it to so many KiB, or leaves it as it is; the arm of the kernel host has no more than the daemon would leave.
    ///
    /// # Errors
    /// [`BenchError`]; all is as before then.
    pub fn set(undo: &Undo, arm: Arm, kib: Option<u64>) -> Result<Self, BenchError> {
        let mut kept = Vec::new();
        // Without the kernel's list there is nothing to set.
        for disk in Disk::all(undo.root()).unwrap_or_default() {
            let mut wanted = kib.unwrap_or(disk.readahead_kib);
            if arm == Arm::Kernel {
                wanted = wanted.min(SUITS_LITTLE_MEMORY_KIB);
            }
            if wanted != disk.readahead_kib {
                kept.push(disk.read_ahead(undo, wanted)?);
            }
        }
        Ok(Self(kept))
    }
}

#[cfg(test)]
mod tests {
    use warmswap_sys::file;

    use super::*;

    #[test]
    fn arms_have_what_is_asked_for_and_the_host_at_most_what_the_daemon_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join("sys/class/bdi/253:0/read_ahead_kb");
        let queue = dir.path().join("sys/dev/block/253:0/queue");
        for folder in [entry.parent().unwrap(), &queue] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(&entry, "8192\n").unwrap();
        std::fs::write(queue.join("rotational"), "0\n").unwrap();
        let undo = Undo::open(&Root::at(dir.path()), &dir.path().join("state")).unwrap();
        for (arm, kib, expected) in [
            (Arm::Zram, None, 8192),
            (Arm::Zram, Some(128), 128),
            (Arm::Zram, Some(32), 32),
            (Arm::Asap, None, 8192),
            (Arm::Kernel, None, 64),
            (Arm::Kernel, Some(128), 64),
            (Arm::Kernel, Some(32), 32),
        ] {
            let set = Readahead::set(&undo, arm, kib).unwrap();
            assert_eq!(now(undo.root())[0].value, expected.to_string(), "{arm:?}");
            assert_eq!(file::read_u64(&entry).unwrap(), expected, "{arm:?}");
            drop(set);
            assert_eq!(file::read_u64(&entry).unwrap(), 8192, "{arm:?}");
        }
    }
}
