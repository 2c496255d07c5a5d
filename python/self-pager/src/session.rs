//! One background and one return after the other, and what is learned from them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use warmswap_protocol::{AppEvent, DAEMON_SOCKET};

use crate::PagerError;
use crate::advise::{self, Adviser};
use crate::learned::Learned;
use crate::own::{Counters, Look, Own, SwapSpace, page_set};
use crate::pages::PageSet;
use crate::plan::{Kept, Reasons, plan};
use crate::tell::{Teller, Told};

/// How the pager works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name under which the daemon knows this process; none where it follows the daemon.
    pub app: Option<String>,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// A launch window that the program does not close is closed after this time (Fleet's T_F).
    pub launch_window: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            app: Some(format!("python-{}", std::process::id())),
            socket: PathBuf::from(DAEMON_SOCKET),
            launch_window: Duration::from_secs(10),
        }
    }
}

/// A request to go to the background.
#[derive(Debug, Clone, Default)]
pub struct OutRequest {
    /// Pages with young objects.
    pub young: PageSet,
    /// Pages with objects near roots.
    pub near: PageSet,
    /// Pages with data that was used shortly before.
    pub data: PageSet,
    /// Most of the anonymous memory, swapped or not, that may stay for any reason but being a stack, from 0 to 1.
    pub keep_share: f64,
    /// Give free memory of the C library back first.
    pub trim: bool,
}

/// What became of it.
#[derive(Debug, Clone, Default)]
pub struct OutReport {
    /// What the kernel counted before.
    pub before: Counters,
    /// And after.
    pub after: Counters,
    /// Free memory that the C library gave back.
    pub freed_bytes: u64,
    /// Pages that were to leave.
    pub asked_pages: u64,
    /// Of these, pages that are not in memory any more, by the page table.
    pub left_pages: u64,
    /// Pages that were to stay.
    pub kept: Kept,
    /// Ranges that cannot be paged out: locked, or unmapped meanwhile.
    pub refused_ranges: u64,
    /// Swap of the machine afterwards.
    pub swap: SwapSpace,
    /// Ended early because the process was wanted again.
    pub was_stopped: bool,
    /// Time that it took.
    pub took: Duration,
    /// Returns that were learned from so far.
    pub returns: u64,
    /// Why ranges were handed to the kernel one by one; `None` with `process_madvise`.
    pub fallback: Option<String>,
    /// Why nothing was paged out at all.
    pub problem: Option<String>,
    /// What the daemon said.
    pub told: Told,
}

/// One return.
#[derive(Debug, Clone, Default)]
pub struct ReturnReport {
    /// Pages in swap when it began.
    pub out_pages: u64,
    /// Of these, pages that were brought back ahead of use.
    pub ahead_pages: u64,
    /// Time that this took, beside the program.
    pub ahead_took: Duration,
    /// Pages that the program touched in swap within the launch window; `None` while that is open.
    pub touched_pages: Option<u64>,
    /// What the daemon said.
    pub told: Told,
}

/// A return that is not learned from yet.
#[derive(Debug)]
struct Return {
    report: ReturnReport,
    ahead: PageSet,
    /// What was touched within the launch window, once that is closed.
    touched: Option<PageSet>,
    /// When it is closed if the program does not.
    due: Instant,
}

/// The state that the worker owns.
#[derive(Debug)]
pub struct Session {
    own: Own,
    adviser: Adviser,
    learned: Learned,
    teller: Teller,
    settings: Settings,
    /// In swap after the last page-out.
    out: PageSet,
    back: Option<Return>,
}

impl Session {
    /// In the foreground, with nothing learned.
    ///
    /// # Errors
    /// [`PagerError`].
    pub fn new(settings: Settings) -> Result<Self, PagerError> {
        Ok(Self {
            own: Own::open()?,
            adviser: Adviser::new(),
            learned: Learned::default(),
            teller: Teller::new(&settings.socket, settings.app.as_deref()),
            settings,
            out: PageSet::default(),
            back: None,
        })
    }

