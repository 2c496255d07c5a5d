//! Regions: memory that an application uses.

use std::ops::Range;
use std::sync::Arc;

use warmswap_engine::calls::Call;
use warmswap_page::PAGE_BYTES;
use warmswap_policy::reclaim::Arrival;

use crate::application::AppInner;
use crate::error::{ArenaError, FaultError, die};
use crate::fault::{Core, Wanted};
use crate::page_words::{State, Word};
use crate::regions::Regions;
use crate::shared::Shared;

/// What a region's owner knows of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Not needed for long: it leaves now.
    Cold,
    /// Needed now and at every launch: it comes back and counts as touched.
    Hot,
    /// Needed at every launch: what is in memory counts as touched; what has left stays away.
    Touched,
    /// Needed soon: it comes back, and is as hot as it was.
    WorkingSet,
}

/// Anonymous memory of an application. Unmapped on drop.
///
/// It is reached through a raw pointer: code that makes references of it has to make sure that the region outlives
/// them, as for memory of `mmap`. A child of `fork` does not have it: an access there is a segmentation fault,
/// never zeros.
#[derive(Debug)]
pub struct Region {
    pub(crate) app: Arc<AppInner<Regions>>,
    pub(crate) first: usize,
    pub(crate) pages: usize,
}

impl Region {
    /// First byte. Valid for reads and writes of [`Self::len`] bytes as long as the region lives.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.core().memory.address(self.first))
    }

    /// Bytes; whole pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages * PAGE_BYTES
    }

    /// Never: a region has at least a page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    fn core(&self) -> &Core {
        &self.app.shared.core
    }

    /// The pages that a range of bytes touches.
    pub(crate) fn pages_of(&self, bytes: Range<usize>) -> Result<Range<usize>, ArenaError> {
        if bytes.start > bytes.end || bytes.end > self.len() {
            return Err(ArenaError::OutOfRange {
                offset: bytes.start,
                len: bytes.end.saturating_sub(bytes.start),
                region_bytes: self.len(),
            });
        }
        let first = self.first + bytes.start / PAGE_BYTES;
        Ok(first..self.first + bytes.end.div_ceil(PAGE_BYTES))
    }

    /// Says what a range of bytes is needed for. Pages that leave are only those that lie wholly within; those that come
    /// back do so before this returns, in the calling thread, at half the cost of a fault.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn advise(&self, bytes: Range<usize>, advice: Advice) -> Result<(), ArenaError> {
        let pages = self.pages_of(bytes.clone())?;
        let shared = &self.app.shared;
        if advice == Advice::Cold {
            self.send_away(bytes);
            return Ok(());
        }
        let (here, mut away) = self.here_and_away(pages);
        if matches!(advice, Advice::Hot | Advice::Touched) {
            away.extend(self.count_as_touched(here));
        }
        match advice {
            Advice::Hot => shared.restore(&away, Arrival::Touched),
            Advice::WorkingSet => shared.restore(&away, Arrival::Untouched),
            Advice::Touched | Advice::Cold => {}
        }
        Ok(())
    }

    /// Pages that lie wholly within these bytes leave.
    fn send_away(&self, bytes: Range<usize>) {
        let first = self.first + bytes.start.div_ceil(PAGE_BYTES);
        let end = self.first + bytes.end / PAGE_BYTES;
        let mut pager = self.app.shared.pager();
        pager.drain_arrivals(self.core());
        for page in first..end {
            let (app, addr) = pager.locate(page);
            pager.engine.call(Call::SendAway(app, addr));
        }
        drop(pager);
        self.core().frames.call_pager();
    }

    /// The pages that are in their place, and those that have left. Where nothing ever was is in neither.
    fn here_and_away(&self, pages: Range<usize>) -> (Vec<usize>, Vec<u32>) {
        let (mut here, mut away) = (Vec::new(), Vec::new());
        for page in pages {
            match self.core().words.word(page).state {
                State::Fresh => {}
                State::Resident => here.push(page),
                _ => away.push(page as u32),
            }
        }
        (here, away)
    }

    /// Pages in their place count as touched now; those that have left meanwhile.
    fn count_as_touched(&self, here: Vec<usize>) -> Vec<u32> {
        let mut left = Vec::new();
        if here.is_empty() {
            return left;
        }
        let mut pager = self.app.shared.pager();
        pager.drain_arrivals(self.core());
        for page in here {
            // Pages leave under the engine's lock only. One that has left since would lose what it is stored in, if
            // the engine took it for present.
            if self.core().words.word(page).state == State::Resident {
                let (app, addr) = pager.locate(page);
                pager.engine.call(Call::Served(app, addr, Arrival::Touched));
            } else {
                left.push(page as u32);
            }
        }
        left
    }

    /// Gives up the content of a range of bytes: it reads as zeros afterwards, and takes no memory until it is touched.
    /// Of a page that lies in the range in part, nothing is given up.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn discard(&self, bytes: Range<usize>) -> Result<(), ArenaError> {
        self.pages_of(bytes.clone())?;
        let first = self.first + bytes.start.div_ceil(PAGE_BYTES);
        let end = (self.first + bytes.end / PAGE_BYTES).max(first);
        let shared = &self.app.shared;
        let discarded = shared
            .pager()
            .make_fresh(&shared.core, self.app.id, first..end);
        if let Err(error) = discarded {
            die(shared.core.memory.address(first), &error);
        }
        // What the pages held in the pool is freed by the pager.
        shared.core.frames.call_pager();
        Ok(())
    }

    /// Brings a range of bytes to its place and keeps it there as long as the result lives.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn pin(&self, bytes: Range<usize>) -> Result<Pinned, ArenaError> {
        let pages = self.pages_of(bytes)?;
        Ok(Pinned::new(Arc::clone(&self.app.shared), pages))
    }

    /// How many pages of a range of bytes are in their place. For tests and reports: a moment later it may be
    /// another number.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn resident_pages(&self, bytes: Range<usize>) -> Result<usize, ArenaError> {
        self.count(bytes, |state| {
            matches!(state, State::Resident | State::Protected)
        })
    }

    /// How many pages of a range of bytes take a frame: in their place, or on their way there or from there. For
    /// tests and reports, too.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn pages_in_frames(&self, bytes: Range<usize>) -> Result<usize, ArenaError> {
        self.count(bytes, |state| {
            use State::{Busy, Protected, Resident, Staged};
            matches!(state, Resident | Protected | Busy | Staged)
        })
    }

    /// How many pages of a range of bytes are held to be hot. For tests and reports, too.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn hot_pages(&self, bytes: Range<usize>) -> Result<usize, ArenaError> {
        let pages = self.pages_of(bytes)?;
        let shared = &self.app.shared;
        let mut pager = shared.pager();
        pager.drain_arrivals(&shared.core);
        let is_in = |page: &u32| pages.contains(&(*page as usize));
        Ok(pager
            .hot_set(self.app.id)
            .iter()
            .filter(|page| is_in(page))
            .count())
    }

    fn count(&self, bytes: Range<usize>, counts: fn(State) -> bool) -> Result<usize, ArenaError> {
        let words = &self.core().words;
        let pages = self.pages_of(bytes)?;
        Ok(pages.filter(|&page| counts(words.word(page).state)).count())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let shared = &self.app.shared;
        if shared.is_in_child() {
            return;
        }
        // While its hot pages are known.
        self.app.keep_learned();
        let mut pager = shared.pager();
        let removed = pager.remove_region(&shared.core, self.app.id, self.first, self.pages);
        if let Err(error) = removed {
            die(shared.core.memory.address(self.first), &error);
        }
        drop(pager);
        // What it held in the pool is freed by the pager.
        shared.core.frames.call_pager();
    }
}

