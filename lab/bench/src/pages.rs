//! Recorded page contents, and an order in which to touch them.

use std::collections::BTreeMap;

use warmswap_page::PAGE_BYTES;
use warmswap_page::PageAddr;
use warmswap_trace::{ContentId, EventKind, TraceReader};

use crate::BenchError;

/// Pages that are neighbours in memory stay together in runs of this many: what a chunk of 64 KiB holds.
pub const RUN_PAGES: usize = 16;

/// Page contents out of a trace.
#[derive(Debug)]
pub struct Pages {
    contents: Vec<[u8; PAGE_BYTES]>,
}

impl Pages {
    /// Takes `count` pages (a multiple of 16) out of the anonymous memory of the trace's applications, as it was
    /// last seen: runs of 16 neighbours, spread evenly. Pages of zeros and the like are as frequent as they were
    /// there. What the trace has too few of is taken again.
    ///
    /// # Errors
    /// [`BenchError::NoContents`], and what reading meets.
    pub fn sample(trace: &TraceReader, count: usize) -> Result<Self, BenchError> {
        let memory = last_seen(trace)?;
        if memory.len() < RUN_PAGES {
            return Err(BenchError::NoContents(trace.path().display().to_string()));
        }
        let runs = count.div_ceil(RUN_PAGES);
        let mut contents = vec![[0; PAGE_BYTES]; count];
        for (run, pages) in contents.chunks_mut(RUN_PAGES).enumerate() {
            let first = run * (memory.len() - RUN_PAGES) / runs;
            for (page, &id) in pages.iter_mut().zip(&memory[first..]) {
                trace.content(id, page)?;
            }
        }
        Ok(Self { contents })
    }

    /// How many pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    /// The contents, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8; PAGE_BYTES]> {
        self.contents.iter()
    }

    /// All page numbers, each once, in an order that looks random and is always the same.
    #[must_use]
    pub fn shuffled(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.len()).collect();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for i in (1..order.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            order.swap(i, (state >> 33) as usize % (i + 1));
        }
        order
    }
}

/// The last known content of every anonymous page, by application and address.
fn last_seen(trace: &TraceReader) -> Result<Vec<ContentId>, BenchError> {
    let mut memory = BTreeMap::new();
    let (mut events, mut block) = (trace.events(), Vec::new());
    while events.next_block(&mut block)? {
        for event in &block {
            let (page, content) = match event.kind {
                EventKind::Access {
                    page,
                    content: Some(content),
                    ..
                } => (page, content),
                EventKind::Content { page, content } => (page, content),
                _ => continue,
            };
            if let PageAddr::Anon { number } = page {
                memory.insert((event.app, number), content);
            }
        }
    }
    Ok(memory.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_its_size_and_the_order_has_each_page_once() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/mixed.wst");
        let trace = TraceReader::open(path).expect("the trace of the repository");
        let pages = Pages::sample(&trace, 256).expect("contents");
        assert_eq!(pages.len(), 256);
        assert!(pages.iter().any(|page| page.iter().any(|&byte| byte != 0)));
        let mut order = pages.shuffled();
        assert_ne!(order, (0..256).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..256).collect::<Vec<_>>());
    }
}
