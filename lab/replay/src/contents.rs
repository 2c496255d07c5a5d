//! What the pages of a trace hold, for any number of replays at once.

use crate::error::ReplayError;
use crate::store::encodings::Encodings;
use std::sync::OnceLock;
use warmswap_page::PAGE_BYTES;
use warmswap_trace::format::CONTENTS_PER_BLOCK;
use warmswap_trace::{ContentId, Stop, TraceReader};

/// A page full of zeros: what a page holds where the trace does not say.
pub const ZERO_PAGE: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// The contents of a trace. Where they fit in memory, a block of them is unpacked when it is asked for first, by the thread that
/// asks, once for all replays; else contents are read each time.
#[derive(Debug)]
pub struct Contents {
    reader: Option<TraceReader>,
    /// Unpacked blocks, one behind the other; `None` for a block that cannot be read. Empty where they do not fit.
    blocks: Vec<OnceLock<Option<Vec<u8>>>>,
    /// What chunks of them were encoded to.
    pub(crate) encodings: Encodings,
}

impl Contents {
    /// The contents of `reader`; they stay in memory if they take at most `memory_bytes`. What ends the reader does not
    /// end their reading: several replays have the same contents.
    pub fn of(reader: &TraceReader, memory_bytes: u64) -> Self {
        let count = reader.summary().contents;
        let fit = count <= memory_bytes / PAGE_BYTES as u64;
        let blocks = if fit {
            count.div_ceil(CONTENTS_PER_BLOCK as u64)
        } else {
            0
        };
        Self {
            reader: Some(reader.with_stop(Stop::default())),
            blocks: (0..blocks).map(|_| OnceLock::new()).collect(),
            encodings: Encodings::default(),
        }
    }

    /// These contents; the index is the id.
    pub fn from_pages(pages: &[[u8; PAGE_BYTES]]) -> Self {
        let blocks = pages.chunks(CONTENTS_PER_BLOCK);
        let blocks = blocks.map(|block| OnceLock::from(Some(block.as_flattened().to_vec())));
        Self {
            reader: None,
            blocks: blocks.collect(),
            encodings: Encodings::default(),
        }
    }

    /// A content, which is read into `room` unless it is in memory.
    ///
    /// # Errors
    /// The trace is damaged or cannot be read, or has no such content.
    pub fn get<'a>(
        &'a self,
        id: ContentId,
        room: &'a mut [u8; PAGE_BYTES],
    ) -> Result<&'a [u8; PAGE_BYTES], ReplayError> {
        if let Some(page) = self.in_memory(id) {
            return Ok(page);
        }
        match &self.reader {
            // A damaged block is unpacked once more, to say what is wrong with it.
            Some(reader) => reader.content(id, room)?,
            None => *room = ZERO_PAGE,
        }
        Ok(room)
    }

    fn in_memory(&self, id: ContentId) -> Option<&[u8; PAGE_BYTES]> {
        let number = id.0 as usize / CONTENTS_PER_BLOCK;
        let unpack = || self.reader.as_ref()?.content_block(number as u64).ok();
        let block = self.blocks.get(number)?.get_or_init(unpack);
        let pages = block.as_ref()?.as_chunks::<PAGE_BYTES>().0;
        pages.get(id.0 as usize % CONTENTS_PER_BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_trace::{Description, TraceWriter};

    fn page(number: u32) -> [u8; PAGE_BYTES] {
        std::array::from_fn(|at| (number as usize * 7 + at / 64) as u8)
    }

    #[test]
    fn contents_are_the_same_in_memory_and_read_each_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("contents.wst");
        let mut writer = TraceWriter::create(&path, Description::new("test")).expect("a file");
        let count = CONTENTS_PER_BLOCK as u32 * 2 + 3;
        for number in 0..count {
            writer.content(&page(number)).expect("room");
        }
        writer.finish().expect("room");
        let reader = TraceReader::open(&path).expect("a trace");
        let bytes = u64::from(count) * PAGE_BYTES as u64;
        for (memory_bytes, blocks) in [(bytes, 3), (bytes - 1, 0)] {
            let contents = Contents::of(&reader, memory_bytes);
            assert_eq!(contents.blocks.len(), blocks);
            let mut room = ZERO_PAGE;
            for number in (0..count).rev() {
                let got = contents.get(ContentId(number), &mut room);
                assert_eq!(*got.expect("a content"), page(number));
            }
            assert!(contents.get(ContentId(count), &mut room).is_err());
        }
    }

    #[test]
    fn a_damaged_block_is_an_error_each_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("contents.wst");
        let mut writer = TraceWriter::create(&path, Description::new("test")).expect("a file");
        writer.content(&page(1)).expect("room");
        writer.finish().expect("room");
        let mut bytes = std::fs::read(&path).expect("a file");
        let magic = bytes.windows(4).position(|four| four == b"WSCB");
        bytes[magic.expect("a block") + 40] ^= 1;
        std::fs::write(&path, bytes).expect("room");
        let reader = TraceReader::open(&path).expect("its tables are whole");
        let contents = Contents::of(&reader, u64::MAX);
        for _ in 0..2 {
            let mut room = ZERO_PAGE;
            let error = contents.get(ContentId(0), &mut room);
            assert!(matches!(error, Err(ReplayError::Trace(_))), "{error:?}");
        }
    }
}
