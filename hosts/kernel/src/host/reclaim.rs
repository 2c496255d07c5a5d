//! Page-out: what the engine lets go is advised away, and what became of it is looked up.

use warmswap_engine::{Action, Place};
use warmswap_page::PAGE_BYTES;
use warmswap_page::{AppId, PageAddr};
use warmswap_policy::reclaim::Arrival;
use warmswap_policy::{ChunkId, PageId};
use warmswap_sys::advise::{Advice, Advised, advise, ranges};
use warmswap_sys::monotonic_ns;
use warmswap_sys::pagemap::Residence;
use warmswap_sys::process::{Process, ProcessError};

use super::app::{App, addr, place};
use super::core::{Core, Sight, UNBOUNDED_BYTES};
use crate::counters::Counters;
use crate::prepage::thread_cpu_ns;

/// Pages that are paged out by one round: about 20 ms of work.
const ROUND_PAGES: u64 = 2048;

/// Rounds that are left out at most after rounds in which nothing was asked for.
const MOST_PAUSES: u32 = 64;

/// So many pages a second, with a reserve of a quarter of a second.
#[derive(Debug)]
pub(super) struct Rate {
    pages_per_second: u64,
    pages: u64,
    at_ns: u64,
}

impl Rate {
    pub fn new(pages_per_second: u64) -> Self {
        Self {
            pages_per_second,
            pages: pages_per_second / 4,
            at_ns: monotonic_ns(),
        }
    }

    /// Pages that may leave at this time.
    pub fn available(&mut self, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.at_ns).min(1_000_000_000);
        let gained = self.pages_per_second * passed_ns / 1_000_000_000;
        if gained > 0 {
            self.pages = (self.pages + gained).min(self.pages_per_second.div_ceil(4));
            self.at_ns = now_ns;
        }
        self.pages
    }

    pub fn spend(&mut self, pages: u64) {
        self.pages = self.pages.saturating_sub(pages);
    }
}

/// Rounds are left out after rounds in vain, twice as many each time.
#[derive(Debug, Default)]
pub(super) struct Patience {
    in_vain: u32,
    pauses: u32,
}

impl Patience {
    /// Whether this round is to be left out.
    pub fn pauses(&mut self) -> bool {
        let pauses = self.pauses > 0;
        self.pauses = self.pauses.saturating_sub(1);
        pauses
    }

    pub fn ended(&mut self, was_of_use: bool) {
        if was_of_use {
            *self = Self::default();
        } else {
            self.in_vain = (self.in_vain + 1).min(MOST_PAUSES.ilog2());
            self.pauses = 1 << self.in_vain;
        }
    }
}

/// Pages of one round.
pub(super) struct Round {
    /// A page-out was asked for. Those that did not leave are passed over by the next rounds.
    pub asked: u64,
    /// They are in swap now.
    pub out: u64,
}

/// A chunk that leaves, with its pages.
struct Leaving {
    chunk: ChunkId,
    place: Place,
    pages: Vec<PageId>,
}

/// What the engine let go in one round.
#[derive(Default)]
struct Chosen {
    /// Chunks whose pages are to be paged out.
    leaving: Vec<Leaving>,
    /// Pages that are in swap already, unchanged.
    dropped: Vec<PageId>,
    /// Pages of both.
    pages: u64,
    /// Pages that were passed over because their application is being launched.
    held: u64,
    /// Pages that were passed over because they could not be paged out before.
    refused: u64,
}

/// What became of one page.
enum Fate {
    Out,
    Kept,
    Freed,
}

impl Core {
    /// Pages out what the engine lets go, about `want` pages in one round; what it would rather keep too, if it is
    /// `urgent`.
    pub fn page_out(&mut self, apps: &mut [Option<App>], want: u64, urgent: bool) -> Round {
        let want = want.min(ROUND_PAGES);
        // So few frames free that the engine works in the background, and nobody waits; or that somebody does.
        let mut chosen = self.choose(apps, want, |least| least + 2);
        if urgent && chosen.pages == 0 {
            // The chunks without pages of the first choice are concluded along with the second.
            let emptied = std::mem::take(&mut chosen.leaving);
            chosen = self.choose(apps, want, |least| least / 2);
            chosen.leaving.extend(emptied);
        }
        self.counters.put_off_launch += u64::from(chosen.held > 0 && chosen.pages == 0);
        let Chosen {
            leaving, dropped, ..
        } = chosen;
        let mut asked: Vec<(usize, usize, u64)> = Vec::new();
        let chosen = leaving.iter().flat_map(|l| &l.pages).chain(&dropped);
        for &page in chosen {
            if let Some(place) = self.find(apps, page) {
                asked.push(place);
            }
        }
        asked.sort_unstable();
        for group in asked.chunk_by(|a, b| a.0 == b.0 && a.1 == b.1) {
            let (app, process) = (group[0].0, group[0].1);
            if let Some(app) = &mut apps[app] {
                let pages: Vec<u64> = group.iter().map(|a| a.2).collect();
                self.advise_away(app, process, &pages);
            }
        }
        self.counters.page_out_asked += asked.len() as u64;
        let mut out = 0;
        self.engine.set_budget_bytes(UNBOUNDED_BYTES);
        for Leaving {
            chunk,
            place,
            pages,
        } in leaving
        {
            for page in pages {
                if self.engine.is_leaving(chunk, page) {
                    out += self.conclude(apps, page);
                }
            }
            self.engine.stored(chunk, place, self.mean_page_bytes);
        }
        for page in dropped {
            if self.engine.is_dropped(page) {
                out += self.conclude(apps, page);
            }
        }
        self.drain();
        self.counters.page_out_done += out;
        Round {
            asked: asked.len() as u64,
            out,
        }
    }

