//! `lirs`: pages by the number of others that were touched between their last two touches.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{Entry, no_arguments};
use crate::list::PageList;
use crate::page::{Hotness, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: Entry<dyn Reclaim> = Entry {
    name: "lirs",
    summary: "low inter-reference recency stays; a queue of 1 % for the others",
    source: "Jiang, Zhang, LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy, SIGMETRICS 2002, section 3.3",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Lirs::default()))
    },
};

/// Of the resident pages, a hundredth has high recency between references.
const HIGH_PART: usize = 100;

/// What a page is; the label of the page table.
const LOW: u8 = 1;
const HIGH: u8 = 2;
/// Not resident, but on the stack.
const GHOST: u8 = 3;

/// A page's neighbours on the stack, towards the top and towards the bottom.
#[derive(Clone, Copy, Debug)]
struct Links {
    above: PageId,
    below: PageId,
    is_on_stack: bool,
}

const OFF_STACK: Links = Links {
    above: PageId::NONE,
    below: PageId::NONE,
    is_on_stack: false,
};

/// The stack S, on which pages are that are not resident, too. Its links stand here, since the page table has none for
/// those.
#[derive(Debug)]
struct Stack {
    links: Vec<Links>,
    top: PageId,
    bottom: PageId,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            top: PageId::NONE,
            bottom: PageId::NONE,
        }
    }
}

impl Stack {
    fn has(&self, page: PageId) -> bool {
        let links = self.links.get(page.index());
        links.is_some_and(|links| links.is_on_stack)
    }

    fn remove(&mut self, page: PageId) {
        if !self.has(page) {
            return;
        }
        let links = std::mem::replace(&mut self.links[page.index()], OFF_STACK);
        match links.above {
            PageId::NONE => self.top = links.below,
            above => self.links[above.index()].below = links.below,
        }
        match links.below {
            PageId::NONE => self.bottom = links.above,
            below => self.links[below.index()].above = links.above,
        }
    }

    /// Puts the page on top, wherever it was.
    fn push(&mut self, page: PageId) {
        self.remove(page);
        if self.links.len() <= page.index() {
            self.links.resize(page.index() + 1, OFF_STACK);
        }
        self.links[page.index()] = Links {
            above: PageId::NONE,
            below: self.top,
            is_on_stack: true,
        };
        match self.top {
            PageId::NONE => self.bottom = page,
            top => self.links[top.index()].above = page,
        }
        self.top = page;
    }
}

/// LIRS. Pages of low inter-reference recency (LIR) are on the stack; of the others (HIR) the resident ones are in a
/// queue, from whose front pages leave. The bottom of the stack is a LIR page. Until the first page has to leave, all pages
/// that come are LIR. How many may be is known from the resident pages when one last had to leave; ghosts on the stack are
/// not bounded otherwise. Constant time, amortized. Memory: 12 bytes a page.
#[derive(Debug)]
pub struct Lirs {
    stack: Stack,
    queue: PageList,
    low: usize,
    most_low: usize,
}

impl Default for Lirs {
    fn default() -> Self {
        Self {
            stack: Stack::default(),
            queue: PageList::default(),
            low: 0,
            most_low: usize::MAX,
        }
    }
}

impl Lirs {
    /// Removes what is below the lowest LIR page.
    fn prune(&mut self, table: &mut PageTable) {
        while self.stack.bottom != PageId::NONE && table[self.stack.bottom].label != LOW {
            let page = self.stack.bottom;
            self.stack.remove(page);
            if table[page].label == GHOST {
                table[page].label = 0;
            }
        }
    }

    /// While there are too many LIR pages, that at the bottom goes to the end of the queue.
    fn demote(&mut self, table: &mut PageTable) {
        while self.low > self.most_low {
            self.prune(table);
            let page = self.stack.bottom;
            self.stack.remove(page);
            self.low -= 1;
            table[page].label = HIGH;
            self.queue.push_back(table, page);
        }
        self.prune(table);
    }

    fn become_low(&mut self, table: &mut PageTable, page: PageId) {
        table[page].label = LOW;
        self.low += 1;
        self.stack.push(page);
        self.demote(table);
    }

    fn take(&mut self, table: &mut PageTable) -> Option<PageId> {
        let resident = self.low + self.queue.len();
        if resident == 0 {
            return None;
        }
        self.most_low = resident - (resident / HIGH_PART).max(1);
        self.demote(table);
        let page = self.queue.pop_front(table)?;
        table[page].label = if self.stack.has(page) { GHOST } else { 0 };
        Some(page)
    }
}

impl Reclaim for Lirs {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        let touched = arrival == Arrival::Touched;
        if touched && (self.stack.has(page) || self.low < self.most_low) {
            return self.become_low(table, page);
        }
        table[page].label = HIGH;
        if touched {
            self.stack.push(page);
        }
        self.queue.push_back(table, page);
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        if table[page].label == LOW {
            self.stack.push(page);
            return self.prune(table);
        }
        self.queue.remove(table, page);
        if self.stack.has(page) {
            return self.become_low(table, page);
        }
        self.stack.push(page);
        self.queue.push_back(table, page);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.stack.remove(page);
        match std::mem::take(&mut table[page].label) {
            LOW => {
                self.low -= 1;
                self.prune(table);
            }
            _ => self.queue.remove(table, page),
        }
    }

    fn victims(&mut self, table: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        out.extend(std::iter::from_fn(|| self.take(table)).take(want));
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        take_all_of(self, table, app, out);
    }

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        match table[page].label {
            LOW => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    fn forget(&mut self, _: &PageTable, page: PageId) {
        self.stack.remove(page);
    }

    fn state_bytes(&self) -> usize {
        self.stack.links.capacity() * size_of::<Links>()
    }

    /// The queue, then the LIR pages from the bottom of the stack.
    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        let mut pages: Vec<_> = self.queue.iter(table).collect();
        let mut at = self.stack.bottom;
        while at != PageId::NONE {
            if table[at].label == LOW {
                pages.push(at);
            }
            at = self.stack.links[at.index()].above;
        }
        pages
    }
}
