//! Checks a heap: for tests, and after each collection under stress.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashSet;

use crate::cards::DIRTY;
use crate::collector::collection::Collections;
use crate::heap::{Heap, Inner};
use crate::layout::{Addr, GRANULE_BYTES, first_granule};
use crate::mutator::Mutator;
use crate::regions::Flags;
use crate::types::Shapes;

/// What a check found in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Objects in all regions, garbage that was not collected included.
    pub objects: usize,
    /// Objects that can be reached from roots.
    pub reachable: usize,
    /// Bytes of these.
    pub reachable_bytes: usize,
    /// Of them, foreground objects.
    pub reachable_foreground: usize,
}

/// Checks everything, with all mutators stopped.
fn check(heap: &Inner) -> Result<Checked, String> {
    let space = &heap.space;
    let mut shapes = Shapes::default();
    let mut starts = FxHashSet::default();
    for (region, _) in space.regions.used() {
        let first = first_granule(region);
        space.walk(first, &mut shapes, |_, object, _, _| {
            starts.insert(object);
            true
        });
        let end = first + space.regions.info(region).used();
        for &object in starts.iter().filter(|object| object.region() == region) {
            if object.granule() >= end {
                return Err(format!("{object:?} lies behind the end of its region"));
            }
        }
    }
    let mut reachable = FxHashSet::default();
    let mut queue = Vec::new();
    let mut bytes = 0;
    for block in heap.roots().blocks() {
        for slot in block.iter() {
            queue.extend(Addr::new(slot.load(Ordering::Acquire)).map(|object| (object, None)));
        }
    }
    while let Some((object, from)) = queue.pop() {
        if !starts.contains(&object) {
            return Err(format!(
                "a reference in {from:?} to {object:?}, where no object is"
            ));
        }
        if !space.is_live(object) {
            return Err(format!(
                "{object:?} can be reached from {from:?} and is not marked"
            ));
        }
        if !reachable.insert(object) {
            continue;
        }
        let is_bookmark = heap.bookmarks.visit(object, |slot| {
            queue.extend(Addr::new(slot.load(Ordering::Acquire)).map(|to| (to, Some(object))));
        });
        if is_bookmark.is_some() {
            continue;
        }
        let header = space.header(object);
        bytes += space.granules(object, header, &mut shapes) as usize * GRANULE_BYTES;
        let mut undirtied = None;
        space.each_slot(object, header, &mut shapes, |byte| {
            let Some(to) = Addr::new(space.slot(byte).load(Ordering::Acquire)) else {
                return;
            };
            if must_be_dirty(heap, object, to)
                && space.cards.get(byte >> crate::layout::CARD_SHIFT) != DIRTY
            {
                undirtied = Some(to);
            }
            queue.push((to, Some(object)));
        });
        if let Some(to) = undirtied {
            return Err(format!(
                "a reference in {object:?} to {to:?}, and its card is not dirty"
            ));
        }
    }
    Ok(Checked {
        objects: starts.len(),
        reachable: reachable.len(),
        reachable_foreground: reachable
            .iter()
            .filter(|o| is_foreground(heap, **o))
            .count(),
        reachable_bytes: bytes,
    })
}

fn is_foreground(heap: &Inner, object: Addr) -> bool {
    let flags = heap.space.regions.info(object.region()).flags();
    flags.has(Flags::FOREGROUND)
}

/// Whether a collection that does not look at `from` has to hear of a reference to `to`.
fn must_be_dirty(heap: &Inner, from: Addr, to: Addr) -> bool {
    let flags = |object: Addr| heap.space.regions.info(object.region()).flags();
    let (from, to) = (flags(from), flags(to));
    let to_young = !from.has(Flags::YOUNG) && to.has(Flags::YOUNG);
    let to_background = from.has(Flags::FOREGROUND) && !to.has(Flags::FOREGROUND);
    to_young || to_background
}

impl Collections {
    /// Stops all mutators and checks the heap.
    ///
    /// # Panics
    /// Something is wrong.
    pub fn check(&self) {
        let heap = Arc::clone(&self.heap);
        let stopped = heap.world.stop();
        let result = check(&heap);
        drop(stopped);
        if let Err(error) = result {
            panic!("the heap is damaged: {error}");
        }
    }
}

impl Mutator {
    /// Checks every region, card and reference of the heap. For tests: linear in its size. No other mutator may run
    /// meanwhile.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn check(&mut self) -> Result<Checked, String> {
        let heap = Arc::clone(self.heap());
        self.blocking(|| {
            heap.control.settle();
            check(&heap)
        })
    }
}

impl Heap {
    /// As [`Mutator::check`], while no mutator runs.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn check(&self) -> Result<Checked, String> {
        self.settle();
        check(self.inner())
    }
}
