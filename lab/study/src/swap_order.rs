//! In which order pages were swapped out before a relaunch, and which of them it used.

use rustc_hash::FxHashMap;
use warmswap_engine::{Action, Decision, Engine, Outcome, Touch};
use warmswap_page::{LaunchKind, PageAddr};
use warmswap_policy::{PageId, PageState};
use warmswap_replay::Observer;
use warmswap_trace::{Event, EventKind};

/// How a page was used that was swapped out when a relaunch began (Ariadne section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// In the launch window.
    Hot,
    /// Not in the window, but in the execution from its end to the next launch.
    Warm,
    /// Neither.
    Cold,
}

/// A page that was swapped out when a relaunch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwappedPage {
    /// Whether it belongs to the application that was relaunched.
    pub is_own: bool,
    /// How that application used it.
    pub used: Use,
}

/// One relaunch: the application, and the anonymous pages of all applications that were swapped out when
/// it began, those that left first in front.
#[derive(Clone, Debug)]
pub struct RelaunchOrder {
    /// The number of the application.
    pub app: usize,
    /// The pages in the order in which they were last swapped out.
    pub pages: Vec<SwappedPage>,
}

/// Makes something of relaunches, one by one.
pub trait Digest: Default + Send {
    /// A relaunch, complete: the next launch of the application began, or the trace ended.
    fn add(&mut self, relaunch: RelaunchOrder);
}

/// Watches a replay and gives each relaunch to a [`Digest`]. Relaunches of applications without
/// anything swapped out, such as killed ones, are passed over.
///
/// Cost: a sort of all swapped-out pages for each relaunch, and a look-up for each access.
#[derive(Debug, Default)]
pub struct SwapOrder<D> {
    /// Counts pages that were swapped out.
    clock: u64,
    /// When each page was last swapped out; 0 when it was used since.
    left_at: Vec<u64>,
    open: FxHashMap<u16, OpenRelaunch>,
    digest: D,
}

#[derive(Debug)]
struct OpenRelaunch {
    in_window: bool,
    places: FxHashMap<PageId, usize>,
    pages: Vec<SwappedPage>,
}

impl<D: Digest> SwapOrder<D> {
    /// The digest of all relaunches.
    pub fn finish(mut self) -> D {
        let mut open: Vec<u16> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|app| self.close(app));
        self.digest
    }

    fn leaves(&mut self, page: PageId) {
        if self.left_at.len() <= page.index() {
            self.left_at
                .resize((page.index() + 1).next_multiple_of(1024), 0);
        }
        self.clock += 1;
        self.left_at[page.index()] = self.clock;
    }

    fn touched(&mut self, app: u16, touch: Touch) {
        if let Some(left_at) = self.left_at.get_mut(touch.page.index()) {
            *left_at = 0;
        }
        let Some(open) = self.open.get_mut(&app) else {
            return;
        };
        if touch.outcome == Outcome::FirstTouch {
            // A new page of a number that was free.
            open.places.remove(&touch.page);
        } else if let Some(&place) = open.places.get(&touch.page) {
            let used = &mut open.pages[place].used;
            *used = match (*used, open.in_window) {
                (Use::Hot, _) | (_, true) => Use::Hot,
                _ => Use::Warm,
            };
        }
    }

    fn begin(&mut self, engine: &Engine, app: u16) {
        let mut order: Vec<(u64, PageId, bool)> = Vec::new();
        for (&left_at, page) in self.left_at.iter().zip((0..).map(PageId)) {
            // A page in the prefetch buffer, or on its way in, came there because of this launch.
            let is_out = left_at > 0
                && matches!(
                    engine.page_state(page),
                    PageState::Stored | PageState::Buffered | PageState::Loading
                );
            if is_out && let (owner, PageAddr::Anon { .. }) = engine.locate(page) {
                order.push((left_at, page, owner.0 == app));
            }
        }
        if !order.iter().any(|&(.., is_own)| is_own) {
            return;
        }
        order.sort_unstable();
        let places = order.iter().zip(0..);
        let open = OpenRelaunch {
            in_window: true,
            places: places.map(|(&(_, page, _), place)| (page, place)).collect(),
            pages: order
                .iter()
                .map(|&(.., is_own)| SwappedPage {
                    is_own,
                    used: Use::Cold,
                })
                .collect(),
        };
        self.open.insert(app, open);
    }

    fn close(&mut self, app: u16) {
        if let Some(open) = self.open.remove(&app) {
            self.digest.add(RelaunchOrder {
                app: app.into(),
                pages: open.pages,
            });
        }
    }
}

impl<D: Digest> Observer for SwapOrder<D> {
    fn decision(&mut self, engine: &Engine, decision: Decision) {
        match decision.action {
            Action::Store { chunk, .. } | Action::StoreRaw { chunk } => {
                for &page in engine.chunk_pages(chunk).iter() {
                    self.leaves(page);
                }
            }
            Action::Drop { page } => self.leaves(page),
            _ => {}
        }
    }

    fn event(&mut self, engine: &Engine, event: &Event, touch: Option<Touch>) {
        let app = event.app.0;
        match event.kind {
            EventKind::Access { .. } => {
                if let Some(touch) = touch {
                    self.touched(app, touch);
                }
            }
            EventKind::LaunchBegin(kind) => {
                self.close(app);
                if kind == LaunchKind::Relaunch {
                    self.begin(engine, app);
                }
            }
            EventKind::LaunchEnd | EventKind::Background => {
                if let Some(open) = self.open.get_mut(&app) {
                    open.in_window = false;
                }
            }
            EventKind::Exit => self.close(app),
            EventKind::Content { .. } | EventKind::Free { .. } => {}
        }
    }
}
