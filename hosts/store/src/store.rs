//! Where chunks are: in the pool or in the backing file.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use warmswap_backing::{Backing, RecordId};
use warmswap_codec::{ChunkPlan, Codec, Scratch};
use warmswap_engine::Refusal;
use warmswap_policy::ChunkId;
use warmswap_pool::{self as pool, Content, Handle, Pool};
use warmswap_uffd::AtomicTable;

use crate::chunk::Chunk;
use crate::chunk_word::{ChunkWord, mark_of, pages_of};
use crate::encoder::Encoded;
use crate::error::StoreError;
use crate::records::Records;

/// Share of the pool's memory that holds no object and makes compaction worth its time before a refusal, in percent.
const WASTE_WHEN_FULL_PERCENT: u64 = 5;

/// What storing a chunk took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Bytes in the pool; 0 for a chunk that is filled with one word.
    pub bytes: u32,
    /// The page of the pool that holds it, where its layout is one of pages with a few objects.
    pub pool_page: Option<u32>,
}

/// All chunks: in the pool, or in the backing file.
///
/// Where a chunk is stands in one atomic word. A reader sees to it that the chunk is not freed meanwhile (a host holds a page
/// of it), and is counted, so that a write-back does not free the pool's copy under it.
#[derive(Debug)]
pub struct ChunkStore<B = Backing> {
    /// Where chunks are at first.
    pub pool: Pool,
    /// Where they can be moved to.
    pub backing: Option<B>,
    words: AtomicTable<AtomicU64>,
    readers: AtomicTable<AtomicU32>,
    /// Records of the chunks whose location says that they are in the backing file; with one only.
    records: Option<AtomicTable<AtomicU64>>,
}

