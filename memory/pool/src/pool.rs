//! The pool itself.

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::budget::Budget;
use crate::entry::{Entry, LENGTH_BITS, Location, PAGES_BITS, Placed};
use crate::geometry::MAX_SLOT_BYTES;
use crate::handle::{Handle, HandleTable, NoHandle};
use crate::objects::Objects;
use crate::shared::{CHECKSUM_BYTES, Object, ObjectRef, PoolWide};
use crate::spans::NoSlot;
use crate::stats::{CompactionReport, Counters, PoolStats};
use crate::{ConfigError, PoolConfig};
use warmswap_page::PAGE_BYTES;

/// The largest object, in bytes, with size classes: 32 pages and room for a header. With two or three objects a page it is
/// 4,032.
pub const MAX_OBJECT_BYTES: usize = MAX_SLOT_BYTES - CHECKSUM_BYTES;
const _: () = assert!(MAX_OBJECT_BYTES < 1 << LENGTH_BITS);

/// The most pages that one object stands for.
pub const MAX_PAGES: u32 = 1 << PAGES_BITS;

/// What a load finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The bytes that were stored.
    Bytes(&'a [u8]),
    /// The word that fills the pages, in native byte order.
    Filled(u64),
}

/// What is known of a stored object without touching its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Pages that the object stands for.
    pub pages: u32,
    /// Bytes stored; 0 for same-filled pages.
    pub bytes: usize,
    /// Whether the pages are filled with one word.
    pub is_filled: bool,
    /// The page of the pool that it lies in, with up to two others; numbers are dense. `None` in the
    /// layout of size classes, and for same-filled pages that take no room.
    pub pool_page: Option<u32>,
}

/// Why a store was refused. The caller keeps its data, and nothing in the pool has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The limit would be passed; or it was, and too little has been freed since.
    #[error("the pool is full: {memory_bytes} of {limit_bytes} bytes held")]
    Full {
        /// Memory held, in bytes.
        memory_bytes: u64,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The object is larger than the pool's layout holds: see [`MAX_OBJECT_BYTES`].
    #[error("an object of {bytes} bytes is too large for the pool")]
    TooLarge {
        /// Bytes of the object.
        bytes: usize,
    },
    /// The object is larger than the configured part of its pages.
    #[error("an object of {bytes} bytes for {pages} pages did not shrink enough")]
    Incompressible {
        /// Bytes of the object.
        bytes: usize,
        /// Pages that it stands for.
        pages: u32,
    },
    /// The object is empty, or stands for no page or more than [`MAX_PAGES`].
    #[error("an object of {bytes} bytes for {pages} pages is not valid")]
    Invalid {
        /// Bytes of the object.
        bytes: usize,
        /// Pages that it was said to stand for.
        pages: u32,
    },
    /// The kernel gave no memory, or there are no more handles.
    #[error("no memory for the pool: errno {errno}")]
    OutOfMemory {
        /// The error number of the kernel.
        errno: i32,
    },
}

/// Why an object cannot be loaded, or a handle not be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The handle names no object.
    #[error("handle {0} names no stored object")]
    UnknownHandle(Handle),
    /// The object is not what was stored: memory was overwritten, or failed.
    #[error(
        "handle {handle}: the {bytes} bytes at {address:#x} have checksum {found:#010x}, \
         not {expected:#010x}"
    )]
    Corrupt {
        /// The object's handle.
        handle: Handle,
        /// Where its bytes lie.
        address: usize,
        /// How many they are.
        bytes: usize,
        /// The checksum of what was stored.
        expected: u32,
        /// The checksum of what is there.
        found: u32,
    },
}

/// A compressed pool in the memory of this process, for any number of threads.
///
/// State per object: an 8-byte entry, 4 bytes to find the entry from the slot, and about 2 bytes
/// for its share of the span's map and lock; less than 16 bytes a page, however small the chunks.
///
/// See the [crate] documentation for the layout and the order of locks.
#[derive(Debug)]
pub struct Pool {
    config: PoolConfig,
    budget: Budget,
    handles: HandleTable,
    objects: Objects,
    counters: Counters,
}

