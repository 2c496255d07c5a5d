//! The region table: what each region of the heap is used for.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::layout::{REGION_BYTES, REGION_GRANULES};

/// What becomes of the objects of a region in the collection that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RegionState {
    /// Not in use.
    Free = 0,
    /// In use, and not collected: its objects are taken for live and not looked at.
    Kept = 1,
    /// Its live objects are copied out of it.
    Evacuated = 2,
    /// Its live objects are marked and stay.
    InPlace = 3,
    /// A later part of a large object; nothing begins here.
    Continuation = 4,
}

/// What a region holds. Combined as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Allocated by mutators since the last collection.
    pub const YOUNG: Self = Self(1);
    /// Its objects are foreground objects (FGO, section 5.2).
    pub const FOREGROUND: Self = Self(2);
    /// One large object.
    pub const LARGE: Self = Self(4);
    /// Only objects whose mark bit is set are live; in other regions all are taken for live.
    pub const MARKED: Self = Self(8);
    /// Launch region (section 5.3.1).
    pub const LAUNCH: Self = Self(16);
    /// Working-set region.
    pub const WORKING_SET: Self = Self(32);
    /// Cold region.
    pub const COLD: Self = Self(64);
    /// Objects that Marvin may swap out one by one; they are not moved.
    pub const SWAPPABLE: Self = Self(128);
    /// None of them.
    pub const OLD: Self = Self(0);

    /// Both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These without others.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What is known of one region.
#[derive(Debug)]
pub struct RegionInfo {
    flags: AtomicU8,
    /// Granules in use. For a large object those of all its regions.
    used: AtomicU32,
    /// Granules of live objects, as of the last collection that looked.
    live: AtomicU32,
}

impl RegionInfo {
    /// Its flags.
    pub fn flags(&self) -> Flags {
        Flags(self.flags.load(Ordering::Acquire))
    }

    /// Changes its flags. By the collector.
    pub fn set_flags(&self, flags: Flags) {
        self.flags.store(flags.0, Ordering::Release);
    }

    /// Granules in use, from its start.
    pub fn used(&self) -> u32 {
        self.used.load(Ordering::Acquire)
    }

    /// Notes how far it is used.
    pub fn set_used(&self, granules: u32) {
        self.used.store(granules, Ordering::Release);
    }

    /// Granules that are live.
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Relaxed)
    }

    /// Notes how much is live.
    pub fn set_live(&self, granules: u32) {
        self.live.store(granules, Ordering::Relaxed);
    }

    /// An object of so many granules was marked.
    pub fn add_live(&self, granules: u32) {
        self.live.fetch_add(granules, Ordering::Relaxed);
    }
}

/// The use that a region is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A mutator, for new objects: leaves what a collection may need.
    Mutator,
    /// A collection, for copies.
    Collection,
    /// A collection, for room that it may not need: leaves what its copies may need otherwise.
    Ahead,
}

/// Regions that a collection may need beyond those that its copies fill: one for each kind of copy, begun and not
/// full.
const COPY_SLACK: usize = 16;

#[derive(Debug)]
struct Free {
    is_free: Vec<bool>,
    count: usize,
    /// Regions in use that hold small objects: what a collection may have to copy.
    movable: usize,
    /// What the collection that runs may still need; `None` while none runs.
    reserve: Option<usize>,
    /// Where the search begins.
    next: usize,
}

impl Free {
    /// Regions that mutators leave alone. A copy wastes less than a quarter of each region that it fills.
    fn reserved(&self) -> usize {
        let idle = || self.movable + self.movable / 3 + COPY_SLACK;
        self.reserve.unwrap_or_else(idle)
    }

    fn take(&mut self, count: usize) -> Option<usize> {
        let n = self.is_free.len();
        let fits = |first: usize| {
            first + count <= n && self.is_free[first..first + count].iter().all(|&free| free)
        };
        // Low numbers first: what was in use before is in memory already, and the heap stays dense.
        let first = (self.next..n)
            .chain(1..self.next.min(n))
            .find(|&first| fits(first))?;
        self.is_free[first..first + count].fill(false);
        self.count -= count;
        if count == 1 && first >= self.next {
            // None is free from `next` up to it.
            self.next = first + 1;
        }
        Some(first)
    }
}

/// All regions of a heap.
#[derive(Debug)]
pub struct RegionTable {
    /// Apart from the rest and dense, since the read barrier looks here.
    states: Box<[AtomicU8]>,
    infos: Box<[RegionInfo]>,
    free: Mutex<Free>,
    /// Regions in use, free ones not counted.
    in_use: AtomicUsize,
    /// Of them, those that the collection that runs took: they stand for others, which are in use until its end.
    copies: AtomicUsize,
    /// Regions that mutators ever took.
    taken_by_mutators: AtomicUsize,
    /// Mutators get no more than this.
    most_in_use: usize,
}

impl RegionTable {
    /// A table of so many regions; mutators use at most `most_in_use` of them. Region 0 is never used.
    pub fn new(regions: usize, most_in_use: usize) -> Self {
        let info = |_| RegionInfo {
            flags: AtomicU8::new(0),
            used: AtomicU32::new(0),
            live: AtomicU32::new(0),
        };
        let mut is_free = vec![true; regions];
        is_free[0] = false;
        Self {
            states: (0..regions).map(|_| AtomicU8::new(0)).collect(),
            infos: (0..regions).map(info).collect(),
            free: Mutex::new(Free {
                is_free,
                count: regions - 1,
                movable: 0,
                reserve: None,
                next: 1,
            }),
            in_use: AtomicUsize::new(0),
            copies: AtomicUsize::new(0),
            taken_by_mutators: AtomicUsize::new(0),
            most_in_use,
        }
    }

