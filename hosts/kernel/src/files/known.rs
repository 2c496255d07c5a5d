//! Files that programs use, and which of their pages were in memory: no I/O.

use std::cmp::Reverse;
use std::hash::Hash;

use rustc_hash::FxHashMap;
use warmswap_sys::advise::PageRange;

use crate::decide::order::count;

/// So many files are known at most: 10 µs each when they are looked at.
pub const MOST_FILES: usize = 4096;

/// Pages of a file that is opened all the time, and held by none, are looked at once in so many looks.
const LOOKS_BETWEEN: u64 = 5;

/// So few pages between two that are known count as known: the kernel reads them along.
const JOINED_PAGES: u64 = 8;

/// Of a file with more ranges than this those that are next to each other are joined.
const MOST_RANGES: usize = 256;

/// What is known of files, which are told by handles `H`.
#[derive(Debug)]
pub struct KnownFiles<H> {
    files: FxHashMap<H, Known>,
    look: u64,
}

impl<H> Default for KnownFiles<H> {
    fn default() -> Self {
        Self {
            files: FxHashMap::default(),
            look: 0,
        }
    }
}

/// How a file is used; what is worth more is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// It was opened before one look, as by a copy: not worth its memory.
    Once,
    /// A program holds it: what is used of it has come back mapped, for the most part.
    Held,
    /// It was opened before several looks, and no program holds it since.
    Again,
}

#[derive(Debug, Default)]
struct Known {
    /// The look before which it was opened last.
    opened: Option<u64>,
    /// It was opened before another look, too.
    is_opened_again: bool,
    /// The look before which a program was seen to hold it.
    held: Option<u64>,
    /// The look at which it was seen last which of its pages are in memory.
    noted: Option<u64>,
    /// Pages that were in memory, ascending.
    pages: Vec<PageRange>,
}

impl Known {
    fn worth(&self) -> Worth {
        match self.held {
            held if self.is_opened_again && self.opened > held => Worth::Again,
            Some(_) => Worth::Held,
            None => Worth::Once,
        }
    }

    /// The look before which it was used last.
    fn used(&self) -> Option<u64> {
        self.opened.max(self.held)
    }

    /// The more, the later it is forgotten.
    fn value(&self) -> (Worth, Option<u64>) {
        (self.worth(), self.used())
    }
}

impl<H: Clone + Eq + Hash + Ord> KnownFiles<H> {
    /// A look is over.
    pub fn end_look(&mut self) {
        self.look += 1;
        if self.files.len() > MOST_FILES {
            self.forget_some();
        }
    }

    /// A file was opened since the last look.
    pub fn note_opened(&mut self, handle: H) {
        let look = Some(self.look);
        let known = self.entry(handle);
        known.is_opened_again |= known.opened.is_some() && known.opened != look;
        known.opened = look;
    }

    /// A program has a file mapped, or open for longer.
    pub fn note_held(&mut self, handle: H) {
        self.entry(handle).held = Some(self.look);
    }

    fn entry(&mut self, handle: H) -> &mut Known {
        if self.files.len() >= 2 * MOST_FILES {
            self.forget_some();
        }
        self.files.entry(handle).or_default()
    }

    /// Of files that were opened once the oldest are forgotten first.
    fn forget_some(&mut self) {
        let mut values: Vec<_> = self.files.values().map(Known::value).collect();
        let excess = values.len() - MOST_FILES;
        let (_, &mut least, _) = values.select_nth_unstable(excess);
        self.files.retain(|_, known| known.value() >= least);
        // Of those that are worth as much any.
        let excess = self.files.len().saturating_sub(MOST_FILES);
        let last = self
            .files
            .iter()
            .filter(|(_, known)| known.value() == least);
        let last: Vec<_> = last
            .map(|(handle, _)| handle.clone())
            .take(excess)
            .collect();
        last.iter().for_each(|handle| self.forget(handle));
    }

    /// Files that were opened or held since their pages were seen last: those for the first time as well, of which it is too late
    /// to see what was in memory when pressure has taken it before they are opened again.
    #[must_use]
    pub fn to_note(&self) -> Vec<H> {
        let is_due = |known: &Known| {
            let is_long_ago = |at| self.look - at >= LOOKS_BETWEEN;
            let is_opened = known.opened >= known.noted && known.noted.is_none_or(is_long_ago);
            is_opened || known.held >= known.noted
        };
        let files = self.files.iter().filter(|(_, known)| is_due(known));
        files.map(|(handle, _)| handle.clone()).collect()
    }

