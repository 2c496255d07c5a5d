//! Really compressed: the recorded contents through the codecs into a pool.

use super::{Store, Stored};
use crate::contents::{Contents, ZERO_PAGE};
use crate::error::ReplayError;
use rustc_hash::FxHashMap;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use warmswap_codec::{ChunkPlan, Codec, Scratch, decode, encode_contiguous, same_filled};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_engine::{Engine, Place, Refusal};
use warmswap_policy::admission::SAMPLE_BYTES;
use warmswap_policy::{ChunkId, PageId};
use warmswap_pool::{self as pool, Content, Handle, Layout, Pool, PoolConfig};
use warmswap_trace::{ContentId, PAGE_BYTES};

/// A page of which the trace has not said what it holds.
const UNKNOWN: ContentId = ContentId(u32::MAX);

/// Tidying begins when this share of the pool's memory holds no object, in percent.
const WASTE_PERCENT: u64 = 15;

/// The same for a pool that refuses: then any room is worth some work.
const WASTE_WHEN_FULL_PERCENT: u64 = 5;

/// A chunk in the pool.
#[derive(Clone, Copy, Debug)]
struct Object {
    handle: Handle,
    plan: ChunkPlan,
    pages: u8,
    bytes: u32,
}

/// A chunk in the backing file.
#[derive(Debug)]
enum Record {
    /// Compressed, as it was in the pool.
    Object {
        plan: ChunkPlan,
        pages: u8,
        bytes: Box<[u8]>,
    },
    /// All pages filled with this word.
    Filled { pages: u8, word: u64 },
    /// One page as it is: what it held.
    Raw { content: ContentId },
}

impl Record {
    fn bytes(&self) -> u64 {
        match self {
            Self::Object { bytes, .. } => bytes.len() as u64,
            Self::Filled { .. } => 8,
            Self::Raw { .. } => PAGE_BYTES as u64,
        }
    }
}

/// The recorded contents, compressed by the real codecs into a real pool. The backing file is kept in
/// memory: a replay models its time, not its device.
#[derive(Debug)]
pub struct CompressedStore {
    contents: Arc<Contents>,
    /// What each page holds.
    current: Vec<ContentId>,
    pool: Pool,
    scratch: Scratch,
    objects: Vec<Option<Object>>,
    backing: FxHashMap<ChunkId, Record>,
    backing_bytes: u64,
    plain: Vec<u8>,
    encoded: Vec<u8>,
}

impl CompressedStore {
    /// An empty store whose pool holds at most `pool_limit_bytes`, laid out by size classes.
    ///
    /// # Errors
    /// The limit is too small for a pool.
    pub fn new(contents: Arc<Contents>, pool_limit_bytes: u64) -> Result<Self, ReplayError> {
        Self::with_layout(contents, pool_limit_bytes, Layout::SizeClasses)
    }

    /// The same with another layout.
    ///
    /// # Errors
    /// The limit is too small for a pool.
    pub fn with_layout(
        contents: Arc<Contents>,
        pool_limit_bytes: u64,
        layout: Layout,
    ) -> Result<Self, ReplayError> {
        // The engine keeps the hysteresis, so the pool itself has none; what it keeps for reuse must not be
        // what fills a small one; and every load is compared with the trace, in every build alike.
        let default = PoolConfig::default();
        let config = PoolConfig {
            limit_bytes: pool_limit_bytes,
            resume_percent: 100,
            verify: false,
            cache_bytes: default.cache_bytes.min(pool_limit_bytes / 64),
            layout,
            ..default
        };
        let longest = Codec::ALL
            .iter()
            .filter_map(|&codec| ChunkPlan::new(codec, (MAX_CHUNK_PAGES * PAGE_BYTES) as u32).ok())
            .map(|plan| plan.max_encoded_bytes(MAX_CHUNK_PAGES))
            .max()
            .unwrap_or_default();
        Ok(Self {
            contents,
            current: Vec::new(),
            pool: Pool::new(config)?,
            scratch: Scratch::new(),
            objects: Vec::new(),
            backing: FxHashMap::default(),
            backing_bytes: 0,
            plain: vec![0; MAX_CHUNK_PAGES * PAGE_BYTES],
            encoded: vec![0; longest],
        })
    }

    fn content(&self, page: PageId) -> ContentId {
        self.current.get(page.index()).copied().unwrap_or(UNKNOWN)
    }

    fn read(&self, content: ContentId, page: &mut [u8; PAGE_BYTES]) -> Result<(), ReplayError> {
        if content == UNKNOWN {
            *page = ZERO_PAGE;
            return Ok(());
        }
        self.contents.read(content, page)
    }

