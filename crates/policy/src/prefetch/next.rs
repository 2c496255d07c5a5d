//! `next`: PreDecomp, the next chunk in pool order comes along (Ariadne section 4.4).

use super::Prefetch;
use crate::entry::{Entry, arguments};
use crate::page::ChunkId;

pub(super) const ENTRY: Entry<dyn Prefetch> = Entry {
    name: "next",
    summary: "the next chunk in pool order is loaded ahead; next:buffer=PAGES (64),ahead=CHUNKS (1),pages=MOST (1)",
    source: "Ariadne section 4.4 (PreDecomp), Table 3",
    build: |text| {
        let mut next = Next::default();
        for (key, value) in arguments(text) {
            match (key, value.parse()) {
                ("buffer", Ok(pages @ 1..=65_536)) => next.buffer_pages = pages,
                ("ahead", Ok(chunks @ 1..=64)) => next.ahead = chunks as u32,
                ("pages", Ok(pages @ 1..=32)) => next.chunk_pages = pages as u32,
                _ => {
                    return Err(format!(
                        "'{key}={value}' is none of buffer=1..65536, ahead=1..64, pages=1..32"
                    ));
                }
            }
        }
        Ok(Box::new(next))
    },
};

/// Names the chunk behind the one that was asked for: one only, since two in a row are asked for with a
/// probability of 61 to 86 %, four with 33 to 72 % (Table 3).
#[derive(Debug)]
pub struct Next {
    /// Size of the buffer in pages.
    pub buffer_pages: usize,
    /// How many chunks ahead.
    pub ahead: u32,
    /// A chunk of more pages than this is not loaded ahead: the paper loads one page at a time.
    pub chunk_pages: u32,
}

impl Default for Next {
    fn default() -> Self {
        Self {
            buffer_pages: 64,
            ahead: 1,
            chunk_pages: 1,
        }
    }
}

impl Prefetch for Next {
    fn on_demand(&mut self, chunk: ChunkId, out: &mut Vec<ChunkId>) {
        out.extend(
            (1..=self.ahead)
                .filter_map(|n| chunk.0.checked_add(n))
                .map(ChunkId),
        );
    }
    fn buffer_pages(&self) -> usize {
        self.buffer_pages
    }

    fn chunk_pages(&self) -> u32 {
        self.chunk_pages
    }
}
