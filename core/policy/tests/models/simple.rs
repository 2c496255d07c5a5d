//! Models of policies that order pages by their touches alone: plain vectors, searched from end to end.

use super::Model;
use std::collections::BTreeMap;
use warmswap_page::LaunchKind;
use warmswap_policy::reclaim::Urgency;
use warmswap_policy::{Hotness, PageId};

/// What such a policy is made of. Pages that are not in a frame are known to it if it remembers them.
pub trait Simple {
    /// A page in a frame is touched.
    fn hit(&mut self, page: PageId);
    /// A page comes into a frame, since it was touched or not.
    fn enter(&mut self, page: PageId, touched: bool);
    /// The next page to leave.
    fn leave(&mut self) -> Option<PageId>;
    /// A page leaves by another's decision.
    fn remove(&mut self, page: PageId);
    /// A page is no more.
    fn forget(&mut self, page: PageId);
    /// The pages in frames, in the order in which they are shown.
    fn order(&self) -> Vec<PageId>;
    /// Whether the page is held to be warm.
    fn is_warm(&self, page: PageId) -> bool;
}

/// A simple policy, and the owner of each page.
pub struct OfPages<S> {
    simple: S,
    owners: BTreeMap<PageId, u16>,
}

impl<S> OfPages<S> {
    pub fn new(simple: S) -> Self {
        let owners = BTreeMap::new();
        Self { simple, owners }
    }
}

impl<S: Simple> Model for OfPages<S> {
    fn touch(&mut self, page: PageId, owner: u16, _: bool, resident: bool) {
        self.owners.insert(page, owner);
        if resident {
            self.simple.hit(page);
        } else {
            self.simple.enter(page, true);
        }
    }

    fn arrive(&mut self, page: PageId, owner: u16, _: bool) {
        self.owners.insert(page, owner);
        self.simple.enter(page, false);
    }

    fn launch_begin(&mut self, _: u16, _: LaunchKind) {}
    fn launch_end(&mut self, _: u16) {}

    fn victims(&mut self, want: usize, _: Urgency) -> Vec<PageId> {
        std::iter::from_fn(|| self.simple.leave())
            .take(want)
            .collect()
    }

    fn victims_of(&mut self, app: u16) -> Vec<PageId> {
        let mut theirs = self.simple.order();
        theirs.retain(|page| self.owners[page] == app);
        theirs.iter().for_each(|&page| self.simple.remove(page));
        theirs
    }

    fn free(&mut self, page: PageId) {
        self.simple.remove(page);
        self.simple.forget(page);
    }

    fn hotness(&self, page: PageId) -> Hotness {
        if self.simple.is_warm(page) {
            Hotness::Warm
        } else {
            Hotness::Cold
        }
    }

    fn hot_pages(&self, _: u16) -> Option<u64> {
        None
    }
}
