//! Pages that are no longer used: of a range, of a part of an address space, of an application.

use super::Engine;
use warmswap_page::{AppId, PageAddr};
use warmswap_policy::page::BLOCK_PAGES;
use warmswap_policy::{PageId, PageState};

impl Engine {
    /// `pages` pages from `addr` on are no longer used.
    pub fn free(&mut self, app: AppId, mut addr: PageAddr, pages: u32) {
        self.stuck = false;
        let (mut left, block) = (u64::from(pages), BLOCK_PAGES as u64);
        while left > 0 {
            let found = self.table.find(app, addr);
            let (PageAddr::Anon { number } | PageAddr::File { number, .. }) = &mut addr;
            // The table knows all pages of a block, or none.
            let step = found.map_or(block - *number % block, |_| 1);
            *number += step;
            left = left.saturating_sub(step);
            if let Some(page) = found {
                self.forget(page);
            }
        }
    }

    /// Anonymous pages of the application are no longer used, and what the engine keeps of them goes to others: all
    /// pages of those blocks of [`BLOCK_PAGES`] neighbours for whose first page, by its number, `is_gone` holds. Their
    /// [`PageId`]s stand for other pages from then on. For a part of its address space that ends, such as one of
    /// several processes; what is only freed ([`Self::free`]) keeps its place in the tables. Linear in the application's
    /// blocks and the pages that are gone.
    pub fn free_blocks(&mut self, app: AppId, is_gone: impl Fn(u64) -> bool) {
        self.stuck = false;
        let pages: Vec<_> = self.table.pages_of_blocks(app, &is_gone).collect();
        for page in pages {
            if self.table[page].state == PageState::Absent {
                // One that was taught, and never came, is known to the policy all the same.
                self.scheme.reclaim.forget(&self.table, page);
            }
            self.forget(page);
        }
        self.table.forget_blocks(app, is_gone);
    }

    /// The application ended: its anonymous pages are gone. Pages of files stay.
    pub fn exit(&mut self, app: AppId) {
        if self.dying == Some(app) {
            self.dying = None;
        }
        self.void_window(app);
        self.free_blocks(app, |_| true);
        self.app(app).is_foreground = false;
    }

    /// A page that existed no longer does.
    fn forget(&mut self, page: PageId) {
        if let Some(evidence) = &mut self.evidence {
            evidence.forget(page);
        }
        let state = self.table[page].state;
        match state {
            PageState::Absent => return,
            PageState::Resident => {
                self.scheme.reclaim.remove(&mut self.table, page);
                self.budget.usage.frames -= 1;
            }
            PageState::Leaving => {
                self.budget.leaving -= 1;
                self.budget.usage.frames -= 1;
            }
            PageState::Buffered => {
                self.unbuffer(page);
                self.counters.prefetch_wasted += 1;
                self.budget.usage.frames -= 1;
            }
            PageState::Loading => {
                self.budget.usage.frames -= 1;
                self.late.retain(|&(_, late)| late != page);
                self.absent_less(self.table[page].chunk);
            }
            PageState::Stored => self.absent_less(self.table[page].chunk),
            PageState::Discarded => {}
        }
        self.scheme.reclaim.forget(&self.table, page);
        self.drop_copy(page);
        if !self.table.is_file(page) {
            let owner = self.table.owner(page);
            self.app(owner).pages -= 1;
        }
        self.table[page].reset();
    }
}
