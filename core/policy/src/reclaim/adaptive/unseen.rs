//! What takes the place of [`Adaptive`] where the host sees touches only of pages that are not in their frames.
//!
//! A single program is served best by hotness lists whose pages stay longer when they come back soon: nothing else is
//! known of it. As soon as there are several applications, their launches tell more, and [`Adaptive`] takes over.

use super::Adaptive;
use crate::page::{Hotness, PageId, PageTable};
use crate::reclaim::{Arrival, HotnessOrg, Reclaim, Ruling, Urgency};
use warmswap_page::{AppId, LaunchKind};

/// Hotness lists until a second application appears; then the choice among rules. The change is linear in the pages.
#[derive(Debug)]
pub struct Unseen {
    alone: HotnessOrg,
    first: Option<AppId>,
    /// A page had to leave.
    has_reclaimed: bool,
    several: Option<Adaptive>,
}

impl Default for Unseen {
    fn default() -> Self {
        Self {
            alone: HotnessOrg::of_one_program(),
            first: None,
            has_reclaimed: false,
            several: None,
        }
    }
}

impl Unseen {
    fn current(&self) -> &dyn Reclaim {
        match &self.several {
            Some(several) => several,
            None => &self.alone,
        }
    }

    fn current_mut(&mut self) -> &mut dyn Reclaim {
        match &mut self.several {
            Some(several) => several,
            None => &mut self.alone,
        }
    }

    /// The policy, now that the application is known.
    fn with(&mut self, table: &mut PageTable, app: AppId) -> &mut dyn Reclaim {
        let first = *self.first.get_or_insert(app);
        if first != app && self.several.is_none() {
            self.take_over(table, first);
        }
        self.current_mut()
    }

    /// The pages leave the hotness lists; in the other policy they were touched in the order in which they would have
    /// left, the hot ones in a launch window. As long as no page had to leave, their order is that in which they came:
    /// where nearly all pages fit, no other is better.
    fn take_over(&mut self, table: &mut PageTable, first: AppId) {
        let mut pages = self.alone.dump(table);
        let is_hot = |&page: &PageId| self.alone.hotness(table, page) == Hotness::Hot;
        let (hot, others): (Vec<_>, Vec<_>) = pages.iter().copied().partition(is_hot);
        for &page in &pages {
            self.alone.remove(table, page);
        }
        let mut several = Adaptive::of_faults();
        for page in others {
            several.insert(table, page, Arrival::Touched);
        }
        several.launch_begin(table, first, LaunchKind::Relaunch);
        for page in hot {
            several.insert(table, page, Arrival::Touched);
        }
        several.launch_end(first);
        if !self.has_reclaimed {
            // Numbers are given to pages as they come.
            pages.sort_unstable();
            for page in pages {
                several.touch(table, page);
            }
        }
        self.several = Some(several);
    }
}

