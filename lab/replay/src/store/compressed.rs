//! Really compressed: the recorded contents through the codecs into a pool.

mod records;

use super::encodings::Encoding;
use super::{Store, StoredObject};
use crate::contents::{Contents, ZERO_PAGE};
use crate::error::ReplayError;
use bytes::{Bytes, BytesMut};
use records::MemoryRecords;
use rustc_hash::FxHashMap;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, OnceLock};
use warmswap_codec::{ChunkPlan, Scratch};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_engine::{Engine, Place, Refusal};
use warmswap_page::Layout;
use warmswap_page::PAGE_BYTES;
use warmswap_policy::admission::SAMPLE_BYTES;
use warmswap_policy::{ChunkId, PageId};
use warmswap_pool::{Content, Pool, PoolConfig};
use warmswap_store::{Chunk, ChunkStore, Encoder, StoreError};
use warmswap_trace::ContentId;

/// What a page holds that the trace has not told.
const UNKNOWN: ContentId = ContentId(u32::MAX);

/// Tidying begins when this share of the pool's memory holds no object, in percent.
const WASTE_PERCENT: u64 = 15;

/// Chunks that there can be at a time: 64 GiB of pages, each stored alone. Tables take memory as they are used.
const MOST_CHUNKS: usize = 1 << 24;

/// The recorded contents, compressed by the real codecs into a real pool. The backing file is kept in
/// memory: a replay models its time, not its device.
#[derive(Debug)]
pub struct CompressedStore {
    contents: Arc<Contents>,
    /// What each page holds.
    current: Vec<ContentId>,
    store: ChunkStore<MemoryRecords>,
    /// Chunks of one page that are in the backing file as it is: what it held.
    raw: FxHashMap<ChunkId, ContentId>,
    /// What the other chunks were encoded to.
    encodings: Vec<Option<Arc<Encoding>>>,
    encoder: Encoder,
    /// Room for the encodings that this store makes.
    room: BytesMut,
    plain: Vec<u8>,
    record: Vec<u8>,
    puts: Puts,
}

/// How long it takes to put an object into the pool. Reading the clock takes as long, so that one in a few is timed, which
/// stands for those that follow.
#[derive(Debug, Default)]
struct Puts {
    done: u32,
    last_ns: u64,
}

impl Puts {
    /// Prime, so that what happens every so many objects, as taking a new span, is timed as often as it happens.
    const TIMED_EVERY: u32 = 13;

