//! What a search for free pages need not look at again: up to where there is no room for so many.

/// Up to where there is no free range for requests of some size, by size and alignment.
///
/// A program with tens of thousands of mappings would otherwise have all of them passed over whenever it maps one more.
#[derive(Debug, Default)]
pub struct Passed {
    entries: Vec<PassedRange>,
}

#[derive(Debug)]
struct PassedRange {
    /// The smallest request that was searched for so far, of those whose pages have the same highest bit.
    least_pages: usize,
    align: usize,
    /// No free range that begins below has room for such a request.
    below: usize,
}

impl Passed {
    /// Where the search for so many pages can begin.
    pub fn start(&self, pages: usize, align: usize) -> usize {
        let holds =
            |entry: &&PassedRange| entry.least_pages <= pages && align.is_multiple_of(entry.align);
        let starts = self.entries.iter().filter(holds).map(|entry| entry.below);
        starts.max().unwrap_or(0)
    }

    /// The first range with room for so many pages begins here.
    pub fn found(&mut self, pages: usize, align: usize, at: usize) {
        let class = pages.ilog2();
        let is_alike =
            |entry: &&mut PassedRange| entry.align == align && entry.least_pages.ilog2() == class;
        match self.entries.iter_mut().find(is_alike) {
            // What is known of smaller requests holds for this one.
            Some(entry) if entry.least_pages < pages => {}
            Some(entry) => (entry.least_pages, entry.below) = (pages, at),
            None => self.entries.push(PassedRange {
                least_pages: pages,
                align,
                below: at,
            }),
        }
    }

    /// Pages from here on became free: with what was free before them there may be room.
    pub fn freed(&mut self, first: usize) {
        for entry in &mut self.entries {
            let reach = entry.least_pages + entry.align;
            entry.below = entry.below.min(first.saturating_sub(reach));
        }
    }
}
