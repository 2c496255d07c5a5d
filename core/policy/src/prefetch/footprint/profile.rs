//! Offline profiling: which pages of files do nearly all switches touch (ASAP section 4.2)?

use super::extents::{Extent, Extents};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// Switches of a profile (section 4.2).
pub const PROFILE_SWITCHES: u32 = 10;

/// A page is kept if more tenths of the switches than this touched it: more than eight of ten.
pub const KEPT_ABOVE_TENTHS: u32 = 8;

/// Pages of files: the offline candidate table, and the prepaging target table. `F` names a file.
pub type FileTable<F> = BTreeMap<F, Extents>;

/// How many pages a table of files has.
pub fn table_pages<F>(table: &FileTable<F>) -> u64 {
    table.values().map(Extents::pages).sum()
}

/// How many extents a table of files has.
pub fn table_extents<F>(table: &FileTable<F>) -> usize {
    table.values().map(Extents::len).sum()
}

/// Bytes of memory that a table of files takes.
pub(super) fn table_bytes<F>(table: &FileTable<F>) -> usize {
    table_extents(table) * Extents::BYTES_PER_EXTENT + table.len() * (size_of::<(F, Extents)>() + 8)
}

const BLOCK_PAGES: u64 = 64;

#[derive(Clone, Debug)]
struct Block {
    /// In how many finished windows each page was touched; stays at 255.
    counts: [u8; BLOCK_PAGES as usize],
    /// Touched in the open window.
    now: u64,
}

/// Counts in how many windows each page of each file is touched.
///
/// Memory: 80 bytes and an entry of the map for each 64 neighbours once one of them was touched.
#[derive(Clone, Debug)]
pub struct Profiler<F> {
    windows: u32,
    blocks: FxHashMap<(F, u64), Block>,
    touched: Vec<(F, u64)>,
}

impl<F> Default for Profiler<F> {
    fn default() -> Self {
        Self {
            windows: 0,
            blocks: FxHashMap::default(),
            touched: Vec::new(),
        }
    }
}

impl<F: Copy + Ord + Hash> Profiler<F> {
    /// A page was touched in the open window. Constant time.
    pub fn accessed(&mut self, file: F, page: u64) {
        let key = (file, page / BLOCK_PAGES);
        let block = self.blocks.entry(key).or_insert(Block {
            counts: [0; BLOCK_PAGES as usize],
            now: 0,
        });
        if block.now == 0 {
            self.touched.push(key);
        }
        block.now |= 1 << (page % BLOCK_PAGES);
    }

    /// A page was touched in the open window.
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The window closes.
    pub fn window_end(&mut self) {
        self.windows += 1;
        for key in self.touched.drain(..) {
            let Some(block) = self.blocks.get_mut(&key) else {
                continue;
            };
            let now = std::mem::take(&mut block.now);
            for (bit, count) in block.counts.iter_mut().enumerate() {
                *count = count.saturating_add(u8::from(now >> bit & 1 == 1));
            }
        }
    }

    /// How many windows were counted.
    pub fn windows(&self) -> u32 {
        self.windows
    }

    /// Pages that were touched in at least one window, by the number of windows that touched them: the
    /// place is the number (Figure 5).
    pub fn histogram(&self) -> Vec<u64> {
        let mut pages = vec![0; self.windows as usize + 1];
        for &count in self.blocks.values().flat_map(|block| &block.counts) {
            if let Some(pages) = pages.get_mut(usize::from(count)) {
                *pages += 1;
            }
        }
        pages[0] = 0;
        pages
    }

    /// The offline candidate table: pages that more than [`KEPT_ABOVE_TENTHS`] of the windows touched.
    pub fn table(&self) -> FileTable<F> {
        let mut table = FileTable::new();
        for (&(file, number), block) in &self.blocks {
            for (page, &count) in (number * BLOCK_PAGES..).zip(&block.counts) {
                if u32::from(count) * 10 > KEPT_ABOVE_TENTHS * self.windows {
                    let extents: &mut Extents = table.entry(file).or_default();
                    extents.insert(Extent::page(page), 1);
                }
            }
        }
        table
    }

    /// Bytes of memory held.
    pub fn state_bytes(&self) -> usize {
        self.blocks.capacity() * 8 / 7 * (size_of::<((F, u64), Block)>() + 1)
            + self.touched.capacity() * size_of::<(F, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_nine_of_ten_windows_are_kept_as_extents() {
        let mut profiler = Profiler::default();
        for window in 0..10 {
            for page in 60..70 {
                profiler.accessed('a', page);
                profiler.accessed('a', page);
            }
            if window > 0 {
                profiler.accessed('a', 70);
            }
            if window > 1 {
                profiler.accessed('b', 5);
            }
            profiler.window_end();
        }
        assert_eq!(profiler.windows(), 10);
        let table = profiler.table();
        assert_eq!(table.len(), 1, "eight of ten are not more than eight");
        let extent = Extent {
            first: 60,
            pages: 11,
        };
        assert_eq!(table[&'a'].iter().collect::<Vec<_>>(), [extent]);
        let histogram = profiler.histogram();
        assert_eq!((histogram[8], histogram[9], histogram[10]), (1, 1, 10));
        assert_eq!((table_pages(&table), table_extents(&table)), (11, 1));
    }
}
