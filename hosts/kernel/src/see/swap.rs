//! Swap areas by what they are on, and what compressed memory holds.

use warmswap_sys::Root;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::swap::{Area, areas};
use warmswap_sys::zram::Device;

use crate::status::SwapStatus;

/// Reads swap areas and pools.
#[derive(Debug)]
pub struct SwapGauge {
    root: Root,
    devices: Vec<Device>,
}

impl SwapGauge {
    /// A gauge of this machine.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        let mut gauge = Self {
            root: root.clone(),
            devices: Vec::new(),
        };
        gauge.find_devices();
        gauge
    }

    /// Looks for zram devices that were swapped on or off.
    pub fn find_devices(&mut self) {
        self.devices = Device::in_swap(&self.root).unwrap_or_default();
    }

    /// Swap and pool as they are now, by what was just read. Costs about 20 µs a device.
    #[must_use]
    pub fn swap(&self, memory: &Meminfo) -> SwapStatus {
        let mut status = SwapStatus {
            total_bytes: memory.swap_total_bytes,
            free_bytes: memory.swap_free_bytes,
            pool_bytes: memory.zswap_pool_bytes,
            stored_bytes: memory.zswap_stored_bytes,
        };
        for device in &self.devices {
            // A device that was just removed holds nothing.
            let Ok(stats) = device.stats() else { continue };
            status.pool_bytes += stats.memory_bytes;
            status.stored_bytes += stats.original_bytes;
            if let Ok(Some(limit)) = device.memory_limit_bytes() {
                // A page may need all of its size.
                let room = limit.saturating_sub(stats.memory_bytes);
                status.free_bytes = status.free_bytes.min(room);
            }
        }
        status
    }
}

/// What swap areas are on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Pages are in compressed memory.
    pub memory: bool,
    /// Pages are on a disk.
    pub disk: bool,
}

impl Kinds {
    /// Of the areas that hold something now; of none where swap cannot be read.
    #[must_use]
    pub fn in_use(root: &Root) -> Self {
        Self::of(&areas(root).unwrap_or_default())
    }

    fn of(areas: &[Area]) -> Self {
        let mut kinds = Self::default();
        for area in areas.iter().filter(|area| area.used_bytes > 0) {
            match area.zram_id() {
                Some(_) => kinds.memory = true,
                None => kinds.disk = true,
            }
        }
        kinds
    }
}

/// Bytes that all swap of the machine holds.
#[must_use]
pub fn swapped_bytes(memory: &Meminfo) -> u64 {
    memory
        .swap_total_bytes
        .saturating_sub(memory.swap_free_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_areas_that_hold_something() {
        let area = |path: &str, used_bytes| Area {
            path: path.to_owned(),
            size_bytes: 1 << 30,
            used_bytes,
            priority: 5,
        };
        let kinds = |memory, disk| Kinds { memory, disk };
        assert_eq!(Kinds::of(&[area("/dev/zram0", 0)]), kinds(false, false));
        let both = [area("/dev/zram0", 9), area("/swapfile", 1)];
        assert_eq!(Kinds::of(&both[..1]), kinds(true, false));
        assert_eq!(Kinds::of(&both), kinds(true, true));
        assert_eq!(Kinds::of(&[area("/dev/sda2", 1)]), kinds(false, true));
    }

    #[test]
    fn pools_are_summed_and_their_limit_bounds_what_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let meminfo = "MemTotal: 1048576 kB\nSwapTotal: 81920 kB\nSwapFree: 40960 kB\n\
                       Zswap: 1024 kB\nZswapped: 4096 kB\n";
        write("proc/meminfo", meminfo);
        write(
            "proc/swaps",
            "F T S U P\n/dev/zram3 partition 81920 40960 5\n",
        );
        let mib = 1u64 << 20;
        let stat = format!("{} 1 {} {} 0 0 0\n", 40 * mib, 10 * mib, 30 * mib);
        write("sys/block/zram3/mm_stat", &stat);

        let root = Root::at(dir.path());
        let swap = SwapGauge::new(&root).swap(&Meminfo::read(&root).unwrap());

        let expected = SwapStatus {
            total_bytes: 80 * mib,
            free_bytes: 20 * mib,
            pool_bytes: 11 * mib,
            stored_bytes: 44 * mib,
        };
        assert_eq!(swap, expected);
    }
}
