//! How likely what is brought back is to be accessed.

/// So many windows of a page's history tell it from others.
const WINDOWS: u32 = 4;

/// With fewer pages a history says nothing.
const LEAST_PAGES: f32 = 8.0;

/// What one window weighs beside the one after it: what launches touch changes.
const DECAY: f32 = 0.5;

/// For each history of [`WINDOWS`] bits, the newest lowest, how many pages had it and how many of these were accessed in
/// the next window. 128 bytes.
#[derive(Debug, Default)]
pub(super) struct Odds {
    pages: [f32; 1 << WINDOWS],
    accessed: [f32; 1 << WINDOWS],
}

fn pattern(history: u8) -> usize {
    usize::from(history) & ((1 << WINDOWS) - 1)
}

impl Odds {
    /// The window is about to be noted: what was before weighs less.
    pub fn window_end(&mut self) {
        for count in self.pages.iter_mut().chain(&mut self.accessed) {
            *count *= DECAY;
        }
    }

    /// A page with this history was accessed in the window, or was not.
    pub fn note(&mut self, history: u8, is_accessed: bool) {
        let pattern = pattern(history);
        self.pages[pattern] += 1.0;
        self.accessed[pattern] += f32::from(u8::from(is_accessed));
    }

    /// How likely a page with this history is to be accessed in the next window, in percent; by fewer of its last windows
    /// where too few pages had all of it, `None` where too few had even the last.
    pub fn percent(&self, history: u8) -> Option<f32> {
        (1..=WINDOWS).rev().find_map(|windows| {
            let mask = (1 << windows) - 1;
            let is_alike = |other: &usize| (other ^ pattern(history)) & mask == 0;
            let alike = (0..1 << WINDOWS).filter(is_alike);
            let sum = |(pages, accessed), of: usize| {
                (pages + self.pages[of], accessed + self.accessed[of])
            };
            let (pages, accessed) = alike.fold((0.0, 0.0), sum);
            (pages >= LEAST_PAGES).then(|| 100.0 * accessed / pages)
        })
    }
}

/// A first trial brings back so many anonymous pages at most.
pub(super) const FIRST_ANON_PAGES: u64 = 256;

/// The same of pages of files: one read brings many.
pub(super) const FIRST_FILE_PAGES: u64 = 4096;

/// After a launch that used enough of them, the next may bring so many times as many.
const GROWTH: u64 = 4;

/// After one that did not, so many bring none at most; twice as many each time.
const LONGEST_REST: u32 = 64;

/// How many pages of a kind a launch may bring back, by what the last ones used of them.
#[derive(Debug)]
pub(super) struct Allowance {
    /// A trial brings back so many at most.
    first_pages: u64,
    pages: u64,
    /// Launches that bring none.
    rest: u32,
    /// How long the last rest was.
    last_rest: u32,
}

impl Allowance {
    /// One that allows so many at first, and again after more were brought back in vain.
    pub fn new(first_pages: u64) -> Self {
        Self {
            first_pages,
            pages: first_pages,
            rest: 0,
            last_rest: 0,
        }
    }

    /// A launch begins: how many pages it may bring back.
    pub fn of_launch(&mut self) -> u64 {
        if self.rest == 0 {
            return self.pages;
        }
        self.rest -= 1;
        0
    }

    /// The launch that began last brings none, and neither does the next.
    pub fn rests_on(&self) -> bool {
        self.rest > 0
    }

    /// A launch ended for which so many pages were brought back, and in which so many of them were used.
    pub fn launched(&mut self, pages: u64, used: u64, least_percent: u8) {
        if (pages as f32) < LEAST_PAGES {
            return;
        }
        if 100 * used >= u64::from(least_percent) * pages {
            self.pages = self.pages.saturating_mul(GROWTH);
            self.last_rest = 0;
        } else {
            self.pages = self.first_pages;
            self.last_rest = (2 * self.last_rest).clamp(1, LONGEST_REST);
            self.rest = self.last_rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_used_rest_ever_longer_and_those_that_are_may_be_more() {
        let mut allowance = Allowance::new(256);
        let rest = |allowance: &mut Allowance| {
            let mut launches = 0;
            while allowance.of_launch() == 0 {
                launches += 1;
                let is_last = allowance.rest == 0;
                assert_eq!(allowance.rests_on(), !is_last);
            }
            launches
        };
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            allowance.launched(100, 59, 60);
            assert_eq!(rest(&mut allowance), expected);
        }
        assert_eq!(allowance.of_launch(), 256);
        allowance.launched(100, 60, 60);
        assert_eq!(allowance.of_launch(), 1024);
        allowance.launched(4, 0, 60);
        assert_eq!(allowance.of_launch(), 1024, "too few to tell");
        allowance.launched(100, 0, 60);
        assert_eq!(rest(&mut allowance), 1, "the first rest again");
        assert_eq!(allowance.of_launch(), 256);
    }

    #[test]
    fn what_followed_a_history_is_told_and_old_windows_weigh_less() {
        let mut odds = Odds::default();
        assert_eq!(odds.percent(0b1), None);
        (0..16).for_each(|n| odds.note(0b1, n < 12));
        assert_eq!(odds.percent(0b1), Some(75.0));
        assert_eq!(odds.percent(0b1_0001), Some(75.0), "four windows count");
        assert_eq!(odds.percent(0b11), Some(75.0), "by the last window alone");
        assert_eq!(odds.percent(0b10), None);
        odds.window_end();
        assert_eq!(odds.percent(0b1), Some(75.0));
        (0..16).for_each(|_| odds.note(0b1, false));
        assert_eq!(odds.percent(0b1), Some(25.0));
        (0..2).for_each(|_| odds.window_end());
        assert_eq!(odds.percent(0b1), None, "6 pages are left");
    }
}
