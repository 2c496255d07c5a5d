//! Where the pages of a program go: a zram device that the machine has, or one of its own.
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::swap::{self, Area};
use warmswap_sys::undo::{Undo, UndoError};
use warmswap_sys::zram::{ZramConfig, ZramError, ZramSwap};

/// Algorithms for a device of its own, the first that the kernel has. lzo-rle is there since Linux 5.1.
const ALGORITHMS: [&str; 2] = ["lz4", "lzo-rle"];

/// Capacity of a device of its own, in budgets: what a budget holds at most when pages compress to an eighth. The kernel
/// takes 16 to 24 bytes for each page of capacity.
const CAPACITY_BUDGETS: u64 = 8;

/// Least capacity of a device of its own: 65,536 pages.
const LEAST_CAPACITY_BYTES: u64 = 256 << 20;

/// The highest priority of a swap area.
const FIRST: u16 = 32767;

/// What a program's pages go to. Dropping it removes a device of its own.
#[derive(Debug)]
pub(super) enum ProgramSwap {
    /// A zram device that another program set up.
    Shared { id: u32 },
    /// A zram device of its own.
    Own(ZramSwap),
}

impl ProgramSwap {
    /// Takes what is there if the kernel swaps to zram first and it has as much room as a device of its own; makes a
    /// device otherwise ([`own_priority`]). With less room, programs that each found enough would fill it together, and
    /// the kernel would end them. Nothing is reserved, so that many programs that start at once can still do that; each
    /// of them lifts its limit before swap is full. Devices that this project made are not taken: they go with the
    /// command that made them.
    pub fn find(undo: &Undo, budget_bytes: u64) -> Result<Self, ZramError> {
        let root = undo.root();
        let areas = swap::areas(root)?;
        let memory = Meminfo::read(root)?;
        let capacity = own_capacity_bytes(budget_bytes, memory.total_bytes);
        if let Some((area, id)) = with_room(&areas, capacity)
            && !swap::is_labelled(&root.path(&area.path))
        {
            return Ok(Self::Shared { id });
        }
        let config = |algorithm: &str| ZramConfig {
            disk_bytes: capacity,
            algorithm: algorithm.to_owned(),
            second_algorithm: None,
            memory_limit_bytes: None,
            priority: own_priority(&areas),
        };
        let [best, other] = ALGORITHMS;
        let made = match ZramSwap::create(undo, &config(best)) {
            Err(ZramError::Algorithm { .. }) => ZramSwap::create(undo, &config(other)),
            result => result,
        };
        made.map(Self::Own)
    }

    /// The device's name, such as `zram0`.
    pub fn name(&self) -> String {
        let id = match self {
            Self::Shared { id } => *id,
            Self::Own(device) => device.id(),
        };
        format!("zram{id}")
    }

    /// Removes a device of its own; pages of programs that still run come back into memory first.
    pub fn remove(self) -> Result<(), UndoError> {
        match self {
            Self::Shared { .. } => Ok(()),
            Self::Own(device) => device.remove(),
        }
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
fn with_room(areas: &[Area], capacity_bytes: u64) -> Option<(&Area, u32)> {
    let area = first(areas)?;
    let has_room = area.size_bytes - area.used_bytes >= capacity_bytes;
    has_room.then_some((area, area.zram_id()?))
}

/// The area that the kernel swaps to next.
fn first(areas: &[Area]) -> Option<&Area> {
    let has_room = |area: &&Area| area.used_bytes < area.size_bytes;
    areas.iter().filter(has_room).max_by_key(|a| a.priority)
}

/// The priority of a new device: after the zram devices that are there, so that the pages of other programs do not go to
/// one that will be removed, and before disks.
fn own_priority(areas: &[Area]) -> u16 {
    let priorities = |is_zram: bool| {
        let of_kind = areas
            .iter()
            .filter(move |a| a.zram_id().is_some() == is_zram);
        of_kind.map(|area| area.priority)
    };
    let (Some(last_zram), first_disk) = (priorities(true).min(), priorities(false).max()) else {
        return FIRST;
    };
    let priority = last_zram.saturating_sub(1).max(0);
    if first_disk.is_some_and(|disk| disk >= priority) {
        return FIRST;
    }
    u16::try_from(priority).unwrap_or(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(path: &str, used_bytes: u64, priority: i32) -> Area {
        Area {
            path: path.to_owned(),
            size_bytes: 100,
            used_bytes,
            priority,
        }
    }

    #[test]
    fn the_kernel_swaps_to_the_highest_priority_with_room() {
        let areas = [
            area("/dev/zram1", 100, 100),
            area("/swapfile", 0, -2),
            area("/dev/zram0", 5, 50),
        ];
        let found = first(&areas).unwrap();
        assert_eq!(found.zram_id(), Some(0));
        assert_eq!(areas[1].zram_id(), None);
        assert!(first(&areas[..1]).is_none());
    }

    #[test]
    fn a_device_is_shared_from_so_much_room_on() {
        let zram = [area("/dev/zram0", 40, 100), area("/dev/zram1", 0, 5)];
        let id = |capacity| with_room(&zram, capacity).map(|(_, id)| id);
        assert_eq!(id(60), Some(0));
        assert_eq!(id(61), None, "the kernel does not swap to zram1 yet");
        assert!(with_room(&[area("/swapfile", 0, 5)], 1).is_none());
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
        assert_eq!(own_priority(&[]), FIRST);
        assert_eq!(own_priority(&[disk(-2)]), FIRST);
        assert_eq!(own_priority(&[zram(100), disk(-2)]), 99);
        assert_eq!(own_priority(&[zram(32767), zram(7)]), 6);
        assert_eq!(own_priority(&[zram(-2)]), 0);
        assert_eq!(own_priority(&[zram(100), disk(99)]), FIRST);
    }
}