impl Pool {
    /// An empty pool. It holds about 200 KiB with size classes, and 10 KiB with another layout.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for percentages that are not 1 to 100, and for a limit that does not hold
    /// an empty pool.
    pub fn new(config: PoolConfig) -> Result<Pool, ConfigError> {
        let percents = [
            ("resume_percent", config.resume_percent),
            ("accept_percent", config.accept_percent),
        ];
        for (field, percent) in percents {
            if !(1..=100).contains(&percent) {
                return Err(ConfigError::Percent { field, percent });
            }
        }
        let objects = Objects::new(config.layout, config.verify);
        let minimum_bytes =
            (size_of::<Pool>() + objects.base_bytes() + HandleTable::BASE_BYTES) as u64;
        let limit_bytes = config.limit_bytes;
        let budget = Budget::new(limit_bytes, config.resume_percent);
        budget
            .charge(minimum_bytes)
            .map_err(|_| ConfigError::LimitTooSmall {
                limit_bytes,
                minimum_bytes,
            })?;
        Ok(Pool {
            config,
            budget,
            handles: HandleTable::new(),
            objects,
            counters: Counters::default(),
        })
    }

    /// The configuration that the pool was made with.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Stores a copy of `bytes`, which stand for `pages` pages (1 to [`MAX_PAGES`]).
    ///
    /// Costs the copy, and new memory when no slot of the size is free.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; nothing is stored then.
    pub fn store(&self, bytes: &[u8], pages: u32) -> Result<Handle, Refusal> {
        let stored = self
            .check(bytes, pages)
            .and_then(|()| self.place(bytes, pages, false));
        self.count_store(stored, bytes, pages, false)
    }

    /// Stores `pages` pages (1 to [`MAX_PAGES`]) that are filled with `word`, in native order.
    ///
    /// Nearly always that takes a handle and no other memory, and works even when the pool is
    /// full; words that use more than 57 bits take a slot of the smallest class.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; nothing is stored then.
    pub fn store_filled(&self, word: u64, pages: u32) -> Result<Handle, Refusal> {
        let bytes = word.to_ne_bytes();
        let stored = if !(1..=MAX_PAGES).contains(&pages) {
            Err(Refusal::Invalid { bytes: 0, pages })
        } else if Entry::holds_word(word) {
            self.allocate_handle().inspect(|&handle| {
                if let Some(entry) = self.handles.entry(handle) {
                    entry.store(Entry::Filled { pages, word }.pack(), Ordering::Release);
                }
            })
        } else {
            self.place(&bytes, pages, true)
        };
        self.count_store(stored, &[], pages, true)
    }

