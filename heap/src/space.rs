//! The heap's bytes and their tables. All raw access to objects is in this file.
//!
//! Which thread may touch what:
//!
//! - An object that mutators can reach is written to through its atomic fields only, so that shared references to it
//!   are sound.
//! - An object in an evacuated region is not written to any more, but for its header, which is atomic: no mutator holds
//!   a reference into such a region (the read barrier gave it the copy's). So it can be read and copied by anybody.
//! - Room that was reserved in a [`Bump`] belongs to the thread that reserved it until an address of it is published.
#![allow(unsafe_code)] // Objects are bytes at computed addresses.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::bitmap::Bitmap;
use crate::cards::{CLEAN, CardTable, UNTRACKED};
use crate::header::Header;
use crate::layout::{Addr, GRANULE_BYTES, REGION_GRANULES, first_granule};
use crate::memory::HeapMemory;
use crate::regions::{Asker, Flags, RegionTable};
use crate::types::{FILLER, Shape, Shapes};

/// The bytes of a heap with all tables about them.
#[derive(Debug)]
pub struct Space {
    base: *mut u8,
    bytes: usize,
    pub memory: Box<dyn HeapMemory>,
    pub regions: RegionTable,
    pub cards: CardTable,
    /// A bit for each granule: the object whose header is there was marked. Clear in regions without
    /// [`Flags::MARKED`] while no collection runs.
    pub marks: Bitmap,
}

// SAFETY: the memory behind the pointer belongs to no thread; how threads share it is said above.
unsafe impl Send for Space {}
// SAFETY: as above.
unsafe impl Sync for Space {}

impl Space {
    /// A space over memory; mutators use at most `most_in_use` regions of it.
    pub fn new(memory: Box<dyn HeapMemory>, regions: usize, most_in_use: usize) -> Self {
        let bytes = regions * crate::layout::REGION_BYTES;
        assert!(bytes <= memory.bytes(), "memory for all regions");
        Self {
            base: memory.base(),
            bytes,
            memory,
            regions: RegionTable::new(regions, most_in_use),
            cards: CardTable::new(regions),
            marks: Bitmap::new(bytes / GRANULE_BYTES),
        }
    }

