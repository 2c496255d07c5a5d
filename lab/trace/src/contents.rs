//! Page contents of a trace, unpacked on demand through a small cache.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Result, Section};
use crate::event::ContentId;
use crate::format::{
    CONTENT_BLOCK_MAGIC, CONTENT_HEADER_BYTES, CONTENTS_PER_BLOCK, ContentBlockHeader, Packing,
    content_block_bytes,
};
use crate::reader::Inner;
use warmswap_page::PAGE_BYTES;

/// Unpacked blocks that are kept; 256 KiB each.
const CACHED_BLOCKS: usize = 16;

/// The cache of unpacked content blocks, the most recently used last.
pub(crate) struct Contents {
    cached: Mutex<Vec<(u64, Arc<[u8]>)>>,
}

impl Contents {
    pub(crate) fn new() -> Self {
        Self {
            cached: Mutex::new(Vec::with_capacity(CACHED_BLOCKS)),
        }
    }

    pub(crate) fn copy(
        &self,
        inner: &Inner,
        id: ContentId,
        page: &mut [u8; PAGE_BYTES],
    ) -> Result<()> {
        inner.check_content(id.0.into())?;
        let place = u64::from(id.0) / CONTENTS_PER_BLOCK as u64;
        let block = match self.cached(place) {
            Some(block) => block,
            None => {
                // Unpacked outside the lock: two threads may both unpack a block, none waits for the other.
                let block: Arc<[u8]> = unpack(inner, place)?.into();
                self.keep(place, block.clone());
                block
            }
        };
        let start = id.0 as usize % CONTENTS_PER_BLOCK * PAGE_BYTES;
        page.copy_from_slice(&block[start..start + PAGE_BYTES]);
        Ok(())
    }

    fn cached(&self, place: u64) -> Option<Arc<[u8]>> {
        let mut cached = self.cached.lock();
        let at = cached.iter().rposition(|(p, _)| *p == place)?;
        cached[at..].rotate_left(1);
        cached.last().map(|(_, block)| block.clone())
    }

    fn keep(&self, place: u64, block: Arc<[u8]>) {
        let mut cached = self.cached.lock();
        if cached.len() == CACHED_BLOCKS {
            cached.remove(0);
        }
        cached.push((place, block));
    }
}

/// Reads, checks and unpacks the content block at `place` of the index.
pub(crate) fn unpack(inner: &Inner, place: u64) -> Result<Vec<u8>> {
    let source = &inner.source;
    let entry = inner.content_entry(place)?;
    let (at, section) = (entry.offset, Section::ContentBlock);
    let first_content = place * CONTENTS_PER_BLOCK as u64;
    let count = (inner.trailer.contents - first_content).min(CONTENTS_PER_BLOCK as u64) as usize;
    let whole = content_block_bytes(count);
    let payload_bytes = (entry.block_bytes as usize).wrapping_sub(CONTENT_HEADER_BYTES);
    let blocks_end = inner.trailer.event_index_offset;
    if payload_bytes > whole || at.saturating_add(entry.block_bytes.into()) > blocks_end {
        let found = format!("{} bytes at byte {at}", entry.block_bytes);
        let expected = format!(
            "at most {} bytes before byte {blocks_end}",
            whole + CONTENT_HEADER_BYTES
        );
        return Err(source.damaged(at, Section::ContentIndex, found, expected));
    }
    let mut bytes = vec![0; entry.block_bytes as usize];
    source.read(at, &mut bytes, section)?;
    let (magic, header) = ContentBlockHeader::decode(&bytes);
    source.same(at, section, "magic", (magic, CONTENT_BLOCK_MAGIC))?;
    source.checksum(at, section, crc32fast::hash(&bytes[8..]), header.crc)?;
    source.checksum(at, section, header.crc, entry.block_crc)?;
    source.same(
        at,
        section,
        "payload bytes",
        (header.payload_bytes as usize, payload_bytes),
    )?;
    source.same(
        at,
        section,
        "first content",
        (header.first_content, first_content),
    )?;
    source.same(at, section, "contents", (header.count as usize, count))?;
    match Packing::from_u32(header.packing) {
        Some(Packing::Raw) if payload_bytes == whole => {
            bytes.drain(..CONTENT_HEADER_BYTES);
            Ok(bytes)
        }
        Some(Packing::Zstd) => {
            match zstd::bulk::decompress(&bytes[CONTENT_HEADER_BYTES..], whole) {
                Ok(pages) if pages.len() == whole => Ok(pages),
                _ => Err(source.damaged(
                    at,
                    section,
                    "bad Zstandard data",
                    format!("{count} packed contents"),
                )),
            }
        }
        _ => Err(source.damaged(at, section, format!("packing {}", header.packing), "0 or 2")),
    }
}
