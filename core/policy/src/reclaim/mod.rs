//! Reclaim: which resident pages leave, in which order, and how hot is each of them?

mod adaptive;
mod hotness;
mod kernel_lru;
mod lru;
mod lru_k;
mod mglru;
mod never;
mod optimal;
mod refault;
mod sieve;

pub use hotness::{HotPages, HotnessOrg};
pub use lru::Lru;
pub use never::Never;
pub use optimal::Optimal;

use serde::{Deserialize, Serialize};

use crate::entry::PolicyEntry;
use crate::page::{Hotness, PageId, PageTable};
use warmswap_page::{AppId, LaunchKind};

/// The reclaim policies.
pub const ENTRIES: &[PolicyEntry<dyn Reclaim>] = &[
    never::ENTRY,
    lru::ENTRY,
    kernel_lru::ENTRY,
    mglru::ENTRY,
    lru_k::ENTRY,
    sieve::ENTRY,
    hotness::ENTRY,
    adaptive::ENTRY,
    optimal::ENTRY,
];

/// How a page came into its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrival {
    /// The application touched it, for the first time or after it had been away.
    Touched,
    /// It came along with a page that was touched, or its way out was refused; it was not asked for.
    Untouched,
}

/// How badly frames are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Between the watermarks: what hurts can be left alone.
    Background,
    /// A thread waits for a frame and there is none.
    Direct,
}

/// Which of several rules ruled, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// The rule that rules now.
    pub rule: String,
    /// How often another took over.
    pub changes: u64,
    /// Each rule.
    pub rules: Vec<RuleRow>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRow {
    /// Its name.
    pub rule: String,
    /// Launches during which it ruled.
    pub launches: u64,
    /// Misses of sampled pages under it in the launch windows of relaunches.
    pub window_misses: u64,
    /// Misses of sampled pages under it anywhere.
    pub misses: u64,
}

/// When a page is used next, as places in a trace; the larger the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextUse {
    /// Of any kind.
    pub at: u32,
    /// In the launch window of a relaunch.
    pub in_window: u32,
}

impl NextUse {
    /// A page that is not used any more.
    pub const NEVER: Self = Self {
        at: u32::MAX,
        in_window: u32::MAX,
    };
}

/// Orders the resident pages.
///
/// The engine guarantees: `insert` only for a page that is on no list; `touch`, `remove` only for a page
/// that was inserted and not taken since; `victims` take the pages they return off the lists. `label` and
/// `epoch` of a [`Page`](crate::Page) are the policy's own, and survive while the page is not resident.
pub trait Reclaim: Send + std::fmt::Debug {
    /// The page came into a frame.
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival);

    /// The application touched a resident page. The hottest call of all: constant time.
    fn touch(&mut self, table: &mut PageTable, page: PageId);

    /// The page is freed, or leaves by another's decision.
    fn remove(&mut self, table: &mut PageTable, page: PageId);

    /// Takes up to `want` pages off the lists, in the order in which they should leave, and appends them
    /// to `out`. Fewer only if the policy gives no more at this urgency.
    fn victims(
        &mut self,
        table: &mut PageTable,
        want: usize,
        urgency: Urgency,
        out: &mut Vec<PageId>,
    );

    /// Takes all pages of one application that may leave off the lists, in the order in which they
    /// should leave. Linear in the pages of all applications at worst.
    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>);

    /// How hot the page is held to be; defined for pages that are not resident, too.
    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness;

    /// Whether a page may be [`Hotness::Hot`]. Where none ever is, nobody looks for hot pages.
    fn knows_hot_pages(&self) -> bool {
        true
    }

    /// Whether a resident page is expected to stay so long that it is not worth while to keep its stored copy.
    fn stays_long(&self, table: &PageTable, page: PageId) -> bool {
        let _ = (table, page);
        false
    }

    /// How many pages of the application are held to be hot, resident or not. Zero where the policy does
    /// not know hot pages.
    fn hot_pages(&self, app: AppId) -> u64 {
        let _ = app;
        0
    }

    /// The resident pages on the application's hot list, the first to leave first. Linear in them.
    fn hot_list(&self, table: &PageTable, app: AppId) -> Vec<PageId> {
        let _ = (table, app);
        Vec::new()
    }

    /// The application comes to the foreground.
    fn launch_begin(&mut self, table: &mut PageTable, app: AppId, kind: LaunchKind) {
        let _ = (table, app, kind);
    }

    /// The application's launch window ends.
    fn launch_end(&mut self, app: AppId) {
        let _ = app;
    }

    /// A page that is not resident is forgotten (freed, or its application ended).
    fn forget(&mut self, table: &PageTable, page: PageId) {
        let _ = (table, page);
    }

    /// The application is gone for good, with all its pages, and its number may be another's from now on: nothing
    /// that was noted under it is kept.
    fn retire(&mut self, app: AppId) {
        let _ = app;
    }

    /// These anonymous pages of the application were hot when it ran before: they take the place of the hot
    /// list, and of what the first launch would make of it.
    fn teach(&mut self, table: &mut PageTable, app: AppId, hot: &[u64]) {
        let _ = (table, app, hot);
    }

    /// The policy that takes the place of this one, before any page is there, where the host sees touches of pages only
    /// that are not in their frames. `None` where this one does not depend on the others.
    fn where_touches_are_unseen(&self) -> Option<Box<dyn Reclaim>> {
        None
    }

    /// Whether it serves this policy now that hot pages which stay are presumed to be touched, by a host that does not see it.
    fn presumes_touches(&self) -> bool {
        true
    }

    /// Which rule rules, for a policy that chooses among several.
    fn ruling(&self) -> Option<Ruling> {
        None
    }

    /// Bytes of memory for pages, besides the page table.
    fn state_bytes(&self) -> usize {
        0
    }

    /// Whether the policy asks for the future, which a replay alone knows ([`Self::foresee`]).
    fn wants_future(&self) -> bool {
        false
    }

    /// The page, resident or not, is used next at this place of the trace. Said before each of its touches.
    fn foresee(&mut self, page: PageId, next: NextUse) {
        let _ = (page, next);
    }

    /// True when pages never leave, so that no budget can hold.
    fn is_unlimited(&self) -> bool {
        false
    }

    /// The pages on the policy's lists, in the order in which they would leave if none was touched again;
    /// for tests and dumps. Linear.
    fn dump(&self, table: &PageTable) -> Vec<PageId>;
}

/// [`Reclaim::victims_of`] by the order of [`Reclaim::dump`]; the pages leave as by another's decision.
pub fn take_all_of(
    policy: &mut impl Reclaim,
    table: &mut PageTable,
    app: AppId,
    out: &mut Vec<PageId>,
) {
    let mut theirs = policy.dump(table);
    theirs.retain(|&page| table.owner(page) == app);
    for page in theirs {
        policy.remove(table, page);
        out.push(page);
    }
}
