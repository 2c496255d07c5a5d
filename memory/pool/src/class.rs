//! A size class: spans of equal slots, and which of them are taken.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::budget::Budget;
use crate::entry::{Entry, Location, Placed};
use crate::geometry::Geometry;
use crate::handle::Handle;
use crate::shared::{CHECKSUM_BYTES, EmptySpans, Object, ObjectRef, PoolWide};
use crate::spans::{NoSlot, SpanSet};
use crate::stats::CompactionReport;

/// Partly filled spans are grouped by quarters of fullness.
const GROUPS: usize = 4;

/// One size class.
#[derive(Debug)]
pub(crate) struct Class {
    geometry: Geometry,
    /// The memory of the spans, reached without the lock of the class.
    spans: SpanSet,
    slots: Mutex<Slots>,
}

/// Which slots are taken. A span is partly filled, and in one of `groups`; or full, and in no
/// list; or in `empty`.
#[derive(Debug, Default)]
struct Slots {
    /// For each span, one bit for each taken slot.
    taken: Vec<u64>,
    /// For each partly filled span, its place in its group.
    place: Vec<u32>,
    /// For each slot of each span, the handle of the object, or none.
    owners: Vec<Option<Handle>>,
    groups: [Vec<u32>; GROUPS],
    /// Free slots of all spans in `groups`.
    free: usize,
    empty: EmptySpans,
}

impl Class {
    pub(crate) fn new(geometry: Geometry) -> Class {
        Class {
            geometry,
            spans: SpanSet::new(geometry.span_bytes),
            slots: Mutex::default(),
        }
    }

    /// Stores `object` in a free slot, and publishes `placed` (with its location filled in) as the
    /// entry of `handle`.
    pub(crate) fn store(
        &self,
        shared: PoolWide<'_>,
        handle: Handle,
        mut placed: Placed,
        object: Object<'_>,
    ) -> Result<(), NoSlot> {
        let mut slots = self.slots.lock();
        let span = self.span_with_room(&mut slots, shared)?;
        let slot = (!slots.taken[span as usize]).trailing_zeros();
        placed.location = Location { span, slot };
        {
            let mut bytes = self.spans.write(span);
            let (first, rest) = bytes[self.offset(slot)..].split_at_mut(object.bytes.len());
            first.copy_from_slice(object.bytes);
            if let Some(checksum) = object.checksum {
                rest[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_ne_bytes());
            }
        }
        self.set_taken(&mut slots, placed.location, Some(handle));
        shared.publish(handle, placed);
        Ok(())
    }

