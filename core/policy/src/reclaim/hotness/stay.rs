//! Second chances, and rounds for pages that come back soon.

use super::label::{WARM, set_class, set_stay, stay_of};
use super::{HotnessOrg, Window};
use crate::list::PageList;
use crate::page::{Hotness, Mark, PageId, PageTable};
use crate::reclaim::Reclaim;
use crate::reclaim::refault::Stay;

/// Pages that one call may send to the back of a list: about a millisecond, for which threads that need a frame wait. All
/// pages of a program that goes round in a little more than its budget have rounds left.
pub(super) const MOST_CHANCES: usize = 1 << 16;

impl HotnessOrg {
    /// Takes up to `want` pages of one list. A page that was touched since the last look, or has rounds left, goes to
    /// the back once; a cold one cannot have been, since a touch makes it warm. Of more than [`MOST_CHANCES`] in a row the
    /// next ones leave all the same.
    pub(super) fn take(
        &mut self,
        table: &mut PageTable,
        app: usize,
        class: Hotness,
        want: usize,
        out: &mut Vec<PageId>,
    ) {
        let mut chances = match class {
            Hotness::Warm => self.apps[app].lists[class.index()].len().min(MOST_CHANCES),
            Hotness::Hot | Hotness::Cold => 0,
        };
        let enough = out.len() + want;
        while out.len() < enough {
            let list = &mut self.apps[app].lists[class.index()];
            let Some(page) = list.pop_front(table) else {
                return;
            };
            let entry = &mut table[page];
            let was_touched = entry.take(Mark::Referenced);
            let spent = stay_of(entry).spend();
            if chances == 0 || !was_touched && spent.is_none() {
                self.leaves(table, page);
                out.push(page);
                continue;
            }
            chances -= 1;
            list.push_back(table, page);
            if let (false, Some(spent)) = (was_touched, spent) {
                set_stay(&mut table[page], spent);
                self.age(table, app);
            }
        }
    }

    /// The page, which is on no list any more, is not resident any more.
    pub(super) fn leaves(&mut self, table: &mut PageTable, page: PageId) {
        if let Some(departures) = &mut self.departures {
            departures.note(&mut table[page]);
        }
    }

    /// The oldest hot page of the foreground application becomes warm, if its launch is over.
    fn age(&mut self, table: &mut PageTable, app: usize) {
        let is_foreground = app == self.foreground;
        let app = &mut self.apps[app];
        if is_foreground
            && app.window == Window::Closed
            && let Some(page) = app.lists[Hotness::Hot.index()].pop_front(table)
        {
            app.hot_total -= 1;
            set_class(&mut table[page], WARM);
            set_stay(&mut table[page], Stay::fair());
            app.lists[Hotness::Warm.index()].push_back(table, page);
        }
    }

    /// What a page that was missed has earned, and whether it is hot no more: one that left although it was hot, and
    /// is missed when the launch is over, is what the application works with now.
    pub(super) fn came_back(&mut self, table: &mut PageTable, page: PageId) {
        let Some(departures) = &self.departures else {
            return;
        };
        let resident = self.apps.iter().flat_map(|app| &app.lists);
        let resident = resident.map(PageList::len).sum();
        let stay = departures.earned(&table[page], stay_of(&table[page]), resident);
        set_stay(&mut table[page], stay);
        let is_hot = self.hotness(table, page) == Hotness::Hot;
        let owner = table.owner(page);
        let app = self.app(owner);
        if is_hot && app.window == Window::Closed {
            app.hot_total -= 1;
            set_class(&mut table[page], WARM);
        }
    }
}
