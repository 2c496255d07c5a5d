//! Roots: references that are kept outside the heap, strong and weak.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::heap::Inner;
use crate::layout::Addr;
use crate::mutator::Mutator;
use crate::reference::{Ref, another_heap};
use crate::types::Managed;

/// Slots that are allocated together; they never move.
const BLOCK_SLOTS: usize = 512;

type Block = Arc<[AtomicU32; BLOCK_SLOTS]>;

/// Slots of references outside the heap. A slot of 0 refers to nothing.
#[derive(Debug, Default)]
pub struct SlotTable {
    state: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    blocks: Vec<Block>,
    free: Vec<u32>,
}

impl SlotTable {
    /// Takes a slot and lets it refer to an object.
    fn take(&self, object: Addr) -> (u32, Block) {
        let mut slots = self.state.lock();
        let number = slots.free.pop().unwrap_or_else(|| {
            let first = (slots.blocks.len() * BLOCK_SLOTS) as u32;
            let block = Arc::new([const { AtomicU32::new(0) }; BLOCK_SLOTS]);
            slots.blocks.push(block);
            slots
                .free
                .extend((first + 1..first + BLOCK_SLOTS as u32).rev());
            first
        });
        let block = Arc::clone(&slots.blocks[number as usize / BLOCK_SLOTS]);
        block[number as usize % BLOCK_SLOTS].store(object.granule(), Ordering::Release);
        (number, block)
    }

    fn give_back(&self, number: u32) {
        let mut slots = self.state.lock();
        let block = &slots.blocks[number as usize / BLOCK_SLOTS];
        block[number as usize % BLOCK_SLOTS].store(0, Ordering::Release);
        slots.free.push(number);
    }

    /// All blocks there are now.
    pub fn blocks(&self) -> Vec<Block> {
        self.state.lock().blocks.clone()
    }

    /// Slots that are taken.
    pub fn len(&self) -> usize {
        let slots = self.state.lock();
        slots.blocks.len() * BLOCK_SLOTS - slots.free.len()
    }
}

/// One slot of a table of a heap; given back on drop.
struct Slot {
    heap: Arc<Inner>,
    number: u32,
    block: Block,
    table: fn(&Inner) -> &SlotTable,
}

impl Slot {
    fn new(mutator: &Mutator, object: Addr, table: fn(&Inner) -> &SlotTable) -> Self {
        let heap = Arc::clone(mutator.heap());
        let (number, block) = table(&heap).take(object);
        Self {
            heap,
            number,
            block,
            table,
        }
    }

    fn raw(&self) -> &AtomicU32 {
        &self.block[self.number as usize % BLOCK_SLOTS]
    }

    fn check(&self, mutator: &Mutator) {
        if !Arc::ptr_eq(&self.heap, mutator.heap()) {
            another_heap();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        (self.table)(&self.heap).give_back(self.number);
    }
}

/// Keeps an object alive, wherever it moves. Any thread may hold it; it is used through a mutator. Dropping it lets
/// the object go.
pub struct Root<T: Managed> {
    slot: Slot,
    of: PhantomData<fn(*const T) -> *const T>,
}

impl<T: Managed> fmt::Debug for Root<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Root({})", self.slot.number)
    }
}

impl<T: Managed> Root<T> {
    pub(crate) fn new(mutator: &Mutator, object: Ref<'_, T>) -> Self {
        Self {
            slot: Slot::new(mutator, object.addr(mutator), Inner::roots),
            of: PhantomData,
        }
    }

    /// The object.
    ///
    /// # Panics
    /// The mutator is of another heap.
    #[inline]
    #[must_use]
    pub fn get<'m>(&self, mutator: &'m Mutator) -> Ref<'m, T> {
        self.slot.check(mutator);
        let raw = self.slot.raw();
        let Some(object) = Addr::new(raw.load(Ordering::Acquire)) else {
            unreachable!("a root refers to an object until it is dropped");
        };
        // SAFETY: the slot was given an object of type `T` of this heap, and keeps it alive; `loaded` follows it.
        #[allow(unsafe_code)]
        unsafe {
            Ref::new(mutator, mutator.loaded(object, raw))
        }
    }

    /// Keeps another object alive from now on, in place of this one.
    ///
    /// # Panics
    /// The mutator or the object is of another heap.
    pub fn set(&self, mutator: &Mutator, object: Ref<'_, T>) {
        self.slot.check(mutator);
        let object = object.addr(mutator);
        self.slot.raw().store(object.granule(), Ordering::Release);
    }
}

/// Refers to an object without keeping it alive.
pub struct Weak<T: Managed> {
    slot: Slot,
    of: PhantomData<fn() -> *const T>,
}

impl<T: Managed> fmt::Debug for Weak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weak({})", self.slot.number)
    }
}

impl<T: Managed> Weak<T> {
    pub(crate) fn new(mutator: &Mutator, object: Ref<'_, T>) -> Self {
        Self {
            slot: Slot::new(mutator, object.addr(mutator), Inner::weaks),
            of: PhantomData,
        }
    }

    /// The object, unless it was collected.
    ///
    /// # Panics
    /// The mutator is of another heap.
    #[must_use]
    pub fn get<'m>(&self, mutator: &'m Mutator) -> Option<Ref<'m, T>> {
        self.slot.check(mutator);
        let raw = self.slot.raw();
        let object = Addr::new(raw.load(Ordering::Acquire))?;
        let object = mutator.loaded_weak(object, raw)?;
        // SAFETY: the slot was given an object of type `T` of this heap, and is emptied before its room is used
        // again; `loaded_weak` follows the object and finds it live.
        #[allow(unsafe_code)]
        Some(unsafe { Ref::new(mutator, object) })
    }
}
