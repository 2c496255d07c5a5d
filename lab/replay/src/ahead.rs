//! When a page that is brought back ahead of use is ready, on the clock of the open window's latency.
//!
//! One worker decompresses, another reads files, both beside the application: each begins with a piece of
//! work when it is done with the one before. The clock is the time that memory has cost in the window so
//! far. The application's own work, during which the workers go on, is not on it, so that the workers come
//! out slower than they are.

use rustc_hash::FxHashMap;
use warmswap_policy::PageId;

/// The thread that brings pages back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// Decompresses, and reads the backing file.
    Chunks,
    /// Reads files.
    Files,
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    at_ns: u64,
    /// What the application pays at most, since it can bring the page back by itself.
    alone_ns: u64,
}

/// The workers, and the pages that they brought back and that were not touched yet.
#[derive(Debug, Default)]
pub struct Ahead {
    until_ns: [u64; 2],
    ready: FxHashMap<PageId, Ready>,
}

impl Ahead {
    /// A window opens: the clock starts anew, and what was brought back earlier is ready.
    pub fn launch(&mut self) {
        *self = Self::default();
    }

    /// A worker is given work that takes `cost_ns` at `now_ns` of the window's clock. `alone_ns` is what one
    /// of the pages costs an application that does not wait for the worker.
    pub fn work(
        &mut self,
        worker: Worker,
        (now_ns, cost_ns, alone_ns): (u64, u64, u64),
        pages: impl Iterator<Item = PageId>,
    ) {
        let until = &mut self.until_ns[worker as usize];
        *until = (*until).max(now_ns) + cost_ns;
        let at_ns = *until;
        self.ready
            .extend(pages.map(|page| (page, Ready { at_ns, alone_ns })));
    }

    /// The page is touched at `now_ns`: how long the application waits for it.
    pub fn wait(&mut self, page: PageId, now_ns: u64) -> u64 {
        let ready = self.ready.remove(&page);
        ready.map_or(0, |r| r.at_ns.saturating_sub(now_ns).min(r.alone_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_go_on_side_by_side_and_nobody_waits_longer_than_alone() {
        let mut ahead = Ahead::default();
        let pages = |pages: std::ops::Range<u32>| pages.map(PageId);
        ahead.work(Worker::Chunks, (100, 10, 8), pages(0..2));
        ahead.work(Worker::Chunks, (100, 10, 8), pages(2..3));
        ahead.work(Worker::Files, (0, 50, 1000), pages(3..4));
        assert_eq!(ahead.wait(PageId(0), 104), 6);
        assert_eq!(ahead.wait(PageId(0), 104), 0, "it is in its place now");
        assert_eq!(ahead.wait(PageId(1), 200), 0);
        assert_eq!(ahead.wait(PageId(2), 104), 8, "rather than 16");
        assert_eq!(ahead.wait(PageId(3), 10), 40);
        ahead.work(Worker::Chunks, (0, 10, 8), pages(5..6));
        ahead.launch();
        assert_eq!(ahead.wait(PageId(5), 0), 0);
    }
}
