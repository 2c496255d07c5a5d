//! For hosts that serve faults before the engine hears of them, and that cannot see writes.
//!
//! Such a host finds a page's chunk by itself, brings the page back, and tells the engine later
//! ([`Engine::served`]). Until then the engine holds the page to be where it was: stored, buffered or
//! leaving. That is safe, since a page leaves its frame by the engine's decision only, and a chunk is freed
//! only when the engine knows all its pages to be elsewhere.

use super::{Engine, Outcome};
use crate::decision::Cause;
use warmswap_page::{AppId, PageAddr};
use warmswap_policy::page::Mark;
use warmswap_policy::reclaim::Arrival;
use warmswap_policy::{ChunkId, PageId, PageState};

impl Engine {
    /// The page is in its frame now: the host brought it back by itself, because it was touched
    /// ([`Arrival::Touched`]) or came along. No `Load` follows for it. Telling it again is a touch of a
    /// resident page, or nothing. A page of the footprint that was put in its place unasked is
    /// [`Outcome::Prepaged`].
    ///
    /// A page that was leaving has its content from its frame: a store of it that is under way leaves it out.
    pub fn served(&mut self, app: AppId, addr: PageAddr, arrival: Arrival) -> Outcome {
        let page = self.table.find_or_insert(app, addr);
        // There is something to reclaim that was not there before, though nothing was touched.
        self.stuck = false;
        match (self.table[page].state, arrival) {
            (PageState::Stored, _) => self.served_stored(app, page, arrival),
            (_, Arrival::Touched) => self.touch(app, addr, false).outcome,
            (PageState::Absent | PageState::Discarded, _) => self.served_fresh(app, page, arrival),
            (PageState::Leaving, _) => {
                self.budget.leaving -= 1;
                self.make_resident(page, arrival);
                self.has_no_copy(page);
                self.drop_copy(page);
                Outcome::Hit
            }
            (PageState::Buffered, _) => {
                let is_expected = self.table[page].has(Mark::Expected);
                self.unbuffer(page);
                self.make_resident(page, arrival);
                if is_expected {
                    self.presume_prepaged(page);
                    Outcome::Prepaged
                } else {
                    Outcome::BufferHit
                }
            }
            (PageState::Loading, _) if self.table[page].has(Mark::Expected) => {
                self.served_expected(page);
                Outcome::Prepaged
            }
            (PageState::Loading, _) => {
                // It is there already: the load that is under way finds it so.
                self.wait_for(page);
                Outcome::InFlight
            }
            _ => Outcome::Hit,
        }
    }

    /// A page came along that was in no chunk. One of a file was read: for a launch that counts as touched, since
    /// a touch of it now is not seen.
    fn served_fresh(&mut self, app: AppId, page: PageId, arrival: Arrival) -> Outcome {
        if !self.table.is_file(page) {
            return self.first_touch_as(page, arrival);
        }
        self.take_frame(page, arrival);
        let outcome = self.read_file();
        self.note_access(app, self.table.addr(page), outcome);
        outcome
    }

    fn served_stored(&mut self, app: AppId, page: PageId, arrival: Arrival) -> Outcome {
        let chunk = self.table[page].chunk;
        let place = self.chunks[chunk].place();
        let touched = arrival == Arrival::Touched;
        if touched {
            self.used(app);
            self.count_fault(place);
        }
        self.budget.usage.frames += 1;
        self.absent_less(chunk);
        self.arrive(page, chunk, touched, false);
        self.settle(chunk);
        if touched {
            self.note_access(app, self.table.addr(page), Outcome::Fault(place));
            self.note_seen(page);
            self.prefetch_behind(chunk);
        }
        Outcome::Fault(place)
    }

    /// A page of the footprint is in its place ahead of the report of its load, which finds it so.
    fn served_expected(&mut self, page: PageId) {
        let chunk = self.table[page].chunk;
        self.absent_less(chunk);
        self.arrive(page, chunk, false, true);
        if self.table[page].state == PageState::Buffered {
            self.unbuffer(page);
            self.make_resident(page, Arrival::Untouched);
        }
        if self.table[page].state == PageState::Resident {
            self.presume_prepaged(page);
        }
    }

