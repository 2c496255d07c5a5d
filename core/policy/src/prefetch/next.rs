//! `next`: PreDecomp, the next chunk in pool order comes along (Ariadne section 4.4).

use std::collections::VecDeque;

use super::Prefetch;
use crate::entry::{PolicyEntry, arguments};
use crate::page::ChunkId;

pub(super) const ENTRY: PolicyEntry<dyn Prefetch> = PolicyEntry {
    name: "next",
    summary: "the next chunk in pool order is loaded ahead; \
              next:buffer=PAGES (64),ahead=CHUNKS (1),pages=MOST (1),least=PERCENT (0)",
    source: "Ariadne section 4.4 (PreDecomp), Table 3",
    build: |text| {
        let mut next = Next::default();
        for (key, value) in arguments(text) {
            match (key, value.parse()) {
                ("buffer", Ok(pages @ 1..=65_536)) => next.buffer_pages = pages,
                ("ahead", Ok(chunks @ 1..=64)) => next.ahead = chunks as u32,
                ("pages", Ok(pages @ 1..=32)) => next.chunk_pages = pages as u32,
                ("least", Ok(percent @ 0..=100)) => next.least_percent = percent as u32,
                _ => {
                    return Err(format!(
                        "'{key}={value}' is none of buffer=1..65536, ahead=1..64, pages=1..32, \
                         least=0..100"
                    ));
                }
            }
        }
        Ok(Box::new(next))
    },
};

/// Names the chunk behind the one that was asked for: one only, since two in a row are asked for with a
/// probability of 61 to 86 %, four with 33 to 72 % (Table 3).
///
/// With `least`, which is ours, only while enough of what is asked for lies behind what was asked for lately, whether
/// it was loaded ahead or not: where a program asks at random, what comes along takes frames from what it uses.
#[derive(Debug)]
pub struct Next {
    /// Size of the buffer in pages.
    pub buffer_pages: usize,
    /// How many chunks ahead.
    pub ahead: u32,
    /// A chunk of more pages than this is not loaded ahead: the paper loads one page at a time.
    pub chunk_pages: u32,
    /// Nothing is named while fewer of a hundred chunks would have been named before.
    pub least_percent: u32,
    /// What was asked for lately, oldest first.
    lately: VecDeque<ChunkId>,
    /// How many of the last ones lay behind another, as a fraction of [`WHOLE`].
    share: u32,
}

/// Chunks that [`Next::lately`] holds: as many as pages in the buffer of the paper.
const LATELY: usize = 64;
/// All of the last ones.
const WHOLE: u32 = 1 << 16;
/// How many are the last ones, about.
const MEMORY: u32 = 128;

impl Default for Next {
    fn default() -> Self {
        Self {
            buffer_pages: 64,
            ahead: 1,
            chunk_pages: 1,
            least_percent: 0,
            lately: VecDeque::with_capacity(LATELY),
            // A launch comes first, as a rule, and asks for one after the other.
            share: WHOLE,
        }
    }
}

impl Next {
    /// Notes what is asked for, and whether it would have been named.
    fn note(&mut self, chunk: ChunkId) {
        let before = chunk.0.saturating_sub(self.ahead)..chunk.0;
        let is_behind = self.lately.iter().any(|asked| before.contains(&asked.0));
        self.share -= self.share / MEMORY;
        if is_behind {
            self.share += WHOLE / MEMORY;
        }
        if self.lately.len() == LATELY {
            self.lately.pop_front();
        }
        self.lately.push_back(chunk);
    }

    fn is_worth_while(&self) -> bool {
        self.share * 100 >= self.least_percent * WHOLE
    }
}

impl Prefetch for Next {
    fn on_demand(&mut self, chunk: ChunkId, out: &mut Vec<ChunkId>) {
        if self.least_percent > 0 {
            self.note(chunk);
            if !self.is_worth_while() {
                return;
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these chunks have their next one named.
    fn named(next: &mut Next, chunks: impl IntoIterator<Item = u32>) -> usize {
        let mut out = Vec::new();
        chunks
            .into_iter()
            .for_each(|chunk| next.on_demand(ChunkId(chunk), &mut out));
        out.len()
    }

    #[test]
    fn where_chunks_are_asked_for_at_random_nothing_is_loaded_ahead_until_they_are_not() {
        let mut next = Next {
            least_percent: 25,
            ..Next::default()
        };
        let scattered = |n: u32| n.wrapping_mul(2_654_435_761) % 1_000_000;
        assert!(named(&mut next, (0..1000).map(scattered)) < 200);
        assert_eq!(named(&mut next, (1000..2000).map(scattered)), 0);
        assert!(named(&mut next, 5000..5200) > 150);
    }

    #[test]
    fn as_the_paper_has_it_every_next_chunk_is_loaded() {
        let mut next = Next::default();
        assert_eq!(named(&mut next, (0..1000).map(|n| n * 77)), 1000);
    }
}
