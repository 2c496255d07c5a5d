//! Where chunks are: in the pool or in the backing file, read without the engine.
//!
//! A chunk's *place* is one atomic word. Who reads a chunk holds a page of it (so the chunk is not freed) and
//! is counted among its readers (so that a write-back does not free the pool's copy under them).
//!
//! A chunk of several pages begins with their numbers (4 bytes each), so that a fault knows its neighbours
//! without any table; a chunk of one page, or filled with one word, does not.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use warmswap_backing::{Backing, BackingError, RecordId};
use warmswap_codec::{ChunkPlan, Codec};
use warmswap_policy::ChunkId;
use warmswap_pool::{Content, Handle, LoadError, Pool, Refusal};
use warmswap_sys::uffd::AtomicTable;

/// What a chunk holds.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// How it is encoded.
    pub plan: ChunkPlan,
    /// How many pages.
    pub pages: usize,
    /// Their numbers, 4 bytes each, little-endian; empty when they are not recorded.
    pub members: &'a [u8],
    /// What they hold.
    pub body: Body<'a>,
}

/// The content of a chunk's pages.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// An encoded object.
    Object(&'a [u8]),
    /// This word all over.
    Filled(u64),
}

/// Bytes of a page's number in a chunk.
pub const MEMBER_BYTES: usize = 4;

/// Bytes before the object of a chunk of so many pages.
pub const fn prefix_bytes(pages: usize) -> usize {
    if pages > 1 { pages * MEMBER_BYTES } else { 0 }
}

/// Why a chunk cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The pool's copy is damaged, or gone.
    #[error(transparent)]
    Pool(#[from] LoadError),
    /// The record is damaged, or the file cannot be read.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// There is no such chunk, or it makes no sense.
    #[error("chunk {0} is not stored")]
    NotStored(u32),
}

/// A place, taken apart.
#[derive(Clone, Copy, Debug)]
struct At {
    is_backing: bool,
    is_filled: bool,
    plan: ChunkPlan,
    pages: usize,
    /// The pool's handle, or 0.
    handle: u32,
}

const BACKING: u64 = 1 << 1;
const FILLED: u64 = 1 << 2;

impl At {
    fn pack(self) -> u64 {
        let flags =
            1 | if self.is_backing { BACKING } else { 0 } | if self.is_filled { FILLED } else { 0 };
        flags
            | (self.plan.codec() as u64) << 3
            | u64::from(self.plan.chunk_bytes().trailing_zeros()) << 6
            | (self.pages as u64 - 1) << 11
            | u64::from(self.handle) << 32
    }

    fn unpack(raw: u64) -> Option<Self> {
        if raw & 1 == 0 {
            return None;
        }
        let codec = Codec::from_u8((raw >> 3 & 7) as u8)?;
        Some(Self {
            is_backing: raw & BACKING != 0,
            is_filled: raw & FILLED != 0,
            plan: ChunkPlan::new(codec, 1 << (raw >> 6 & 31)).ok()?,
            pages: pages_of(raw),
            handle: (raw >> 32) as u32,
        })
    }
}

const fn pages_of(raw: u64) -> usize {
    (raw >> 11 & 31) as usize + 1
}

/// All chunks: in the pool, or in the backing file.
#[derive(Debug)]
pub struct Store {
    pub pool: Pool,
    pub backing: Option<Backing>,
    places: AtomicTable<AtomicU64>,
    readers: AtomicTable<AtomicU32>,
    /// Records of the chunks whose place says that they are in the backing file; with one only.
    records: Option<AtomicTable<AtomicU64>>,
}

impl Store {
    /// An empty store for chunks with numbers below `chunks`.
    pub fn new(
        pool: Pool,
        backing: Option<Backing>,
        chunks: usize,
    ) -> Result<Self, std::io::Error> {
        let records = backing.is_some().then(|| AtomicTable::new(chunks));
        Ok(Self {
            pool,
            backing,
            records: records.transpose()?,
            places: AtomicTable::new(chunks)?,
            readers: AtomicTable::new(chunks)?,
        })
    }