    /// Lets the engine choose about `want` pages as if so many frames were free, by the least that it wants to
    /// be. Pages of an application that is being launched are passed over: a launch needs memory at once, and what others do
    /// not use makes room for it. So are pages that could not be paged out before; as many of both as a round has at most.
    fn choose(&mut self, apps: &[Option<App>], want: u64, free_frames: fn(u64) -> u64) -> Chosen {
        let usage = self.engine.usage();
        let used = usage.frames * PAGE_BYTES as u64 + usage.pool_bytes;
        // The watermarks follow from the budget.
        self.engine.set_budget_bytes(used);
        let free = free_frames(self.engine.watermarks().min_frames);
        self.engine
            .set_budget_bytes(used + free * PAGE_BYTES as u64);
        let mut chosen = Chosen::default();
        while let Some(decision) = self.engine.next_background_decision() {
            chosen.pages += match decision.action {
                Action::Store { chunk, .. } => {
                    self.choose_chunk(&mut chosen, apps, chunk, Place::Pool)
                }
                Action::StoreRaw { chunk } => {
                    self.choose_chunk(&mut chosen, apps, chunk, Place::Backing)
                }
                Action::Drop { page } if self.is_refused(apps, page) => {
                    self.pass_refused(&mut chosen, page);
                    0
                }
                Action::Drop { page } => {
                    chosen.dropped.push(page);
                    1
                }
                other => {
                    self.pass_over(other);
                    0
                }
            };
            if chosen.pages >= want || chosen.held + chosen.refused >= ROUND_PAGES {
                // No more of them; what is decided already is carried out.
                self.engine.set_budget_bytes(UNBOUNDED_BYTES);
            }
        }
        chosen
    }

    /// Takes in a chunk without the pages that are passed over, which count as served and stay. How many pages it has then.
    fn choose_chunk(
        &mut self,
        chosen: &mut Chosen,
        apps: &[Option<App>],
        chunk: ChunkId,
        place: Place,
    ) -> u64 {
        let all = self.engine.chunk_pages(chunk).to_vec();
        let mut pages = Vec::with_capacity(all.len());
        for page in all {
            let (app, at) = self.engine.locate(page);
            if is_being_launched(apps, app) {
                self.engine.served(app, at, Arrival::Untouched);
                chosen.held += 1;
            } else if self.is_refused(apps, page) {
                self.pass_refused(chosen, page);
            } else {
                pages.push(page);
            }
        }
        let count = pages.len() as u64;
        chosen.leaving.push(Leaving {
            chunk,
            place,
            pages,
        });
        count
    }

    /// The kernel was asked for the page a while ago, and did not page it out.
    fn is_refused(&self, apps: &[Option<App>], page: PageId) -> bool {
        self.find(apps, page).is_some_and(|(app, process, number)| {
            let app = apps[app].as_ref();
            app.is_some_and(|app| app.processes[process].pages.is_refused(number))
        })
    }

    /// Passes such a page over, as if it had been touched, so that others are tried first.
    fn pass_refused(&mut self, chosen: &mut Chosen, page: PageId) {
        let (app, at) = self.engine.locate(page);
        self.engine.served(app, at, Arrival::Touched);
        chosen.refused += 1;
    }

    /// Where a page is: application, process, number.
    fn find(&self, apps: &[Option<App>], page: PageId) -> Option<(usize, usize, u64)> {
        let (id, PageAddr::Anon { number }) = self.engine.locate(page) else {
            return None;
        };
        let (slice, page) = place(number);
        let app = apps.get(usize::from(id.0))?.as_ref()?;
        Some((usize::from(id.0), app.by_slice(slice)?, page))
    }

