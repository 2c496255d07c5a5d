//! The address map of an arena: regions, each of one application.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

use rustc_hash::FxHashMap;
use warmswap_page::{AppId, PAGE_BYTES};

use crate::address_map::AddressMap;
use crate::error::{ArenaError, FaultError};
use crate::fault::Core;
use crate::files::{FileMap, Source};
use crate::page_words::{PageWords, State, Word};
use crate::pager::Pager;

/// Regions by their first pages.
#[derive(Debug)]
pub struct Regions {
    /// First page and number of pages of each region, all whole grains, with the unmapped grain behind it.
    regions: BTreeMap<usize, usize>,
    /// The owner of each grain.
    owners: Vec<AppId>,
    mapped_pages: usize,
    /// How many pins each pinned page has.
    pins: FxHashMap<usize, usize>,
}

impl AddressMap for Regions {
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let regions = self.regions.iter();
        regions.map(|(&first, &pages)| first..first + pages)
    }

    fn mapped_pages(&self) -> usize {
        self.mapped_pages
    }

    fn owner(&self, page: usize) -> AppId {
        self.owners[page / PageWords::GRAIN_PAGES]
    }

    fn is_file_page(&self, _: usize) -> bool {
        true
    }
}

impl Regions {
    /// No regions, in so many pages of addresses.
    pub fn new(space_pages: usize) -> Self {
        Self {
            regions: BTreeMap::new(),
            owners: vec![AppId(0); space_pages / PageWords::GRAIN_PAGES],
            mapped_pages: 0,
            pins: FxHashMap::default(),
        }
    }

    /// Takes the lowest free addresses with room for `pages` and an unmapped grain behind them, so that running over a
    /// region's end is noticed; the first page.
    fn find_room(&self, pages: usize) -> Result<usize, ArenaError> {
        let space_pages = self.owners.len() * PageWords::GRAIN_PAGES;
        let whole = with_guard(pages);
        let mut first = 0;
        for (&start, &taken) in &self.regions {
            if start - first >= whole {
                break;
            }
            first = start + taken;
        }
        if space_pages - first < whole {
            return Err(ArenaError::AddressSpace {
                bytes: pages * PAGE_BYTES,
                space_bytes: space_pages * PAGE_BYTES,
            });
        }
        Ok(first)
    }

    fn add(&mut self, app: AppId, first: usize, pages: usize) {
        let (grain, whole) = (PageWords::GRAIN_PAGES, with_guard(pages));
        self.regions.insert(first, whole);
        self.mapped_pages += whole;
        self.owners[first / grain..(first + whole) / grain].fill(app);
    }

    /// Forgets a region; its pages, with the grain behind it.
    fn remove(&mut self, first: usize) -> Option<usize> {
        let whole = self.regions.remove(&first)?;
        self.mapped_pages -= whole;
        Some(whole)
    }

    /// Adds a pin to a page; how many it has now.
    pub fn pin(&mut self, page: usize) -> usize {
        let count = self.pins.entry(page).or_default();
        *count += 1;
        *count
    }

    /// Takes a pin from a page; how many are left.
    pub fn unpin(&mut self, page: usize) -> usize {
        let Some(count) = self.pins.get_mut(&page) else {
            return 0;
        };
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.pins.remove(&page);
        }
        left
    }
}

/// Whole grains for so many pages, and one that stays unmapped.
fn with_guard(pages: usize) -> usize {
    let grain = PageWords::GRAIN_PAGES;
    pages.next_multiple_of(grain) + grain
}

impl Pager<Regions> {
    /// Maps a region, and makes its pages known; the first one.
    pub fn add_region(
        &mut self,
        core: &Core,
        app: AppId,
        pages: usize,
    ) -> Result<usize, ArenaError> {
        let first = self.map_region(core, app, pages)?;
        self.open_pages(core, first..first + pages, Word::of(State::Fresh));
        Ok(first)
    }

    /// Maps a file, and makes its pages known; the first one.
    pub fn add_file(
        &mut self,
        core: &Core,
        app: AppId,
        (file, path): (File, PathBuf),
        pages: usize,
    ) -> Result<usize, ArenaError> {
        let first = self.map_region(core, app, pages)?;
        let number = self.files.number(path);
        self.files.set(number, first..first + pages);
        let source = Source::File(file);
        core.files.add(FileMap {
            first,
            pages,
            source,
        });
        self.open_pages(core, first..first + pages, Word::of(State::InFile));
        Ok(first)
    }

    /// Finds room for a region and maps it; its pages have no words yet.
    fn map_region(&mut self, core: &Core, app: AppId, pages: usize) -> Result<usize, ArenaError> {
        let first = self.map.find_room(pages)?;
        core.memory.map(first, pages)?;
        self.map.add(app, first, pages);
        Ok(first)
    }

    /// Takes a region's pages out of everything and unmaps them. Its addresses are not used any more, but
    /// faults of other regions may be bringing its pages along.
    pub fn remove_region(
        &mut self,
        core: &Core,
        app: AppId,
        first: usize,
        pages: usize,
    ) -> Result<(), FaultError> {
        self.empty(core, app, first..first + pages, Word::of(State::Unmapped))?;
        core.memory.unmap(first, pages)?;
        self.files.close(core, first);
        if let Some(whole) = self.map.remove(first) {
            // Words of unmapped pages are zero: giving their memory back changes nothing but that.
            let _ = core.words.discard(first, whole);
        }
        self.report(core);
        Ok(())
    }

    /// Gives up the content of pages of a region, which read as zeros afterwards.
    pub fn make_fresh(
        &mut self,
        core: &Core,
        app: AppId,
        pages: Range<usize>,
    ) -> Result<(), FaultError> {
        self.empty(core, app, pages, Word::of(State::Fresh))?;
        self.report(core);
        Ok(())
    }

    /// The content of pages is what their file holds now.
    pub fn read_anew(
        &mut self,
        core: &Core,
        app: AppId,
        pages: Range<usize>,
    ) -> Result<(), FaultError> {
        self.empty(core, app, pages, Word::of(State::InFile))
    }
}