    /// Does it; nanoseconds that it is taken to need. What fails is not counted.
    fn time<T, E>(&mut self, put: impl FnOnce() -> Result<T, E>) -> Result<(T, u64), E> {
        let begin_ns = self.done.is_multiple_of(Self::TIMED_EVERY).then(thread_ns);
        let put = put()?;
        if let Some(begin_ns) = begin_ns {
            self.last_ns = elapsed_ns(begin_ns);
        }
        self.done = self.done.wrapping_add(1);
        Ok((put, self.last_ns))
    }
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
            returns_spans: false,
            cache_bytes: default.cache_bytes.min(pool_limit_bytes / 64),
            layout,
            ..default
        };
        let store = ChunkStore::new(
            Pool::new(config)?,
            Some(MemoryRecords::default()),
            MOST_CHUNKS,
        );
        Ok(Self {
            contents,
            current: Vec::new(),
            store: store.map_err(ReplayError::Tables)?,
            raw: FxHashMap::default(),
            encodings: Vec::new(),
            encoder: Encoder::new(Scratch::new()),
            room: BytesMut::new(),
            plain: vec![0; MAX_CHUNK_PAGES * PAGE_BYTES],
            record: Vec::new(),
            puts: Puts::default(),
        })
    }

    fn content(&self, page: PageId) -> ContentId {
        self.current.get(page.index()).copied().unwrap_or(UNKNOWN)
    }

    /// Checks that a chunk is where the engine has it.
    fn check_place(&self, chunk: ChunkId, place: Place) -> Result<(), ReplayError> {
        let is_backing = self.store.is_in_backing(chunk);
        if is_backing.is_ok_and(|is_backing| is_backing == (place == Place::Backing)) {
            return Ok(());
        }
        Err(ReplayError::NoSuchChunk {
            chunk: chunk.0,
            place: if place == Place::Backing {
                "backing file"
            } else {
                "pool"
            },
        })
    }

    /// The encoding of pages with these contents, and whether it is a new one.
    fn encode(
        &mut self,
        chunk: ChunkId,
        plan: ChunkPlan,
        contents: &[ContentId],
    ) -> Result<Arc<Encoding>, ReplayError> {
        if let Some(encoding) = self.contents.encodings.get(plan, contents) {
            return Ok(encoding);
        }
        let plain = plain_pages(&self.contents, contents, &mut self.plain)?;
        let begin = thread_ns();
        let encoded = self.encoder.encode(plan, plain, &[]);
        let encode_ns = elapsed_ns(begin);
        let encoded = encoded.map_err(|source| ReplayError::Encode {
            chunk: chunk.0,
            source,
        })?;
        let bytes = match self.encoder.content(encoded) {
            Content::Bytes(bytes) => copied(bytes, &mut self.room),
            Content::Filled(_) => Bytes::new(),
        };
        let encoding = Arc::new(Encoding {
            contents: contents.into(),
            encoded,
            bytes,
            encode_ns,
            decode_ns: OnceLock::new(),
        });
        self.contents.encodings.keep(plan, &encoding);
        Ok(encoding)
    }

    /// Decodes a chunk and compares all of it with what was stored; nanoseconds of the decoding. What was decoded once is
    /// compared as it is stored.
    fn decode(
        &mut self,
        engine: &Engine,
        chunk: ChunkId,
        encoding: &Encoding,
    ) -> Result<u64, ReplayError> {
        if let Some(&decode_ns) = encoding.decode_ns.get() {
            let is_same = |stored: Chunk<'_>| stored.is(encoding.content());
            if self.store.read(chunk, &mut self.record, is_same)? {
                return Ok(decode_ns);
            }
        }
        let begin = thread_ns();
        let room = (self.encoder.scratch(), &mut self.record);
        self.store.decode(chunk, room, &mut self.plain)?;
        let decode_ns = elapsed_ns(begin);
        let mut room = ZERO_PAGE;
        let got = self.plain.as_chunks::<PAGE_BYTES>().0;
        let pages = engine.chunk_pages(chunk);
        for ((&page, &content), got) in pages.iter().zip(&*encoding.contents).zip(got) {
            if got != page_of(&self.contents, content, &mut room)? {
                return Err(wrong_content(engine, page));
            }
        }
        Ok(*encoding.decode_ns.get_or_init(|| decode_ns))
    }

    /// Whether two contents are the same bytes.
    fn are_same(&self, one: ContentId, other: ContentId) -> Result<bool, ReplayError> {
        if one == other {
            return Ok(true);
        }
        let (mut room, mut other_room) = (ZERO_PAGE, ZERO_PAGE);
        let page = page_of(&self.contents, one, &mut room)?;
        Ok(page == page_of(&self.contents, other, &mut other_room)?)
    }
}

/// A content, which may be none that the trace has told.
fn page_of<'a>(
    contents: &'a Contents,
    content: ContentId,
    room: &'a mut [u8; PAGE_BYTES],
) -> Result<&'a [u8; PAGE_BYTES], ReplayError> {
    if content == UNKNOWN {
        return Ok(&ZERO_PAGE);
    }
    contents.get(content, room)
}

/// Pages with these contents one after the other, in `room` unless it is one that is in memory.
fn plain_pages<'a>(
    contents: &'a Contents,
    wanted: &[ContentId],
    room: &'a mut [u8],
) -> Result<&'a [u8], ReplayError> {
    let pages = room.as_chunks_mut::<PAGE_BYTES>().0;
    if let [content] = wanted {
        return Ok(page_of(contents, *content, &mut pages[0])?);
    }
    let mut read = ZERO_PAGE;
    for (&content, page) in wanted.iter().zip(&mut *pages) {
        *page = *page_of(contents, content, &mut read)?;
    }
    Ok(pages[..wanted.len()].as_flattened())
}

/// Copies bytes to the front of `room`, and takes them out of it. One allocation serves many: threads that allocate each encoding
/// by itself would keep changing the protection of their heaps, in turn.
fn copied(bytes: &[u8], room: &mut BytesMut) -> Bytes {
    const ROOM_BYTES: usize = 1 << 20;
    if room.capacity() < bytes.len() {
        *room = BytesMut::with_capacity(ROOM_BYTES.max(bytes.len()));
    }
    room.extend_from_slice(bytes);
    room.split().freeze()
}