    /// Gives the advice, and looks at what it did.
    fn advise_away(&mut self, app: &mut App, at: usize, pages: &[u64]) {
        let process = &mut app.processes[at];
        match self.advise_out(process.process(), pages) {
            Ok(advised) => self.counters.refused(advised),
            Err(error) => {
                self.counters.failed(&error);
                process.is_untouchable |= !error.is_gone();
            }
        }
        let left = self.counters.left_by_kernel;
        self.look_at(app, at, Sight::Around(pages));
        // What left now left by this advice.
        let out = pages
            .iter()
            .filter(|&&page| app.processes[at].pages.residence(page) == Some(Residence::Swapped))
            .count() as u64;
        self.counters.left_by_kernel = left.max(self.counters.left_by_kernel.saturating_sub(out));
        app.sums.paged_out += out;
        if app.processes[at].is_untouchable {
            self.leave_untouchable(app, at);
        }
    }

    /// Has the kernel page out these pages, which ascend.
    pub(super) fn advise_out(
        &mut self,
        process: &Process,
        pages: &[u64],
    ) -> Result<Advised, ProcessError> {
        let ranges = ranges(pages.iter().copied());
        let begin_ns = thread_cpu_ns();
        let advised = advise(process, Advice::PageOut, &ranges);
        self.counters.page_out_cpu_ns += thread_cpu_ns() - begin_ns;
        advised
    }

    /// Tells the engine what became of a page that it let go. How many left.
    fn conclude(&mut self, apps: &mut [Option<App>], page: PageId) -> u64 {
        let (id, at) = self.engine.locate(page);
        let fate = match self.find(apps, page) {
            None => Fate::Freed,
            Some((app, process, number)) => {
                let process = apps[app].as_mut().map(|app| &mut app.processes[process]);
                let pages = process.map(|process| &mut process.pages);
                match pages.and_then(|pages| Some((pages.residence(number)?, pages))) {
                    Some((Residence::Swapped, _)) => Fate::Out,
                    Some((Residence::Present, pages)) => {
                        pages.mark_refused(number);
                        Fate::Kept
                    }
                    None => Fate::Freed,
                }
            }
        };
        match fate {
            Fate::Out => return 1,
            Fate::Freed => {
                self.counters.page_out_freed += 1;
                self.engine.free(id, at, 1);
            }
            Fate::Kept => {
                self.counters.page_out_kept += 1;
                // As if it had been touched, so that others are tried first.
                self.engine.served(id, at, Arrival::Touched);
            }
        }
        0
    }

    /// Takes the pages of a process that may not be paged out from the engine, so that it does not choose them.
    fn leave_untouchable(&mut self, app: &App, at: usize) {
        let process = &app.processes[at];
        for page in process.pages.numbers() {
            self.engine.free(app.id, addr(process.slice(), page), 1);
        }
    }
}

fn is_being_launched(apps: &[Option<App>], app: AppId) -> bool {
    let app = apps.get(usize::from(app.0)).and_then(Option::as_ref);
    app.is_some_and(|app| app.window.is_some())
}

impl Counters {
    /// Counts ranges that were refused.
    pub(super) fn refused(&mut self, advised: Advised) {
        self.refused_unmapped += advised.unmapped_ranges;
        self.refused_unsuitable += advised.unsuitable_ranges;
        self.refused_busy += advised.busy_ranges;
        self.refused_failed += advised.failed_ranges;
    }

    /// Counts a call that failed.
    pub(super) fn failed(&mut self, error: &ProcessError) {
        if error.is_gone() {
            self.process_gone += 1;
        } else {
            self.refused_permission += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_and_does_not_save_up() {
        let mut rate = Rate::new(1000);
        let begin = rate.at_ns;
        assert_eq!(rate.available(begin), 250);
        rate.spend(250);
        assert_eq!(rate.available(begin + 1), 0);
        assert_eq!(rate.available(begin + 100_000_000), 100);
        assert_eq!(rate.available(begin + 60_000_000_000), 250);
    }

    #[test]
    fn rounds_in_vain_are_left_out_ever_longer_and_success_ends_that() {
        let mut patience = Patience::default();
        let pauses = |patience: &mut Patience| {
            let mut n = 0;
            while patience.pauses() {
                n += 1;
            }
            n
        };
        assert_eq!(pauses(&mut patience), 0);
        for expected in [2, 4, 8, 16, 32, 64, 64] {
            patience.ended(false);
            assert_eq!(pauses(&mut patience), expected);
        }
        patience.ended(true);
        assert_eq!(pauses(&mut patience), 0);
    }
}
