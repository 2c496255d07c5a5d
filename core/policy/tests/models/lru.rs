//! Active and inactive lists with second chance.

use super::Model;
use std::collections::BTreeMap;
use warmswap_page::LaunchKind;
use warmswap_policy::reclaim::Urgency;
use warmswap_policy::{Hotness, PageId};

/// Two lists for each kind of page, the next to leave first; `true` stands for pages of files.
#[derive(Default)]
pub struct LruModel {
    inactive: BTreeMap<bool, Vec<PageId>>,
    active: BTreeMap<bool, Vec<PageId>>,
    referenced: BTreeMap<PageId, bool>,
    /// The kind, the owner, and whether the page was last on the active list.
    pages: BTreeMap<PageId, (bool, u16, bool)>,
    /// How many victims anonymous pages owe, in 65536ths.
    owed: i64,
}

impl LruModel {
    fn len(&self, file: bool) -> i64 {
        let len = |lists: &BTreeMap<bool, Vec<PageId>>| lists.get(&file).map_or(0, Vec::len);
        (len(&self.inactive) + len(&self.active)) as i64
    }

    fn push(&mut self, page: PageId, to_active: bool) {
        let entry = self.pages.get_mut(&page).expect("known");
        entry.2 = to_active;
        let lists = if to_active {
            &mut self.active
        } else {
            &mut self.inactive
        };
        lists.entry(entry.0).or_default().push(page);
    }

    fn enter(&mut self, page: PageId, owner: u16, is_file: bool) {
        self.pages.insert(page, (is_file, owner, false));
        self.push(page, false);
    }

    fn one(&mut self, file: bool) -> PageId {
        let mut chances = self.len(file);
        loop {
            let active = self.active.entry(file).or_default();
            let inactive = self.inactive.entry(file).or_default();
            if active.len() > inactive.len() {
                let page = active.remove(0);
                self.referenced.insert(page, false);
                self.push(page, false);
                continue;
            }
            let page = inactive.remove(0);
            let referenced = self.referenced.insert(page, false).unwrap_or(false);
            if !(referenced && chances > 0) {
                return page;
            }
            chances -= 1;
            self.push(page, true);
        }
    }
}

impl Model for LruModel {
    fn touch(&mut self, page: PageId, owner: u16, is_file: bool, resident: bool) {
        self.referenced.insert(page, true);
        if !resident {
            self.enter(page, owner, is_file);
        }
    }

    fn arrive(&mut self, page: PageId, owner: u16, is_file: bool) {
        self.enter(page, owner, is_file);
    }

    fn launch_begin(&mut self, _: u16, _: LaunchKind) {}
    fn launch_end(&mut self, _: u16) {}

    fn victims(&mut self, want: usize, _: Urgency) -> Vec<PageId> {
        let mut out = Vec::new();
        while out.len() < want {
            let (anon, file) = (self.len(false), self.len(true));
            let from_file = match (anon, file) {
                (0, 0) => break,
                (0, _) => true,
                (_, 0) => false,
                _ => {
                    // In proportion to the lengths, by error diffusion.
                    let from_file = self.owed < 0;
                    self.owed += (anon << 16) / (anon + file);
                    self.owed -= if from_file { 0 } else { 1 << 16 };
                    from_file
                }
            };
            out.push(self.one(from_file));
        }
        out
    }

    fn victims_of(&mut self, app: u16) -> Vec<PageId> {
        let mut out = Vec::new();
        for file in [false, true] {
            for lists in [&mut self.inactive, &mut self.active] {
                let list = lists.entry(file).or_default();
                let theirs = |page: &PageId| self.pages[page].1 == app;
                out.extend(list.iter().copied().filter(theirs));
                list.retain(|page| !theirs(page));
            }
        }
        out
    }

    fn free(&mut self, page: PageId) {
        for lists in [&mut self.inactive, &mut self.active] {
            lists
                .values_mut()
                .for_each(|list| list.retain(|&p| p != page));
        }
        self.pages.remove(&page);
        self.referenced.remove(&page);
    }

    fn hotness(&self, page: PageId) -> Hotness {
        if self.pages[&page].2 {
            Hotness::Warm
        } else {
            Hotness::Cold
        }
    }

    fn hot_pages(&self, _: u16) -> Option<u64> {
        None
    }
}
