//! The pages that the kernel of the model knows.

use rustc_hash::FxHashMap;

/// Pages of a block: neighbours lie side by side.
const BLOCK_PAGES: usize = 512;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Page {
    pub is_present: bool,
    pub is_protected: bool,
    /// The frame is a child's, too: it cannot be moved until it was written to.
    pub is_shared: bool,
    /// Until then it cannot be moved.
    pub pinned_until_ns: u64,
    /// Times that it was filled.
    pub fills: u64,
}

/// The pages that are registered, by number.
#[derive(Default)]
pub(super) struct Pages {
    blocks: FxHashMap<usize, Box<[Option<Page>; BLOCK_PAGES]>>,
}

impl Pages {
    /// Whether there never was one.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    #[inline]
    pub fn get(&self, page: usize) -> Option<&Page> {
        self.blocks.get(&(page / BLOCK_PAGES))?[page % BLOCK_PAGES].as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, page: usize) -> Option<&mut Page> {
        self.blocks.get_mut(&(page / BLOCK_PAGES))?[page % BLOCK_PAGES].as_mut()
    }

    /// The page is registered, and there is nothing.
    pub fn insert(&mut self, page: usize) {
        let none = || Box::new([None; BLOCK_PAGES]);
        let block = self.blocks.entry(page / BLOCK_PAGES).or_insert_with(none);
        block[page % BLOCK_PAGES] = Some(Page::default());
    }

    pub fn remove(&mut self, page: usize) {
        if let Some(block) = self.blocks.get_mut(&(page / BLOCK_PAGES)) {
            block[page % BLOCK_PAGES] = None;
        }
    }
}