impl<B: Records> ChunkStore<B> {
    /// An empty store for chunks with numbers below `chunks`. Tables take memory as they are used.
    ///
    /// # Errors
    /// No address space for the tables.
    pub fn new(pool: Pool, backing: Option<B>, chunks: usize) -> Result<Self, std::io::Error> {
        let records = backing.is_some().then(|| AtomicTable::new(chunks));
        Ok(Self {
            pool,
            backing,
            records: records.transpose()?,
            words: AtomicTable::new(chunks)?,
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
        self.backing.as_ref().map_or(0, Records::live_bytes)
    }

    fn record(&self, chunk: ChunkId) -> Option<RecordId> {
        let cell = self.records.as_ref()?.get(chunk.index())?;
        Some(RecordId::from_bits(cell.load(Ordering::SeqCst)))
    }

    /// Before the location says that there is one.
    fn set_record(&self, chunk: ChunkId, id: RecordId) {
        let cell = self.records.as_ref().and_then(|r| r.get(chunk.index()));
        if let Some(cell) = cell {
            cell.store(id.to_bits(), Ordering::SeqCst);
        }
    }

    fn cells(&self, chunk: ChunkId) -> Result<(&AtomicU64, &AtomicU32), StoreError> {
        let index = chunk.index();
        let cells = self.words.get(index).zip(self.readers.get(index));
        cells.ok_or(StoreError::NotStored(chunk.0))
    }

    fn chunk_word(&self, chunk: ChunkId) -> Result<ChunkWord, StoreError> {
        let (location, _) = self.cells(chunk)?;
        ChunkWord::unpack(location.load(Ordering::SeqCst)).ok_or(StoreError::NotStored(chunk.0))
    }

    /// How many pages a chunk holds: exact for a caller that keeps it from being freed, a guess for others. 1 for unknown ones.
    pub fn pages(&self, chunk: ChunkId) -> usize {
        let location = self.words.get(chunk.index());
        location.map_or(1, |location| pages_of(location.load(Ordering::Acquire)))
    }

    /// Whether a chunk is in the backing file.
    ///
    /// # Errors
    /// [`StoreError::NotStored`].
    pub fn is_in_backing(&self, chunk: ChunkId) -> Result<bool, StoreError> {
        Ok(self.chunk_word(chunk)?.is_backing)
    }

    /// Bytes that a chunk takes where it is.
    ///
    /// # Errors
    /// [`StoreError::NotStored`].
    pub fn bytes(&self, chunk: ChunkId) -> Result<usize, StoreError> {
        let missing = StoreError::NotStored(chunk.0);
        let location = self.chunk_word(chunk)?;
        if !location.is_backing {
            let handle = Handle::from_number(location.handle).ok_or(missing)?;
            return Ok(self.pool.info(handle)?.bytes);
        }
        let (Some(id), Some(backing)) = (self.record(chunk), &self.backing) else {
            return Err(missing);
        };
        Ok(backing.bytes_of(id)?)
    }

    // ---- in ----

    /// Puts a chunk that was encoded into the pool, if need be after a compaction.
    ///
    /// # Errors
    /// [`Refusal::PoolFull`], [`Refusal::TooLarge`]; nothing has changed then.
    pub fn put(
        &self,
        chunk: ChunkId,
        encoded: Encoded,
        content: Content<'_>,
    ) -> Result<Stored, Refusal> {
        // First, so that nothing needs to be undone.
        let (cell, _) = self.cells(chunk).map_err(|_| Refusal::PoolFull)?;
        let stored = self.insert(content, encoded.pages).or_else(|refusal| {
            if !matches!(refusal, pool::Refusal::Full { .. })
                || !self.wastes(WASTE_WHEN_FULL_PERCENT)
            {
                return Err(refusal);
            }
            self.pool.compact(u64::MAX);
            self.insert(content, encoded.pages)
        });
        let handle = stored.map_err(|refusal| match refusal {
            pool::Refusal::Full { .. } | pool::Refusal::OutOfMemory { .. } => Refusal::PoolFull,
            pool::Refusal::TooLarge { .. }
            | pool::Refusal::Incompressible { .. }
            | pool::Refusal::Invalid { .. } => Refusal::TooLarge,
        })?;
        let location = ChunkWord {
            is_backing: false,
            is_filled: matches!(content, Content::Filled(_)),
            plan: encoded.plan,
            pages: encoded.pages,
            has_members: encoded.has_members,
            mark: encoded.mark,
            handle: handle.get(),
        };
        cell.store(location.pack(), Ordering::SeqCst);
        let bytes = match content {
            Content::Filled(_) => 0,
            Content::Bytes(bytes) => bytes.len() as u32,
        };
        // The handle was given out just now.
        let pool_page = self.pool.info(handle).ok().and_then(|info| info.pool_page);
        Ok(Stored { bytes, pool_page })
    }

    fn insert(&self, content: Content<'_>, pages: usize) -> Result<Handle, pool::Refusal> {
        match content {
            Content::Filled(word) => self.pool.store_filled(word, pages as u32),
            Content::Bytes(bytes) => self.pool.store(bytes, pages as u32),
        }
    }

    /// Whether more than so much of the pool's memory holds no object.
    pub fn wastes(&self, percent: u64) -> bool {
        let stats = self.pool.stats();
        stats.waste_bytes() * 100 > stats.memory_bytes * percent
    }

    /// Puts a page, of that number, as it is into the backing file.
    ///
    /// # Errors
    /// [`StoreError`]; nothing has changed then.
    pub fn put_raw(&self, chunk: ChunkId, number: u32, page: &[u8]) -> Result<(), StoreError> {
        let (cell, _) = self.cells(chunk)?;
        let backing = self.backing(chunk)?;
        self.set_record(chunk, backing.append(page)?);
        let location = ChunkWord {
            is_backing: true,
            is_filled: false,
            plan: ChunkPlan::page(Codec::Lz4),
            pages: 1,
            has_members: true,
            mark: mark_of(number),
            handle: 0,
        };
        cell.store(location.pack(), Ordering::SeqCst);
        Ok(())
    }

    fn backing(&self, chunk: ChunkId) -> Result<&B, StoreError> {
        self.backing.as_ref().ok_or(StoreError::NotStored(chunk.0))
    }

    // ---- out ----

    /// Reads a chunk that is not freed meanwhile. `record` is room for a record of the backing file; it is not made
    /// larger when it has the capacity.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn read<R>(
        &self,
        chunk: ChunkId,
        record: &mut Vec<u8>,
        read: impl FnOnce(Chunk<'_>) -> R,
    ) -> Result<R, StoreError> {
        let (_, readers) = self.cells(chunk)?;
        if self.backing.is_none() {
            return self.read_at(chunk, record, read);
        }
        // A write-back changes the location first and looks for readers afterwards.
        readers.fetch_add(1, Ordering::SeqCst);
        let result = self.read_at(chunk, record, read);
        readers.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn read_at<R>(
        &self,
        chunk: ChunkId,
        record: &mut Vec<u8>,
        read: impl FnOnce(Chunk<'_>) -> R,
    ) -> Result<R, StoreError> {
        let missing = StoreError::NotStored(chunk.0);
        let location = self.chunk_word(chunk)?;
        if !location.is_backing {
            let handle = Handle::from_number(location.handle).ok_or(missing)?;
            return self.pool.load(handle, |content| match content {
                Content::Bytes(bytes) => Ok(read(Chunk::new(chunk, location, bytes)?)),
                Content::Filled(word) => Ok(read(Chunk::filled(chunk, location, word))),
            })?;
        }
        let (Some(id), Some(backing)) = (self.record(chunk), &self.backing) else {
            return Err(missing);
        };
        backing.read(id, record)?;
        if location.is_filled {
            let bytes = record.len();
            let chunk_number = chunk.0;
            let word = record.first_chunk().ok_or(StoreError::Short {
                chunk: chunk_number,
                bytes,
            })?;
            return Ok(read(Chunk::filled(
                chunk,
                location,
                u64::from_le_bytes(*word),
            )));
        }
        Ok(read(Chunk::new(chunk, location, record)?))
    }

    /// Reads a chunk that is not freed meanwhile and decodes it to the front of `out`; how many pages these are.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Decode`] also when there is no room.
    pub fn decode(
        &self,
        chunk: ChunkId,
        (scratch, record): (&mut Scratch, &mut Vec<u8>),
        out: &mut [u8],
    ) -> Result<usize, StoreError> {
        self.read(chunk, record, |content| {
            let bytes = out.len().min(content.pages * warmswap_page::PAGE_BYTES);
            content.decode(scratch, &mut out[..bytes])?;
            Ok(content.pages)
        })?
    }

    // ---- elsewhere ----

    /// Moves a chunk from the pool to the backing file; bytes of the record. After an error it is in the pool as before.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::NotStored`] when it is not in the pool or there is no backing file.
    pub fn write_back(&self, chunk: ChunkId) -> Result<usize, StoreError> {
        let missing = || StoreError::NotStored(chunk.0);
        let (cell, readers) = self.cells(chunk)?;
        let location = self.chunk_word(chunk)?;
        let handle = Handle::from_number(location.handle).ok_or_else(missing)?;
        let backing = self.backing(chunk)?;
        // The bytes are copied first: no lock of the pool is held during output.
        let bytes = self.pool.load(handle, |content| match content {
            Content::Bytes(bytes) => bytes.to_vec(),
            Content::Filled(word) => word.to_le_bytes().to_vec(),
        })?;
        self.set_record(chunk, backing.append(&bytes)?);
        let location = ChunkWord {
            is_backing: true,
            handle: 0,
            ..location
        };
        cell.store(location.pack(), Ordering::SeqCst);
        // Readers of the old location were counted before they read it; later ones see the new location.
        while readers.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        self.pool.free(handle)?;
        Ok(bytes.len())
    }

    /// Frees a chunk without readers.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn free(&self, chunk: ChunkId) -> Result<(), StoreError> {
        let missing = || StoreError::NotStored(chunk.0);
        let (cell, readers) = self.cells(chunk)?;
        debug_assert_eq!(readers.load(Ordering::SeqCst), 0);
        let location = ChunkWord::unpack(cell.swap(0, Ordering::SeqCst)).ok_or_else(missing)?;
        if !location.is_backing {
            let handle = Handle::from_number(location.handle).ok_or_else(missing)?;
            return Ok(self.pool.free(handle)?);
        }
        let id = self.record(chunk).ok_or_else(missing)?;
        Ok(self.backing(chunk)?.free(id)?)
    }
}