    /// These pages of a file, which ascend, are in memory now.
    pub fn note_cached(&mut self, handle: &H, cached: Vec<PageRange>) {
        if let Some(known) = self.files.get_mut(handle) {
            known.noted = Some(self.look);
            let mut all = [std::mem::take(&mut known.pages), cached].concat();
            all.sort_unstable_by_key(|range| range.first);
            let mut between_pages = JOINED_PAGES;
            known.pages = joined(&all, between_pages);
            while known.pages.len() > MOST_RANGES {
                between_pages *= 2;
                known.pages = joined(&all, between_pages);
            }
        }
    }

    /// Bytes that all of it takes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let ranges = self.files.values().map(|known| known.pages.len());
        self.files.capacity() * size_of::<(H, Known)>()
            + ranges.sum::<usize>() * size_of::<PageRange>()
    }

    /// A file is gone, or cannot be read.
    pub fn forget(&mut self, handle: &H) {
        self.files.remove(handle);
    }

    /// Files that are worth it and of which pages were in memory, with these pages: first those that were opened again, the last
    /// ones before; then those that programs hold, the smallest before, since of a large one the kernel read much that nothing
    /// used.
    #[must_use]
    pub fn in_order(&self) -> Vec<(H, Vec<PageRange>)> {
        let mut files: Vec<_> = self.files.iter().collect();
        files.retain(|(_, known)| known.worth() > Worth::Once && !known.pages.is_empty());
        files.sort_by_key(|(handle, known)| {
            let (worth, used) = known.value();
            let held_pages = match worth {
                Worth::Held => count(&known.pages),
                Worth::Once | Worth::Again => 0,
            };
            (Reverse(worth), held_pages, Reverse(used), *handle)
        });
        let file = |(handle, known): (&H, &Known)| (handle.clone(), known.pages.clone());
        files.into_iter().map(file).collect()
    }
}