    /// Calls `read` with the object's content, in place.
    ///
    /// `read` runs with the object's span locked against stores into it: it may decompress, but
    /// must not call back into the pool. Allocates nothing and blocks no other load.
    ///
    /// In a pool with checksums the object is checked after `read`, when it is in the processor's
    /// cache: ahead of it, it cost three times as much. What `read` makes of an object is to be
    /// used only when this returns.
    ///
    /// # Errors
    ///
    /// [`LoadError`]; what `read` gave is dropped then, if it was called: the object was damaged.
    pub fn load<R>(
        &self,
        handle: Handle,
        read: impl FnOnce(Content<'_>) -> R,
    ) -> Result<R, LoadError> {
        let unknown = LoadError::UnknownHandle(handle);
        let entry = self.handles.entry(handle).ok_or(unknown)?;
        loop {
            let raw = entry.load(Ordering::Acquire);
            let placed = match Entry::unpack(raw) {
                Entry::Free { .. } => return Err(unknown),
                Entry::Filled { word, .. } => {
                    self.counters.loads.add(1);
                    return Ok(read(Content::Filled(word)));
                }
                Entry::Placed(placed) => placed,
            };
            if let Some(object) = self.objects.lock_object(entry, raw, placed) {
                let bytes: &[u8] = &object;
                let result = read(match bytes.try_into() {
                    Ok(word) if placed.is_word => Content::Filled(u64::from_ne_bytes(word)),
                    _ => Content::Bytes(bytes),
                });
                self.verify(handle, &object)?;
                self.counters.loads.add(1);
                return Ok(result);
            }
        }
    }

    /// What is known of an object without touching its bytes.
    ///
    /// # Errors
    ///
    /// [`LoadError::UnknownHandle`].
    pub fn info(&self, handle: Handle) -> Result<ObjectInfo, LoadError> {
        let unknown = LoadError::UnknownHandle(handle);
        let entry = self.handles.entry(handle).ok_or(unknown)?;
        match Entry::unpack(entry.load(Ordering::Acquire)) {
            Entry::Free { .. } => Err(unknown),
            Entry::Filled { pages, .. } => Ok(ObjectInfo {
                pages,
                bytes: 0,
                is_filled: true,
                pool_page: None,
            }),
            Entry::Placed(placed) => Ok(ObjectInfo {
                pool_page: self.objects.page_of(placed),
                pages: placed.pages,
                bytes: if placed.is_word {
                    0
                } else {
                    placed.length as usize
                },
                is_filled: placed.is_word,
            }),
        }
    }

    /// Frees an object. Its handle may be given out again at once.
    ///
    /// # Errors
    ///
    /// [`LoadError::UnknownHandle`].
    pub fn free(&self, handle: Handle) -> Result<(), LoadError> {
        let unknown = LoadError::UnknownHandle(handle);
        let entry = self.handles.entry(handle).ok_or(unknown)?;
        let (pages, bytes, is_filled) = loop {
            let raw = entry.load(Ordering::Acquire);
            match Entry::unpack(raw) {
                Entry::Free { .. } => return Err(unknown),
                Entry::Filled { pages, .. } => {
                    let free = Entry::Free { next: 0 }.pack();
                    let swapped =
                        entry.compare_exchange(raw, free, Ordering::AcqRel, Ordering::Relaxed);
                    if swapped.is_ok() {
                        break (pages, 0, true);
                    }
                }
                Entry::Placed(placed) => {
                    let freed = self.objects.free(self.shared(), handle, placed.length);
                    if let Some(freed) = freed {
                        let bytes = if freed.is_word { 0 } else { freed.length };
                        break (freed.pages, u64::from(bytes), freed.is_word);
                    }
                }
            }
        };
        self.handles.release(handle);
        let counters = &self.counters;
        counters.frees.add(1);
        counters.stored_objects.sub(1);
        counters.stored_pages.sub(u64::from(pages));
        counters.compressed_bytes.sub(bytes);
        counters.same_filled_objects.sub(u64::from(is_filled));
        counters
            .raw_objects
            .sub(u64::from(is_raw(bytes as usize, pages)));
        Ok(())
    }

    /// Moves objects out of the emptiest spans until nothing is left to gain, or `max_objects`
    /// were moved, and gives the empty spans back to the kernel. With two or three objects a page
    /// nothing is moved.
    ///
    /// Loads go on meanwhile; stores and frees of one size class wait while one span is emptied.
    pub fn compact(&self, max_objects: u64) -> CompactionReport {
        let mut report = self.objects.compact(self.shared(), max_objects);
        report.released_bytes += self.drop_cached();
        self.counters.compactions.add(1);
        self.counters.moved_objects.add(report.moved_objects);
        self.counters.compacted_spans.add(report.emptied_spans);
        report
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            memory_bytes: self.budget.held_bytes(),
            peak_memory_bytes: self.budget.peak_bytes(),
            limit_bytes: self.budget.limit_bytes(),
            ..self.counters.snapshot()
        }
    }

    /// Whether a store of `bytes` for `pages` pages is acceptable at all, and now.
    fn check(&self, bytes: &[u8], pages: u32) -> Result<(), Refusal> {
        let len = bytes.len();
        if len == 0 || !(1..=MAX_PAGES).contains(&pages) {
            return Err(Refusal::Invalid { bytes: len, pages });
        }
        if len > self.objects.max_bytes() {
            return Err(Refusal::TooLarge { bytes: len });
        }
        let accepted = pages as usize * PAGE_BYTES * usize::from(self.config.accept_percent);
        // At 100 %, larger than the pages is fine too: a header may have been added.
        if self.config.accept_percent < 100 && len * 100 > accepted {
            return Err(Refusal::Incompressible { bytes: len, pages });
        }
        Ok(())
    }

