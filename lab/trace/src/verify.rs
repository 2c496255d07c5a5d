//! The full check of a trace: every byte of it.

use crc32fast::Hasher;

use crate::contents;
use crate::error::{Result, Section};
use crate::reader::{Inner, TraceReader};

/// Bytes of an index that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

impl TraceReader {
    /// Reads and checks everything: checksums, that blocks fill the file without gap or overlap, that
    /// ids and times are in range and order, that every page unpacks. `progress` is told the bytes that
    /// are checked and the bytes of the file, after each block.
    ///
    /// Cost: one pass over the file; memory as for reading.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        let inner = &*self.inner;
        let trailer = &inner.trailer;
        check_index(inner, Section::EventIndex)?;
        check_index(inner, Section::ContentIndex)?;

        // Blocks of both sorts stand mixed, each sort in its own order: at every position the next
        // block of one of the two sorts must begin.
        let mut events = self.events();
        let mut block = Vec::new();
        let mut next_content = 0;
        let mut at = inner.data_offset;
        let mut first_ns = None;
        while at < trailer.event_index_offset {
            let event_block = events.peek_extent()?.filter(|(offset, _)| *offset == at);
            if let Some((_, bytes)) = event_block {
                events.next_block(&mut block)?;
                first_ns = first_ns.or(block.first().map(|e| e.time_ns));
                at += bytes;
            } else {
                let entry = match next_content < trailer.content_blocks {
                    true => {
                        Some(inner.content_entry(next_content)?).filter(|entry| entry.offset == at)
                    }
                    false => None,
                };
                let Some(entry) = entry else {
                    let found = "bytes that no index names";
                    return Err(inner
                        .source
                        .damaged(at, Section::EventBlock, found, "a block"));
                };
                self.check_stop()?;
                contents::unpack(inner, next_content)?;
                next_content += 1;
                at += u64::from(entry.block_bytes);
            }
            progress(at, inner.source.len);
        }
        let source = &inner.source;
        let trailer_at = source.len - crate::format::TRAILER_BYTES as u64;
        let same = |what, pair| source.same(trailer_at, Section::Trailer, what, pair);
        same("content blocks", (trailer.content_blocks, next_content))?;
        if events.peek_extent()?.is_some() {
            return Err(source.damaged(
                at,
                Section::EventIndex,
                "the index",
                "one more event block",
            ));
        }
        same("first time", (trailer.first_ns, first_ns.unwrap_or(0)))?;
        same(
            "last time",
            (
                trailer.last_ns,
                block.last().map_or(trailer.first_ns, |e| e.time_ns),
            ),
        )?;
        progress(source.len, source.len);
        Ok(())
    }
}

/// Checks an index as a whole against its checksum in the trailer.
fn check_index(inner: &Inner, section: Section) -> Result<()> {
    let trailer = &inner.trailer;
    let (mut at, end, expected) = match section {
        Section::EventIndex => (
            trailer.event_index_offset,
            trailer.content_index_offset,
            trailer.event_index_crc,
        ),
        _ => (
            trailer.content_index_offset,
            trailer.tables_offset,
            trailer.content_index_crc,
        ),
    };
    let start = at;
    let mut crc = Hasher::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    while at < end {
        let bytes = buffer.len().min((end - at) as usize);
        inner.source.read(at, &mut buffer[..bytes], section)?;
        crc.update(&buffer[..bytes]);
        at += bytes as u64;
    }
    inner
        .source
        .checksum(start, section, crc.finalize(), expected)
}
