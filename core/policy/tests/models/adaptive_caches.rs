//! ARC, LIRS and W-TinyLFU, written down as their papers read: plain vectors, searched from end to end.

use super::simple::Simple;
use std::collections::BTreeMap;
use warmswap_policy::PageId;

fn take(list: &mut Vec<PageId>, page: PageId) -> bool {
    let found = list.iter().position(|&other| other == page);
    found.map(|at| list.remove(at)).is_some()
}

// ---- ARC ----

/// The four lists, least recently used first; `p` and `c`.
#[derive(Default)]
pub struct Arc {
    t1: Vec<PageId>,
    t2: Vec<PageId>,
    b1: Vec<PageId>,
    b2: Vec<PageId>,
    p: usize,
    c: usize,
}

impl Simple for Arc {
    fn hit(&mut self, page: PageId) {
        self.remove(page);
        self.t2.push(page);
    }

    fn enter(&mut self, page: PageId, touched: bool) {
        let (b1, b2) = (self.b1.len(), self.b2.len());
        let in_b1 = take(&mut self.b1, page);
        let in_b2 = take(&mut self.b2, page);
        match (touched, in_b1, in_b2) {
            (true, true, _) => self.p = (self.p + 1.max(b2 / b1)).min(self.c),
            (true, _, true) => self.p = self.p.saturating_sub(1.max(b1 / b2)),
            _ => return self.t1.push(page),
        }
        self.t2.push(page);
    }

    fn leave(&mut self) -> Option<PageId> {
        self.c = self.t1.len() + self.t2.len();
        if self.c == 0 {
            return None;
        }
        let page = if !self.t1.is_empty() && (self.t1.len() > self.p || self.t2.is_empty()) {
            self.b1.push(self.t1[0]);
            self.t1.remove(0)
        } else {
            self.b2.push(self.t2[0]);
            self.t2.remove(0)
        };
        while self.t1.len() + self.b1.len() > self.c {
            self.b1.remove(0);
        }
        while self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() > 2 * self.c {
            self.b2.remove(0);
        }
        Some(page)
    }

    fn remove(&mut self, page: PageId) {
        take(&mut self.t1, page);
        take(&mut self.t2, page);
    }

    fn forget(&mut self, page: PageId) {
        take(&mut self.b1, page);
        take(&mut self.b2, page);
    }

    fn order(&self) -> Vec<PageId> {
        self.t1.iter().chain(&self.t2).copied().collect()
    }

    fn is_warm(&self, page: PageId) -> bool {
        self.t2.contains(&page)
    }
}

// ---- LIRS ----

/// The stack from bottom to top, LIR pages and the queue of resident HIR pages.
#[derive(Default)]
pub struct Lirs {
    stack: Vec<PageId>,
    low: Vec<PageId>,
    queue: Vec<PageId>,
    /// LIR pages that there may be, once a page had to leave.
    most_low: Option<usize>,
}

impl Lirs {
    fn raise(&mut self, page: PageId) {
        take(&mut self.stack, page);
        self.stack.push(page);
    }

    /// The bottom of the stack is a LIR page, and of those there are not too many.
    fn settle(&mut self) {
        loop {
            let lowest = self.stack.iter().position(|page| self.low.contains(page));
            self.stack.drain(..lowest.unwrap_or(self.stack.len()));
            if self.low.len() <= self.most_low.unwrap_or(usize::MAX) {
                return;
            }
            let page = self.stack.remove(0);
            take(&mut self.low, page);
            self.queue.push(page);
        }
    }
}

impl Simple for Lirs {
    fn hit(&mut self, page: PageId) {
        let in_stack = self.stack.contains(&page);
        self.raise(page);
        if !self.low.contains(&page) {
            take(&mut self.queue, page);
            if !in_stack {
                return self.queue.push(page);
            }
            self.low.push(page);
        }
        self.settle();
    }

