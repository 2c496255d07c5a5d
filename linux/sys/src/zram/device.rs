//! Any zram device, also one that another program set up: what it holds, and upkeep of its pages where the kernel was built
//! with it (`CONFIG_ZRAM_MEMORY_TRACKING`, `_WRITEBACK`, `_MULTI_COMP`).

use std::ops::Range;
use std::path::PathBuf;

use super::{ZramStats, block_folder, numbers, read_stats};
use crate::swap::Area;
use crate::{FileError, Root, file, swap};

/// A zram device, by its number. It may go at any time: every call then says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    id: u32,
    folder: PathBuf,
}

/// What upkeep a device can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Pages can be marked idle by their age, not only all at once.
    pub marks_idle: bool,
    /// Idle pages can be compressed anew by a second algorithm, and one is set.
    pub recompresses: bool,
    /// Pages can be written to a backing device, and there is one.
    pub writes_back: bool,
}

impl Device {
    /// Device number `id`.
    #[must_use]
    pub fn new(root: &Root, id: u32) -> Self {
        Self {
            id,
            folder: block_folder(root, id),
        }
    }

    /// All zram devices that are swapped on.
    ///
    /// # Errors
    /// [`FileError`] when the list of swap areas cannot be read.
    pub fn in_swap(root: &Root) -> Result<Vec<Self>, FileError> {
        let areas = swap::areas(root)?;
        let ids = areas.iter().filter_map(Area::zram_id);
        Ok(ids.map(|id| Self::new(root, id)).collect())
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What it holds and uses. Costs about 10 µs.
    ///
    /// # Errors
    /// [`FileError`]; [`FileError::is_gone`] when it was removed.
    pub fn stats(&self) -> Result<ZramStats, FileError> {
        read_stats(&self.folder.join("mm_stat"))
    }

    /// Most memory that it may take; `None` for no limit of its own.
    ///
    /// The kernel says this in the fourth number of `mm_stat`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn memory_limit_bytes(&self) -> Result<Option<u64>, FileError> {
        let limit = numbers(&self.folder.join("mm_stat"), 4)?[3];
        Ok((limit > 0).then_some(limit))
    }

    /// Pages that were written to its backing device since it was made.
    ///
    /// # Errors
    /// [`FileError`]; a device of a kernel without `CONFIG_ZRAM_WRITEBACK` has no such count.
    pub fn written_pages(&self) -> Result<u64, FileError> {
        Ok(numbers(&self.folder.join("bd_stat"), 3)?[2])
    }

    /// What upkeep it can do.
    #[must_use]
    pub fn upkeep(&self) -> Upkeep {
        let text = |name: &str| file::read(&self.folder.join(name)).unwrap_or_default();
        let backing = text("backing_dev");
        // Without a second algorithm, the file has no line.
        let second = text("recomp_algorithm");
        Upkeep {
            marks_idle: self.folder.join("idle").exists(),
            recompresses: self.folder.join("recompress").exists() && second.contains('['),
            writes_back: self.folder.join("writeback").exists()
                && !matches!(backing.trim(), "" | "none"),
        }
    }

    /// Marks pages idle that were not accessed for `age_s` seconds; `None` marks all. Kernels that do not track
    /// the time of accesses refuse an age.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn mark_idle(&self, age_s: Option<u64>) -> Result<(), FileError> {
        let value = age_s.map_or_else(|| "all".to_owned(), |age| age.to_string());
        file::write(&self.folder.join("idle"), &value)
    }

    /// Compresses idle pages anew by the second algorithm. Takes as long as that takes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn recompress_idle(&self) -> Result<(), FileError> {
        file::write(&self.folder.join("recompress"), "type=idle")
    }

    /// Writes pages of the device to its backing device, and waits for that. Pages that are there already, and such as hold
    /// nothing, are left out by the kernel. One call for all; before Linux 6.16 one a page.
    ///
    /// # Errors
    /// [`FileError`]; "no space" when the backing device is full, "input/output error" when its write budget is used up.
    pub fn write_back(&self, pages: Range<u64>) -> Result<(), FileError> {
        let path = self.folder.join("writeback");
        let (first, last) = (pages.start, pages.end - 1);
        match file::write(&path, &format!("page_indexes={first}-{last}")) {
            Err(error) if error.is_invalid() => {
                let one = |page| file::write(&path, &format!("page_index={page}"));
                pages.into_iter().try_for_each(one)
            }
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with one swapped-on zram device that has these files.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Device) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/block/zram2");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        let swaps = "Filename Type Size Used Priority\n/dev/vda2 partition 9 0 -2\n\
                     /dev/zram2 partition 1048572 2048 100\n";
        std::fs::write(dir.path().join("proc/swaps"), swaps).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let mut devices = Device::in_swap(&Root::at(dir.path())).unwrap();
        assert_eq!(devices.len(), 1);
        (dir, devices.remove(0))
    }

    fn written(dir: &tempfile::TempDir, name: &str) -> String {
        std::fs::read_to_string(dir.path().join("sys/block/zram2").join(name)).unwrap()
    }

    #[test]
    fn a_plain_device_has_statistics_and_no_upkeep() {
        let (_dir, device) = machine(&[("mm_stat", "8192 100 12288 65536 16384 1 0 0\n")]);

        assert_eq!(
            (device.id(), device.stats().unwrap().memory_bytes),
            (2, 12288)
        );
        assert_eq!(device.memory_limit_bytes().unwrap(), Some(65536));
        assert_eq!(device.upkeep(), Upkeep::default());
        assert!(device.mark_idle(None).unwrap_err().is_gone());
    }

    #[test]
    fn a_device_with_everything_is_told_what_to_do() {
        let (dir, device) = machine(&[
            ("mm_stat", "8192 100 12288 0 16384 1 0 0\n"),
            ("backing_dev", "/dev/vdb\n"),
            ("bd_stat", "  5  6  7\n"),
            ("recomp_algorithm", "#1: lzo [zstd]\n"),
            ("idle", ""),
            ("recompress", ""),
            ("writeback", ""),
        ]);

        assert_eq!(device.memory_limit_bytes().unwrap(), None);
        let all = Upkeep {
            marks_idle: true,
            recompresses: true,
            writes_back: true,
        };
        assert_eq!(device.upkeep(), all);
        assert_eq!(device.written_pages().unwrap(), 7);
        device.mark_idle(Some(600)).unwrap();
        device.recompress_idle().unwrap();
        device.write_back(7..9).unwrap();
        assert_eq!(written(&dir, "idle"), "600");
        assert_eq!(written(&dir, "recompress"), "type=idle");
        assert_eq!(written(&dir, "writeback"), "page_indexes=7-8");
    }

    #[test]
    fn without_a_backing_device_or_a_second_algorithm_nothing_is_offered() {
        let (_dir, device) = machine(&[
            ("backing_dev", "none\n"),
            ("recomp_algorithm", ""),
            ("recompress", ""),
            ("writeback", ""),
        ]);

        assert_eq!(device.upkeep(), Upkeep::default());
    }
}
