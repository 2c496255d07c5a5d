//! Readahead of files while an arm runs.

use warmswap_sys::Root;
use warmswap_sys::readahead::Disk;
use warmswap_sys::tunable::{Tunable, TunableError};
use warmswap_sys::undo::Undo;

use super::kernel_settings::Setting;
use crate::BenchError;

/// Readahead of programs that start while this lives. Dropping it restores the setting.
#[derive(Debug)]
pub struct Readahead(#[expect(dead_code, reason = "held")] Vec<Tunable>);

/// Readahead of each non-rotational disk now, in KiB.
///
/// # Errors
/// [`BenchError`].
pub fn now(root: &Root) -> Result<Vec<Setting>, BenchError> {
    let setting = |disk: Disk| Setting {
        name: disk.name,
        value: disk.readahead_kib.to_string(),
    };
    Ok(disks(root)?.into_iter().map(setting).collect())
}

/// None where the kernel has no `/sys/class/bdi`.
fn disks(root: &Root) -> Result<Vec<Disk>, BenchError> {
    match Disk::all(root) {
        Err(error) if error.is_gone() => Ok(Vec::new()),
        disks => Ok(disks?),
    }
}

impl Readahead {
    /// Sets it to `kib`, or leaves it as it is.
    ///
    /// # Errors
    /// [`BenchError`]; the settings are then as before.
    pub fn set(undo: &Undo, kib: Option<u64>) -> Result<Self, BenchError> {
        let mut kept = Vec::new();
        for disk in disks(undo.root())? {
            let wanted = kib.unwrap_or(disk.readahead_kib);
            if wanted == disk.readahead_kib {
                continue;
            }
            match disk.read_ahead(undo, wanted) {
                Err(TunableError::File(error)) if error.is_gone() => {}
                tunable => kept.push(tunable?),
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
    fn arms_get_what_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join("sys/class/bdi/253:0/read_ahead_kb");
        let queue = dir.path().join("sys/dev/block/253:0/queue");
        for folder in [entry.parent().unwrap(), &queue] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(&entry, "8192\n").unwrap();
        std::fs::write(queue.join("rotational"), "0\n").unwrap();
        let undo = Undo::open(&Root::at(dir.path()), &dir.path().join("state")).unwrap();
        for (kib, expected) in [(None, 8192), (Some(8192), 8192), (Some(128), 128)] {
            let set = Readahead::set(&undo, kib).unwrap();
            assert_eq!(now(undo.root()).unwrap()[0].value, expected.to_string());
            assert_eq!(file::read_u64(&entry).unwrap(), expected);
            drop(set);
            assert_eq!(file::read_u64(&entry).unwrap(), 8192);
        }
    }
}