    /// The page of a `Drop` was written to since it came back, so that its chunk does not hold its content:
    /// it is on its way out with its frame, and a `Store` of it follows.
    pub fn copy_is_stale(&mut self, page: PageId) {
        debug_assert_eq!(self.table[page].state, PageState::Stored);
        self.absent_less(self.table[page].chunk);
        self.counters.dropped -= 1;
        self.budget.usage.frames += 1;
        self.budget.leaving += 1;
        self.table[page].state = PageState::Leaving;
        self.table[page].set(Mark::Dirty);
        self.drop_copy(page);
        self.outbox.push_back((page, Cause::Background));
    }

    /// A `Load` that no thread waits for is not carried out: its pages are stored as before. Those that the host
    /// served itself meanwhile are in their frames.
    pub fn load_abandoned(&mut self, chunk: ChunkId) {
        let load = self.loads.take(chunk);
        let pages = self.chunks.pages(chunk).to_vec();
        for page in pages {
            if !self.is_loading(chunk, page) {
                continue;
            }
            if load.is_waited_for(page) {
                self.absent_less(chunk);
                self.arrive(page, chunk, true, false);
            } else {
                self.table[page].state = PageState::Stored;
                self.table[page].take(Mark::Expected);
                self.budget.usage.frames -= 1;
            }
        }
        self.settle(chunk);
        self.load_late(chunk);
    }

    /// A host of live memory ends no application: the `Kill` is refused, and nothing more is reclaimed until
    /// something happens.
    pub fn kill_refused(&mut self) {
        self.dying = None;
        self.stuck = true;
        self.counters.kills -= 1;
        self.counters.budget_exceeded += 1;
    }

    /// The owner of a page says that it is not needed for long: it leaves now, as if it had been chosen. False
    /// for a page that is neither resident nor prefetched.
    pub fn send_away(&mut self, app: AppId, addr: PageAddr) -> bool {
        let Some(page) = self.table.find(app, addr) else {
            return false;
        };
        match self.table[page].state {
            _ if self.scheme.reclaim.is_unlimited() => return false,
            PageState::Resident => self.scheme.reclaim.remove(&mut self.table, page),
            PageState::Buffered => {
                self.unbuffer(page);
                self.counters.prefetch_wasted += 1;
            }
            _ => return false,
        }
        self.send_off(&mut vec![page], Cause::Background);
        true
    }

    /// The chunk that holds a valid copy of the page, if there is one.
    pub fn chunk_of(&self, page: PageId) -> Option<ChunkId> {
        let chunk = self.table[page].chunk;
        (chunk != ChunkId::NONE).then_some(chunk)
    }

    /// Watermarks of the free frames.
    pub fn watermarks(&self) -> crate::Watermarks {
        self.budget.watermarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Limits, Place};
    use warmswap_page::LaunchKind;
    use warmswap_policy::SchemeSpec;

    const APP: AppId = AppId(0);
    const ADDR: PageAddr = PageAddr::Anon { number: 7 };

    /// An engine with one page, stored in the pool; the page and its chunk.
    fn stored(scheme: &str) -> (Engine, PageId, ChunkId) {
        let limits = Limits {
            budget_bytes: 4 << 20,
            pool_limit_bytes: 1 << 20,
            backing_limit_bytes: 0,
        };
        let scheme = SchemeSpec::parse(scheme).and_then(|spec| spec.build());
        let mut engine = Engine::new(scheme.expect("a scheme"), limits).expect("limits");
        assert_eq!(
            engine.served(APP, ADDR, Arrival::Touched),
            Outcome::FirstTouch
        );
        assert!(engine.send_away(APP, ADDR));
        let Some(Action::Store { chunk, .. }) = next(&mut engine) else {
            panic!("a page that was sent away is stored");
        };
        engine.stored(chunk, Place::Pool, 100);
        let page = engine.page(APP, ADDR);
        engine.check().expect("invariants");
        (engine, page, chunk)
    }

