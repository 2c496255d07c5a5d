//! Frames, pool, backing file and files. A page's content is a version number.

use std::collections::BTreeMap;
use warmswap_engine::{Place, Refusal};
use warmswap_page::{AppId, PAGE_BYTES, PageAddr};
use warmswap_policy::admission::estimate_bytes;
use warmswap_policy::{ChunkId, PageId};

/// A page as a host names it: files are shared, so that they have no application.
pub type Key = (Option<AppId>, PageAddr);

/// The key of an address.
pub fn key(app: AppId, addr: PageAddr) -> Key {
    match addr {
        PageAddr::Anon { .. } => (Some(app), addr),
        PageAddr::File { .. } => (None, addr),
    }
}

/// What pages compress to.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Every page to the same size.
    Even {
        /// Bytes.
        bytes: u32,
    },
    /// Some pages are same-filled (0 bytes), some incompressible, others between, as their content says.
    Mixed,
}

impl Shape {
    fn page_bytes(self, content: u64) -> u32 {
        let Self::Even { bytes } = self else {
            let mixed = content.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            return match mixed % 10 {
                0 => 0,
                1 => PAGE_BYTES as u32,
                _ => 100 + (mixed / 10 % 3000) as u32,
            };
        };
        bytes
    }

    /// What a chunk of these contents compresses to.
    pub fn chunk_bytes(self, contents: impl Iterator<Item = u64>) -> u32 {
        contents.map(|content| self.page_bytes(content)).sum()
    }
}

/// Pool memory comes and goes in spans of this size.
pub const SPAN_BYTES: u64 = 4 * PAGE_BYTES as u64;

/// A stored chunk: its place, its size, and the content of each page that was stored in it.
#[derive(Clone, Debug)]
pub struct StoredChunk {
    pub place: Place,
    pub bytes: u32,
    pub contents: BTreeMap<PageId, u64>,
}

/// The memory.
#[derive(Debug)]
pub struct ModelMemory {
    pub shape: Shape,
    pub frames: BTreeMap<PageId, u64>,
    pub chunks: BTreeMap<ChunkId, StoredChunk>,
    /// What files hold, where they were written.
    disk: BTreeMap<Key, u64>,
    pool_limit_bytes: u64,
    pool_data_bytes: u64,
    /// Memory that the pool holds: whole spans, and up to two of them idle.
    pub pool_bytes: u64,
    backing_limit_bytes: u64,
    pub backing_bytes: u64,
    /// Of so many writes to the backing file one fails; 0: none does.
    pub fail_every: u32,
    /// Bytes of the largest object that the pool takes.
    pub largest_object: u32,
    writes: u32,
}

impl ModelMemory {
    pub fn new(shape: Shape, pool_limit_bytes: u64, backing_limit_bytes: u64) -> Self {
        Self {
            shape,
            frames: BTreeMap::new(),
            chunks: BTreeMap::new(),
            disk: BTreeMap::new(),
            pool_limit_bytes,
            pool_data_bytes: 0,
            pool_bytes: 0,
            backing_limit_bytes,
            backing_bytes: 0,
            fail_every: 0,
            largest_object: u32::MAX,
            writes: 0,
        }
    }

    /// Takes a free frame.
    pub fn fill(&mut self, page: PageId, content: u64) {
        let before = self.frames.insert(page, content);
        assert_eq!(before, None, "{page:?} has two frames");
    }

    /// Gives a frame back.
    pub fn release(&mut self, page: PageId) -> u64 {
        self.frames
            .remove(&page)
            .unwrap_or_else(|| panic!("{page:?} has no frame to give up"))
    }

    /// What the file holds.
    pub fn read_file(&self, key: Key) -> u64 {
        let PageAddr::File { file, number } = key.1 else {
            panic!("{key:?} is no page of a file");
        };
        let initial = (u64::from(file.0) + 1) << 40 | number;
        self.disk.get(&key).copied().unwrap_or(initial)
    }

    pub fn write_file(&mut self, key: Key, content: u64) {
        self.disk.insert(key, content);
    }

    /// Compresses into the pool, unless it is full or the object is too large.
    pub fn store(
        &mut self,
        chunk: ChunkId,
        contents: BTreeMap<PageId, u64>,
    ) -> Result<(), Refusal> {
        let bytes = self.shape.chunk_bytes(contents.values().copied());
        let data = self.pool_data_bytes + u64::from(bytes);
        if bytes > self.largest_object {
            return Err(Refusal::TooLarge);
        }
        if data.next_multiple_of(SPAN_BYTES) > self.pool_limit_bytes {
            return Err(Refusal::PoolFull);
        }
        self.put(chunk, Place::Pool, bytes, contents);
        self.set_pool_data(data);
        Ok(())
    }

    /// What the head of a page lets expect: it has as many different bytes as its size says, so that its
    /// entropy is about right.
    pub fn estimated_bytes(&self, content: u64) -> u32 {
        let values = 1 + self.shape.page_bytes(content) * 255 / PAGE_BYTES as u32;
        estimate_bytes(&std::array::from_fn(|at| (at as u32 % values) as u8))
    }

    /// Writes to the backing file as it is; false when that fails.
    pub fn store_raw(&mut self, chunk: ChunkId, contents: BTreeMap<PageId, u64>) -> bool {
        let ok = self.write_backing(PAGE_BYTES as u64);
        if ok {
            self.put(chunk, Place::Backing, PAGE_BYTES as u32, contents);
        }
        ok
    }

    /// Moves a chunk from the pool to the backing file; false when that fails.
    pub fn write_back(&mut self, chunk: ChunkId) -> bool {
        let stored = &self.chunks[&chunk];
        assert_eq!(stored.place, Place::Pool, "{chunk:?} is not in the pool");
        let bytes = u64::from(stored.bytes);
        let ok = self.write_backing(bytes);
        if ok {
            self.chunks.get_mut(&chunk).expect("looked up").place = Place::Backing;
            self.set_pool_data(self.pool_data_bytes - bytes);
        }
        ok
    }

    /// Forgets a chunk.
    pub fn free(&mut self, chunk: ChunkId, place: Place, bytes: u32) {
        let stored = self
            .chunks
            .remove(&chunk)
            .expect("only stored chunks are freed");
        assert_eq!(stored.place, place, "{chunk:?} is freed where it is not");
        assert_eq!(stored.bytes, bytes, "the size of {chunk:?}");
        match place {
            Place::Pool => self.set_pool_data(self.pool_data_bytes - u64::from(stored.bytes)),
            _ => self.backing_bytes -= u64::from(stored.bytes),
        }
    }

    fn put(&mut self, chunk: ChunkId, place: Place, bytes: u32, contents: BTreeMap<PageId, u64>) {
        let stored = StoredChunk {
            place,
            bytes,
            contents,
        };
        let before = self.chunks.insert(chunk, stored);
        assert!(before.is_none(), "{chunk:?} is stored twice");
    }

    fn write_backing(&mut self, bytes: u64) -> bool {
        self.writes += 1;
        let fails = self.fail_every > 0 && self.writes.is_multiple_of(self.fail_every);
        let ok = !fails && self.backing_bytes + bytes <= self.backing_limit_bytes;
        if ok {
            self.backing_bytes += bytes;
        }
        ok
    }

    fn set_pool_data(&mut self, bytes: u64) {
        self.pool_data_bytes = bytes;
        let least = bytes.next_multiple_of(SPAN_BYTES);
        let most = (least + 2 * SPAN_BYTES).min(self.pool_limit_bytes);
        self.pool_bytes = self.pool_bytes.clamp(least, most.max(least));
    }
}