    /// Bytes of state for each chunk.
    pub fn bytes_per_chunk(&self) -> usize {
        let record = if self.records.is_some() { 8 } else { 0 };
        size_of::<u64>() + size_of::<u32>() + record
    }

    /// Bytes of the backing file in use.
    pub fn backing_bytes(&self) -> u64 {
        self.backing
            .as_ref()
            .map_or(0, |backing| backing.stats().live_bytes)
    }

    fn record(&self, chunk: ChunkId) -> Option<RecordId> {
        let cell = self.records.as_ref()?.get(chunk.index())?;
        Some(RecordId::from_bits(cell.load(Ordering::SeqCst)))
    }

    /// Before the place says that there is one.
    fn set_record(&self, chunk: ChunkId, id: RecordId) {
        if let Some(cell) = self
            .records
            .as_ref()
            .and_then(|records| records.get(chunk.index()))
        {
            cell.store(id.to_bits(), Ordering::SeqCst);
        }
    }

    fn place(&self, chunk: ChunkId) -> Result<(&AtomicU64, &AtomicU32), StoreError> {
        let index = chunk.index();
        self.places
            .get(index)
            .zip(self.readers.get(index))
            .ok_or(StoreError::NotStored(chunk.0))
    }

    /// How many pages a chunk holds: exact for who holds a page of it, a guess for others. 1 for unknown ones.
    pub fn pages(&self, chunk: ChunkId) -> usize {
        let place = self.places.get(chunk.index());
        let raw = place.map_or(0, |place| place.load(Ordering::Acquire));
        if raw & 1 == 0 { 1 } else { pages_of(raw) }
    }