/// Ranges, which ascend, and up to so many pages between two of them.
fn joined(ranges: &[PageRange], between_pages: u64) -> Vec<PageRange> {
    let mut joined: Vec<PageRange> = Vec::new();
    for range in ranges {
        let end = range.first + range.count;
        match joined.last_mut() {
            Some(last) if range.first <= last.first + last.count + between_pages => {
                last.count = last.count.max(end - last.first);
            }
            _ => joined.push(*range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::range;

    /// Files that are opened between looks.
    fn known(looks: &[&[u32]]) -> KnownFiles<u32> {
        let mut known = KnownFiles::default();
        for (at, files) in looks.iter().enumerate() {
            if at > 0 {
                known.end_look();
            }
            files.iter().for_each(|&file| known.note_opened(file));
        }
        known
    }

    fn files(known: &KnownFiles<u32>) -> Vec<u32> {
        known.in_order().into_iter().map(|(file, _)| file).collect()
    }

    /// All pages of all files are in memory at each look.
    fn used(looks: &[&[u32]]) -> Vec<u32> {
        let mut known = KnownFiles::default();
        for files in looks {
            files.iter().for_each(|&file| known.note_opened(file));
            for file in known.to_note() {
                known.note_cached(&file, vec![range(0, 1)]);
            }
            known.end_look();
        }
        let mut files = files(&known);
        files.sort_unstable();
        files
    }

    #[test]
    fn a_file_counts_when_it_was_opened_before_two_looks() {
        assert!(used(&[&[1, 1, 2]]).is_empty());
        assert_eq!(used(&[&[1, 1, 2], &[2, 3]]), [2]);
        assert_eq!(used(&[&[1, 2], &[2, 3], &[]]), [2]);
        assert_eq!(used(&[&[1, 2], &[], &[1]]), [1]);
    }

    #[test]
    fn a_file_that_a_program_holds_counts_at_once_and_comes_after_those_that_are_opened_again() {
        let mut known = known(&[&[1, 3], &[3]]);
        known.end_look();
        known.note_held(2);
        for file in [1, 2, 3] {
            known.note_cached(&file, vec![range(0, 1)]);
        }
        assert_eq!(files(&known), [3, 2]);
        known.note_held(4);
        known.note_cached(&4, vec![range(7, 2)]);
        known.note_held(5);
        known.note_cached(&5, vec![range(7, 1)]);
        assert_eq!(files(&known), [3, 2, 5, 4]);
        [4, 5].iter().for_each(|file| known.forget(file));
        // A program holds what it opened, until others open it.
        known.note_opened(2);
        known.note_opened(3);
        known.note_held(3);
        known.end_look();
        assert_eq!(files(&known), [2, 3]);
        known.note_opened(2);
        known.end_look();
        known.note_opened(3);
        assert_eq!(files(&known), [3, 2]);
    }

    #[test]
    fn pages_are_seen_when_a_file_is_first_opened_and_then_now_and_then() {
        let mut known = KnownFiles::default();
        let seen = (0..20).filter(|look| {
            let is_opened = [0, 1, 2, 12].contains(look);
            is_opened.then(|| known.note_opened(1));
            let files = known.to_note();
            for file in &files {
                known.note_cached(file, vec![range(0, 1)]);
            }
            known.end_look();
            !files.is_empty()
        });
        // Once more after it was opened last: what it was opened for may have been read since.
        assert_eq!(seen.collect::<Vec<u64>>(), [0, 5, 12, 17]);
    }

    #[test]
    fn pages_of_a_file_that_a_program_holds_are_seen_whenever_a_session_of_it_ends() {
        let mut known = known(&[&[1], &[]]);
        known.note_cached(&1, vec![range(0, 1)]);
        assert!(known.to_note().is_empty());
        known.end_look();
        known.note_held(1);
        assert_eq!(known.to_note(), [1]);
    }

    #[test]
    fn what_was_in_memory_before_pressure_is_known_of_a_file_that_is_opened_again_too_late() {
        let mut known = known(&[&[1]]);
        known.note_cached(&1, vec![range(3, 4)]);
        known.end_look();
        assert!(files(&known).is_empty());
        known.note_opened(1);
        known.note_cached(&1, vec![range(3, 1)]);
        assert_eq!(known.in_order(), [(1, vec![range(3, 4)])]);
    }

    #[test]
    fn pages_that_were_dropped_stay_known_and_what_was_opened_last_comes_first() {
        let mut known = known(&[&[1, 2, 3], &[1, 2, 3], &[2]]);
        known.note_cached(&1, vec![range(0, 4), range(100, 2)]);
        known.note_cached(&1, vec![range(2, 3), range(13, 1), range(50, 1)]);
        known.note_cached(&2, vec![range(7, 1)]);
        known.note_cached(&9, vec![range(7, 1)]);
        let expected = [
            (2, vec![range(7, 1)]),
            (1, vec![range(0, 14), range(50, 1), range(100, 2)]),
        ];
        assert_eq!(known.in_order(), expected);
        known.forget(&2);
        assert_eq!(known.in_order(), expected[1..]);
    }

    #[test]
    fn a_file_whose_pages_lie_apart_has_few_ranges_that_hold_all_of_them() {
        let mut known = known(&[&[1], &[1]]);
        let apart: Vec<PageRange> = (0..10_000).map(|at| range(at * 20, 1)).collect();
        known.note_cached(&1, apart.clone());
        let (_, ranges) = known.in_order().remove(0);
        assert!(ranges.len() <= MOST_RANGES, "{}", ranges.len());
        assert!(crate::decide::order::without(&apart, &ranges).is_empty());
        assert!(known.state_bytes() < 64 << 10, "{}", known.state_bytes());
    }

    #[test]
    fn a_flood_of_files_that_are_opened_once_leaves_the_others() {
        let mut known = known(&[&[1, 2], &[1, 2]]);
        for look in 0..5 {
            (0..20_000).for_each(|file| known.note_opened(10 + look * 20_000 + file));
            known.end_look();
        }
        assert_eq!(known.files.len(), MOST_FILES);
        for file in [1, 2] {
            known.note_cached(&file, vec![range(0, 1)]);
        }
        assert_eq!(known.in_order().len(), 2);
    }
}
