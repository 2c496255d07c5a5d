//! Mutators: threads that use the heap.
#![allow(unsafe_code)] // New objects are written to memory that was reserved for them.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::array::{Bytes, Record, Refs};
use crate::collector::Kind;
use crate::config::Collector;
use crate::error::{AllocError, HeapError};
use crate::header::Header;
use crate::heap::Inner;
use crate::layout::{Addr, GRANULE_BYTES, LARGE_GRANULES, REGION_GRANULES};
use crate::reference::{Ref, another_heap};
use crate::regions::{Asker, Flags};
use crate::roots::{Root, Weak};
use crate::space::{Bump, Space, granules_for, record_bytes};
use crate::types::{self, Managed, Object};

thread_local! {
    /// Heaps that this thread has a mutator of, by address.
    static ATTACHED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread has a mutator of a heap.
pub fn is_attached(heap: &Inner) -> bool {
    let heap = std::ptr::from_ref(heap).addr();
    ATTACHED.with_borrow(|attached| attached.contains(&heap))
}

/// One thread's access to a heap.
///
/// Objects move, and collections begin and end, only while all mutators are at safepoints: in [`Self::safepoint`],
/// [`Self::blocking`] and [`Self::collect`]. These borrow the mutator mutably, so that the compiler refuses a [`Ref`]
/// that is kept across one; what is to be kept is made a [`Root`]. Allocation is no safepoint.
///
/// A thread calls [`Self::safepoint`] often, as once for each request or turn of a loop: a collection, and with it all
/// other mutators, waits for it for a moment. Around whatever may block it uses [`Self::blocking`].
#[derive(Debug)]
pub struct Mutator {
    heap: Arc<Inner>,
    bump: Bump,
    /// For objects that Marvin may swap out.
    swappable: Bump,
    /// From so many granules on objects are swappable.
    swappable_from: u32,
    /// Why the read barrier has something to do: a copy of [`Inner::barrier`], which changes only at safepoints.
    barrier: Cell<u8>,
    /// Collections that had begun when this mutator last looked.
    flips: Cell<u64>,
    /// Belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Mutator {
    pub(crate) fn new(heap: Arc<Inner>) -> Result<Self, HeapError> {
        if is_attached(&heap) {
            return Err(HeapError::Attached);
        }
        let address = Arc::as_ptr(&heap).addr();
        ATTACHED.with_borrow_mut(|attached| attached.push(address));
        heap.world.enter();
        let swappable_from = match heap.config.collector {
            Collector::Marvin(marvin) => granules_for(marvin.least_bytes.min(u32::MAX as usize)),
            _ => u32::MAX,
        };
        let mutator = Self {
            heap,
            bump: Bump::new(Flags::YOUNG, Asker::Mutator),
            swappable: Bump::new(Flags::YOUNG.with(Flags::SWAPPABLE), Asker::Mutator),
            swappable_from,
            barrier: Cell::new(0),
            flips: Cell::new(0),
            thread: PhantomData,
        };
        mutator.resume();
        Ok(mutator)
    }

    /// What the heap's parts share.
    #[inline]
    pub(crate) fn heap(&self) -> &Arc<Inner> {
        &self.heap
    }

    #[inline]
    pub(crate) fn space(&self) -> &Space {
        &self.heap.space
    }

    // ---- safepoints ----

    /// Lets a collection begin or end, if one wants to. Costs one load when none does.
    #[inline]
    pub fn safepoint(&mut self) {
        let heap = &*self.heap;
        if heap.world.is_requested() | heap.limits.is_stalling() | heap.config.stress {
            self.rest_at_safepoint();
        }
    }

    #[cold]
    fn rest_at_safepoint(&mut self) {
        if self.heap.config.stress {
            let heap = Arc::clone(&self.heap);
            self.blocking(|| heap.control.collect_next());
        }
        let begin = Instant::now();
        self.rest();
        let has_stalled = self.heap.wait_while_full();
        self.heap.world.enter();
        self.resume();
        let stats = &self.heap.stats;
        let times = if has_stalled {
            &stats.stalls
        } else {
            &stats.pauses
        };
        times.record(begin.elapsed().as_nanos() as u64);
    }

    /// Runs something that may block or take long and does not use this mutator. Collections go on meanwhile.
    pub fn blocking<R>(&mut self, run: impl FnOnce() -> R) -> R {
        /// Takes the mutator back when `run` panics, too.
        struct Resume<'a>(&'a Mutator);
        impl Drop for Resume<'_> {
            fn drop(&mut self) {
                let heap = &self.0.heap;
                let begin = Instant::now();
                if heap.world.enter() {
                    let waited = begin.elapsed();
                    heap.stats.pauses.record(waited.as_nanos() as u64);
                }
                self.0.resume();
            }
        }
        self.rest();
        let _resume = Resume(self);
        run()
    }

    /// Collects garbage now, and waits for the end of it.
    pub fn collect(&mut self, kind: Kind) {
        let heap = Arc::clone(&self.heap);
        self.blocking(|| heap.control.collect(kind));
    }

    fn rest(&self) {
        self.bump.publish(self.space());
        self.swappable.publish(self.space());
        self.heap.world.leave();
    }

    /// After a rest: sees what changed.
    fn resume(&self) {
        let flips = self.heap.flips();
        if self.flips.replace(flips) != flips {
            // The region may be one that is evacuated.
            self.bump.forget();
            self.swappable.forget();
        }
        self.barrier.set(self.heap.barrier.load(Ordering::Acquire));
    }

    // ---- allocation ----

    /// Allocates an object. Its references are empty at first.
    ///
    /// # Errors
    /// [`AllocError::Full`]; the value is dropped.
    #[inline]
    pub fn alloc<T: Object>(&self, value: T) -> Result<Ref<'_, T>, AllocError> {
        // Before the room is reserved: a type that is one too many panics.
        let header = Header::object(T::type_index(), 0);
        let object = self.reserve(granules_for(size_of::<T>()))?;
        // SAFETY: the room is this thread's alone until the address is published, large enough for a `T` behind the
        // header, and aligned to 8, which is all that `T` may ask for (see `types::register`).
        unsafe { self.space().write_object(object, header, value) };
        // SAFETY: a live object of type `T`; its region is not evacuated before this mutator's next safepoint.
        Ok(unsafe { Ref::new(self, object) })
    }

    /// Allocates an array of so many empty references.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn alloc_refs<T: Managed>(&self, len: usize) -> Result<Ref<'_, Refs<T>>, AllocError> {
        let bytes = len.saturating_mul(size_of::<u32>());
        let object = self.alloc_zeroed(types::REFERENCES, len, bytes)?;
        // SAFETY: an array of references, all empty, which are ones of any type.
        Ok(unsafe { Ref::new(self, object) })
    }

    /// Allocates a copy of bytes.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn alloc_bytes(&self, content: &[u8]) -> Result<Ref<'_, Bytes>, AllocError> {
        let object = self.reserve_bytes(content.len())?;
        let (space, len) = (self.space(), content.len());
        let payload = space.payload(object);
        let whole = len.next_multiple_of(GRANULE_BYTES);
        // SAFETY: the room is this thread's alone until the address is published, and has `whole` bytes behind the
        // header. What is left of the last granule is zeroed, so that the page does not keep what was there.
        unsafe {
            std::ptr::copy_nonoverlapping(content.as_ptr(), payload, len);
            payload.add(len).write_bytes(0, whole - len);
        }
        space.write_header(object, Header::object(types::BYTES, len as u32));
        // SAFETY: a byte array of that length.
        Ok(unsafe { Ref::new(self, object) })
    }

    /// Allocates a record with so many empty references and so many zero bytes of data.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn alloc_record(
        &self,
        references: usize,
        data_bytes: usize,
    ) -> Result<Ref<'_, Record>, AllocError> {
        let all = references
            .saturating_mul(size_of::<u32>())
            .saturating_add(data_bytes);
        let too_large = AllocError::TooLarge { bytes: all };
        let count = u32::try_from(references).map_err(|_| too_large)?;
        let data = u32::try_from(data_bytes).map_err(|_| too_large)?;
        let object = self.alloc_zeroed(types::RECORD, 0, record_bytes(count, data))?;
        let first = u64::from(count) | u64::from(data) << 32;
        // SAFETY: the first word of the content, which is this thread's alone until the address is published.
        unsafe { self.space().payload(object).cast::<u64>().write(first) };
        // SAFETY: a record of that shape, with empty references.
        Ok(unsafe { Ref::new(self, object) })
    }

    fn alloc_zeroed(&self, kind: u16, length: usize, bytes: usize) -> Result<Addr, AllocError> {
        let object = self.reserve_bytes(bytes)?;
        let whole = bytes.next_multiple_of(GRANULE_BYTES);
        // SAFETY: the room is this thread's alone until the address is published, and has `whole` bytes behind the
        // header.
        unsafe { self.space().payload(object).write_bytes(0, whole) };
        let header = Header::object(kind, length as u32);
        self.space().write_header(object, header);
        Ok(object)
    }

    fn reserve_bytes(&self, bytes: usize) -> Result<Addr, AllocError> {
        // The length in a header has 32 bits.
        let most = self.heap.config.max_bytes.min(u32::MAX as usize);
        if bytes > most {
            return Err(AllocError::TooLarge { bytes });
        }
        self.reserve(granules_for(bytes))
    }

    #[inline]
    fn reserve(&self, granules: u32) -> Result<Addr, AllocError> {
        if granules >= self.swappable_from {
            return self.reserve_swappable(granules);
        }
        if granules > LARGE_GRANULES {
            return self.reserve_elsewhere(granules);
        }
        match self.bump.reserve_here(granules) {
            Some(object) => Ok(object),
            None => self.reserve_elsewhere(granules),
        }
    }

    #[cold]
    fn reserve_swappable(&self, granules: u32) -> Result<Addr, AllocError> {
        let bytes = granules as usize * GRANULE_BYTES;
        if granules > LARGE_GRANULES {
            return self.reserve_elsewhere(granules);
        }
        let (space, bookmarks) = (self.space(), &self.heap.bookmarks);
        let object = match self.swappable.reserve_here(granules) {
            Some(object) => object,
            None => {
                if let Some(object) = bookmarks.reserve(space, granules) {
                    return Ok(object);
                }
                let object = self.swappable.reserve_in_next(space, granules);
                self.heap.note_growth(object.is_some());
                object.ok_or(AllocError::Full { bytes })?
            }
        };
        space.cards.note_start(object);
        bookmarks.add(object, granules);
        Ok(object)
    }

    #[cold]
    fn reserve_elsewhere(&self, granules: u32) -> Result<Addr, AllocError> {
        let bytes = granules as usize * GRANULE_BYTES;
        let space = self.space();
        let object = if granules > LARGE_GRANULES {
            reserve_large(space, granules)
        } else {
            self.bump.reserve_in_next(space, granules)
        };
        self.heap.note_growth(object.is_some());
        object.ok_or(AllocError::Full { bytes })
    }

    // ---- roots ----

    /// Keeps an object alive across safepoints.
    ///
    /// # Panics
    /// It is another heap's.
    #[must_use]
    pub fn root<T: Managed>(&self, object: Ref<'_, T>) -> Root<T> {
        Root::new(self, object)
    }

    /// Refers to an object without keeping it alive.
    ///
    /// # Panics
    /// It is another heap's.
    #[must_use]
    pub fn weak<T: Managed>(&self, object: Ref<'_, T>) -> Weak<T> {
        Weak::new(self, object)
    }

    /// Calls something once the object was collected, on the collector's thread. Not called when the heap is dropped.
    ///
    /// # Panics
    /// The object is another heap's.
    pub fn finaliser<T: Managed>(&self, object: Ref<'_, T>, run: impl FnOnce() + Send + 'static) {
        self.heap.add_finaliser(object.addr(self), Box::new(run));
    }

    // ---- barriers ----

    /// The write barrier: stores a reference and marks its card (section 5.2).
    #[inline]
    pub(crate) fn store(&self, slot: &AtomicU32, raw: u32) {
        let Some(byte) = self.space().byte_of(std::ptr::from_ref(slot).addr()) else {
            another_heap();
        };
        slot.store(raw, Ordering::Release);
        self.space().cards.mark(byte);
    }

    /// Marks the card of a reference that was just stored.
    pub(crate) fn mark_card(&self, slot: *const AtomicU32) {
        if let Some(byte) = self.space().byte_of(slot.addr()) {
            self.space().cards.mark(byte);
        }
    }

    /// Panics if a reference is in another heap.
    #[inline]
    pub(crate) fn check_field(&self, slot: *const AtomicU32) {
        if self.space().byte_of(slot.addr()).is_none() {
            another_heap();
        }
    }

    /// The read barrier: the object to use for one that was loaded from a slot.
    #[inline]
    pub(crate) fn loaded(&self, object: Addr, slot: &AtomicU32) -> Addr {
        if self.barrier.get() == 0 {
            object
        } else {
            self.heap.read_barrier(self.barrier.get(), object, slot)
        }
    }

    /// The same for a weak reference. `None`: the object is no more.
    pub(crate) fn loaded_weak(&self, object: Addr, slot: &AtomicU32) -> Option<Addr> {
        if self.barrier.get() == 0 {
            return Some(object);
        }
        self.heap.weak_barrier(self.barrier.get(), object, slot)
    }
}

/// Regions in a row for one object.
fn reserve_large(space: &Space, granules: u32) -> Option<Addr> {
    let count = granules.div_ceil(REGION_GRANULES) as usize;
    let first = space.regions.take(count, Asker::Mutator)?;
    for region in first..first + count {
        space.cards.reset_region(region, crate::cards::UNTRACKED);
    }
    space
        .regions
        .open(first, count, Flags::YOUNG.with(Flags::LARGE));
    space.regions.info(first).set_used(granules);
    let object = Addr::new(crate::layout::first_granule(first))?;
    space.cards.note_start(object);
    Some(object)
}

impl Drop for Mutator {
    fn drop(&mut self) {
        self.rest();
        let address = Arc::as_ptr(&self.heap).addr();
        // At the end of a thread its list may be gone already; then no thread asks any more.
        let _ = ATTACHED.try_with(|attached| attached.borrow_mut().retain(|&a| a != address));
    }
}
