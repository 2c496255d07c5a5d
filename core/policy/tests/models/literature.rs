//! Policies of the literature and of the kernel, written down as their papers and documentation read.

use super::simple::Simple;
use std::collections::BTreeMap;
use warmswap_policy::PageId;

// ---- SIEVE ----

/// A queue with the newest page first, as in the paper's Algorithm 1, and where the hand is.
#[derive(Default)]
pub struct Sieve {
    queue: Vec<(PageId, bool)>,
    /// The page that the hand is at; `None` for the tail.
    hand: Option<PageId>,
}

impl Sieve {
    fn at(&self, page: PageId) -> Option<usize> {
        self.queue.iter().position(|&(other, _)| other == page)
    }

    /// The page before this one in the queue, which came after it.
    fn before(&self, at: usize) -> Option<PageId> {
        at.checked_sub(1).map(|at| self.queue[at].0)
    }
}

impl Simple for Sieve {
    fn hit(&mut self, page: PageId) {
        let at = self.at(page).expect("in the queue");
        self.queue[at].1 = true;
    }

    fn enter(&mut self, page: PageId, _: bool) {
        self.queue.insert(0, (page, false));
    }

    fn leave(&mut self) -> Option<PageId> {
        if self.queue.is_empty() {
            return None;
        }
        let tail = self.queue.len() - 1;
        let mut at = self.hand.and_then(|page| self.at(page)).unwrap_or(tail);
        while self.queue[at].1 {
            self.queue[at].1 = false;
            at = at.checked_sub(1).unwrap_or(tail);
        }
        self.hand = self.before(at);
        Some(self.queue.remove(at).0)
    }

    fn remove(&mut self, page: PageId) {
        if let Some(at) = self.at(page) {
            if self.hand == Some(page) {
                self.hand = self.before(at);
            }
            self.queue.remove(at);
        }
    }

    fn forget(&mut self, _: PageId) {}

    fn order(&self) -> Vec<PageId> {
        self.queue.iter().rev().map(|&(page, _)| page).collect()
    }

    fn is_warm(&self, _: PageId) -> bool {
        false
    }
}

// ---- LRU-2 ----

/// All touches that ever were, page by page.
#[derive(Default)]
pub struct LruK {
    now: usize,
    touches: BTreeMap<PageId, Vec<usize>>,
    resident: Vec<PageId>,
}

impl LruK {
    /// The backward distance to the last touch but one, then to the last; those that have none are the farthest.
    fn distance(&self, page: PageId) -> (usize, usize) {
        let never = usize::MAX;
        let mut last = self.touches.get(&page).into_iter().flatten().rev();
        let mut ago = || last.next().map_or(never, |&at| self.now - at);
        let (first, second) = (ago(), ago());
        (second, first)
    }
}

impl Simple for LruK {
    fn hit(&mut self, page: PageId) {
        self.now += 1;
        self.touches.entry(page).or_default().push(self.now);
    }

    fn enter(&mut self, page: PageId, touched: bool) {
        if touched {
            self.hit(page);
        }
        self.resident.push(page);
    }

    fn leave(&mut self) -> Option<PageId> {
        let page = *self.order().first()?;
        self.remove(page);
        Some(page)
    }

    fn remove(&mut self, page: PageId) {
        self.resident.retain(|&other| other != page);
    }

    fn forget(&mut self, page: PageId) {
        self.touches.remove(&page);
    }

    fn order(&self) -> Vec<PageId> {
        let mut pages = self.resident.clone();
        pages.sort();
        pages.sort_by_key(|&page| std::cmp::Reverse(self.distance(page)));
        pages
    }

    fn is_warm(&self, page: PageId) -> bool {
        self.touches
            .get(&page)
            .is_some_and(|touches| touches.len() >= 2)
    }
}

// ---- the kernel's active and inactive list ----

#[derive(Clone, Copy, PartialEq)]
enum Where {
    Inactive,
    Active,
}

/// One vector of all pages in the order in which they came to the tail of their list, with the accessed bit and
/// `PG_referenced`; and a log of what the age of the lists counts.
#[derive(Default)]
pub struct KernelLru {
    pages: Vec<(PageId, Where, bool, bool)>,
    /// Departures and activations: `Some` page for a departure that is not undone by being forgotten.
    log: Vec<Option<PageId>>,
}

impl KernelLru {
    fn count(&self, place: Where) -> usize {
        self.pages.iter().filter(|page| page.1 == place).count()
    }

