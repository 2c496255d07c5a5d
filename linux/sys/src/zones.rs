//! The zones of memory: `/proc/zoneinfo`.

use warmswap_page::PAGE_BYTES;

use crate::{FileError, Root, file};

/// Sums over all zones, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Zones {
    /// Memory that the page allocator manages; the watermarks of reclaim are shares of it. Reserving huge pages does
    /// not lessen it.
    pub managed_bytes: u64,
    /// Free memory below which the kernel begins to reclaim in the background: the low watermarks, and what each zone keeps
    /// from allocations that another one can meet.
    pub reclaim_begins_bytes: u64,
    /// Unused memory that processors hold for themselves: neither free nor available in
    /// [`Meminfo`](crate::meminfo::Meminfo), though it is there when memory is short. After large programs have ended it is
    /// 200 MiB on a machine with 24 GiB and two processors.
    pub on_processors_bytes: u64,
}

impl Zones {
    /// Reads them. Costs about 50 µs.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(root: &Root) -> Result<Self, FileError> {
        let text = file::read(&root.path("/proc/zoneinfo"))?;
        let mut pages = Self::default();
        let (mut low, mut managed) = (0, 0);
        for line in text.lines() {
            let Some((name, value)) = line.trim_start().split_once(' ') else {
                continue;
            };
            let value = value.trim();
            let number = || value.parse().unwrap_or(0);
            match name {
                "low" => low = number(),
                "managed" => {
                    managed = number();
                    pages.managed_bytes += managed;
                }
                // What a zone keeps from those that could be met by each zone above it; it comes after the others.
                "protection:" => {
                    let kept = value.trim_matches(['(', ')']).split(", ");
                    let most = kept.filter_map(|pages| pages.parse::<u64>().ok()).max();
                    pages.reclaim_begins_bytes += (low + most.unwrap_or(0)).min(managed);
                }
                "count:" => pages.on_processors_bytes += number(),
                _ => {}
            }
        }
        let bytes = |pages: u64| pages * PAGE_BYTES as u64;
        Ok(Self {
            managed_bytes: bytes(pages.managed_bytes),
            reclaim_begins_bytes: bytes(pages.reclaim_begins_bytes),
            on_processors_bytes: bytes(pages.on_processors_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_those_of_all_zones() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        let zone = |low: u64, managed: u64, protection: &str, held: u64| {
            format!(
                "  pages free     700\n        min      1\n        low      {low}\n        high     90000\n\
                 \x20       managed  {managed}\n        protection: ({protection})\n  pagesets\n    cpu: 0\n\
                 \x20             count:    {held}\n              high:     40\n    cpu: 1\n              count:    3\n"
            )
        };
        // A zone cannot keep more than it has.
        let zones = [
            zone(13, 3840, "0, 3019, 24090, 24090", 0),
            zone(2888, 772_915, "0, 0, 21071, 21071", 17),
            zone(20163, 5_394_266, "0, 0, 0, 0", 900),
            zone(32, 0, "0, 0, 0, 0", 0),
        ];
        std::fs::write(dir.path().join("proc/zoneinfo"), zones.concat()).unwrap();

        let zones = Zones::read(&Root::at(dir.path())).unwrap();

        let expected = Zones {
            managed_bytes: (3840 + 772_915 + 5_394_266) * 4096,
            reclaim_begins_bytes: (3840 + 2888 + 21071 + 20163) * 4096,
            on_processors_bytes: (17 + 900 + 4 * 3) * 4096,
        };
        assert_eq!(zones, expected);
    }

    #[test]
    fn the_machines_own_file_is_understood() {
        let zones = Zones::read(&Root::machine()).unwrap();

        assert!(zones.reclaim_begins_bytes > 0);
        assert!(zones.reclaim_begins_bytes < zones.managed_bytes);
    }
}