    /// A stored chunk is given back.
    fn freed(chunk: ChunkId) -> Action {
        let (place, bytes) = (Place::Pool, 100);
        Action::Free {
            chunk,
            place,
            bytes,
        }
    }

    fn next(engine: &mut Engine) -> Option<Action> {
        engine.next_decision().map(|decision| decision.action)
    }

    #[test]
    fn a_served_page_needs_no_load_and_its_chunk_is_freed() {
        for arrival in [Arrival::Touched, Arrival::Untouched] {
            let (mut engine, page, chunk) = stored("zram");
            let outcome = engine.served(APP, ADDR, arrival);
            assert_eq!(outcome, Outcome::Fault(Place::Pool));
            assert_eq!(engine.page_state(page), PageState::Resident);
            assert_eq!(next(&mut engine), Some(freed(chunk)));
            assert_eq!(next(&mut engine), None);
            assert_eq!(engine.served(APP, ADDR, arrival), Outcome::Hit);
            engine.check().expect("invariants");
        }
    }

    #[test]
    fn a_page_in_its_frame_is_not_stored_only_though_its_copy_is_kept() {
        let (mut engine, page, chunk) = stored("zram+keep-copies=on");
        assert_eq!(engine.stored_only_pages(), 1);
        engine.served(APP, ADDR, Arrival::Touched);
        assert_eq!(engine.chunk_of(page), Some(chunk));
        assert_eq!(engine.stored_only_pages(), 0);
        assert!(engine.send_away(APP, ADDR));
        assert_eq!(next(&mut engine), Some(Action::Drop { page }));
        assert_eq!(engine.stored_only_pages(), 1);
        engine.free(APP, ADDR, 1);
        assert_eq!(engine.stored_only_pages(), 0);
        engine.check().expect("invariants");
    }

    #[test]
    fn a_stale_copy_is_freed_and_the_page_stored_anew() {
        let (mut engine, page, chunk) = stored("zram+keep-copies=on");
        engine.served(APP, ADDR, Arrival::Touched);
        assert_eq!(engine.chunk_of(page), Some(chunk));
        assert!(engine.send_away(APP, ADDR));
        assert_eq!(next(&mut engine), Some(Action::Drop { page }));
        engine.copy_is_stale(page);
        engine.check().expect("invariants");
        assert_eq!(next(&mut engine), Some(freed(chunk)));
        assert!(matches!(next(&mut engine), Some(Action::Store { .. })));
        engine.check().expect("invariants");
    }

    /// An engine that is bringing the second of two stored pages back by prediction; both pages, and the chunk
    /// that is loading.
    fn predicting() -> (Engine, [PageId; 2], ChunkId) {
        let (mut engine, first, _) = stored("zram+prefetch=next");
        engine.served(APP, OTHER, Arrival::Touched);
        assert!(engine.send_away(APP, OTHER));
        let Some(Action::Store { chunk, .. }) = next(&mut engine) else {
            panic!("a page that was sent away is stored");
        };
        engine.stored(chunk, Place::Pool, 100);
        engine.served(APP, ADDR, Arrival::Touched);
        let loads: Vec<_> = std::iter::from_fn(|| next(&mut engine))
            .filter(|action| matches!(action, Action::Load { .. }))
            .collect();
        let place = Place::Pool;
        assert_eq!(loads, [Action::Load { chunk, place }]);
        let second = engine.page(APP, OTHER);
        assert_eq!(engine.page_state(second), PageState::Loading);
        (engine, [first, second], chunk)
    }

    const OTHER: PageAddr = PageAddr::Anon { number: 8 };

    #[test]
    fn what_is_far_beyond_the_budget_is_reclaimed_batch_by_batch() {
        let (mut engine, ..) = stored("zram");
        let pages = (4 << 20) / 4096;
        for number in 100..100 + 2 * pages {
            engine.served(APP, PageAddr::Anon { number }, Arrival::Untouched);
        }
        while let Some(decision) = engine.next_background_decision() {
            match decision.action {
                Action::Store { chunk, .. } => engine.stored(chunk, Place::Pool, 100),
                other => panic!("{other:?}"),
            }
        }
        assert!(engine.usage().frames < pages, "{}", engine.usage().frames);
        engine.check().expect("invariants");
    }