    fn take_first(&mut self, place: Where) -> (PageId, Where, bool, bool) {
        let at = self.pages.iter().position(|page| page.1 == place);
        self.pages.remove(at.expect("the list is not empty"))
    }
}

impl Simple for KernelLru {
    fn hit(&mut self, page: PageId) {
        let found = self.pages.iter_mut().find(|other| other.0 == page);
        found.expect("in a frame").2 = true;
    }

    fn enter(&mut self, page: PageId, touched: bool) {
        let left = self.log.iter().rposition(|&entry| entry == Some(page));
        // The steps between departure and refault, the departure itself counted.
        let distance = left.map(|at| self.log.len() - at);
        if touched && distance.is_some_and(|distance| distance <= self.count(Where::Active)) {
            self.log.push(None);
            self.pages.push((page, Where::Active, true, false));
        } else {
            self.pages.push((page, Where::Inactive, touched, false));
        }
        // A shadow is read once.
        self.forget(page);
    }

    fn leave(&mut self) -> Option<PageId> {
        while !self.pages.is_empty() {
            if self.count(Where::Active) > self.count(Where::Inactive) {
                let (page, ..) = self.take_first(Where::Active);
                self.pages.push((page, Where::Inactive, false, false));
                continue;
            }
            match self.take_first(Where::Inactive) {
                (page, _, true, true) => {
                    self.log.push(None);
                    self.pages.push((page, Where::Active, false, false));
                }
                (page, _, true, false) => {
                    self.pages.push((page, Where::Inactive, false, true));
                }
                (page, _, false, _) => {
                    self.log.push(Some(page));
                    return Some(page);
                }
            }
        }
        None
    }

    fn remove(&mut self, page: PageId) {
        self.pages.retain(|other| other.0 != page);
    }

    fn forget(&mut self, page: PageId) {
        for entry in &mut self.log {
            if *entry == Some(page) {
                *entry = None;
            }
        }
    }

    fn order(&self) -> Vec<PageId> {
        let of = |place| self.pages.iter().filter(move |page| page.1 == place);
        let both = of(Where::Inactive).chain(of(Where::Active));
        both.map(|page| page.0).collect()
    }

    fn is_warm(&self, page: PageId) -> bool {
        let is_it =
            |other: &(PageId, Where, bool, bool)| other.0 == page && other.1 == Where::Active;
        self.pages.iter().any(is_it)
    }
}

// ---- generations ----

/// All pages in the order in which they came into their generation, which is a number that only grows.
pub struct Mglru {
    pages: Vec<(PageId, u32, bool)>,
    oldest: u32,
    youngest: u32,
}

impl Default for Mglru {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            oldest: 0,
            youngest: 2,
        }
    }
}

impl Simple for Mglru {
    fn hit(&mut self, page: PageId) {
        let found = self.pages.iter_mut().find(|other| other.0 == page);
        found.expect("in a frame").2 = true;
    }

    fn enter(&mut self, page: PageId, touched: bool) {
        let generation = if touched { self.youngest } else { self.oldest };
        self.pages.push((page, generation, false));
    }

    fn leave(&mut self) -> Option<PageId> {
        while !self.pages.is_empty() {
            if self.oldest + 2 > self.youngest {
                self.youngest += 1;
                let mut touched: Vec<_> =
                    self.pages.iter().copied().filter(|page| page.2).collect();
                touched.sort_by_key(|page| page.1);
                self.pages.retain(|page| !page.2);
                let moved = touched
                    .into_iter()
                    .map(|(page, ..)| (page, self.youngest, false));
                self.pages.extend(moved);
            }
            let Some(at) = self.pages.iter().position(|page| page.1 == self.oldest) else {
                self.oldest += 1;
                continue;
            };
            match self.pages.remove(at) {
                (page, _, false) => return Some(page),
                (page, _, true) => self.pages.push((page, self.youngest, false)),
            }
        }
        None
    }

    fn remove(&mut self, page: PageId) {
        self.pages.retain(|other| other.0 != page);
    }

    fn forget(&mut self, _: PageId) {}

    fn order(&self) -> Vec<PageId> {
        let mut pages = self.pages.clone();
        pages.sort_by_key(|page| page.1);
        pages.into_iter().map(|page| page.0).collect()
    }

    fn is_warm(&self, page: PageId) -> bool {
        let is_it = |other: &&(PageId, u32, bool)| other.0 == page;
        let found = self.pages.iter().find(is_it);
        found.is_some_and(|&(_, generation, _)| generation + 1 >= self.youngest)
    }
}
