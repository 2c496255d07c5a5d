//! The prefetch buffer against a plain queue: first in, first out, `buffer` pages long, one chunk ahead.

mod common;

use common::{anon, host};
use proptest::prelude::*;
use std::collections::VecDeque;
use warmswap_engine::{Action, Outcome, Place};
use warmswap_policy::ChunkId;

const PAGES: usize = 40;

/// What the host should find, page by page.
#[derive(Debug, Default)]
struct Model {
    /// The chunk that holds a page; none while the page is resident.
    chunk_of: Vec<Option<ChunkId>>,
    /// Prefetched pages and where they came from, oldest first.
    buffer: VecDeque<(usize, ChunkId)>,
    used: u64,
    wasted: u64,
    prefetched: u64,
}

impl Model {
    /// A page is asked for; returns what it should cost and the page that falls out of the buffer.
    fn touch(&mut self, page: usize, capacity: usize) -> (Outcome, Option<usize>) {
        let (outcome, origin) = if let Some(at) = self.buffer.iter().position(|&(p, _)| p == page) {
            self.used += 1;
            let (_, origin) = self.buffer.remove(at).expect("found");
            (Outcome::BufferHit, origin)
        } else if let Some(origin) = self.chunk_of[page].take() {
            (Outcome::Fault(Place::Pool), origin)
        } else {
            return (Outcome::Hit, None);
        };
        let next = ChunkId(origin.0 + 1);
        let mut fell_out = None;
        if let Some(behind) = self.chunk_of.iter().position(|&chunk| chunk == Some(next)) {
            self.chunk_of[behind] = None;
            self.buffer.push_back((behind, next));
            self.prefetched += 1;
            if self.buffer.len() > capacity {
                let (oldest, _) = self.buffer.pop_front().expect("too long");
                self.wasted += 1;
                fell_out = Some(oldest);
            }
        }
        (outcome, fell_out)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_buffer_is_a_queue(capacity in 1..6_usize, touches in prop::collection::vec((0..PAGES, 0..5_usize), 1..60)) {
        let mut h = host(&format!("zram+prefetch=next:buffer={capacity}"), 1024);
        (0..PAGES as u64).for_each(|n| {
            h.touch(0, anon(n), true);
        });
        h.shrink(0);
        let stored = |action: &Action| match action {
            Action::Store { chunk, .. } => Some(*chunk),
            _ => None,
        };
        let mut model = Model {
            chunk_of: h.take_log().iter().map(stored).collect(),
            ..Model::default()
        };
        for (first, run) in touches {
            for page in first..(first + run).min(PAGES) {
                let (outcome, fell_out) = model.touch(page, capacity);
                prop_assert_eq!(h.touch(0, anon(page as u64), false), outcome, "page {}", page);
                let again: Vec<_> = h.take_log().iter().filter_map(stored).collect();
                prop_assert_eq!(again.len(), usize::from(fell_out.is_some()));
                if let Some(page) = fell_out {
                    model.chunk_of[page] = Some(again[0]);
                }
                let counters = h.engine.counters();
                prop_assert_eq!(
                    (counters.buffer_hits, counters.prefetched, counters.prefetch_wasted),
                    (model.used, model.prefetched, model.wasted)
                );
            }
        }
        h.check();
    }
}