    /// How many there are, region 0 included.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Regions in use.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Regions in use, without the copies of a collection that runs: what mutators have of the heap's size.
    pub fn charged(&self) -> usize {
        self.in_use()
            .saturating_sub(self.copies.load(Ordering::Relaxed))
    }

    /// Regions that mutators ever took.
    pub fn taken_by_mutators(&self) -> usize {
        self.taken_by_mutators.load(Ordering::Relaxed)
    }

    /// The state of a region.
    #[inline]
    pub fn state(&self, region: usize) -> RegionState {
        match self.states[region].load(Ordering::Acquire) {
            0 => RegionState::Free,
            1 => RegionState::Kept,
            2 => RegionState::Evacuated,
            3 => RegionState::InPlace,
            _ => RegionState::Continuation,
        }
    }

    /// Changes the state of a region. While it is in use, with all mutators stopped only.
    pub fn set_state(&self, region: usize, state: RegionState) {
        self.states[region].store(state as u8, Ordering::Release);
    }

    /// What is known of a region.
    #[inline]
    pub fn info(&self, region: usize) -> &RegionInfo {
        &self.infos[region]
    }

    /// Takes `count` free regions in a row for `granules`; the number of the first. They are in use afterwards, once
    /// [`Self::open`] has said as what.
    pub fn take(&self, count: usize, asker: Asker) -> Option<usize> {
        let mut free = self.free.lock();
        if asker != Asker::Collection && free.count < count + free.reserved() {
            return None;
        }
        if asker == Asker::Mutator && self.charged() + count > self.most_in_use {
            return None;
        }
        let first = free.take(count)?;
        if count == 1 {
            free.movable += 1;
        }
        if asker == Asker::Collection
            && let Some(reserve) = &mut free.reserve
        {
            *reserve = reserve.saturating_sub(count);
        }
        self.in_use.fetch_add(count, Ordering::Relaxed);
        let by_asker = match asker {
            Asker::Mutator => &self.taken_by_mutators,
            Asker::Collection | Asker::Ahead => &self.copies,
        };
        by_asker.fetch_add(count, Ordering::Relaxed);
        Some(first)
    }

    /// Regions that were taken are in use from now on.
    pub fn open(&self, first: usize, count: usize, flags: Flags) {
        self.infos[first].set_live(0);
        self.infos[first].set_used(0);
        self.infos[first].set_flags(flags);
        for later in first + 1..first + count {
            self.infos[later].set_flags(flags);
            self.infos[later].set_used(0);
            self.set_state(later, RegionState::Continuation);
        }
        self.set_state(first, RegionState::Kept);
    }

    /// Regions, in a row, that nothing refers to any more can be taken again.
    pub fn give_back(&self, first: usize, count: usize) {
        let mut free = self.free.lock();
        for region in first..first + count {
            self.set_state(region, RegionState::Free);
            self.infos[region].set_flags(Flags::OLD);
            self.infos[region].set_used(0);
            self.infos[region].set_live(0);
        }
        free.is_free[first..first + count].fill(true);
        free.count += count;
        if count == 1 {
            free.movable -= 1;
        }
        free.next = free.next.min(first);
        self.in_use.fetch_sub(count, Ordering::Relaxed);
    }

    /// A collection that evacuates so many regions begins: what it may need is kept for it.
    pub fn begin_collection(&self, evacuated: usize) {
        self.free.lock().reserve = Some(evacuated + evacuated / 3 + COPY_SLACK);
    }

    /// It has ended.
    pub fn end_collection(&self) {
        let mut free = self.free.lock();
        free.reserve = None;
        self.copies.store(0, Ordering::Relaxed);
    }

    /// First regions of all that are in use, with how many regions each takes.
    pub fn used(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (1..self.len()).filter_map(|region| {
            let state = self.state(region);
            if matches!(state, RegionState::Free | RegionState::Continuation) {
                return None;
            }
            Some((region, self.span(region)))
        })
    }

    /// How many regions the object or objects that begin in a region take.
    pub fn span(&self, region: usize) -> usize {
        if !self.info(region).flags().has(Flags::LARGE) {
            return 1;
        }
        self.info(region).used().div_ceil(REGION_GRANULES).max(1) as usize
    }

    /// Bytes of the table.
    pub fn state_bytes(&self) -> usize {
        self.len() * (size_of::<RegionInfo>() + 2)
    }
}

/// Regions for so many bytes.
pub fn regions_for(bytes: usize) -> usize {
    bytes.div_ceil(REGION_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutators_leave_what_a_collection_needs() {
        let table = RegionTable::new(200, 60);
        let mut taken = Vec::new();
        while let Some(region) = table.take(1, Asker::Mutator) {
            table.open(region, 1, Flags::YOUNG);
            taken.push(region);
        }
        assert_eq!(taken.len(), 60);
        table.begin_collection(60);
        for _ in 0..60 + 20 + COPY_SLACK {
            let region = table.take(1, Asker::Collection).expect("kept for it");
            table.open(region, 1, Flags::OLD);
        }
        for region in taken {
            table.give_back(region, 1);
        }
        table.end_collection();
        assert_eq!(table.in_use(), 80 + COPY_SLACK);
    }

    #[test]
    fn large_objects_take_regions_in_a_row() {
        let table = RegionTable::new(100, 100);
        let first = table.take(3, Asker::Mutator).expect("free");
        table.open(first, 3, Flags::LARGE);
        table.info(first).set_used(2 * REGION_GRANULES + 1);
        assert_eq!(table.used().collect::<Vec<_>>(), [(first, 3)]);
        assert_eq!(table.state(first + 1), RegionState::Continuation);
        table.give_back(first, 3);
        assert_eq!(table.in_use(), 0);
        assert_eq!(table.take(1, Asker::Mutator), Some(first));
    }
}
