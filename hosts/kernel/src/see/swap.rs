//! Swap areas by what they are on, and what compressed memory holds.

use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::swap::{Area, areas};
use warmswap_sys::zram::{Device, ZramStats};
use warmswap_sys::{FileError, Root};

use crate::status::SwapStatus;

/// A swap area with what bounds it.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    /// The area.
    pub area: Area,
    /// What a zram device holds; one that was just removed holds nothing.
    pub pool: ZramStats,
    /// What more a zram device may take by its memory limit; a page may need all of its size.
    pub limit_bytes: Option<u64>,
}

impl Bounded {
    fn look(root: &Root, area: Area) -> Self {
        let device = area.zram_id().map(|id| Device::new(root, id));
        let device = device.and_then(|device| Some((device.stats().ok()?, device)));
        let limit_bytes = device.as_ref().and_then(|(pool, device)| {
            let limit = device.memory_limit_bytes().ok()??;
            Some(limit.saturating_sub(pool.memory_bytes))
        });
        let pool = device.map_or_else(ZramStats::default, |(pool, _)| pool);
        Self {
            area,
            pool,
            limit_bytes,
        }
    }

    pub fn room_bytes(&self) -> u64 {
        let limit = self.limit_bytes.unwrap_or(u64::MAX);
        self.area.free_bytes().min(limit)
    }

    /// At its memory limit a device with free slots refuses pages, and the kernel goes on trying it.
    pub fn will_refuse(&self) -> bool {
        self.room_bytes() < self.area.free_bytes()
    }
}

/// All swap areas. Costs about 20 µs each.
pub(crate) fn bounded_areas(root: &Root) -> Result<Vec<Bounded>, FileError> {
    let bounded = |area| Bounded::look(root, area);
    Ok(areas(root)?.into_iter().map(bounded).collect())
}

/// What more can go to swap: the sum over areas, down to the first priority at which a device will refuse pages. The kernel
/// asks areas behind it only once its slots are used up.
fn room_bytes(areas: &[Bounded]) -> u64 {
    let refuses = areas.iter().filter(|bounded| bounded.will_refuse());
    let last = refuses.map(|bounded| bounded.area.priority).max();
    let is_reached = |bounded: &&Bounded| last.is_none_or(|last| bounded.area.priority >= last);
    let rooms = areas.iter().filter(is_reached).map(Bounded::room_bytes);
    rooms.fold(0, u64::saturating_add)
}

impl SwapStatus {
    /// Swap and pools as they are now, by what was just read. Costs about 20 µs an area.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(root: &Root, memory: &Meminfo) -> Result<Self, FileError> {
        let areas = bounded_areas(root)?;
        let sum = |part: fn(&ZramStats) -> u64| areas.iter().map(|b| part(&b.pool)).sum::<u64>();
        Ok(Self {
            total_bytes: memory.swap_total_bytes,
            free_bytes: room_bytes(&areas),
            pool_bytes: memory.zswap_pool_bytes + sum(|pool| pool.memory_bytes),
            stored_bytes: memory.zswap_stored_bytes + sum(|pool| pool.original_bytes),
        })
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

/// Made-up swap areas for tests.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// An area of 100 bytes without a limit.
    pub fn area(path: &str, used_bytes: u64, priority: i32) -> Bounded {
        let area = Area {
            path: path.to_owned(),
            size_bytes: 100,
            used_bytes,
            priority,
        };
        Bounded {
            area,
            pool: ZramStats::default(),
            limit_bytes: None,
        }
    }

    /// An unused zram device that takes so much more by its memory limit.
    pub fn limited(limit_bytes: u64, priority: i32) -> Bounded {
        Bounded {
            limit_bytes: Some(limit_bytes),
            ..area("/dev/zram9", 0, priority)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{area, limited};
    use super::*;
    use crate::testing::Machine;

    #[test]
    fn kinds_are_those_of_areas_that_hold_something() {
        let area = |path: &str, used_bytes| area(path, used_bytes, 5).area;
        let kinds = |memory, disk| Kinds { memory, disk };
        assert_eq!(Kinds::of(&[area("/dev/zram0", 0)]), kinds(false, false));
        let both = [area("/dev/zram0", 9), area("/swapfile", 1)];
        assert_eq!(Kinds::of(&both[..1]), kinds(true, false));
        assert_eq!(Kinds::of(&both), kinds(true, true));
        assert_eq!(Kinds::of(&[area("/dev/sda2", 1)]), kinds(false, true));
    }

    #[test]
    fn room_is_a_sum_over_areas_each_with_its_own_limit() {
        let areas = [area("/dev/zram0", 40, 100), area("/swapfile", 10, -2)];
        assert_eq!(room_bytes(&areas), 60 + 90);
        // A full device behind one with room takes nothing away from it.
        let with = |bounded| room_bytes(&[areas[0].clone(), areas[1].clone(), bounded]);
        assert_eq!(with(limited(1, -3)), 60 + 90 + 1);
        assert_eq!(
            with(limited(1, 50)),
            60 + 1,
            "what is behind it is not reached"
        );
        assert_eq!(with(limited(1, 200)), 1);
        assert_eq!(
            with(limited(100, 200)),
            60 + 90 + 100,
            "its slots end first"
        );
        assert_eq!(room_bytes(&[]), 0);
    }

    #[test]
    fn pools_are_summed_and_their_limit_bounds_what_is_free() {
        let machine = Machine::new();
        let write = |name: &str, text: &str| machine.write(name, text);
        let meminfo = "MemTotal: 1048576 kB\nSwapTotal: 81920 kB\nSwapFree: 40960 kB\n\
                       Zswap: 1024 kB\nZswapped: 4096 kB\n";
        write("proc/meminfo", meminfo);
        let zram = "F T S U P\n/dev/zram3 partition 81920 40960 5\n";
        write("proc/swaps", zram);
        let mib = 1u64 << 20;
        let stat = format!("{} 1 {} {} 0 0 0\n", 40 * mib, 10 * mib, 30 * mib);
        write("sys/block/zram3/mm_stat", &stat);

        let root = machine.root();
        let read = || SwapStatus::read(&root, &Meminfo::read(&root).unwrap()).unwrap();

        let expected = SwapStatus {
            total_bytes: 80 * mib,
            free_bytes: 20 * mib,
            pool_bytes: 11 * mib,
            stored_bytes: 44 * mib,
        };
        assert_eq!(read(), expected);
        // Its limit is none of a disk's that is used before.
        write(
            "proc/swaps",
            &format!("{zram}/dev/sda2 partition 40960 0 9\n"),
        );
        assert_eq!(read().free_bytes, (20 + 40) * mib);
    }
}
