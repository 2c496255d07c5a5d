//! The addresses of a program: what it mapped where, and what of that is ours.
//!
//! Until it is adopted, the program's memory is the kernel's business alone; only what is mapped is known then,
//! and no page has a word. From the adoption on, the pages that the program made accessible are like those of
//! a region.

mod passed;
#[cfg(test)]
mod tests;

use std::ops::Range;

use rangemap::{RangeMap, RangeSet};
use warmswap_arena::mechanism::AddressMap;
use warmswap_page::AppId;
use warmswap_uffd::Protection;

use self::passed::Passed;

/// What is at an address of the program. What is nothing at all is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Reserved, and never accessible so far: nothing is there.
    Reserved,
    /// Memory, and what may be done with it.
    Open(Protection),
    /// Pages of a file, which can be read.
    File,
    /// Something else that the program mapped over it.
    Foreign,
    /// Something else was there, so that its faults are not ours: not used until [`Space::recover`](crate::Space::recover).
    Lost,
}

/// The map of a program's addresses, in pages.
#[derive(Debug)]
pub struct Program {
    map: RangeMap<usize, Mapped>,
    /// All pages.
    all: Range<usize>,
    /// Pages of [`Mapped::Open`] and [`Mapped::File`].
    open_pages: usize,
    /// Pages of [`Mapped::File`].
    file_pages: usize,
    /// Something was lost.
    has_lost: bool,
    /// Its pages have words.
    is_adopted: bool,
    /// Pages that stay in their places.
    kept: RangeSet<usize>,
    passed: Passed,
}

/// The program of every address is the first application.
pub const APP: AppId = AppId(0);

impl AddressMap for Program {
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let open = |(range, mapped): (&Range<usize>, &Mapped)| {
            matches!(mapped, Mapped::Open(_) | Mapped::File).then(|| range.clone())
        };
        self.map.iter().filter(|_| self.is_adopted).filter_map(open)
    }

    fn mapped_pages(&self) -> usize {
        if self.is_adopted { self.open_pages } else { 0 }
    }

    fn owner(&self, _: usize) -> AppId {
        APP
    }

    fn is_file_page(&self, page: usize) -> bool {
        self.map.get(&page) == Some(&Mapped::File)
    }
}

impl Program {
    /// Nothing is mapped, in so many pages of addresses.
    pub fn new(space_pages: usize) -> Self {
        Self {
            map: RangeMap::new(),
            all: 0..space_pages,
            open_pages: 0,
            file_pages: 0,
            has_lost: false,
            is_adopted: false,
            kept: RangeSet::new(),
            passed: Passed::default(),
        }
    }

    /// Pages stay in their places until they are unmapped.
    pub fn keep(&mut self, pages: Range<usize>) {
        self.kept.insert(pages);
    }

    /// Pages of a range that stay in their places.
    pub fn kept_in(&self, pages: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let (start, end) = (pages.start, pages.end);
        let kept = self.kept.overlapping(pages);
        kept.flat_map(move |kept| kept.start.max(start)..kept.end.min(end))
    }

    /// Its pages have words from now on.
    pub fn adopt(&mut self) {
        self.is_adopted = true;
    }

    /// All pages.
    pub fn all(&self) -> Range<usize> {
        self.all.clone()
    }