    fn object(&self, chunk: ChunkId) -> Result<Object, ReplayError> {
        let object = self.objects.get(chunk.index()).copied().flatten();
        object.ok_or(ReplayError::NoSuchChunk {
            chunk: chunk.0,
            place: "pool",
        })
    }

    /// Decodes a chunk to `plain`; nanoseconds.
    fn decode(&mut self, chunk: ChunkId, place: Place) -> Result<u64, ReplayError> {
        let fail = |source| ReplayError::Decode {
            chunk: chunk.0,
            source,
        };
        if place == Place::Backing {
            let missing = ReplayError::NoSuchChunk {
                chunk: chunk.0,
                place: "backing file",
            };
            let record = self.backing.get(&chunk).ok_or(missing)?;
            let begin = thread_ns();
            match record {
                Record::Object { plan, pages, bytes } => {
                    let out = &mut self.plain[..usize::from(*pages) * PAGE_BYTES];
                    decode(&mut self.scratch, *plan, bytes, out).map_err(fail)?;
                }
                Record::Filled { pages, word } => {
                    warmswap_codec::fill(
                        *word,
                        &mut self.plain[..usize::from(*pages) * PAGE_BYTES],
                    );
                }
                Record::Raw { content } => {
                    let content = *content;
                    let mut page = ZERO_PAGE;
                    self.read(content, &mut page)?;
                    self.plain[..PAGE_BYTES].copy_from_slice(&page);
                    return Ok(0);
                }
            }
            return Ok(elapsed_ns(begin));
        }
        let object = self.object(chunk)?;
        let (pool, scratch) = (&self.pool, &mut self.scratch);
        let out = &mut self.plain[..usize::from(object.pages) * PAGE_BYTES];
        let begin = thread_ns();
        pool.load(object.handle, |content| match content {
            Content::Bytes(bytes) => decode(scratch, object.plan, bytes, out),
            Content::Filled(word) => {
                warmswap_codec::fill(word, out);
                Ok(())
            }
        })
        .map_err(|source| ReplayError::Load {
            chunk: chunk.0,
            source,
        })?
        .map_err(fail)?;
        Ok(elapsed_ns(begin))
    }
}

/// What becomes of a chunk's pages.
enum Encoding<'a> {
    Filled(u64),
    Bytes(&'a [u8]),
}

impl Encoding<'_> {
    fn put(&self, pool: &Pool, pages: usize) -> Result<Handle, pool::Refusal> {
        match *self {
            Self::Filled(word) => pool.store_filled(word, pages as u32),
            Self::Bytes(bytes) => pool.store(bytes, pages as u32),
        }
    }

    fn bytes(&self) -> u32 {
        match self {
            Self::Filled(_) => 0,
            Self::Bytes(bytes) => bytes.len() as u32,
        }
    }
}

/// Whether more than `percent` of the pool's memory holds no object.
fn wastes(pool: &Pool, percent: u64) -> bool {
    let stats = pool.stats();
    stats.waste_bytes() * 100 > stats.memory_bytes * percent
}

/// CPU time of this thread: what other programs do meanwhile does not count.
fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn elapsed_ns(begin_ns: u64) -> u64 {
    thread_ns() - begin_ns
}

impl Store for CompressedStore {
    fn holds(&self, page: PageId, content: ContentId) -> bool {
        self.content(page) == content
    }

    fn set_content(&mut self, page: PageId, content: ContentId) {
        if self.current.len() <= page.index() {
            self.current
                .resize((page.index() + 1).next_multiple_of(1024), UNKNOWN);
        }
        self.current[page.index()] = content;
    }

    fn sample(&self, page: PageId) -> Result<[u8; SAMPLE_BYTES], ReplayError> {
        let mut bytes = ZERO_PAGE;
        self.read(self.content(page), &mut bytes)?;
        let (sample, _) = bytes.split_first_chunk().expect("a page is longer");
        Ok(*sample)
    }

