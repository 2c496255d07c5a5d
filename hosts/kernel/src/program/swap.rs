//! Where the pages of a program go: a zram device that the machine has, and devices of its own.

use parking_lot::Mutex;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::swap::{self, Area};
use warmswap_sys::undo::{Undo, UndoError};
use warmswap_sys::zram::{ZramConfig, ZramError, ZramSwap};

use crate::see::swap::{Bounded, bounded_areas};

/// Algorithms for a device of its own, the first that the kernel has. lzo-rle is there since Linux 5.1.
const ALGORITHMS: [&str; 2] = ["lz4", "lzo-rle"];

/// Capacity of the first device of its own, in budgets: what a budget holds at most when pages compress to an eighth. The
/// kernel takes 16 to 24 bytes for each page of capacity.
const CAPACITY_BUDGETS: u64 = 8;

/// Least capacity of a device of its own: 65,536 pages.
const LEAST_CAPACITY_BYTES: u64 = 256 << 20;

/// Capacity of all devices of its own, in sizes of the machine's memory: pages that compress to less are rare.
const MOST_MEMORIES: u64 = 4;

/// The highest priority of a swap area.
const FIRST: u16 = 32767;

/// What a program's pages go to. Dropping it removes devices of its own.
#[derive(Debug)]
pub(super) struct ProgramSwap {
    undo: Undo,
    capacity_bytes: u64,
    /// A zram device that another program set up.
    shared: Option<u32>,
    own: Mutex<Vec<ZramSwap>>,
}

impl ProgramSwap {
    /// Takes what is there if the kernel swaps to zram first and it has as much room as a device of its own; makes a
    /// device otherwise ([`own_priority`]). With less room, programs that each found enough would fill it together. Nothing
    /// is reserved, so that many programs that start at once can still do that; each of them adds a device before swap is
    /// full. Devices that this project made are not taken: they go with the command that made them.
    pub fn find(undo: &Undo, budget_bytes: u64) -> Result<Self, ZramError> {
        let root = undo.root();
        let areas = bounded_areas(root)?;
        let memory_bytes = Meminfo::read(root)?.total_bytes;
        let capacity_bytes = own_capacity_bytes(budget_bytes, memory_bytes);
        let shared = with_room(&areas, capacity_bytes)
            .filter(|(area, _)| !swap::is_labelled(&root.path(&area.path)))
            .map(|(_, id)| id);
        let found = Self {
            undo: undo.clone(),
            capacity_bytes,
            shared,
            own: Mutex::default(),
        };
        if shared.is_none() {
            found.add(capacity_bytes, &areas)?;
        }
        Ok(found)
    }

    /// Adds a device as large as those of its own together; whether it did. There is none where they hold several times the
    /// machine's memory.
    pub fn grow(&self) -> Result<bool, ZramError> {
        let root = self.undo.root();
        let memory_bytes = Meminfo::read(root)?.total_bytes;
        let own_bytes = match self.own.lock().len() {
            0 => 0,
            count => self.capacity_bytes.saturating_mul(1 << (count - 1).min(32)),
        };
        if own_bytes >= memory_bytes.saturating_mul(MOST_MEMORIES) {
            return Ok(false);
        }
        let capacity_bytes = own_bytes.max(self.capacity_bytes);
        self.add(capacity_bytes, &bounded_areas(root)?)?;
        Ok(true)
    }

    fn add(&self, disk_bytes: u64, areas: &[Bounded]) -> Result<(), ZramError> {
        let config = |algorithm: &str| ZramConfig {
            disk_bytes,
            algorithm: algorithm.to_owned(),
            second_algorithm: None,
            backing_device: None,
            memory_limit_bytes: None,
            priority: own_priority(areas, self.capacity_bytes),
        };
        let [best, other] = ALGORITHMS;
        let made = match ZramSwap::create(&self.undo, &config(best)) {
            Err(ZramError::Algorithm { .. }) => ZramSwap::create(&self.undo, &config(other)),
            result => result,
        }?;
        self.own.lock().push(made);
        Ok(())
    }

    /// The devices' names, such as `zram0`.
    pub fn name(&self) -> String {
        let shared = self.shared.iter().copied();
        let own = self.own.lock();
        let ids = shared.chain(own.iter().map(ZramSwap::id));
        let names: Vec<_> = ids.map(|id| format!("zram{id}")).collect();
        names.join(" and ")
    }

    /// Whether there is a device of its own.
    pub fn has_own(&self) -> bool {
        !self.own.lock().is_empty()
    }

    /// Removes devices of its own; pages of programs that still run come back into memory first. The first failure, after
    /// all of them were tried.
    pub fn remove(&self) -> Result<(), UndoError> {
        let own = std::mem::take(&mut *self.own.lock());
        let mut result = Ok(());
        for device in own {
            result = result.and(device.remove());
        }
        result
    }
}

