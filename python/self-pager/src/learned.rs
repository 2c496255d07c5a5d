//! What returns touched: a score for each page, which each return moves.
//!
//! A page that was paged out shows at the next return whether it is needed: if it is present again, it was touched.
//! A page that was kept, or brought back ahead of use, shows nothing. So one of 32 pages is put to the test at each
//! background: it leaves in spite of its score, another one each time.

use crate::pages::PageSet;

/// What is known of a page after one return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// It was touched within the launch window.
    Touched,
    /// It was touched after the launch window, before the next background.
    TouchedLater,
}

/// Score from which a page stays: it was touched at the last return, or at several before.
pub const NEEDED: u8 = 64;

/// Score from which a page that could not stay is brought back ahead of use: touched at two of the last returns. To
/// keep a page costs nothing at a return, but to bring one back that is not needed takes the processor, and the
/// locks of the address space, from the program when it needs them most. With [`NEEDED`] here, a kernel with another
/// analysis at each return took up to four times as long as with no page ahead.
pub const CONFIRMED: u8 = 150;

/// Returns in which each page is put to the test once. A test of a page that is needed costs a fault.
const TEST_RETURNS: u64 = 32;

/// Neighbours that are put to the test together.
const TEST_PAGES: u64 = 16;

/// Added by a touch within the launch window to half of what the page had: twice [`NEEDED`], so that a page that
/// was touched stays for one more return if it is not touched there.
const TOUCH: u8 = 128;

/// Added by a later touch: the page stays once.
const LATER_TOUCH: u8 = 64;

/// The scores, ascending by page. Memory: 16 bytes a page that was touched at one of the last returns.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    scores: Vec<(u64, u8)>,
    returns: u64,
}

impl Learned {
    /// Returns that were learned from.
    #[must_use]
    pub fn returns(&self) -> u64 {
        self.returns
    }

    /// Pages with a score.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// True if no page has a score.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Pages that are needed, the highest scores first; ascending among equals. Those that are put to the test are
    /// left out.
    #[must_use]
    pub fn needed(&self) -> Vec<u64> {
        let scores = self.scores.iter().copied();
        let mut needed: Vec<(u64, u8)> = scores
            .filter(|(page, score)| *score >= NEEDED && !self.is_tested(*page))
            .collect();
        needed.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
        needed.into_iter().map(|(page, _)| page).collect()
    }

    /// Pages that are surely needed, ascending.
    #[must_use]
    pub fn confirmed(&self) -> PageSet {
        let scores = self.scores.iter();
        let confirmed =
            scores.filter(|(page, score)| *score >= CONFIRMED && !self.is_tested(*page));
        PageSet::of_numbers(confirmed.map(|(page, _)| *page).collect())
    }

    /// Whether the page is put to the test now, along with its neighbours: one call for all of them.
    fn is_tested(&self, page: u64) -> bool {
        (page / TEST_PAGES + self.returns).is_multiple_of(TEST_RETURNS)
    }

    /// Takes in one return. `out` was in swap when it began; of it, `touched` was touched within the launch window
    /// and `later` after it.
    pub fn learn(&mut self, out: &PageSet, touched: &PageSet, later: &PageSet) {
        self.returns += 1;
        for (page, score) in &mut self.scores {
            if touched.contains(*page) {
                *score = half_and(*score, Evidence::Touched);
            } else if later.contains(*page) {
                *score = half_and(*score, Evidence::TouchedLater);
            } else if out.contains(*page) {
                *score /= 2;
            }
        }
        let known = PageSet::of_numbers(self.scores.iter().map(|(page, _)| *page).collect());
        let later = later.without(touched);
        for (set, evidence) in [
            (touched, Evidence::Touched),
            (&later, Evidence::TouchedLater),
        ] {
            let new = set.without(&known);
            let scored = new.numbers().map(|page| (page, half_and(0, evidence)));
            self.scores.extend(scored);
        }
        // A score of less than an eighth of what a page needs to stay tells no more than none.
        self.scores.retain(|(_, score)| *score >= NEEDED / 8);
        self.scores.sort_unstable_by_key(|(page, _)| *page);
    }

    /// Forgets pages that are not among `mapped`.
    pub fn forget_unmapped(&mut self, mapped: &PageSet) {
        self.scores.retain(|(page, _)| mapped.contains(*page));
    }
}

fn half_and(score: u8, evidence: Evidence) -> u8 {
    let added = match evidence {
        Evidence::Touched => TOUCH,
        Evidence::TouchedLater => LATER_TOUCH,
    };
    (score / 2).saturating_add(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u64]) -> PageSet {
        PageSet::of_numbers(numbers.to_vec())
    }

    #[test]
    fn a_page_that_was_touched_stays_and_leaves_after_two_misses() {
        let mut learned = Learned::default();
        let (out, none) = (set(&[1, 2, 3]), PageSet::default());

        learned.learn(&out, &set(&[2]), &none);
        assert_eq!(learned.needed(), [2]);
        learned.learn(&out, &none, &none);
        assert_eq!(learned.needed(), [2]);
        learned.learn(&out, &none, &none);
        assert!(learned.needed().is_empty());
        assert_eq!(learned.returns(), 3);
    }

    #[test]
    fn each_page_is_put_to_the_test_once_in_32_returns() {
        let mut learned = Learned::default();
        let (all, none) = (set(&(100..132).collect::<Vec<_>>()), PageSet::default());
        learned.learn(&all, &all, &none);
        let mut tested = vec![0; 32];
        for _ in 0..32 {
            let kept = PageSet::of_numbers(learned.needed());
            for page in all.without(&kept).numbers() {
                tested[page as usize - 100] += 1;
            }
            // What was put to the test is touched again.
            let out = all.without(&kept);
            learned.learn(&out, &out, &none);
        }
        assert_eq!(tested, vec![1; 32]);
        assert!(learned.confirmed().len() >= 30);
    }

    #[test]
    fn a_page_is_confirmed_by_two_of_the_last_returns() {
        let mut learned = Learned::default();
        let (out, none) = (set(&[1, 2]), PageSet::default());
        learned.learn(&out, &set(&[1, 2]), &none);
        assert!(learned.confirmed().is_empty());
        learned.learn(&out, &set(&[1]), &none);
        assert_eq!(learned.confirmed(), set(&[1]));
        learned.learn(&out, &set(&[2]), &none);
        assert_eq!(learned.confirmed(), set(&[2]));
    }

    #[test]
    fn touches_in_the_launch_window_count_more_than_later_ones() {
        let mut learned = Learned::default();
        learned.learn(&set(&[1, 2, 3]), &set(&[3]), &set(&[1, 3]));
        assert_eq!(learned.needed(), [3, 1]);
        learned.learn(&set(&[1, 2, 3]), &PageSet::default(), &PageSet::default());
        assert_eq!(learned.needed(), [3]);
    }

    #[test]
    fn what_is_not_mapped_any_more_is_forgotten() {
        let mut learned = Learned::default();
        let out = set(&[1, 9]);
        learned.learn(&out, &out, &PageSet::default());
        learned.forget_unmapped(&set(&[9, 10]));
        assert_eq!(learned.needed(), [9]);
        for _ in 0..6 {
            learned.learn(&out, &PageSet::default(), &PageSet::default());
        }
        assert!(learned.is_empty(), "{learned:?}");
    }
}