    /// Pages that stay in their places.
    pub fn kept(&self) -> impl Iterator<Item = usize> + '_ {
        self.kept.iter().cloned().flatten()
    }

    /// Whether something was lost since this was last asked.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    /// What is at a page.
    pub fn at(&self, page: usize) -> Option<Mapped> {
        self.map.get(&page).copied()
    }

    /// Whether its pages are ours.
    pub fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Pages that the program can use.
    pub fn open_pages(&self) -> usize {
        self.open_pages
    }

    /// Of them, pages of files.
    pub fn file_pages(&self) -> usize {
        self.file_pages
    }

    /// Stretches of pages of files in a range.
    pub fn of_files(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let pieces = self.pieces(range.clone()).into_iter();
        pieces
            .filter(|(_, mapped)| *mapped == Some(Mapped::File))
            .map(|(piece, _)| piece)
            .collect()
    }

    /// Ranges that are lost.
    pub fn lost(&self) -> Vec<Range<usize>> {
        let pieces = self.map.iter();
        pieces
            .filter(|&(_, &mapped)| mapped == Mapped::Lost)
            .map(|(range, _)| range.clone())
            .collect()
    }

    /// Calls `find` with free ranges, ascending, until it gives a place for so many pages. Ranges that are too small for
    /// as many, so aligned, may be left out.
    pub fn find_gap(
        &self,
        pages: usize,
        align: usize,
        find: impl FnMut(Range<usize>) -> Option<Range<usize>>,
    ) -> Option<Range<usize>> {
        let searched = self.passed.start(pages, align)..self.all.end;
        self.map.gaps(&searched).find_map(find)
    }

    /// What is mapped in a range, piece by piece; `None` for what is free.
    pub fn pieces(&self, range: Range<usize>) -> Vec<(Range<usize>, Option<Mapped>)> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        for (piece, &mapped) in self.map.overlapping(&range) {
            let (start, end) = (piece.start.max(range.start), piece.end.min(range.end));
            if at < start {
                pieces.push((at..start, None));
            }
            pieces.push((start..end, Some(mapped)));
            at = end;
        }
        if at < range.end {
            pieces.push((at..range.end, None));
        }
        pieces
    }

    /// A free range of so many pages, first of all at `hint`; else aligned like an address space of huge pages
    /// where it is large.
    pub fn gap(&mut self, hint: Option<usize>, pages: usize, align: usize) -> Option<Range<usize>> {
        if let Some(first) = hint
            && let Some(end) = first.checked_add(pages)
            && end <= self.all.end
            && !self.map.overlaps(&(first..end))
        {
            return Some(first..end);
        }
        let found = self.find_gap(pages, align, |gap| {
            let first = gap.start.next_multiple_of(align);
            (first + pages <= gap.end).then(|| first..first + pages)
        });
        let first = found.as_ref().map_or(self.all.end, |found| found.start);
        self.passed.found(pages, align, first);
        found
    }

    /// Whether a range is free.
    pub fn is_free(&self, range: Range<usize>) -> bool {
        range.end <= self.all.end && !self.map.overlaps(&range)
    }

    /// Whether the program has mapped something in a range.
    pub fn has_mapped(&self, range: Range<usize>) -> bool {
        let mut mapped = self.map.overlapping(&range);
        mapped.any(|(_, &mapped)| mapped != Mapped::Lost)
    }

    /// The first page of a range where the program has mapped nothing.
    pub fn first_hole(&self, range: &Range<usize>) -> Option<usize> {
        let mut at = range.start;
        for (piece, &mapped) in self.map.overlapping(range) {
            if piece.start > at || mapped == Mapped::Lost {
                return Some(at);
            }
            at = piece.end;
        }
        (at < range.end).then_some(at)
    }

    pub fn set(&mut self, range: Range<usize>, mapped: Option<Mapped>) {
        for (piece, before) in self.pieces(range.clone()) {
            let (open, file) = counted(before);
            self.open_pages -= piece.len() * open;
            self.file_pages -= piece.len() * file;
        }
        let (open, file) = counted(mapped);
        self.open_pages += range.len() * open;
        self.file_pages += range.len() * file;
        self.has_lost |= mapped == Some(Mapped::Lost);
        if !matches!(mapped, Some(Mapped::Open(_))) {
            self.kept.remove(range.clone());
        }
        match mapped {
            Some(mapped) => self.map.insert(range, mapped),
            None => {
                self.passed.freed(range.start);
                self.map.remove(range);
            }
        }
    }

    /// Stretches whose faults can be ours.
    pub fn own(&self) -> Vec<Range<usize>> {
        self.stretches(|mapped| !matches!(mapped, Some(Mapped::Foreign | Mapped::Lost)))
    }

    /// Stretches that are not foreign.
    pub fn inherited(&self) -> Vec<Range<usize>> {
        self.stretches(|mapped| mapped != Some(Mapped::Foreign))
    }

    fn stretches(&self, is_in: impl Fn(Option<Mapped>) -> bool) -> Vec<Range<usize>> {
        let mut stretches: Vec<Range<usize>> = Vec::new();
        for (range, mapped) in self.pieces(self.all.clone()) {
            match stretches.last_mut() {
                _ if !is_in(mapped) => {}
                Some(last) if last.end == range.start => last.end = range.end,
                _ => stretches.push(range),
            }
        }
        stretches
    }
}

/// How often a page counts among those that can be used, and among those of files.
fn counted(mapped: Option<Mapped>) -> (usize, usize) {
    match mapped {
        Some(Mapped::Open(_)) => (1, 0),
        Some(Mapped::File) => (1, 1),
        _ => (0, 0),
    }
}