    #[test]
    fn pages_that_nobody_touched_are_reclaimed_although_there_was_nothing_before() {
        let (mut engine, ..) = stored("zram");
        // A kill was looked for, since nothing else was left to give up.
        engine.counters.kills += 1;
        engine.kill_refused();
        for number in 100..100 + (4 << 20) / 4096 {
            engine.served(APP, PageAddr::Anon { number }, Arrival::Untouched);
        }
        let store = engine.next_background_decision().map(|d| d.action);
        assert!(matches!(store, Some(Action::Store { .. })), "{store:?}");
    }

    #[test]
    fn an_abandoned_load_leaves_its_pages_stored() {
        let (mut engine, [first, second], chunk) = predicting();
        let frames = engine.usage().frames;
        engine.load_abandoned(chunk);
        assert_eq!(engine.page_state(second), PageState::Stored);
        assert_eq!(engine.page_state(first), PageState::Resident);
        assert_eq!(engine.usage().frames, frames - 1);
        assert_eq!(engine.chunk_of(second), Some(chunk));
        assert_eq!(next(&mut engine), None);
        engine.check().expect("invariants");
        let outcome = engine.served(APP, OTHER, Arrival::Touched);
        assert_eq!(outcome, Outcome::Fault(Place::Pool));
        engine.check().expect("invariants");
    }

    #[test]
    fn a_page_that_was_served_during_an_abandoned_load_is_in_its_frame() {
        let (mut engine, [_, second], chunk) = predicting();
        let frames = engine.usage().frames;
        let outcome = engine.served(APP, OTHER, Arrival::Touched);
        assert_eq!(outcome, Outcome::InFlight);
        engine.load_abandoned(chunk);
        assert_eq!(engine.page_state(second), PageState::Resident);
        assert_eq!(engine.usage().frames, frames);
        assert_eq!(next(&mut engine), Some(freed(chunk)));
        engine.check().expect("invariants");
    }

    /// Else its host gives up the frame that the load counts on, and the chunk, which holds the content alone, is freed.
    #[test]
    fn a_page_that_was_touched_before_its_drop_was_carried_out_keeps_its_frame() {
        let (mut engine, ..) = stored("zram+prefetch=next+keep-copies=on");
        engine.served(APP, OTHER, Arrival::Touched);
        let second = engine.page(APP, OTHER);
        assert!(engine.send_away(APP, OTHER));
        let Some(Action::Store { chunk, .. }) = next(&mut engine) else {
            panic!("a page that was sent away is stored");
        };
        engine.stored(chunk, Place::Pool, 100);
        engine.served(APP, OTHER, Arrival::Touched);
        assert!(engine.send_away(APP, OTHER));
        assert_eq!(next(&mut engine), Some(Action::Drop { page: second }));
        // A touch of the first page predicts this one.
        engine.served(APP, ADDR, Arrival::Touched);
        let place = Place::Pool;
        assert_eq!(next(&mut engine), Some(Action::Load { chunk, place }));
        assert!(engine.is_dropped(second));
        let outcome = engine.served(APP, OTHER, Arrival::Touched);
        assert_eq!(outcome, Outcome::InFlight);
        assert!(!engine.is_dropped(second));
        engine.load_abandoned(chunk);
        assert_eq!(engine.page_state(second), PageState::Resident);
        engine.check().expect("invariants");
    }

    #[test]
    fn a_page_of_a_file_that_came_along_is_in_its_frame_again() {
        const FILE: PageAddr = PageAddr::File {
            file: warmswap_page::FileId(3),
            number: 9,
        };
        let (mut engine, ..) = stored("zram");
        let frames = engine.usage().frames;
        let outcomes = [Arrival::Touched, Arrival::Untouched].map(|arrival| {
            let outcome = engine.served(APP, FILE, arrival);
            assert_eq!(engine.usage().frames, frames + 1);
            assert!(engine.send_away(APP, FILE));
            assert!(matches!(
                next(&mut engine),
                Some(Action::Discard { dirty: false, .. })
            ));
            engine.check().expect("invariants");
            outcome
        });
        assert_eq!(outcomes, [Outcome::FileRead; 2]);
    }

