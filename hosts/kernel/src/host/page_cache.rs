//! How much of the idle page cache counts as used, so that anonymous memory is paged out for it.
//!
//! Where memory nearly suffices, the kernel drops idle pages of files at the limit, and takes hardly an anonymous page. A
//! host that kept clear of the limit for all of them would page out what is in use so that they stay. Where memory is short
//! the kernel takes anonymous pages along, in the faults of programs. So more of them count after each switch before which
//! it took many, and a little less after each other one: it shows where that begins. Not where anonymous pages come back
//! and hardly any of files are read again: then too many of the first were sent away for the others, and less counts.

use warmswap_sys::meminfo::Reclaimed;

/// Pages that are much between two switches: of anonymous memory that the kernel takes, or that comes back.
const MUCH_PAGES: u64 = 512;
/// The idle page cache is counted by so many parts.
const PARTS: u32 = 24;
/// Parts that count in addition after the kernel took much; one less counts after any other switch.
const MORE_PARTS: u32 = 8;
/// So many less count after a switch before which many anonymous pages came back, and hardly any of files.
const LESS_PARTS: u32 = 4;
/// A page of a file that is read again weighs as many anonymous pages that come back: it costs a read from the disk, and the
/// kernel's reclaim in the fault. Where the host gains by what it keeps free for files, there was one to five anonymous
/// pages; where it only loses, one to fifty and more.
const FILE_WEIGHS: u64 = 16;

/// The idle page cache that counts as used.
#[derive(Debug, Default)]
pub(super) struct PageCache {
    /// What the kernel had taken at the last switch.
    last: Option<Reclaimed>,
    parts: u32,
}

impl PageCache {
    /// The share that counts, from 0 to 1.
    pub fn counted(&self) -> f64 {
        f64::from(self.parts) / f64::from(PARTS)
    }

    /// An application comes to the foreground; this the kernel has taken since it booted. Where it does not tell, all counts.
    pub fn switched(&mut self, now: Reclaimed) {
        let last = self.last.replace(now);
        if now.anonymous.is_none() {
            self.parts = PARTS;
            return;
        }
        let Some(last) = last.filter(|last| last.anonymous.is_some()) else {
            return;
        };
        // A number that fell, or is not told, is no news.
        let since = |of: fn(&Reclaimed) -> Option<u64>| {
            let (now, last) = (of(&now).unwrap_or(0), of(&last).unwrap_or(0));
            now.saturating_sub(last)
        };
        let (taken, anonymous_back) = (since(|of| of.anonymous), since(|of| of.anonymous_back));
        let files_back = since(|of| of.files_back);
        let are_too_many_gone = anonymous_back > files_back.saturating_mul(FILE_WEIGHS);
        self.parts = match are_too_many_gone {
            true if anonymous_back > MUCH_PAGES => self.parts.saturating_sub(LESS_PARTS),
            false if taken > MUCH_PAGES => (self.parts + MORE_PARTS).min(PARTS),
            _ => self.parts.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_by_kernel(anonymous: Option<u64>) -> Reclaimed {
        Reclaimed {
            anonymous,
            ..Reclaimed::default()
        }
    }

    /// Switches before each of which the kernel takes so many pages. The share that counts then.
    fn switch(cache: &mut PageCache, taken: &mut u64, switches: u32, takes: u64) -> f64 {
        for _ in 0..switches {
            *taken += takes;
            cache.switched(taken_by_kernel(Some(*taken)));
        }
        cache.counted()
    }

    #[test]
    fn more_counts_while_the_kernel_takes_much_and_nothing_once_it_does_not() {
        let (mut cache, mut taken) = (PageCache::default(), 1000);
        assert_eq!(switch(&mut cache, &mut taken, 100, MUCH_PAGES), 0.0);
        assert_eq!(switch(&mut cache, &mut taken, 3, MUCH_PAGES + 1), 1.0);
        assert_eq!(switch(&mut cache, &mut taken, 100, 5000), 1.0);
        assert_eq!(switch(&mut cache, &mut taken, 12, 0), 0.5);
        assert_eq!(switch(&mut cache, &mut taken, 12, 0), 0.0);
    }

    #[test]
    fn where_it_takes_much_at_one_switch_in_nine_what_counts_stays() {
        let (mut cache, mut taken) = (PageCache::default(), 0);
        let counts = switch(&mut cache, &mut taken, 2, 5000);
        for _ in 0..50 {
            assert!(switch(&mut cache, &mut taken, 8, 0) < counts);
            assert_eq!(switch(&mut cache, &mut taken, 1, 5000), counts);
        }
    }

    #[test]
    fn what_was_taken_before_the_first_switch_does_not_count() {
        let mut cache = PageCache::default();
        cache.switched(taken_by_kernel(Some(1 << 40)));
        assert_eq!(cache.counted(), 0.0);
    }

    #[test]
    fn where_the_kernel_does_not_tell_all_counts() {
        let mut cache = PageCache::default();
        cache.switched(taken_by_kernel(None));
        assert_eq!(cache.counted(), 1.0);
        cache.switched(taken_by_kernel(Some(1 << 40)));
        assert_eq!(cache.counted(), 1.0, "nothing is known of it yet");
        cache.switched(taken_by_kernel(Some(1 << 39)));
        assert!(cache.counted() < 1.0, "a number that fell is no news");
    }

    /// Switches before each of which the kernel takes much, and so many pages come back: anonymous ones, and of files.
    fn counted_after(switches: u64, anonymous: u64, files: u64) -> f64 {
        let mut cache = PageCache::default();
        for switch in 0..=switches {
            cache.switched(Reclaimed {
                anonymous: Some(switch * 1000),
                anonymous_back: Some(switch * anonymous),
                files_back: Some(switch * files),
            });
        }
        cache.counted()
    }

    #[test]
    fn nothing_counts_where_anonymous_pages_come_back_and_none_of_files() {
        assert_eq!(counted_after(9, FILE_WEIGHS * 100, 100), 1.0);
        assert_eq!(counted_after(9, FILE_WEIGHS * 100 + 1, 100), 0.0);
        assert_eq!(counted_after(9, 0, 0), 1.0);
        assert_eq!(counted_after(9, MUCH_PAGES, 0), 0.0, "few come back");
    }

    #[test]
    fn what_counts_falls_by_degrees_where_anonymous_pages_come_back() {
        let mut cache = PageCache {
            last: Some(taken_by_kernel(Some(0))),
            parts: PARTS,
        };
        for times in 1..=6 {
            cache.switched(Reclaimed {
                anonymous: Some(0),
                anonymous_back: Some(times * 600),
                files_back: Some(times),
            });
            let expected = 1.0 - times as f64 / 6.0;
            assert!((cache.counted() - expected).abs() < 1e-9, "{times}");
        }
    }
}