fn wrong_content(engine: &Engine, page: PageId) -> ReplayError {
    let (app, addr) = engine.locate(page);
    ReplayError::WrongContent { app, addr }
}

/// CPU time of this thread: what other programs do meanwhile does not count.
pub(crate) fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(crate) fn elapsed_ns(begin_ns: u64) -> u64 {
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
        let mut room = ZERO_PAGE;
        let page = page_of(&self.contents, self.content(page), &mut room)?;
        let (sample, _) = page.split_first_chunk().expect("a page is longer");
        Ok(*sample)
    }

    fn store(
        &mut self,
        engine: &Engine,
        chunk: ChunkId,
        plan: ChunkPlan,
    ) -> Result<Result<StoredObject, Refusal>, ReplayError> {
        let pages = engine.chunk_pages(chunk);
        let mut contents = [UNKNOWN; MAX_CHUNK_PAGES];
        for (&page, content) in pages.iter().zip(&mut contents) {
            *content = self.content(page);
        }
        let encoding = self.encode(chunk, plan, &contents[..pages.len()])?;
        let put = || self.store.put(chunk, encoding.encoded, encoding.content());
        let (stored, put_ns) = match self.puts.time(put) {
            Ok(stored) => stored,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let cpu_ns = encoding.encode_ns + put_ns;
        if self.encodings.len() <= chunk.index() {
            self.encodings.resize(chunk.index() + 1, None);
        }
        self.encodings[chunk.index()] = Some(encoding);
        Ok(Ok(StoredObject {
            bytes: stored.bytes,
            cpu_ns,
            pool_page: stored.pool_page,
        }))
    }

    fn load(&mut self, engine: &Engine, chunk: ChunkId, place: Place) -> Result<u64, ReplayError> {
        let (contents, cpu_ns): (Arc<[ContentId]>, u64) = match self.raw.get(&chunk) {
            Some(&content) if place == Place::Backing => ([content].into(), 0),
            _ => {
                self.check_place(chunk, place)?;
                let encoding = self.encodings.get(chunk.index()).cloned().flatten();
                let encoding = encoding.ok_or(StoreError::NotStored(chunk.0))?;
                let cpu_ns = self.decode(engine, chunk, &encoding)?;
                (encoding.contents.clone(), cpu_ns)
            }
        };
        for (&page, &stored) in engine.chunk_pages(chunk).iter().zip(&*contents) {
            if engine.is_loading(chunk, page) && !self.are_same(stored, self.content(page))? {
                return Err(wrong_content(engine, page));
            }
        }
        Ok(cpu_ns)
    }

    fn write_back(&mut self, _: &Engine, chunk: ChunkId) -> Result<u64, ReplayError> {
        self.check_place(chunk, Place::Pool)?;
        Ok(self.store.write_back(chunk)? as u64)
    }

    fn store_raw(&mut self, engine: &Engine, chunk: ChunkId) {
        let content = self.content(engine.chunk_pages(chunk)[0]);
        self.raw.insert(chunk, content);
    }

    fn free(&mut self, chunk: ChunkId, place: Place, _: u32) -> Result<(), ReplayError> {
        if place == Place::Backing && self.raw.remove(&chunk).is_some() {
            return Ok(());
        }
        self.check_place(chunk, place)?;
        self.encodings[chunk.index()] = None;
        Ok(self.store.free(chunk)?)
    }

    fn tidy(&mut self) {
        if self.store.wastes(WASTE_PERCENT) {
            self.store.pool.compact(u64::MAX);
        }
    }

    fn pool_bytes(&self) -> u64 {
        self.store.pool.stats().memory_bytes
    }

    fn backing_bytes(&self) -> u64 {
        self.store.backing_bytes() + (self.raw.len() * PAGE_BYTES) as u64
    }

    fn pool_load(&self) -> (u64, u64) {
        let stats = self.store.pool.stats();
        (stats.stored_pages, stats.compressed_bytes)
    }

    fn chunk_bytes(&self, _: &Engine, chunk: ChunkId) -> u64 {
        if self.raw.contains_key(&chunk) {
            return PAGE_BYTES as u64;
        }
        self.store.bytes(chunk).map_or(0, |bytes| bytes as u64)
    }
}