    /// When the launch window must be closed; `None` while none is open.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.back
            .as_ref()
            .filter(|back| back.touched.is_none())
            .map(|back| back.due)
    }

    /// Pages out what has no reason to stay, until `stop` is set.
    ///
    /// # Errors
    /// [`PagerError`] when the process cannot be looked at.
    pub fn page_out(
        &mut self,
        request: &OutRequest,
        stop: &AtomicBool,
    ) -> Result<OutReport, PagerError> {
        let start = Instant::now();
        self.learn()?;
        self.teller.tell(AppEvent::Background);
        let before = self.own.counters()?;
        let mut freed_bytes = 0;
        if request.trim {
            advise::trim_heap();
            freed_bytes = before
                .anon_bytes
                .saturating_sub(self.own.counters()?.anon_bytes);
        }
        let mut report = OutReport {
            before,
            freed_bytes,
            swap: self.own.swap()?,
            returns: self.learned.returns(),
            ..OutReport::default()
        };
        if report.swap.total_bytes == 0 {
            report.problem = Some("this machine has no swap, so nothing can be paged out".into());
        } else {
            self.page_out_cold(request, stop, &mut report)?;
        }
        report.after = self.own.counters()?;
        report.swap = self.own.swap()?;
        report.was_stopped = stop.load(Relaxed);
        report.took = start.elapsed();
        report.fallback = self.adviser.fallback().map(str::to_owned);
        report.told = self.teller.told().clone();
        Ok(report)
    }

    fn page_out_cold(
        &mut self,
        request: &OutRequest,
        stop: &AtomicBool,
        report: &mut OutReport,
    ) -> Result<(), PagerError> {
        let mappings = self.own.mappings()?;
        self.learned.forget_unmapped(&page_set(&mappings));
        let Look { present, swapped } = self.own.look(&mappings)?;
        let reasons = Reasons {
            stacks: self.own.stacks(),
            learned: self.learned.needed(),
            young: request.young.clone(),
            near: request.near.clone(),
            data: request.data.clone(),
        };
        let all_pages = (present.len() + swapped.len()) as f64;
        let budget_pages = (all_pages * request.keep_share.clamp(0.0, 1.0)) as u64;
        let (leaving, kept) = plan(&present, &reasons, budget_pages);
        report.asked_pages = leaving.len();
        report.kept = kept;
        let advised = self
            .adviser
            .advise(advise::Own::PageOut, &leaving.ranges(), stop);
        match advised {
            Ok(advised) => report.refused_ranges = advised.refused_ranges,
            Err(error) => report.problem = Some(error.to_string()),
        }
        let look = self.own.look(&mappings)?;
        report.left_pages = leaving.without(&look.present).len();
        self.out = look.swapped;
        Ok(())
    }

    /// The process is wanted again: brings back ahead of use what is surely needed and is in swap, until `stop`
    /// is set. What the program touches meanwhile comes by faults.
    ///
    /// # Errors
    /// [`PagerError`].
    pub fn bring_back(&mut self, stop: &AtomicBool) -> Result<ReturnReport, PagerError> {
        let start = Instant::now();
        let confirmed = self.learned.confirmed().and(&self.out);
        // More than half of what is free would only push other pages out.
        let room_bytes = self.own.available_bytes()? / 2;
        let ahead = if confirmed.bytes() <= room_bytes {
            confirmed
        } else {
            PageSet::default()
        };
        // A page that cannot be brought back ahead comes by its fault.
        let _ = self
            .adviser
            .advise(advise::Own::Populate, &ahead.ranges(), stop);
        // Being stopped, or a kernel without the advice, leaves pages out.
        let ahead = ahead.and(&self.came_back()?);
        let ahead_took = start.elapsed();
        self.teller.tell(AppEvent::Switch);
        let report = ReturnReport {
            out_pages: self.out.len(),
            ahead_pages: ahead.len(),
            ahead_took,
            touched_pages: None,
            told: self.teller.told().clone(),
        };
        self.back = Some(Return {
            report: report.clone(),
            ahead,
            touched: None,
            due: start + self.settings.launch_window,
        });
        Ok(report)
    }

    /// The launch is complete: notes what it touched. `None` when no window is open.
    ///
    /// # Errors
    /// [`PagerError`].
    pub fn launch_done(&mut self) -> Result<Option<ReturnReport>, PagerError> {
        if self.due().is_none() {
            return Ok(None);
        }
        let came_back = self.came_back()?;
        self.teller.tell(AppEvent::LaunchDone);
        Ok(self.back.as_mut().map(|back| {
            let touched = came_back.without(&back.ahead);
            back.report.touched_pages = Some(touched.len());
            back.touched = Some(touched);
            back.report.clone()
        }))
    }

    /// Pages that were out and are in memory.
    fn came_back(&self) -> Result<PageSet, PagerError> {
        let mappings = self.own.mappings()?;
        Ok(self.own.look(&mappings)?.present.and(&self.out))
    }

    /// Takes in the return that lies behind, if there was one.
    fn learn(&mut self) -> Result<(), PagerError> {
        self.launch_done()?;
        let Some(back) = self.back.take() else {
            return Ok(());
        };
        let came_back = self.came_back()?.without(&back.ahead);
        let touched = back.touched.unwrap_or_default();
        let later = came_back.without(&touched);
        let out = self.out.without(&back.ahead);
        self.learned.learn(&out, &touched, &later);
        Ok(())
    }

    /// What the kernel counts for this process.
    ///
    /// # Errors
    /// [`PagerError`].
    pub fn counters(&self) -> Result<Counters, PagerError> {
        Ok(self.own.counters()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_page::PAGE_BYTES;

    #[test]
    fn what_did_not_come_is_not_said_to_have_come_ahead() {
        let mut session = Session::new(Settings::default()).unwrap();
        // Pages that have no frame yet stand for pages in swap.
        let mut memory: Vec<u8> = Vec::with_capacity(64 << 20);
        let first = (memory.as_ptr().addr() as u64).div_ceil(PAGE_BYTES as u64);
        let mut away = PageSet::default();
        away.push(first + 1..first + 17);
        while session.learned.confirmed().is_empty() {
            let none = PageSet::default();
            session.learned.learn(&away, &away, &none);
        }
        session.out = away;
        let expected = session.learned.confirmed().len();

        let stopped = session.bring_back(&AtomicBool::new(true)).unwrap();
        assert_eq!(stopped.ahead_pages, 0);
        memory.resize(memory.capacity(), 1);
        let whole = session.bring_back(&AtomicBool::new(false)).unwrap();
        assert_eq!(whole.ahead_pages, expected);
    }
}
