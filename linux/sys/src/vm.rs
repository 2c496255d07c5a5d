//! Settings of the kernel's reclaim (`Documentation/admin-guide/sysctl/vm.rst`).

use crate::meminfo::Meminfo;
use crate::zones::Zones;
use crate::{FileError, Root};

/// Low and high watermark are so many ten-thousandths of memory apart; see [`scaled`].
pub const WATERMARK_SCALE: &str = "vm.watermark_scale_factor";

/// What the kernel sets by itself (`mm/vmscan.c`, `mm/swap.c`, `mm/page_alloc.c`).
pub const KERNEL: [(&str, u64); 4] = [
    ("vm.swappiness", 60),
    ("vm.page-cluster", 3),
    (WATERMARK_SCALE, 10),
    ("vm.watermark_boost_factor", 15_000),
];

/// What suits swap that is compressed in memory, where a page comes back in microseconds and its neighbours cost as
/// much again: as distributions set it (Pop!_OS, and others after it; ArchWiki, "zram").
pub const COMPRESSED: [(&str, u64); 4] = [
    ("vm.swappiness", 180),
    ("vm.page-cluster", 0),
    (WATERMARK_SCALE, 125),
    ("vm.watermark_boost_factor", 0),
];

/// Settings for what is left of this machine: the kernel computes watermarks from all memory that it manages, huge pages
/// included, so that the factor is lessened by what these take, for the watermarks of a machine that has no more.
///
/// # Errors
/// [`FileError`].
pub fn scaled<const N: usize>(
    root: &Root,
    settings: [(&'static str, u64); N],
) -> Result<[(&'static str, u64); N], FileError> {
    let usable = Meminfo::read(root)?.usable_bytes();
    let managed = Zones::read(root)?.managed_bytes;
    if managed == 0 {
        let path = root.path("/proc/zoneinfo");
        return Err(FileError::unexpected(&path, "no managed pages"));
    }
    Ok(settings.map(|(name, value)| match name {
        WATERMARK_SCALE => (name, watermark_scale(value, usable, managed)),
        _ => (name, value),
    }))
}

fn watermark_scale(factor: u64, usable: u64, managed: u64) -> u64 {
    let scaled = factor as f64 * usable as f64 / managed.max(1) as f64;
    (scaled.round() as u64).clamp(1, factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn watermarks_are_those_of_a_small_machine() {
        assert_eq!(watermark_scale(125, 2 * GIB, 24 * GIB), 10);
        assert_eq!(watermark_scale(10, 2 * GIB, 24 * GIB), 1);
        assert_eq!(watermark_scale(125, 24 * GIB, 24 * GIB), 125);
        assert_eq!(
            watermark_scale(125, 24 * GIB, 20 * GIB),
            125,
            "not all is managed yet"
        );
        assert_eq!(watermark_scale(10, 0, 24 * GIB), 1);
    }

    #[test]
    fn a_machine_without_managed_pages_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/meminfo"), "MemTotal: 1048576 kB\n").unwrap();
        std::fs::write(dir.path().join("proc/zoneinfo"), "").unwrap();
        assert!(scaled(&Root::at(dir.path()), KERNEL).is_err());
    }
}