    /// Locks the object that `raw`, a value of `entry`, places in this class: `length` bytes of its
    /// slot. `None` when the entry has changed since, so that the caller starts again.
    #[inline]
    pub(crate) fn lock_object(
        &self,
        entry: &AtomicU64,
        raw: u64,
        at: Location,
        length: usize,
    ) -> Option<ObjectRef<'_>> {
        let span = self.spans.try_read(at.span)?;
        let start = self.offset(at.slot);
        let end = start + length;
        if entry.load(Ordering::Acquire) != raw {
            return None;
        }
        Some(ObjectRef {
            span,
            range: start..end,
            checksum_at: end,
        })
    }

    /// Frees the slot of `handle`, if its entry still places an object of `length` bytes; the
    /// entry then reads as free.
    pub(crate) fn free(&self, shared: PoolWide<'_>, handle: Handle, length: u32) -> Option<Placed> {
        let mut slots = self.slots.lock();
        let placed = shared.unpublish(handle, length)?;
        self.set_taken(&mut slots, placed.location, None);
        if slots.taken[placed.location.span as usize] == 0 {
            self.retire(&mut slots, placed.location.span, shared);
        }
        Some(placed)
    }

    /// Empties one span into others, and says whether there may be more to gain.
    ///
    /// At most `max_objects` objects are moved.
    pub(crate) fn compact_one(
        &self,
        shared: PoolWide<'_>,
        max_objects: u64,
        report: &mut CompactionReport,
    ) -> bool {
        let mut slots = self.slots.lock();
        if !self.has_gain(&slots) {
            return false;
        }
        let Some(source) = slots.emptiest() else {
            return false;
        };
        for _ in 0..max_objects {
            let Some(target) = slots.fullest_but(source) else {
                return false;
            };
            self.move_one(&mut slots, shared, [source, target], report);
            if slots.taken[source as usize] == 0 {
                report.emptied_spans += 1;
                report.released_bytes += self.retire(&mut slots, source, shared);
                return self.has_gain(&slots);
            }
        }
        report.out_of_budget = true;
        false
    }

    /// Gives all empty spans that were kept back to the kernel; the bytes of them.
    pub(crate) fn drop_cached(&self, shared: PoolWide<'_>) -> u64 {
        self.slots.lock().empty.drop_cached(&self.spans, shared)
    }

    /// Moves the first object of the first span to the second.
    fn move_one(
        &self,
        slots: &mut Slots,
        shared: PoolWide<'_>,
        [source, target]: [u32; 2],
        report: &mut CompactionReport,
    ) {
        let from = Location {
            span: source,
            slot: slots.taken[source as usize].trailing_zeros(),
        };
        let to = Location {
            span: target,
            slot: (!slots.taken[target as usize]).trailing_zeros(),
        };
        let handle = slots.owners[self.owner_index(from)];
        let entry = handle.and_then(|handle| shared.handles.entry(handle));
        let placed = entry.map(|entry| Entry::unpack(entry.load(Ordering::Acquire)));
        if let (Some(entry), Some(Entry::Placed(placed))) = (entry, placed) {
            // The source is locked shared only: loads of its objects go on. A reader of the old
            // copy has the span locked, and the slot is not written before it is done.
            let source = self.spans.read(from.span);
            let mut target = self.spans.write(to.span);
            let bytes = self.geometry.slot_bytes;
            target[self.offset(to.slot)..][..bytes]
                .copy_from_slice(&source[self.offset(from.slot)..][..bytes]);
            let moved = Placed {
                location: to,
                ..placed
            };
            entry.store(Entry::Placed(moved).pack(), Ordering::Release);
            report.moved_objects += 1;
            report.moved_bytes += u64::from(placed.length);
        } else {
            debug_assert!(false, "taken slot {from:?} has no owner");
        }
        self.set_taken(slots, to, handle);
        self.set_taken(slots, from, None);
    }

    /// Whether the free slots of the partly filled spans make up a whole span.
    fn has_gain(&self, slots: &Slots) -> bool {
        let spans = slots.groups.iter().map(Vec::len).sum::<usize>();
        spans >= 2 && slots.free >= self.geometry.slots
    }

    /// A span with a free slot: a partly filled one (the fullest first, so that others empty), or
    /// an empty one.
    fn span_with_room(&self, slots: &mut Slots, shared: PoolWide<'_>) -> Result<u32, NoSlot> {
        if let Some(&span) = slots.groups.iter().rev().find_map(|group| group.last()) {
            return Ok(span);
        }
        if slots.empty.are_used_up() {
            self.add_span(slots, shared.budget)?;
        }
        let span = slots.empty.take(&self.spans, shared)?;
        self.enter_group(slots, span);
        Ok(span)
    }

    /// Makes one more empty span, and the mapping that it lies in.
    fn add_span(&self, slots: &mut Slots, budget: &Budget) -> Result<(), NoSlot> {
        let span = slots.taken.len();
        if span == slots.taken.capacity() {
            let more = (span / 8).max(4);
            budget.charge((more * self.bookkeeping_bytes()) as u64)?;
            slots.reserve(more, self.geometry.slots);
        }
        self.spans.reach(span, budget)?;
        slots.taken.push(0);
        slots.place.push(0);
        slots.owners.extend((0..self.geometry.slots).map(|_| None));
        slots.empty.discarded.push(span as u32);
        Ok(())
    }

    /// Bytes of [`Slots`] for each span: its elements of `taken`, `place` and `owners`, and its
    /// place in one of the lists.
    fn bookkeeping_bytes(&self) -> usize {
        let owners_bytes = self.geometry.slots * size_of::<Option<Handle>>();
        size_of::<u64>() + size_of::<u32>() + owners_bytes + EmptySpans::STATE_BYTES
    }

    /// Marks a slot as taken by `owner`, or as free, and regroups its span.
    fn set_taken(&self, slots: &mut Slots, at: Location, owner: Option<Handle>) {
        self.leave_group(slots, at.span);
        let bit = 1 << at.slot;
        let taken = &mut slots.taken[at.span as usize];
        debug_assert_ne!(
            *taken & bit != 0,
            owner.is_some(),
            "slot {at:?} changed twice"
        );
        *taken ^= bit;
        slots.owners[self.owner_index(at)] = owner;
        self.enter_group(slots, at.span);
    }

    /// The free slots of a span, and its group by fullness; `None` when it is full.
    fn group_of(&self, slots: &Slots, span: u32) -> Option<(usize, usize)> {
        let taken = slots.taken[span as usize].count_ones() as usize;
        let free = self.geometry.slots - taken;
        (free > 0).then(|| (free, taken * GROUPS / self.geometry.slots))
    }

    fn enter_group(&self, slots: &mut Slots, span: u32) {
        if let Some((free, group)) = self.group_of(slots, span) {
            slots.place[span as usize] = slots.groups[group].len() as u32;
            slots.groups[group].push(span);
            slots.free += free;
        }
    }

    fn leave_group(&self, slots: &mut Slots, span: u32) {
        if let Some((free, group)) = self.group_of(slots, span) {
            let place = slots.place[span as usize];
            slots.groups[group].swap_remove(place as usize);
            if let Some(&moved) = slots.groups[group].get(place as usize) {
                slots.place[moved as usize] = place;
            }
            slots.free -= free;
        }
    }

    /// Takes an empty span out of use. Returns the bytes given back.
    fn retire(&self, slots: &mut Slots, span: u32, shared: PoolWide<'_>) -> u64 {
        self.leave_group(slots, span);
        slots.empty.retire(span, &self.spans, shared)
    }

    fn offset(&self, slot: u32) -> usize {
        slot as usize * self.geometry.slot_bytes
    }

    fn owner_index(&self, at: Location) -> usize {
        at.span as usize * self.geometry.slots + at.slot as usize
    }

    /// Bytes of the spans that hold memory.
    #[cfg(test)]
    pub(crate) fn held_span_bytes(&self) -> u64 {
        let slots = self.slots.lock();
        (slots.taken.len() - slots.empty.discarded.len()) as u64 * self.spans.span_bytes()
    }

    /// Damages the object in a slot.
    #[cfg(test)]
    pub(crate) fn flip_bit(&self, at: Location, byte: usize) {
        self.spans.write(at.span)[self.offset(at.slot) + byte] ^= 1;
    }

    /// Checks every invariant of the lists.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let slots = self.slots.lock();
        let mut listed = vec![0; slots.taken.len()];
        let mut free_slots = 0;
        for (group, spans) in slots.groups.iter().enumerate() {
            for (place, &span) in spans.iter().enumerate() {
                let (free, expected) = self.group_of(&slots, span).expect("not full");
                assert_eq!(group, expected);
                free_slots += free;
                assert_eq!(slots.place[span as usize] as usize, place);
                assert_ne!(slots.taken[span as usize], 0, "empty spans are retired");
                listed[span as usize] += 1;
            }
        }
        assert_eq!(free_slots, slots.free);
        for &span in slots.empty.cached.iter().chain(&slots.empty.discarded) {
            assert_eq!(slots.taken[span as usize], 0);
            listed[span as usize] += 1;
        }
        for (span, &times) in listed.iter().enumerate() {
            let full = slots.taken[span].count_ones() as usize == self.geometry.slots;
            assert_eq!(times, usize::from(!full), "span {span}");
            for slot in 0..self.geometry.slots {
                let taken = slots.taken[span] >> slot & 1 == 1;
                assert_eq!(
                    slots.owners[span * self.geometry.slots + slot].is_some(),
                    taken
                );
            }
        }
    }
}

impl Slots {
    fn reserve(&mut self, spans: usize, slots: usize) {
        self.taken.reserve_exact(spans);
        self.place.reserve_exact(spans);
        self.owners.reserve_exact(spans * slots);
    }

    /// A span of the emptiest group.
    fn emptiest(&self) -> Option<u32> {
        self.groups.iter().find_map(|group| group.last().copied())
    }

    /// A span of the fullest group, but not `span`.
    fn fullest_but(&self, span: u32) -> Option<u32> {
        let mut spans = self
            .groups
            .iter()
            .rev()
            .flat_map(|group| group.iter().rev());
        spans.find(|&&other| other != span).copied()
    }
}
