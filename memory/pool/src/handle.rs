//! Handles and their table of entries.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::budget::{Budget, OverLimit};
use crate::entry::Entry;

/// Names a stored object; 4 bytes, and so is an `Option<Handle>`.
///
/// A handle is valid from the store that returned it to its free. After that it may name another
/// object: keeping handles straight is the caller's business.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(NonZeroU32);

impl Handle {
    /// The handle as a number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The handle with this number; `None` for 0.
    pub const fn from_number(number: u32) -> Option<Handle> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Handle(number)),
            None => None,
        }
    }

    fn index(self) -> usize {
        self.get() as usize - 1
    }

    fn of_index(index: usize) -> Option<Handle> {
        u32::try_from(index + 1).ok().and_then(Handle::from_number)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.0)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const SHARDS: usize = 8;
/// Entries of a leaf: 32 KiB.
const LEAF: usize = 4096;
/// Leaves of a branch: 4 KiB of pointers.
const BRANCH: usize = 256;
/// Branches of the root; the whole tree holds 2^29 entries, 2 TiB of pages.
const ROOT: usize = 512;

/// Leaves are counted against the limit by this many bytes.
const LEAF_BYTES: u64 = (LEAF * size_of::<AtomicU64>()) as u64;
const BRANCH_BYTES: u64 = (BRANCH * size_of::<OnceLock<Leaf>>()) as u64;
/// Bytes of a table without handles, beyond the struct itself.
const ROOT_BYTES: usize = ROOT * size_of::<OnceLock<Branch>>();

type Leaf = Box<[AtomicU64]>;
type Branch = Box<[OnceLock<Leaf>]>;

/// Why there is no new handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHandle {
    OverLimit,
    Exhausted,
}

impl From<OverLimit> for NoHandle {
    fn from(_: OverLimit) -> NoHandle {
        NoHandle::OverLimit
    }
}

/// The free handles of every eighth leaf.
#[derive(Debug, Default)]
struct Shard {
    /// Number of the first free handle, 0 for none; entries link to the next.
    first_free: u32,
    /// Leaves that this shard has taken so far.
    leaves: usize,
}

/// The table of entries: a tree of fixed depth that only grows, so that looking an entry up takes
/// no lock.
#[derive(Debug)]
pub(crate) struct HandleTable {
    root: Box<[OnceLock<Branch>]>,
    /// Shard s owns the leaves s, s + 8, s + 16 and so on. Threads spread over the shards.
    shards: [Mutex<Shard>; SHARDS],
}

impl HandleTable {
    pub(crate) const BASE_BYTES: usize = ROOT_BYTES;

    pub(crate) fn new() -> HandleTable {
        HandleTable {
            root: (0..ROOT).map(|_| OnceLock::new()).collect(),
            shards: Default::default(),
        }
    }

    /// The entry of a handle; `None` when no handle of that number was ever given out.
    #[inline]
    pub(crate) fn entry(&self, handle: Handle) -> Option<&AtomicU64> {
        let index = handle.index();
        let branch = self.root.get(index / (LEAF * BRANCH))?.get()?;
        branch[index / LEAF % BRANCH].get()?.get(index % LEAF)
    }

    /// Takes a free handle; its entry reads as free until it is published.
    pub(crate) fn allocate(&self, budget: &Budget) -> Result<Handle, NoHandle> {
        let index = shard_of_this_thread();
        let mut shard = self.shards[index].lock();
        if shard.first_free == 0 {
            self.add_leaf(index, &mut shard, budget)?;
        }
        let handle = Handle::from_number(shard.first_free).ok_or(NoHandle::Exhausted)?;
        let entry = self.entry(handle).ok_or(NoHandle::Exhausted)?;
        if let Entry::Free { next } = Entry::unpack(entry.load(Ordering::Relaxed)) {
            shard.first_free = next;
        }
        Ok(handle)
    }

    /// Makes a handle free again. Its entry must read as free already.
    pub(crate) fn release(&self, handle: Handle) {
        let mut shard = self.shards[handle.index() / LEAF % SHARDS].lock();
        if let Some(entry) = self.entry(handle) {
            let next = shard.first_free;
            entry.store(Entry::Free { next }.pack(), Ordering::Relaxed);
            shard.first_free = handle.get();
        }
    }

    fn add_leaf(&self, index: usize, shard: &mut Shard, budget: &Budget) -> Result<(), NoHandle> {
        let leaf = shard.leaves * SHARDS + index;
        let branch = self.root.get(leaf / BRANCH).ok_or(NoHandle::Exhausted)?;
        budget.charge(LEAF_BYTES)?;
        if branch.get().is_none() {
            if let Err(over) = budget.charge(BRANCH_BYTES) {
                budget.release(LEAF_BYTES);
                return Err(over.into());
            }
            if branch.set(new_branch()).is_err() {
                // Another shard was first.
                budget.release(BRANCH_BYTES);
            }
        }
        let first = leaf * LEAF;
        let entries: Leaf = (0..LEAF)
            .map(|i| {
                let is_last = i + 1 == LEAF;
                let next = Handle::of_index(first + i + 1).filter(|_| !is_last);
                let next = next.map_or(0, Handle::get);
                AtomicU64::new(Entry::Free { next }.pack())
            })
            .collect();
        let slot = &branch.get_or_init(new_branch)[leaf % BRANCH];
        slot.set(entries).map_err(|_| NoHandle::Exhausted)?;
        shard.leaves += 1;
        shard.first_free = Handle::of_index(first).map_or(0, Handle::get);
        Ok(())
    }
}

fn new_branch() -> Branch {
    (0..BRANCH).map(|_| OnceLock::new()).collect()
}

/// The shard where the calling thread takes its handles: threads go round the shards.
fn shard_of_this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|&shard| shard)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn handles_are_four_bytes_with_or_without_option() {
        assert_eq!(size_of::<Option<Handle>>(), 4);
    }

    #[test]
    fn handles_are_distinct_and_come_back() {
        let budget = Budget::new(1 << 30, 90);
        let table = HandleTable::new();
        let taken: HashSet<Handle> = (0..3 * LEAF)
            .map(|_| table.allocate(&budget).expect("room"))
            .collect();
        assert_eq!(taken.len(), 3 * LEAF);
        let held_bytes = budget.held_bytes();
        taken.iter().for_each(|&handle| table.release(handle));
        let again: HashSet<Handle> = (0..3 * LEAF)
            .map(|_| table.allocate(&budget).expect("room"))
            .collect();
        assert_eq!(again, taken);
        assert_eq!(budget.held_bytes(), held_bytes);
    }

    #[test]
    fn a_leaf_over_the_limit_is_refused_and_leaves_nothing_behind() {
        let budget = Budget::new(LEAF_BYTES + BRANCH_BYTES - 1, 90);
        let table = HandleTable::new();
        assert_eq!(table.allocate(&budget), Err(NoHandle::OverLimit));
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn unknown_handles_have_no_entry() {
        let table = HandleTable::new();
        for number in [1, LEAF as u32, u32::MAX] {
            let handle = Handle::from_number(number).expect("not 0");
            assert!(table.entry(handle).is_none());
        }
    }
}
