//! What a live host knows of touches: those that were seen, and those that are presumed.
//!
//! A live host sees a touch where it is a fault. A page that stays in memory shows none, so that a kept hot list would
//! cool because it is kept. So a hot page that stays is presumed to be touched by each relaunch, and stays hot. Two things
//! bound that:
//!
//! - *Evidence.* A touch that was seen in a relaunch is evidence for [`FIRST_LAUNCHES`] launches, and for twice as many
//!   each time that the page is seen in a later one. What was hot in the first launch, or came along with a neighbour,
//!   is presumed to be touched without evidence.
//! - *Probation.* When a relaunch ends, some of the hot pages without evidence leave memory, if other pages had to since
//!   the launch before. A touch in the next launch is a fault, and new evidence; a page that is not touched is hot no
//!   more. They are at most a sixteenth of what had to leave: where nearly all pages fit, the order of leaving hardly
//!   matters, and faults do.

use std::cmp::Reverse;

use super::{Engine, Outcome};
use crate::decision::Cause;
use warmswap_page::{AppId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_policy::room::make_room;
use warmswap_policy::{PageId, PageState, PageTable};

/// Launches for which a touch is evidence that later ones need the page, where it was the only one that was seen. Of the
/// pages that a relaunch touches, 81 to 96 % are touched by the next one, too. Each later launch in which the page is
/// seen doubles them.
pub const FIRST_LAUNCHES: u8 = 10;

/// Doublings, at most.
pub const MOST_CONFIRMED: u8 = 3;

/// Launches for which a touch that was often confirmed is evidence.
const MOST_LAUNCHES: u8 = FIRST_LAUNCHES << MOST_CONFIRMED;

/// At most this part of an application's hot pages is put on probation at a time: those that are needed cost a fault
/// each in the next launch.
const PROBATION_PART: u64 = 4;

/// And at most one for so many pages that reclaim took since the launch before: where nearly all pages fit, few have to
/// leave, and probation would cost more faults than it can save.
const PROBATION_OF_RECLAIMED: u64 = 16;

/// Hot pages without evidence are presumed to be touched up to this part of the frames: beyond it too little would
/// be left that may leave.
const UNPROVEN_PART: u64 = 2;

/// What is known of one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    /// The launch in which its touch was last seen, from 1; 0 for none.
    seen: u8,
    /// In how many later launches than the first it was seen, up to [`MOST_CONFIRMED`].
    confirmed: u8,
}

impl Known {
    /// On probation; `confirmed` is what it was before.
    const PROBATION: u8 = 4;

    fn is_on_probation(self) -> bool {
        self.confirmed & Self::PROBATION != 0
    }

    /// Launches since its touch was seen, as long as that is evidence.
    fn age(self, launch: u8) -> Option<u8> {
        let confirmed = self.confirmed & !Self::PROBATION;
        age(self.seen, confirmed, launch, MOST_LAUNCHES)
    }
}

/// One application's launches.
#[derive(Debug, Default)]
struct Launches {
    /// The number of the last one: 1 to 255, over and over.
    number: u8,
    /// It goes on, and is a relaunch.
    is_relaunching: bool,
    /// Pages that reclaim had taken when it ended.
    reclaimed_pages: u64,
    /// Pages on probation.
    probation: Vec<PageId>,
}

/// The account of touches. Memory: 2 bytes a page.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// By page.
    known: Vec<Known>,
    /// By application.
    apps: Vec<Launches>,
}

impl Evidence {
    fn app(&mut self, app: AppId) -> &mut Launches {
        let index = usize::from(app.0);
        if self.apps.len() <= index {
            self.apps.resize_with(index + 1, Launches::default);
        }
        &mut self.apps[index]
    }

    fn known(&self, page: PageId) -> Known {
        self.known.get(page.index()).copied().unwrap_or_default()
    }

    fn known_mut(&mut self, page: PageId) -> &mut Known {
        let index = page.index();
        if self.known.len() <= index {
            make_room(&mut self.known, index + 1, 4096);
            self.known.resize(index + 1, Known::default());
        }
        &mut self.known[index]
    }

    /// A touch was seen.
    fn note_seen(&mut self, app: AppId, page: PageId) {
        let launches = self.app(app);
        let launch = launches.is_relaunching.then_some(launches.number);
        let known = self.known_mut(page);
        known.confirmed &= !Known::PROBATION;
        let Some(launch) = launch else { return };
        if known.seen != 0 && known.seen != launch {
            known.confirmed = MOST_CONFIRMED.min(known.confirmed + 1);
        }
        known.seen = launch;
    }

