//! The footprint of a launch: its chunks are handed to the restore threads, and reported when they are done.
//!
//! A touch of a page in its place is not seen, so that a footprint put there as a whole would never change
//! again. Some of it waits in staging instead, where a touch is a fault that costs little: each page once in
//! [`WATCH_EVERY`] launches, and one that was found unused in every launch until it is used or forgotten. Of
//! the others the engine learns nothing (`Engine::touches_are_unseen`).

use std::collections::VecDeque;
use std::sync::Arc;

use warmswap_engine::calls::Call;
use warmswap_policy::ChunkId;
use warmswap_policy::prefetch::footprint::plan::ANON_BATCH_PAGES;

use super::Pager;
use crate::address_map::AddressMap;
use crate::fault::Core;
use crate::page_words::State;
use crate::restore::{Job, Jobs, Source};

/// Launches in which each page of a footprint is watched once.
const WATCH_EVERY: usize = 8;

/// Chunks on their way back, oldest first.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Where the restore threads take their work.
    pub jobs: Arc<Jobs>,
    under_way: VecDeque<Arc<Job>>,
    /// What is gathered for the next job.
    pages: Vec<u32>,
    chunks: Vec<ChunkId>,
    /// Launches so far.
    pub launches: usize,
}

impl Ahead {
    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Leaves what is not begun to faults.
    pub fn cancel(&self) {
        self.under_way.iter().for_each(|job| job.cancel());
    }

    /// Those jobs at the front that are done.
    pub fn take_done(&mut self) -> Vec<Arc<Job>> {
        let is_done = |job: &&Arc<Job>| job.is_done();
        let done = self.under_way.iter().take_while(is_done).count();
        self.under_way.drain(..done).collect()
    }

    /// Gives the restore threads a job.
    pub fn push(&mut self, job: Job) {
        let job = Arc::new(job);
        self.under_way.push_back(Arc::clone(&job));
        self.jobs.push(job);
    }
}

impl<M: AddressMap> Pager<M> {
    /// Whether the pages of a chunk of the footprint are to wait in staging, where a touch is seen.
    pub(super) fn is_watched(&self, chunk: ChunkId) -> bool {
        let members = self.members(chunk);
        let mut wanted = members
            .iter()
            .filter(|&&(_, id)| self.engine.is_loading(chunk, id));
        let is_doubted = |&(page, id): &(usize, _)| {
            let (app, addr) = self.locate(page);
            self.engine.doubts(app, addr) || self.engine.is_on_probation(id)
        };
        let is_due =
            |&(page, _): &(usize, _)| (page + self.ahead.launches).is_multiple_of(WATCH_EVERY);
        let first = wanted.next();
        first.is_some_and(|first| is_due(first) || is_doubted(first)) || wanted.any(is_doubted)
    }

    /// Has the restore threads bring back what is wanted of a chunk.
    pub(super) fn bring_ahead(&mut self, chunk: ChunkId) {
        let members = self.members(chunk);
        let wanted = members
            .iter()
            .filter(|&&(_, id)| self.engine.is_loading(chunk, id));
        self.ahead
            .pages
            .extend(wanted.map(|&(page, _)| page as u32));
        self.ahead.chunks.push(chunk);
        if self.ahead.pages.len() >= ANON_BATCH_PAGES {
            self.hand_over();
        }
    }

    /// Gives the restore threads what was gathered.
    pub(super) fn hand_over(&mut self) {
        let ahead = &mut self.ahead;
        if ahead.chunks.is_empty() {
            return;
        }
        let (pages, chunks) = (
            std::mem::take(&mut ahead.pages),
            std::mem::take(&mut ahead.chunks),
        );
        ahead.push(Job::of(pages, Source::Chunks(chunks)));
    }

    /// The restore threads are done with a job, or will never be: what they brought is told already.
    pub(super) fn report_job(&mut self, core: &Core, job: &Job) {
        match job.source() {
            Source::Any => {}
            Source::Chunks(chunks) => chunks.iter().for_each(|&chunk| self.brought(core, chunk)),
            Source::File => self.was_read(core, job.pages()),
        }
    }

    /// Pages of a chunk for which no frame was found are stored as before. A thread that holds one of them may be reading the chunk,
    /// which the engine frees once it takes all of them for loaded: so that is waited for. They do not wait for us.
    fn brought(&mut self, core: &Core, chunk: ChunkId) {
        let is_away = |&(page, id)| {
            self.engine.is_loading(chunk, id) && core.words.settled(page).state == State::Stored
        };
        let call = if self.members(chunk).iter().any(is_away) {
            Call::LoadAbandoned(chunk)
        } else {
            Call::Loaded(chunk)
        };
        self.engine.call(call);
    }

    /// In the child of a `fork`, whose restore threads are others: what those of the parent were to bring is
    /// where it was at the fork.
    pub fn forget_ahead(&mut self, core: &Core) {
        let jobs = std::mem::take(&mut self.ahead.under_way);
        jobs.iter().for_each(|job| self.report_job(core, job));
    }

    /// Whether a footprint is on its way.
    pub fn is_prepaging(&self) -> bool {
        self.engine.is_prepaging() || !self.ahead.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use warmswap_engine::Action;
    use warmswap_page::PAGE_BYTES;

    use super::super::testing::arena;
    use super::{Call, State};
    use crate::fault::Wanted;

    /// Else the engine frees the chunk under it, and the page is lost.
    #[test]
    fn a_chunk_counts_as_loaded_only_when_no_thread_reads_it() {
        let name = "a_chunk_counts_as_loaded_only_when_no_thread_reads_it";
        let Some(arena) = arena(name, "zram+prefetch=next:buffer=8") else {
            return;
        };
        let core = &arena.shared.core;
        let app = arena.application("two pages").expect("an application");
        let region = app.region(2 * PAGE_BYTES).expect("a region");
        let pages = [region.first, region.first + 1];
        for page in pages {
            arena.shared.bring(page, Wanted::Demand);
        }
        let mut pager = arena.shared.pager();
        pager.drain_arrivals(core);
        for page in pages {
            let (app, addr) = pager.locate(page);
            pager.engine.call(Call::SendAway(app, addr));
        }
        arena.shared.settle(&mut pager);
        // The other page is predicted.
        arena.shared.bring(pages[0], Wanted::Demand);
        pager.drain_arrivals(core);
        let decisions = std::iter::from_fn(|| pager.engine.next_background_decision());
        let loads = decisions.filter_map(|decision| match decision.action {
            Action::Load { chunk, .. } => Some(chunk),
            _ => None,
        });
        let loads: Vec<_> = loads.collect();
        let [chunk] = loads[..] else {
            panic!("{loads:?}");
        };

        // A fault on it has begun, and fails.
        let word = core.words.word(pages[1]);
        assert_eq!((word.state, word.chunk), (State::Stored, chunk));
        let claim = core.words.claim(pages[1], word).expect("a page");
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                has_ended.store(true, Ordering::Release);
                drop(claim);
            });
            pager.brought(core, chunk);
        });

        assert!(has_ended.load(Ordering::Acquire));
        arena.shared.settle(&mut pager);
        drop(pager);
        assert_eq!(core.words.word(pages[1]).state, State::Stored);
        arena.shared.bring(pages[1], Wanted::Demand);
    }
}