    /// The byte of the heap that an address in memory is, if it is one of this heap.
    #[inline]
    pub fn byte_of(&self, address: usize) -> Option<usize> {
        let byte = address.wrapping_sub(self.base.addr());
        (byte < self.bytes).then_some(byte)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word at a granule.
    #[inline]
    fn word(&self, granule: u32) -> &AtomicU64 {
        let byte = granule as usize * GRANULE_BYTES;
        assert!(byte < self.bytes);
        // SAFETY: within the memory by the check above (both are multiples of 8), aligned since the base is aligned to
        // a page, valid for `self`'s life. Only headers and the first words of records are accessed so, and these only
        // so once they are published.
        unsafe { AtomicU64::from_ptr(self.base.add(byte).cast()) }
    }

    /// An object's header.
    #[inline]
    pub fn header(&self, object: Addr) -> Header {
        Header(self.word(object.granule()).load(Ordering::Acquire))
    }

    /// Writes the header of an object that is not published yet.
    #[inline]
    pub fn write_header(&self, object: Addr, header: Header) {
        self.word(object.granule())
            .store(header.0, Ordering::Relaxed);
    }

    /// Writes a new object.
    ///
    /// # Safety
    /// The calling thread has reserved room in this space for the header and a `T` at `object`, and no other thread knows of
    /// it. `T` is aligned to at most 8.
    #[inline]
    pub unsafe fn write_object<T>(&self, object: Addr, header: Header, value: T) {
        debug_assert!(object.byte() + GRANULE_BYTES + size_of::<T>() <= self.bytes);
        // SAFETY: the caller's room is within the memory, and its alone, so that no write races with another access.
        // The base is aligned to a page, and granules are of 8 bytes.
        unsafe {
            let room = self.base.add(object.byte());
            room.cast::<u64>().write(header.0);
            room.add(GRANULE_BYTES).cast::<T>().write(value);
        }
    }

    /// A reference within an object, at a byte of the heap.
    #[inline]
    pub fn slot(&self, byte: usize) -> &AtomicU32 {
        assert!(byte < self.bytes && byte.is_multiple_of(4));
        // SAFETY: within the memory and aligned, by the check above. References are accessed as atomics by everybody
        // once their object is published.
        unsafe { AtomicU32::from_ptr(self.base.add(byte).cast()) }
    }

    /// Where an object's content begins.
    #[inline]
    pub fn payload(&self, object: Addr) -> *mut u8 {
        let byte = object.byte() + GRANULE_BYTES;
        assert!(byte <= self.bytes);
        // SAFETY: within the memory, or one past its end.
        unsafe { self.base.add(byte) }
    }

    /// The two halves of a record's first word: references, and bytes of data.
    pub fn record_parts(&self, object: Addr) -> (u32, u32) {
        let word = self.word(object.granule() + 1).load(Ordering::Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    /// Granules that an object takes, header included.
    pub fn granules(&self, object: Addr, header: Header, shapes: &mut Shapes) -> u32 {
        let bytes = match shapes.get(header.type_index()) {
            Shape::Filler | Shape::Bytes => header.length() as usize,
            Shape::References => header.length() as usize * size_of::<u32>(),
            Shape::Fixed { bytes, .. } => bytes as usize,
            Shape::Record => {
                let (references, data_bytes) = self.record_parts(object);
                record_bytes(references, data_bytes)
            }
        };
        granules_for(bytes)
    }

    /// Calls `visit` with the byte of each reference of an object.
    pub fn each_slot(
        &self,
        object: Addr,
        header: Header,
        shapes: &mut Shapes,
        mut visit: impl FnMut(usize),
    ) {
        let first = object.byte() + GRANULE_BYTES;
        match shapes.get(header.type_index()) {
            Shape::Filler | Shape::Bytes => {}
            Shape::Fixed { slots, .. } => {
                for &at in slots {
                    visit(first + at as usize);
                }
            }
            Shape::References => {
                array_slots(first, header.length()).for_each(visit);
            }
            Shape::Record => {
                let (references, _) = self.record_parts(object);
                array_slots(first + GRANULE_BYTES, references).for_each(visit);
            }
        }
    }

    /// Calls `visit` with the byte of each reference of an object that lies in these bytes of the heap, which begin at
    /// a multiple of 4. The others cost nothing: an array may have millions.
    pub fn each_slot_within(
        &self,
        object: Addr,
        header: Header,
        shapes: &mut Shapes,
        bytes: std::ops::Range<usize>,
        mut visit: impl FnMut(usize),
    ) {
        let (first, count) = match shapes.get(header.type_index()) {
            Shape::Filler | Shape::Bytes => return,
            Shape::Fixed { slots, .. } => {
                let first = object.byte() + GRANULE_BYTES;
                let from = slots.partition_point(|&at| first + (at as usize) < bytes.start);
                for &at in &slots[from..] {
                    if first + at as usize >= bytes.end {
                        return;
                    }
                    visit(first + at as usize);
                }
                return;
            }
            Shape::References => (object.byte() + GRANULE_BYTES, header.length()),
            Shape::Record => (
                object.byte() + 2 * GRANULE_BYTES,
                self.record_parts(object).0,
            ),
        };
        let end = bytes.end.min(first + count as usize * size_of::<u32>());
        (bytes.start.max(first)..end)
            .step_by(size_of::<u32>())
            .for_each(visit);
    }

    /// Copies an object of an evacuated region to where `reserve` says (granules → room for as many), unless another thread
    /// has done so before. The copy, and whether it is this call's. `None` when there is no room.
    ///
    /// `undo` is told when the room is not needed, since another thread was first.
    pub fn forward(
        &self,
        object: Addr,
        shapes: &mut Shapes,
        reserve: impl FnOnce(u32) -> Option<Addr>,
        undo: impl FnOnce(Addr, u32),
    ) -> Option<Forwarded> {
        let header = self.header(object);
        if let Some(to) = header.forwarding() {
            return Some(Forwarded {
                to,
                granules: 0,
                age: 0,
            });
        }
        let granules = self.granules(object, header, shapes);
        let to = reserve(granules)?;
        let bytes = (granules as usize - 1) * GRANULE_BYTES;
        // SAFETY: the object lies in an evacuated region with all its granules, and no thread writes to it (see the
        // module); `to` is room for as many granules that is this thread's alone. They do not overlap, since a region
        // that is copied to is not evacuated.
        unsafe {
            std::ptr::copy_nonoverlapping(self.payload(object), self.payload(to), bytes);
        }
        self.write_header(to, header.copied());
        let forwarded = Header::forwarded(to).0;
        let word = self.word(object.granule());
        match word.compare_exchange(header.0, forwarded, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(Forwarded {
                to,
                granules,
                age: header.copied().age(),
            }),
            Err(other) => {
                undo(to, granules);
                let to = Header(other).forwarding()?;
                Some(Forwarded {
                    to,
                    granules: 0,
                    age: 0,
                })
            }
        }
    }

    /// Walks over the objects of a region, from a granule on, as far as it is used: address, header, granules. Ends
    /// early when `visit` says so with `false`.
    pub fn walk(
        &self,
        from: u32,
        shapes: &mut Shapes,
        mut visit: impl FnMut(&mut Shapes, Addr, Header, u32) -> bool,
    ) {
        let region = (from / REGION_GRANULES) as usize;
        let end = first_granule(region) + self.regions.info(region).used();
        let mut at = from;
        while at < end {
            let Some(object) = Addr::new(at) else { return };
            let header = self.header(object);
            debug_assert!(header.forwarding().is_none(), "{object:?} was copied");
            let granules = self.granules(object, header, shapes);
            if header.type_index() != FILLER && !visit(shapes, object, header, granules) {
                return;
            }
            at += granules;
        }
    }

    /// Whether an object in a region that is in use is live, as far as the last collection knows.
    pub fn is_live(&self, object: Addr) -> bool {
        let flags = self.regions.info(object.region()).flags();
        !flags.has(Flags::MARKED) || self.marks.get(object.granule() as usize)
    }
}

/// The bytes of so many references in a row.
fn array_slots(first: usize, count: u32) -> impl Iterator<Item = usize> {
    (0..count as usize).map(move |i| first + i * size_of::<u32>())
}

/// What became of an object that was to be copied.
#[derive(Clone, Copy, Debug)]
pub struct Forwarded {
    /// The copy.
    pub to: Addr,
    /// Granules that were copied; 0 if it is another thread's copy.
    pub granules: u32,
    /// How often the object was copied by now.
    pub age: usize,
}

/// Bytes of a record without its header.
pub fn record_bytes(references: u32, data_bytes: u32) -> usize {
    GRANULE_BYTES + references as usize * size_of::<u32>() + data_bytes as usize
}

/// Granules for an object of so many bytes, its header included.
#[inline]
pub fn granules_for(bytes: usize) -> u32 {
    1 + bytes.div_ceil(GRANULE_BYTES) as u32
}

/// Marks room as empty.
pub fn fill(space: &Space, at: Addr, granules: u32) {
    let bytes = (granules - 1) * GRANULE_BYTES as u32;
    space.write_header(at, Header::object(FILLER, bytes));
    space.cards.note_start(at);
}

/// A region that is filled from its start, by one thread at a time.
#[derive(Debug)]
pub struct Bump {
    region: Cell<usize>,
    top: Cell<u32>,
    end: Cell<u32>,
    flags: Flags,
    asker: Asker,
}

impl Bump {
    /// None yet; regions get these flags.
    pub fn new(flags: Flags, asker: Asker) -> Self {
        Self {
            region: Cell::new(0),
            top: Cell::new(0),
            end: Cell::new(0),
            flags,
            asker,
        }
    }

    /// Room for so many granules, if the region has it.
    #[inline]
    pub fn reserve_here(&self, granules: u32) -> Option<Addr> {
        let at = self.top.get();
        if granules > self.end.get() - at {
            return None;
        }
        self.top.set(at + granules);
        Addr::new(at)
    }

    /// Room for so many granules, at most those of a region, in a new region where this one is full. `None` when there
    /// is no region.
    #[inline]
    pub fn reserve(&self, space: &Space, granules: u32) -> Option<Addr> {
        self.reserve_here(granules)
            .or_else(|| self.reserve_in_next(space, granules))
    }

    /// The same in a new region.
    #[cold]
    pub fn reserve_in_next(&self, space: &Space, granules: u32) -> Option<Addr> {
        debug_assert!(granules <= REGION_GRANULES);
        let region = space.regions.take(1, self.asker)?;
        self.retire(space);
        let mark = if self.flags.has(Flags::YOUNG) {
            UNTRACKED
        } else {
            CLEAN
        };
        space.cards.reset_region(region, mark);
        space.regions.open(region, 1, self.flags);
        self.region.set(region);
        let first = first_granule(region);
        self.top.set(first + granules);
        self.end.set(first + REGION_GRANULES);
        Addr::new(first)
    }

    /// Goes on with the region that another one was filling.
    pub fn take_over(&self, other: &Self) {
        self.region.set(other.region.get());
        self.top.set(other.top.get());
        self.end.set(other.end.get());
        other.forget();
    }

    /// What was reserved last is not needed.
    pub fn undo(&self, at: Addr, granules: u32) {
        debug_assert_eq!(at.granule() + granules, self.top.get());
        self.top.set(at.granule());
    }

    /// Notes in the table how far the region is used.
    pub fn publish(&self, space: &Space) {
        let region = self.region.get();
        if region != 0 {
            let info = space.regions.info(region);
            let used = self.top.get() - first_granule(region);
            info.set_used(used);
            info.set_live(used);
        }
    }

    /// The region is not filled any further.
    pub fn retire(&self, space: &Space) {
        self.publish(space);
        self.forget();
    }

    /// The same for a region that is published already.
    pub fn forget(&self) {
        self.region.set(0);
        self.top.set(0);
        self.end.set(0);
    }
}