    fn store(
        &mut self,
        engine: &Engine,
        chunk: ChunkId,
        plan: ChunkPlan,
    ) -> Result<Result<Stored, Refusal>, ReplayError> {
        let pages = engine.chunk_pages(chunk);
        let len = pages.len() * PAGE_BYTES;
        let mut plain = std::mem::take(&mut self.plain);
        for (&page, room) in pages.iter().zip(plain.as_chunks_mut::<PAGE_BYTES>().0) {
            self.read(self.content(page), room)?;
        }
        self.plain = plain;
        let plain = &self.plain[..len];
        let begin = thread_ns();
        let encoded = match same_filled(plain) {
            Some(word) => Encoding::Filled(word),
            None => {
                let encoded = encode_contiguous(&mut self.scratch, plan, plain, &mut self.encoded)
                    .map_err(|source| ReplayError::Decode {
                        chunk: chunk.0,
                        source,
                    })?;
                Encoding::Bytes(&self.encoded[..encoded.bytes])
            }
        };
        let mut handle = encoded.put(&self.pool, pages.len());
        if matches!(handle, Err(pool::Refusal::Full { .. }))
            && wastes(&self.pool, WASTE_WHEN_FULL_PERCENT)
        {
            self.pool.compact(u64::MAX);
            handle = encoded.put(&self.pool, pages.len());
        }
        let cpu_ns = elapsed_ns(begin);
        let bytes = encoded.bytes();
        match handle {
            Ok(handle) => {
                if self.objects.len() <= chunk.index() {
                    self.objects.resize(chunk.index() + 1, None);
                }
                let pages = pages.len() as u8;
                self.objects[chunk.index()] = Some(Object {
                    handle,
                    plan,
                    pages,
                    bytes,
                });
                // The handle was given out just now.
                let pool_page = self.pool.info(handle).ok().and_then(|info| info.pool_page);
                Ok(Ok(Stored {
                    bytes,
                    cpu_ns,
                    pool_page,
                }))
            }
            Err(pool::Refusal::Full { .. } | pool::Refusal::OutOfMemory { .. }) => {
                Ok(Err(Refusal::PoolFull))
            }
            Err(pool::Refusal::TooLarge { .. } | pool::Refusal::Incompressible { .. }) => {
                Ok(Err(Refusal::TooLarge))
            }
            Err(pool::Refusal::Invalid { .. }) => {
                unreachable!("a chunk has 1 to {MAX_CHUNK_PAGES} pages and at least a byte")
            }
        }
    }

    fn load(&mut self, engine: &Engine, chunk: ChunkId, place: Place) -> Result<u64, ReplayError> {
        let cpu_ns = self.decode(chunk, place)?;
        let mut expected = ZERO_PAGE;
        let pages = engine.chunk_pages(chunk);
        for (&page, got) in pages.iter().zip(self.plain.as_chunks::<PAGE_BYTES>().0) {
            if engine.is_loading(chunk, page) {
                self.read(self.content(page), &mut expected)?;
                if *got != expected {
                    let (app, addr) = engine.locate(page);
                    return Err(ReplayError::WrongContent { app, addr });
                }
            }
        }
        Ok(cpu_ns)
    }

    fn write_back(&mut self, chunk: ChunkId) -> Result<u64, ReplayError> {
        let Object {
            handle,
            plan,
            pages,
            ..
        } = self.object(chunk)?;
        let load = |source| ReplayError::Load {
            chunk: chunk.0,
            source,
        };
        let record = self.pool.load(handle, |content| match content {
            Content::Bytes(bytes) => Record::Object {
                plan,
                pages,
                bytes: bytes.into(),
            },
            Content::Filled(word) => Record::Filled { pages, word },
        });
        let record = record.map_err(load)?;
        self.pool.free(handle).map_err(load)?;
        self.objects[chunk.index()] = None;
        let bytes = record.bytes();
        self.backing_bytes += bytes;
        self.backing.insert(chunk, record);
        Ok(bytes)
    }

    fn store_raw(&mut self, engine: &Engine, chunk: ChunkId) {
        let content = self.content(engine.chunk_pages(chunk)[0]);
        self.backing_bytes += PAGE_BYTES as u64;
        self.backing.insert(chunk, Record::Raw { content });
    }

    fn free(&mut self, chunk: ChunkId, place: Place) -> Result<(), ReplayError> {
        if place == Place::Backing {
            let missing = ReplayError::NoSuchChunk {
                chunk: chunk.0,
                place: "backing file",
            };
            self.backing_bytes -= self.backing.remove(&chunk).ok_or(missing)?.bytes();
            return Ok(());
        }
        let object = self.object(chunk)?;
        self.objects[chunk.index()] = None;
        self.pool
            .free(object.handle)
            .map_err(|source| ReplayError::Load {
                chunk: chunk.0,
                source,
            })
    }

    fn tidy(&mut self) {
        if wastes(&self.pool, WASTE_PERCENT) {
            self.pool.compact(u64::MAX);
        }
    }

    fn pool_bytes(&self) -> u64 {
        self.pool.stats().memory_bytes
    }

    fn backing_bytes(&self) -> u64 {
        self.backing_bytes
    }

    fn pool_load(&self) -> (u64, u64) {
        let stats = self.pool.stats();
        (stats.stored_pages, stats.compressed_bytes)
    }

    fn chunk_bytes(&self, chunk: ChunkId) -> u64 {
        let object = self.objects.get(chunk.index()).copied().flatten();
        object.map_or_else(
            || self.backing.get(&chunk).map_or(0, Record::bytes),
            |object| u64::from(object.bytes),
        )
    }
}
