//! The order in which pages come back: programs by how lately they were used, and of each program what launches touch first.

use warmswap_sys::advise::PageRange;

use crate::learn::{Heat, ProcessMemory, REGION_PAGES};

/// How lately a program was used. Pages come back first of the one that is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recency {
    /// It is in the foreground.
    pub is_foreground: bool,
    /// When it came to the foreground last; none if that was never seen.
    pub used_ns: Option<u64>,
}

/// Of the pages that are away those that are to come back: first what launches touch, then the others; cold ones not at all.
#[must_use]
pub fn pages(away: &[PageRange], memory: &ProcessMemory) -> Wanted {
    let mut wanted = Wanted::default();
    for range in away {
        let (mut first, end) = (range.first, range.first + range.count);
        while first < end {
            let stop = end.min((first / REGION_PAGES + 1) * REGION_PAGES);
            let heat = memory.heat(first / REGION_PAGES);
            if heat == Heat::default() {
                append(&mut wanted.warm, first, stop - first);
            } else {
                (first..stop).for_each(|page| wanted.page(page, heat));
            }
            first = stop;
        }
    }
    wanted
}

/// Pages of one process in the order in which they come back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Touched by launches.
    pub hot: Vec<PageRange>,
    /// The others.
    pub warm: Vec<PageRange>,
    /// How many stay away: brought back in vain again and again.
    pub cold_pages: u64,
}

impl Wanted {
    fn page(&mut self, page: u64, heat: Heat) {
        if heat.hot >> (page % REGION_PAGES) & 1 == 1 {
            append(&mut self.hot, page, 1);
        } else if heat.is_cold {
            self.cold_pages += 1;
        } else {
            append(&mut self.warm, page, 1);
        }
    }
}

/// Appends pages, which join the last range if they are next to it.
pub fn append(ranges: &mut Vec<PageRange>, first: u64, count: u64) {
    match ranges.last_mut() {
        Some(last) if last.first + last.count == first => last.count += count,
        _ => ranges.push(PageRange { first, count }),
    }
}

/// How many pages ranges have.
#[must_use]
pub fn count(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(|range| range.count).sum()
}

/// Ascending ranges without the pages of others, which ascend as well.
#[must_use]
pub fn without(ranges: &[PageRange], others: &[PageRange]) -> Vec<PageRange> {
    let mut left = Vec::new();
    let mut others = others.iter().peekable();
    for range in ranges {
        let (mut first, end) = (range.first, range.first + range.count);
        while first < end {
            while others.next_if(|o| o.first + o.count <= first).is_some() {}
            match others.peek() {
                Some(other) if other.first <= first => first = other.first + other.count,
                other => {
                    let next = other.map_or(end, |other| other.first.min(end));
                    left.push(PageRange {
                        first,
                        count: next - first,
                    });
                    first = next;
                }
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::range;

    #[test]
    fn the_foreground_comes_first_and_then_what_was_used_last() {
        let used = |used_ns| Recency {
            is_foreground: false,
            used_ns,
        };
        let front = Recency {
            is_foreground: true,
            used_ns: Some(3),
        };
        let ascending = [used(None), used(Some(5)), used(Some(9)), front];
        assert!(ascending.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn hot_pages_come_first_and_cold_ones_never() {
        let mut memory = ProcessMemory::default();
        memory.note_touched(70);
        memory.note_touched(71);
        for _ in 0..2 {
            memory.note_brought(&[range(128, 64)]);
            memory.note_used(|_| 0);
            memory.judge_session(&[], |_| 0);
        }

        let wanted = pages(&[range(60, 20), range(120, 30)], &memory);

        assert_eq!(wanted.hot, [range(70, 2)]);
        assert_eq!(wanted.warm, [range(60, 10), range(72, 8), range(120, 8)]);
        assert_eq!(wanted.cold_pages, 22);
    }

    #[test]
    fn ranges_without_others_are_what_is_left() {
        let all = [range(10, 10), range(30, 5)];
        assert_eq!(without(&all, &[]), all);
        assert_eq!(
            without(&all, &[range(0, 11), range(15, 2), range(34, 9)]),
            [range(11, 4), range(17, 3), range(30, 4)]
        );
        assert_eq!(without(&all, &[range(0, 99)]), []);
    }
}