    /// Puts valid `bytes` in a slot.
    fn place(&self, bytes: &[u8], pages: u32, is_word: bool) -> Result<Handle, Refusal> {
        // Empty spans that are merely kept for reuse must not keep the pool full.
        if !self.budget.accepts() && (self.drop_cached() == 0 || !self.budget.accepts()) {
            return Err(self.full());
        }
        let handle = self.allocate_handle()?;
        let object = Object {
            bytes,
            checksum: self.config.verify.then(|| checksum(bytes)),
        };
        let length = bytes.len() as u32;
        let placed = Placed {
            pages,
            length,
            location: Location { span: 0, slot: 0 },
            is_word,
        };
        let store = || self.objects.store(self.shared(), handle, placed, object);
        let stored = match store() {
            // Empty spans of other classes may be all that is in the way.
            Err(NoSlot::OverLimit) if self.drop_cached() > 0 => store(),
            stored => stored,
        };
        stored.map(|()| handle).map_err(|no_slot| {
            self.handles.release(handle);
            match no_slot {
                NoSlot::OverLimit => self.full(),
                NoSlot::OutOfMemory(errno) => out_of_memory(errno),
            }
        })
    }

    fn allocate_handle(&self) -> Result<Handle, Refusal> {
        self.handles
            .allocate(&self.budget)
            .map_err(|no_handle| match no_handle {
                NoHandle::OverLimit => self.full(),
                NoHandle::Exhausted => out_of_memory(Errno::NOMEM),
            })
    }

    /// Notes and describes that the limit refuses a store.
    fn full(&self) -> Refusal {
        self.budget.set_full();
        Refusal::Full {
            memory_bytes: self.budget.held_bytes(),
            limit_bytes: self.budget.limit_bytes(),
        }
    }

    fn count_store(
        &self,
        stored: Result<Handle, Refusal>,
        bytes: &[u8],
        pages: u32,
        is_filled: bool,
    ) -> Result<Handle, Refusal> {
        let counters = &self.counters;
        match &stored {
            Ok(_) => {
                counters.stores.add(1);
                counters.stored_objects.add(1);
                counters.stored_pages.add(u64::from(pages));
                counters.compressed_bytes.add(bytes.len() as u64);
                counters.same_filled_objects.add(u64::from(is_filled));
                counters
                    .raw_objects
                    .add(u64::from(is_raw(bytes.len(), pages)));
            }
            Err(refusal) => counters.count_refusal(refusal),
        }
        stored
    }

    /// Checks the checksum of an object, if there is one.
    fn verify(&self, handle: Handle, object: &ObjectRef<'_>) -> Result<(), LoadError> {
        let bytes: &[u8] = object;
        if !self.config.verify {
            return Ok(());
        }
        let (expected, found) = (object.checksum(), checksum(bytes));
        if found == expected {
            return Ok(());
        }
        self.counters.corrupt_loads.add(1);
        Err(LoadError::Corrupt {
            handle,
            address: bytes.as_ptr().addr(),
            bytes: bytes.len(),
            expected,
            found,
        })
    }

    /// Gives the empty memory that was kept back to the kernel; the bytes of it.
    fn drop_cached(&self) -> u64 {
        if self.counters.cached_bytes.get() == 0 {
            return 0;
        }
        self.objects.drop_cached(self.shared())
    }

    fn shared(&self) -> PoolWide<'_> {
        PoolWide {
            budget: &self.budget,
            handles: &self.handles,
            cached_bytes: &self.counters.cached_bytes,
            cache_bytes: self.config.cache_bytes,
            returns_spans: self.config.returns_spans,
        }
    }
}

fn is_raw(bytes: usize, pages: u32) -> bool {
    bytes >= pages as usize * PAGE_BYTES
}

fn out_of_memory(errno: Errno) -> Refusal {
    Refusal::OutOfMemory {
        errno: errno.raw_os_error(),
    }
}

/// CRC-32 (IEEE): a tenth of what decompression takes, with the processor's carry-less multiplication.
fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests;