/// Pages that are in their place and stay there until this is dropped. The region must live as long.
#[derive(Debug)]
pub struct Pinned {
    shared: Arc<Shared<Regions>>,
    /// Those that were mapped, in order.
    pages: Vec<Range<usize>>,
}

impl Pinned {
    /// Pages that are not mapped are left out.
    pub(crate) fn new(shared: Arc<Shared<Regions>>, pages: Range<usize>) -> Self {
        let mut pinned = Self {
            shared,
            pages: Vec::new(),
        };
        for page in pages {
            if !pinned.pin(page) {
                continue;
            }
            match pinned.pages.last_mut() {
                Some(last) if last.end == page => last.end += 1,
                _ => pinned.pages.push(page..page + 1),
            }
        }
        pinned
    }

    /// Whether the page is mapped.
    fn pin(&self, page: usize) -> bool {
        let core = &self.shared.core;
        self.shared.pager().map.pin(page);
        // Also of a page that was pinned before: the thread that pinned it may still be bringing it.
        loop {
            match core.fault_in(page, Wanted::Demand) {
                Ok(_) => {}
                Err(FaultError::NotMapped) => {
                    self.shared.pager().map.unpin(page);
                    return false;
                }
                Err(error) => die(core.memory.address(page), &error),
            }
            let pin = |word: Word| {
                let is_there = word.state == State::Resident;
                is_there.then_some(word.pinned(true))
            };
            if core.words.update(page, pin).is_some() {
                return true;
            }
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.shared.is_in_child() {
            return;
        }
        for page in self.pages.iter().cloned().flatten() {
            let mut pager = self.shared.pager();
            if pager.map.unpin(page) == 0 {
                let unpin = |word: Word| {
                    let is_there = word.state == State::Resident;
                    is_there.then_some(word.pinned(false))
                };
                self.shared.core.words.update(page, unpin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE_BYTES, State};
    use crate::pager::testing::arena;

    #[test]
    fn a_page_is_in_its_place_for_the_second_who_pins_it() {
        let Some(arena) = arena("a page is in its place for the second", "zram") else {
            return;
        };
        let app = arena.application("a page").expect("an application");
        let region = app.region(PAGE_BYTES).expect("a region");
        // The first has not brought it yet.
        arena.shared.pager().map.pin(region.first);
        let pinned = region.pin(0..PAGE_BYTES).expect("in the region");
        let word = arena.shared.core.words.word(region.first);
        assert!(word.state == State::Resident && word.pinned);
        drop(pinned);
        assert!(arena.shared.core.words.word(region.first).pinned);
    }

    #[test]
    fn what_is_not_mapped_is_not_pinned() {
        let Some(arena) = arena("what is not mapped is not pinned", "zram") else {
            return;
        };
        let app = arena.application("regions").expect("an application");
        let regions = [1, 2].map(|pages| app.region(pages * PAGE_BYTES).expect("a region"));
        let freed = app.region(PAGE_BYTES).expect("a region");
        let (first, behind) = (regions[0].first, freed.first + 1);
        drop(freed);
        let address = |page| arena.shared.core.memory.address(page) as *const u8;
        // Guards between the regions, one that was freed, and addresses behind.
        let pinned = arena.touch_for_kernel(address(first)..address(behind + 1));
        let mapped: Vec<usize> = pinned.pages.iter().cloned().flatten().collect();
        let second = regions[1].first;
        assert_eq!(mapped, [first, second, second + 1]);
        let is_pinned = |page| arena.shared.core.words.word(page).pinned;
        assert!(mapped.iter().all(|&page| is_pinned(page)));
        drop(pinned);
        assert!(!mapped.iter().any(|&page| is_pinned(page)));
        assert_eq!(arena.shared.pager().map.pin(behind), 1);
        arena.shared.pager().map.unpin(behind);
    }
}