    /// A launch begins.
    fn begin(&mut self, app: AppId, kind: LaunchKind) {
        let launches = self.app(app);
        launches.number = next_launch(launches.number);
        launches.is_relaunching = kind == LaunchKind::Relaunch;
    }

    /// The launch ends: pages on probation that were not touched have no evidence any more. Whether it was a relaunch
    /// that went on until now.
    fn end(&mut self, table: &PageTable, app: AppId) -> bool {
        let launches = self.app(app);
        let was_relaunching = std::mem::take(&mut launches.is_relaunching);
        for page in std::mem::take(&mut launches.probation) {
            // The number of one that is no more may be another's by now.
            let is_theirs = table.owner(page) == app;
            let known = self.known_mut(page);
            if is_theirs && known.is_on_probation() {
                *known = Known::default();
            }
        }
        was_relaunching
    }

    /// The page was hot in an earlier run.
    pub fn note_taught(&mut self, app: AppId, page: PageId) {
        let number = self.app(app).number;
        self.known_mut(page).seen = if number == 0 { 255 } else { number };
    }

    /// The page is another's from now on, or no application's.
    pub fn forget(&mut self, page: PageId) {
        if let Some(known) = self.known.get_mut(page.index()) {
            *known = Known::default();
        }
    }

    /// The application is gone for good.
    pub fn retire(&mut self, app: AppId) {
        *self.app(app) = Launches::default();
    }

    /// Bytes of memory that it holds.
    pub fn state_bytes(&self) -> usize {
        self.known.capacity() * size_of::<Known>()
    }
}

/// Launches since a touch was seen in launch `seen`, or 0 for none, and in `confirmed` later ones before; as long as that
/// is evidence, and no more than `most`.
#[must_use]
pub fn age(seen: u8, confirmed: u8, launch: u8, most: u8) -> Option<u8> {
    let launches = (u32::from(FIRST_LAUNCHES) << confirmed).min(u32::from(most));
    let age = launches_between(seen, launch);
    (seen != 0 && u32::from(age) <= launches).then_some(age)
}

/// Launches have the numbers 1 to 255, over and over: what was not seen for so long may count as new for a while.
#[must_use]
pub fn next_launch(launch: u8) -> u8 {
    launch % 255 + 1
}

fn launches_between(earlier: u8, later: u8) -> u8 {
    if later >= earlier {
        later - earlier
    } else {
        (u16::from(later) + 255 - u16::from(earlier)) as u8
    }
}

impl Engine {
    /// Keeps account of touches from now on, for a host that does not see those of pages in memory: what stays of a hot
    /// list is presumed to be touched by each relaunch. Some of it leaves after a launch, so that the next one shows
    /// whether it is used; the host brings none of that back ahead of use ([`Engine::is_on_probation`]).
    pub fn presume_unseen_touches(&mut self) {
        self.evidence.get_or_insert_default();
    }

    /// A touch of the page was seen.
    pub(crate) fn note_seen(&mut self, page: PageId) {
        if let Some(evidence) = &mut self.evidence {
            evidence.note_seen(self.table.owner(page), page);
        }
    }

    /// The page came into its place in a launch window because a neighbour was touched, or ahead of use: it is presumed
    /// to be touched, without evidence, since a touch of it is not seen now. One on probation is not.
    pub fn came_along(&mut self, app: AppId, addr: PageAddr) {
        let Some(page) = self.table.find(app, addr) else {
            return;
        };
        if self.table[page].state == PageState::Resident && !self.is_on_probation(page) {
            self.scheme.reclaim.touch(&mut self.table, page);
            self.note_access(app, addr, Outcome::Hit);
        }
    }

    /// A launch begins. The hot pages that stayed are hot in it as well, those with the oldest evidence first, so that
    /// they leave before the others.
    pub(crate) fn begin_launch(&mut self, app: AppId, kind: LaunchKind) {
        let Some(evidence) = &mut self.evidence else {
            return self.scheme.reclaim.launch_begin(&mut self.table, app, kind);
        };
        evidence.begin(app, kind);
        let launch = evidence.app(app).number;
        let mut stayed: Vec<(Reverse<u8>, PageId)> = Vec::new();
        if kind == LaunchKind::Relaunch && self.scheme.reclaim.presumes_touches() {
            for page in self.scheme.reclaim.hot_list(&self.table, app) {
                let known = evidence.known(page);
                let age = known.age(launch).unwrap_or(u8::MAX);
                if !known.is_on_probation() {
                    stayed.push((Reverse(age), page));
                }
            }
            stayed.sort_by_key(|&(age, _)| age);
        }
        self.scheme.reclaim.launch_begin(&mut self.table, app, kind);
        let is_unproven = |&(Reverse(age), _): &(Reverse<u8>, PageId)| age == u8::MAX;
        let unproven = stayed.iter().take_while(|page| is_unproven(page)).count();
        let most = self.budget.limits.budget_bytes / PAGE_BYTES as u64 / UNPROVEN_PART;
        let beyond = unproven.saturating_sub(most as usize);
        for &(_, page) in &stayed[beyond..] {
            self.scheme.reclaim.touch(&mut self.table, page);
        }
    }