    fn enter(&mut self, page: PageId, touched: bool) {
        if !touched {
            return self.queue.push(page);
        }
        let is_room = self.most_low.is_none_or(|most| self.low.len() < most);
        let becomes_low = self.stack.contains(&page) || is_room;
        self.raise(page);
        if becomes_low {
            self.low.push(page);
            self.settle();
        } else {
            self.queue.push(page);
        }
    }

    fn leave(&mut self) -> Option<PageId> {
        let resident = self.low.len() + self.queue.len();
        if resident == 0 {
            return None;
        }
        self.most_low = Some(resident - (resident / 100).max(1));
        self.settle();
        Some(self.queue.remove(0))
    }

    fn remove(&mut self, page: PageId) {
        take(&mut self.queue, page);
        take(&mut self.stack, page);
        if take(&mut self.low, page) {
            self.settle();
        }
    }

    fn forget(&mut self, page: PageId) {
        take(&mut self.stack, page);
    }

    fn order(&self) -> Vec<PageId> {
        let low = self.stack.iter().filter(|page| self.low.contains(page));
        self.queue.iter().chain(low).copied().collect()
    }

    fn is_warm(&self, page: PageId) -> bool {
        self.low.contains(&page)
    }
}

// ---- W-TinyLFU ----

/// The three lists, least recently used first, and how often each page was touched.
#[derive(Default)]
pub struct WTinyLfu {
    window: Vec<PageId>,
    probation: Vec<PageId>,
    protected: Vec<PageId>,
    touches: BTreeMap<PageId, u32>,
    counted: usize,
}

impl WTinyLfu {
    fn resident(&self) -> usize {
        self.window.len() + self.probation.len() + self.protected.len()
    }

    fn touch(&mut self, page: PageId) {
        let touches = self.touches.entry(page).or_default();
        *touches = (*touches + 1).min(15);
        self.counted += 1;
        if self.counted >= 10 * self.resident().max(1) {
            self.touches.values_mut().for_each(|touches| *touches /= 2);
            self.counted /= 2;
        }
    }

    fn frequency(&self, page: PageId) -> u32 {
        self.touches.get(&page).copied().unwrap_or(0)
    }
}

impl Simple for WTinyLfu {
    fn hit(&mut self, page: PageId) {
        if take(&mut self.window, page) {
            self.window.push(page);
        } else {
            self.remove(page);
            self.protected.push(page);
        }
        self.touch(page);
        let main = self.probation.len() + self.protected.len();
        if self.protected.len() * 5 > main * 4 {
            self.probation.push(self.protected.remove(0));
        }
    }

    fn enter(&mut self, page: PageId, touched: bool) {
        self.window.push(page);
        if touched {
            self.touch(page);
        }
    }

    fn ask(&mut self, want: usize) {
        let room = 1.max(self.resident() / 100);
        while self.window.len() > room + want {
            self.probation.push(self.window.remove(0));
        }
    }

    fn leave(&mut self) -> Option<PageId> {
        let room = 1.max(self.resident() / 100);
        let newcomer = self.window.first().copied();
        let incumbent = self.probation.first().copied();
        if let (Some(newcomer), true) = (newcomer, self.window.len() > room) {
            let Some(incumbent) = incumbent else {
                return Some(self.window.remove(0));
            };
            if self.frequency(newcomer) <= self.frequency(incumbent) {
                return Some(self.window.remove(0));
            }
            self.probation.push(self.window.remove(0));
            return Some(self.probation.remove(0));
        }
        let lists = [&mut self.probation, &mut self.protected, &mut self.window];
        let list = lists.into_iter().find(|list| !list.is_empty())?;
        Some(list.remove(0))
    }

    fn remove(&mut self, page: PageId) {
        take(&mut self.window, page);
        take(&mut self.probation, page);
        take(&mut self.protected, page);
    }

    fn forget(&mut self, page: PageId) {
        self.touches.remove(&page);
    }

    fn order(&self) -> Vec<PageId> {
        let lists = [&self.window, &self.probation, &self.protected];
        lists.into_iter().flatten().copied().collect()
    }

    fn is_warm(&self, page: PageId) -> bool {
        self.protected.contains(&page)
    }
}
