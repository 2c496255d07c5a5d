//! A size class: spans of equal slots, and which of them are taken.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::budget::Budget;
use crate::entry::{Entry, Location, Placed};
use crate::geometry::Geometry;
use crate::handle::{Handle, HandleTable};
use crate::memory::SpanRef;
use crate::spans::{NoSlot, SpanSet};
use crate::stats::{CompactionReport, Counter};

/// Partly filled spans are grouped by quarters of fullness.
const GROUPS: usize = 4;

/// The pool-wide things that a class works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) handles: &'a HandleTable,
    /// Bytes of the empty spans that are kept, and how many that may be.
    pub(crate) cached_bytes: &'a Counter,
    pub(crate) cache_bytes: u64,
}

impl Shared<'_> {
    /// Says where the object of a handle is now.
    pub(crate) fn publish(&self, handle: Handle, placed: Placed) {
        if let Some(entry) = self.handles.entry(handle) {
            entry.store(Entry::Placed(placed).pack(), Ordering::Release);
        }
    }
}

/// What is to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a> {
    pub(crate) bytes: &'a [u8],
    /// Its checksum, in a pool with checksums.
    pub(crate) checksum: Option<u32>,
}

/// Bytes of the checksum behind each object, when there is one.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// One size class.
#[derive(Debug)]
pub(crate) struct Class {
    geometry: Geometry,
    /// The memory of the spans, reached without the lock of the class.
    spans: SpanSet,
    slots: Mutex<Slots>,
}

/// An object whose span is locked shared.
#[derive(Debug)]
pub(crate) struct ObjectRef<'a> {
    pub(crate) span: SpanRef<'a>,
    /// Where the object lies in the span.
    pub(crate) range: Range<usize>,
    /// Where its checksum stands, in a pool with checksums.
    pub(crate) checksum_at: usize,
}

impl ObjectRef<'_> {
    /// The checksum that was stored with it; meaningless in a pool without checksums.
    pub(crate) fn checksum(&self) -> u32 {
        let checksum = self.span[self.checksum_at..].first_chunk();
        checksum.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }
}

impl Deref for ObjectRef<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.span[self.range.clone()]
    }
}

/// Which slots are taken. A span is in one of four states:
///
/// - partly filled: in one of `groups`;
/// - full: in no list;
/// - empty and kept: in `cached`, its memory is counted;
/// - empty and discarded: in `discarded`, it holds no memory.
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
    cached: Vec<u32>,
    discarded: Vec<u32>,
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
        shared: Shared<'_>,
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
    pub(crate) fn free(&self, shared: Shared<'_>, handle: Handle, length: u32) -> Option<Placed> {
        let mut slots = self.slots.lock();
        let entry = shared.handles.entry(handle)?;
        let Entry::Placed(placed) = Entry::unpack(entry.load(Ordering::Acquire)) else {
            return None;
        };
        if placed.length != length {
            return None;
        }
        entry.store(Entry::Free { next: 0 }.pack(), Ordering::Release);
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
        shared: Shared<'_>,
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
    pub(crate) fn drop_cached(&self, shared: Shared<'_>) -> u64 {
        let mut slots = self.slots.lock();
        let mut released = 0;
        for _ in 0..slots.cached.len() {
            if let Some(span) = slots.cached.pop() {
                shared.cached_bytes.sub(self.span_bytes());
                released += self.discard(&mut slots, span, shared);
            }
        }
        released
    }

    /// Moves the first object of the first span to the second.
    fn move_one(
        &self,
        slots: &mut Slots,
        shared: Shared<'_>,
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
            // The source is locked shared only: loads of its objects go on. Whoever reads the old
            // copy has the span locked, and the slot is not written before they are done.
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

    /// A span with a free slot: a partly filled one (the fullest first, so that others empty), an
    /// empty one that was kept, a discarded one, or a new one.
    fn span_with_room(&self, slots: &mut Slots, shared: Shared<'_>) -> Result<u32, NoSlot> {
        if let Some(&span) = slots.groups.iter().rev().find_map(|group| group.last()) {
            return Ok(span);
        }
        if let Some(span) = slots.cached.pop() {
            shared.cached_bytes.sub(self.span_bytes());
            self.enter_group(slots, span);
            return Ok(span);
        }
        if slots.discarded.is_empty() {
            self.add_span(slots, shared.budget)?;
        }
        shared.budget.charge(self.span_bytes())?;
        let Some(span) = slots.discarded.pop() else {
            unreachable!("a span was added above");
        };
        if let Err(errno) = self.spans.write(span).populate() {
            self.discard(slots, span, shared);
            return Err(NoSlot::OutOfMemory(errno));
        }
        self.enter_group(slots, span);
        Ok(span)
    }

    /// Makes one more discarded span, and the mapping that it lies in.
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
        slots.discarded.push(span as u32);
        Ok(())
    }

    /// Bytes of [`Slots`] for each span: its elements of `taken`, `place` and `owners`, and its
    /// place in one of the lists.
    fn bookkeeping_bytes(&self) -> usize {
        size_of::<u64>() + 2 * size_of::<u32>() + self.geometry.slots * size_of::<Option<Handle>>()
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

    /// Takes an empty span out of use: keeps it if the cache has room, else discards it. Returns
    /// the bytes given back.
    fn retire(&self, slots: &mut Slots, span: u32, shared: Shared<'_>) -> u64 {
        self.leave_group(slots, span);
        let bytes = self.span_bytes();
        if shared.cached_bytes.add_up_to(bytes, shared.cache_bytes) {
            slots.cached.push(span);
            return 0;
        }
        self.discard(slots, span, shared)
    }

    /// Gives the pages of an empty span back; the bytes of it.
    fn discard(&self, slots: &mut Slots, span: u32, shared: Shared<'_>) -> u64 {
        let bytes = self.span_bytes();
        if self.spans.write(span).discard().is_err() {
            // The kernel kept the pages (memory locked by mlockall, for one), so they still count.
            slots.cached.insert(0, span);
            shared.cached_bytes.add(bytes);
            return 0;
        }
        slots.discarded.push(span);
        shared.budget.release(bytes);
        bytes
    }

    fn span_bytes(&self) -> u64 {
        self.spans.span_bytes()
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
        (slots.taken.len() - slots.discarded.len()) as u64 * self.span_bytes()
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
        for &span in slots.cached.iter().chain(&slots.discarded) {
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