    /// A launch ends. After a relaunch some hot pages are put on probation whose touches were presumed for long enough,
    /// if a page had to leave memory since the launch before. Linear in the application's pages then.
    pub(crate) fn end_launch(&mut self, app: AppId) {
        let Some(mut evidence) = self.evidence.take() else {
            return;
        };
        let was_relaunching = evidence.end(&self.table, app);
        let launches = evidence.app(app);
        let next = next_launch(launches.number);
        let before = std::mem::replace(&mut launches.reclaimed_pages, self.reclaimed_pages);
        let presumes = self.scheme.reclaim.presumes_touches();
        if was_relaunching && presumes && before != self.reclaimed_pages {
            let taken = self.reclaimed_pages - before;
            let pages = self.unproven(&evidence, app, next, taken / PROBATION_OF_RECLAIMED);
            for &page in &pages {
                evidence.known_mut(page).confirmed |= Known::PROBATION;
            }
            self.leave_on_probation(&pages);
            evidence.app(app).probation = pages;
        }
        self.evidence = Some(evidence);
    }

    /// Hot pages without evidence in the next launch, oldest first; as many as may be on probation, and at most `most`.
    fn unproven(&self, evidence: &Evidence, app: AppId, next: u8, most: u64) -> Vec<PageId> {
        let mut hot = 0_u64;
        let mut unproven: Vec<(Reverse<u8>, PageId)> = Vec::new();
        let resident = self.scheme.reclaim.hot_list(&self.table, app).into_iter();
        let of_files = resident.filter(|&page| self.table.is_file(page));
        for page in self.hot_set(app).chain(of_files) {
            hot += 1;
            let known = evidence.known(page);
            let state = self.table[page].state;
            if known.age(next).is_none() && matches!(state, PageState::Resident | PageState::Stored)
            {
                let age = match known.seen {
                    0 => u8::MAX,
                    seen => launches_between(seen, next),
                };
                unproven.push((Reverse(age), page));
            }
        }
        unproven.sort_by_key(|&(age, _)| age);
        unproven.truncate(hot.div_ceil(PROBATION_PART).min(most) as usize);
        unproven.into_iter().map(|(_, page)| page).collect()
    }

    fn leave_on_probation(&mut self, pages: &[PageId]) {
        let mut leaving = Vec::new();
        for &page in pages {
            if self.table[page].state == PageState::Resident {
                self.scheme.reclaim.remove(&mut self.table, page);
                leaving.push(page);
            }
        }
        self.send_off(&mut leaving, Cause::Background);
    }

    /// Whether the next launch is to show that it needs the page.
    pub fn is_on_probation(&self, page: PageId) -> bool {
        let evidence = self.evidence.as_ref();
        evidence.is_some_and(|evidence| evidence.known(page).is_on_probation())
    }

    /// A page of the footprint came into its place, where a touch is not seen. It is presumed to be touched if there is
    /// evidence.
    pub(crate) fn presume_prepaged(&mut self, page: PageId) {
        let Some(evidence) = &mut self.evidence else {
            return;
        };
        let launch = evidence.app(self.table.owner(page)).number;
        if evidence.known(page).age(launch).is_some() {
            self.scheme.reclaim.touch(&mut self.table, page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_page_on_probation_may_stand_for_another_when_the_launch_ends() {
        let (mut evidence, mut table) = (Evidence::default(), PageTable::default());
        let [before, after] = [AppId(0), AppId(1)];
        let page = table.find_or_insert(before, PageAddr::Anon { number: 0 });
        evidence.app(before).probation.push(page);
        table.forget_blocks(before, |_| true);
        assert_eq!(
            table.find_or_insert(after, PageAddr::Anon { number: 0 }),
            page
        );
        let known = Known {
            seen: 3,
            confirmed: 1 | Known::PROBATION,
        };
        *evidence.known_mut(page) = known;
        evidence.end(&table, before);
        assert_eq!(evidence.known(page), known);
        evidence.app(after).probation.push(page);
        evidence.end(&table, after);
        assert_eq!(evidence.known(page), Known::default());
    }
}