/// Capacity of a device of its own: no more than the machine's memory, unless that is less than the least capacity.
fn own_capacity_bytes(budget_bytes: u64, memory_bytes: u64) -> u64 {
    budget_bytes
        .saturating_mul(CAPACITY_BUDGETS)
        .min(memory_bytes)
        .max(LEAST_CAPACITY_BYTES)
}

/// The area that the kernel swaps to next and its number, if it is a zram device with so much room.
fn with_room(areas: &[Bounded], capacity_bytes: u64) -> Option<(&Area, u32)> {
    let first = first(areas)?;
    let has_room = first.room_bytes() >= capacity_bytes;
    has_room.then_some((&first.area, first.area.zram_id()?))
}

/// The area that the kernel swaps to next.
fn first(areas: &[Bounded]) -> Option<&Bounded> {
    let has_slots = |bounded: &&Bounded| bounded.area.free_bytes() > 0;
    let areas = areas.iter().filter(has_slots);
    areas.max_by_key(|bounded| bounded.area.priority)
}

/// The priority of a new device: after the zram devices that are there, so that the pages of other programs do not go to
/// one that will be removed, and before disks. Before all where one of them will soon refuse pages by its memory limit.
fn own_priority(areas: &[Bounded], capacity_bytes: u64) -> u16 {
    let refuses =
        |bounded: &Bounded| bounded.will_refuse() && bounded.room_bytes() < capacity_bytes;
    let priorities = |is_zram: bool| {
        let of_kind = areas
            .iter()
            .map(|bounded| &bounded.area)
            .filter(move |a| a.zram_id().is_some() == is_zram);
        of_kind.map(|area| area.priority)
    };
    let (Some(last_zram), first_disk) = (priorities(true).min(), priorities(false).max()) else {
        return FIRST;
    };
    let priority = last_zram.saturating_sub(1).max(0);
    if areas.iter().any(refuses) || first_disk.is_some_and(|disk| disk >= priority) {
        return FIRST;
    }
    u16::try_from(priority).unwrap_or(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::see::swap::samples::{area, limited};

    #[test]
    fn the_kernel_swaps_to_the_highest_priority_with_room() {
        let areas = [
            area("/dev/zram1", 100, 100),
            area("/swapfile", 0, -2),
            area("/dev/zram0", 5, 50),
        ];
        let found = first(&areas).unwrap();
        assert_eq!(found.area.zram_id(), Some(0));
        assert_eq!(areas[1].area.zram_id(), None);
        assert!(first(&areas[..1]).is_none());
    }

    #[test]
    fn a_device_is_shared_from_so_much_room_on() {
        let zram = [area("/dev/zram0", 40, 100), area("/dev/zram1", 0, 5)];
        let id = |capacity| with_room(&zram, capacity).map(|(_, id)| id);
        assert_eq!(id(60), Some(0));
        assert_eq!(id(61), None, "the kernel does not swap to zram1 yet");
        assert!(with_room(&[area("/swapfile", 0, 5)], 1).is_none());
        assert!(with_room(&[limited(7, 5)], 8).is_none());
        assert!(with_room(&[], 0).is_none());
    }

    #[test]
    fn a_device_holds_what_a_budget_can_and_no_more_than_the_machine() {
        assert_eq!(own_capacity_bytes(1 << 30, 64 << 30), 8 << 30);
        assert_eq!(own_capacity_bytes(1 << 30, 4 << 30), 4 << 30);
        assert_eq!(own_capacity_bytes(4 << 20, 64 << 30), LEAST_CAPACITY_BYTES);
        assert_eq!(own_capacity_bytes(4 << 20, 64 << 20), LEAST_CAPACITY_BYTES);
        assert_eq!(own_capacity_bytes(u64::MAX, 8 << 30), 8 << 30);
    }

    #[test]
    fn a_new_device_comes_after_zram_and_before_disks() {
        let zram = |priority| area("/dev/zram0", 0, priority);
        let disk = |priority| area("/dev/vda2", 0, priority);
        let own_priority = |areas: &[Bounded]| own_priority(areas, 50);
        assert_eq!(own_priority(&[]), FIRST);
        assert_eq!(own_priority(&[disk(-2)]), FIRST);
        assert_eq!(own_priority(&[zram(100), disk(-2)]), 99);
        assert_eq!(own_priority(&[zram(32767), zram(7)]), 6);
        assert_eq!(own_priority(&[zram(-2)]), 0);
        assert_eq!(own_priority(&[zram(100), disk(99)]), FIRST);
        assert_eq!(own_priority(&[limited(49, 5)]), FIRST);
        assert_eq!(own_priority(&[limited(50, 5)]), 4);
    }
}