impl Reclaim for Unseen {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        let owner = table.owner(page);
        self.with(table, owner).insert(table, page, arrival);
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        self.current_mut().touch(table, page);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.current_mut().remove(table, page);
    }

    fn victims(
        &mut self,
        table: &mut PageTable,
        want: usize,
        urgency: Urgency,
        out: &mut Vec<PageId>,
    ) {
        self.has_reclaimed = true;
        self.current_mut().victims(table, want, urgency, out);
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        self.has_reclaimed = true;
        self.current_mut().victims_of(table, app, out);
    }

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        self.current().hotness(table, page)
    }

    fn stays_long(&self, table: &PageTable, page: PageId) -> bool {
        self.current().stays_long(table, page)
    }

    fn hot_pages(&self, app: AppId) -> u64 {
        self.current().hot_pages(app)
    }

    fn hot_list(&self, table: &PageTable, app: AppId) -> Vec<PageId> {
        self.current().hot_list(table, app)
    }

    fn launch_begin(&mut self, table: &mut PageTable, app: AppId, kind: LaunchKind) {
        self.with(table, app).launch_begin(table, app, kind);
    }

    fn launch_end(&mut self, app: AppId) {
        self.current_mut().launch_end(app);
    }

    fn forget(&mut self, table: &PageTable, page: PageId) {
        self.current_mut().forget(table, page);
    }

    fn retire(&mut self, app: AppId) {
        self.current_mut().retire(app);
    }

    fn teach(&mut self, table: &mut PageTable, app: AppId, hot: &[u64]) {
        self.with(table, app).teach(table, app, hot);
    }

    fn presumes_touches(&self) -> bool {
        self.current().presumes_touches()
    }

    fn ruling(&self) -> Option<Ruling> {
        self.current().ruling()
    }

    fn state_bytes(&self) -> usize {
        self.current().state_bytes()
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        self.current().dump(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageState;
    use std::collections::BTreeSet;
    use warmswap_page::PageAddr;

    fn touch(policy: &mut Unseen, table: &mut PageTable, app: u16, number: u64) -> PageId {
        let page = table.find_or_insert(AppId(app), PageAddr::Anon { number });
        if table[page].state == PageState::Resident {
            policy.touch(table, page);
        } else {
            table[page].state = PageState::Resident;
            policy.insert(table, page, Arrival::Touched);
        }
        page
    }

    #[test]
    fn where_nearly_all_pages_fit_they_leave_as_they_came() {
        let (mut policy, mut table) = (Unseen::default(), PageTable::default());
        for app in 0..2 {
            policy.launch_begin(&mut table, AppId(app), LaunchKind::Cold);
            (0..50).for_each(|number| {
                touch(&mut policy, &mut table, app, number);
            });
            policy.launch_end(AppId(app));
        }
        assert!(!policy.presumes_touches());
        let mut victims = Vec::new();
        policy.launch_begin(&mut table, AppId(0), LaunchKind::Relaunch);
        policy.victims(&mut table, 30, Urgency::Direct, &mut victims);
        let first: Vec<_> = (0..30).map(|number| (AppId(0), number)).collect();
        let left = victims.iter().map(|&page| (table.owner(page), page));
        let left: Vec<_> = left
            .map(|(app, page)| (app, u64::from(page.0) - u64::from(victims[0].0)))
            .collect();
        assert_eq!(left, first, "those that came first");
        assert!(policy.presumes_touches(), "a third of the pages is away");
    }

    #[test]
    fn a_second_application_changes_the_policy_and_neither_pages_nor_what_is_hot() {
        let app = AppId(0);
        for has_reclaimed in [false, true] {
            let (mut policy, mut table) = (Unseen::default(), PageTable::default());
            let mut pages = Vec::new();
            policy.launch_begin(&mut table, app, LaunchKind::Cold);
            pages.extend((0..10).map(|number| touch(&mut policy, &mut table, 0, number)));
            policy.launch_end(app);
            pages.extend((10..21).map(|number| touch(&mut policy, &mut table, 0, number)));
            assert_eq!(policy.ruling(), None);
            let hot: BTreeSet<_> = policy.hot_list(&table, app).into_iter().collect();
            assert_eq!((hot.len(), policy.hot_pages(app)), (10, 10));
            if has_reclaimed {
                let mut out = Vec::new();
                policy.victims(&mut table, 1, Urgency::Direct, &mut out);
                table[out[0]].state = PageState::Stored;
                pages.retain(|page| !out.contains(page));
            }

            pages.push(touch(&mut policy, &mut table, 1, 0));

            assert!(policy.ruling().is_some(), "it chooses now");
            let still_hot: BTreeSet<_> = policy.hot_list(&table, app).into_iter().collect();
            assert_eq!(still_hot, hot);
            let mut victims = Vec::new();
            policy.victims(&mut table, 100, Urgency::Direct, &mut victims);
            if has_reclaimed {
                assert!(victims[..10].iter().all(|page| !hot.contains(page)));
                victims.sort_unstable();
            }
            assert_eq!(victims, pages, "in the order in which they came");
            assert!(policy.dump(&table).is_empty() && policy.alone.dump(&table).is_empty());
        }
    }
}