    /// Reads a chunk of which the caller holds a page. `record` is room for a record of the backing file; it
    /// is not made larger when it has the capacity.
    pub fn read<R>(
        &self,
        chunk: ChunkId,
        record: &mut Vec<u8>,
        read: impl FnOnce(Chunk<'_>) -> R,
    ) -> Result<R, StoreError> {
        let (place, readers) = self.place(chunk)?;
        if self.backing.is_none() {
            return self.read_at(chunk, place.load(Ordering::SeqCst), record, read);
        }
        // A write-back changes the place first and looks for readers afterwards.
        readers.fetch_add(1, Ordering::SeqCst);
        let result = self.read_at(chunk, place.load(Ordering::SeqCst), record, read);
        readers.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn read_at<R>(
        &self,
        chunk: ChunkId,
        place: u64,
        record: &mut Vec<u8>,
        read: impl FnOnce(Chunk<'_>) -> R,
    ) -> Result<R, StoreError> {
        let missing = StoreError::NotStored(chunk.0);
        let Some(at) = At::unpack(place) else {
            return Err(missing);
        };
        if !at.is_backing {
            let handle = Handle::from_number(at.handle).ok_or(missing)?;
            return Ok(self.pool.load(handle, |content| match content {
                Content::Bytes(bytes) => read(chunk_of(at, bytes)),
                Content::Filled(word) => read(filled(at, word)),
            })?);
        }
        let (Some(id), Some(backing)) = (self.record(chunk), &self.backing) else {
            return Err(missing);
        };
        backing.read(id, record)?;
        if at.is_filled {
            let word = record.first_chunk().ok_or(missing)?;
            return Ok(read(filled(at, u64::from_le_bytes(*word))));
        }
        Ok(read(chunk_of(at, record)))
    }

    /// Puts a chunk into the pool: bytes stored, and the pool's page, where its layout is one of pages. The
    /// content is the chunk's members and its object.
    pub fn put(
        &self,
        chunk: ChunkId,
        plan: ChunkPlan,
        pages: usize,
        content: Content<'_>,
    ) -> Result<(usize, Option<u32>), Refusal> {
        let (handle, bytes) = match content {
            Content::Filled(word) => (self.pool.store_filled(word, pages as u32)?, 0),
            Content::Bytes(bytes) => (self.pool.store(bytes, pages as u32)?, bytes.len()),
        };
        let at = At {
            is_backing: false,
            is_filled: matches!(content, Content::Filled(_)),
            plan,
            pages,
            handle: handle.get(),
        };
        let Some(place) = self.places.get(chunk.index()) else {
            let _ = self.pool.free(handle);
            return Err(Refusal::OutOfMemory { errno: 0 });
        };
        place.store(at.pack(), Ordering::SeqCst);
        // The handle was given out just now.
        let pool_page = self.pool.info(handle).ok().and_then(|info| info.pool_page);
        Ok((bytes, pool_page))
    }

    /// Puts a page as it is into the backing file.
    pub fn put_raw(&self, chunk: ChunkId, page: &[u8]) -> Result<(), StoreError> {
        let missing = StoreError::NotStored(chunk.0);
        let (Ok((place, _)), Some(backing)) = (self.place(chunk), &self.backing) else {
            return Err(missing);
        };
        let id = backing.append(page)?;
        self.set_record(chunk, id);
        let at = At {
            is_backing: true,
            is_filled: false,
            plan: ChunkPlan::page(Codec::Lz4),
            pages: 1,
            handle: 0,
        };
        place.store(at.pack(), Ordering::SeqCst);
        Ok(())
    }

    /// Moves a chunk from the pool to the backing file. After an error it is in the pool as before.
    pub fn write_back(&self, chunk: ChunkId) -> Result<(), StoreError> {
        let missing = || StoreError::NotStored(chunk.0);
        let (place, readers) = self.place(chunk)?;
        let at = At::unpack(place.load(Ordering::SeqCst)).ok_or_else(missing)?;
        let handle = Handle::from_number(at.handle).ok_or_else(missing)?;
        let backing = self.backing.as_ref().ok_or_else(missing)?;
        // The bytes are copied first: no lock of the pool is held during output.
        let bytes = self.pool.load(handle, |content| match content {
            Content::Bytes(bytes) => bytes.to_vec(),
            Content::Filled(word) => word.to_le_bytes().to_vec(),
        })?;
        let id = backing.append(&bytes)?;
        self.set_record(chunk, id);
        let at = At {
            is_backing: true,
            handle: 0,
            ..at
        };
        place.store(at.pack(), Ordering::SeqCst);
        // Those who read the old place were counted before they did; later ones see the new place.
        while readers.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        Ok(self.pool.free(handle)?)
    }

    /// Frees a chunk, of which nobody holds a page.
    pub fn free(&self, chunk: ChunkId) -> Result<(), StoreError> {
        let missing = || StoreError::NotStored(chunk.0);
        let (place, readers) = self.place(chunk)?;
        debug_assert_eq!(readers.load(Ordering::SeqCst), 0);
        let at = At::unpack(place.swap(0, Ordering::SeqCst)).ok_or_else(missing)?;
        if !at.is_backing {
            let handle = Handle::from_number(at.handle).ok_or_else(missing)?;
            return Ok(self.pool.free(handle)?);
        }
        let id = self.record(chunk).ok_or_else(missing)?;
        let backing = self.backing.as_ref().ok_or_else(missing)?;
        Ok(backing.free(id)?)
    }
}

fn chunk_of(at: At, bytes: &[u8]) -> Chunk<'_> {
    let (members, object) = bytes
        .split_at_checked(prefix_bytes(at.pages))
        .unwrap_or((&[], bytes));
    Chunk {
        plan: at.plan,
        pages: at.pages,
        members,
        body: Body::Object(object),
    }
}

fn filled(at: At, word: u64) -> Chunk<'static> {
    Chunk {
        plan: at.plan,
        pages: at.pages,
        members: &[],
        body: Body::Filled(word),
    }
}