    /// An engine in whose open window a stored page of the footprint is on its way back; the page and its chunk.
    fn prepaging() -> (Engine, PageId, ChunkId) {
        let (mut engine, page, mut chunk) = stored("asap");
        engine.touches_are_unseen();
        for _ in 0..2 {
            engine.launch_begin(APP, LaunchKind::Relaunch);
            engine.served(APP, ADDR, Arrival::Touched);
            engine.launch_end(APP);
            assert!(engine.send_away(APP, ADDR));
            while let Some(action) = next(&mut engine) {
                if let Action::Store { chunk: new, .. } = action {
                    chunk = new;
                    engine.stored(chunk, Place::Pool, 100);
                }
            }
        }
        engine.launch_begin(APP, LaunchKind::Relaunch);
        let load = engine.next_background_decision().map(|it| it.action);
        let place = Place::Pool;
        assert_eq!(load, Some(Action::Load { chunk, place }));
        (engine, page, chunk)
    }

    #[test]
    fn a_page_of_the_footprint_may_be_in_its_place_before_its_load_is_reported() {
        let (mut engine, page, chunk) = prepaging();
        let outcome = engine.served(APP, ADDR, Arrival::Untouched);
        assert_eq!(outcome, Outcome::Prepaged);
        assert_eq!(engine.page_state(page), PageState::Resident);
        engine.check().expect("invariants");
        engine.loaded(chunk);
        assert_eq!(next(&mut engine), Some(freed(chunk)));
        engine.check().expect("invariants");
        let counters = engine.counters();
        assert_eq!((counters.prepaged, counters.prefetch_wasted), (1, 0));
    }

    #[test]
    fn a_page_in_its_place_neither_ages_nor_counts_and_one_that_waits_in_vain_is_doubted() {
        let (mut engine, _, chunk) = prepaging();
        engine.served(APP, ADDR, Arrival::Untouched);
        engine.loaded(chunk);
        engine.launch_end(APP);
        assert!(engine.expects(APP, ADDR) && !engine.doubts(APP, ADDR));
        let (mut engine, page, chunk) = prepaging();
        engine.loaded(chunk);
        assert_eq!(engine.page_state(page), PageState::Buffered);
        engine.launch_end(APP);
        assert!(engine.expects(APP, ADDR) && engine.doubts(APP, ADDR));
    }

    #[test]
    fn a_refused_kill_is_not_asked_for_again_until_something_happens() {
        // No pool and no backing file: applications are all that can be given up.
        let limits = Limits {
            budget_bytes: 64 << 12,
            pool_limit_bytes: 0,
            backing_limit_bytes: 0,
        };
        let scheme = SchemeSpec::parse("zram").and_then(|spec| spec.build());
        let mut engine = Engine::new(scheme.expect("a scheme"), limits).expect("limits");
        engine.set_pool_bytes(0);
        for app in [APP, AppId(1)] {
            engine.launch_begin(app, LaunchKind::Cold);
            for number in 0..30 {
                engine.served(app, PageAddr::Anon { number }, Arrival::Touched);
            }
        }
        assert_eq!(
            next(&mut engine),
            None,
            "no application is in the background"
        );
        engine.background(APP);
        assert_eq!(next(&mut engine), Some(Action::Kill { app: APP }));
        let exceeded = engine.counters().budget_exceeded;

        engine.kill_refused();

        let counters = engine.counters();
        assert_eq!(
            (counters.kills, counters.budget_exceeded),
            (0, exceeded + 1)
        );
        assert_eq!(next(&mut engine), None);
        let page = engine.page(APP, PageAddr::Anon { number: 3 });
        assert_eq!(engine.page_state(page), PageState::Resident);
        engine.check().expect("invariants");
        engine.background(APP);
        assert_eq!(next(&mut engine), Some(Action::Kill { app: APP }));
    }
}
