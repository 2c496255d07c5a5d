//! How much of the idle page cache counts as used, so that anonymous memory is paged out for it.
//!
//! Where memory nearly suffices, the kernel drops idle pages of files at the limit, and takes hardly an anonymous page. A
//! host that kept clear of the limit for all of them would page out what is in use so that they stay. Where memory is short
//! the kernel takes anonymous pages along, in the faults of programs. So more of them count after each switch before which
//! it took many, and a little less after each other one: it shows where that begins.

/// Pages of anonymous memory that are much for the kernel to take between two switches.
const MUCH_PAGES: u64 = 512;
/// The idle page cache is counted by so many parts.
const PARTS: u32 = 24;
/// Parts that count in addition after it took much; one less counts after any other switch.
const MORE_PARTS: u32 = 8;

/// The idle page cache that counts as used.
#[derive(Debug, Default)]
pub(super) struct PageCache {
    /// Anonymous pages that the kernel had taken at the last switch, since it booted.
    taken: Option<u64>,
    parts: u32,
}

impl PageCache {
    /// The share that counts, from 0 to 1.
    pub fn counted(&self) -> f64 {
        f64::from(self.parts) / f64::from(PARTS)
    }

    /// An application comes to the foreground; so many anonymous pages the kernel has taken since it booted. Where it does
    /// not tell, all counts.
    pub fn switched(&mut self, taken: Option<u64>) {
        let last = std::mem::replace(&mut self.taken, taken);
        self.parts = match (taken, last) {
            (None, _) => PARTS,
            (Some(_), None) => self.parts,
            (Some(taken), Some(last)) if taken.saturating_sub(last) > MUCH_PAGES => {
                (self.parts + MORE_PARTS).min(PARTS)
            }
            _ => self.parts.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Switches before each of which the kernel takes so many pages. The share that counts then.
    fn switch(cache: &mut PageCache, taken: &mut u64, switches: u32, takes: u64) -> f64 {
        for _ in 0..switches {
            *taken += takes;
            cache.switched(Some(*taken));
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
        cache.switched(Some(1 << 40));
        assert_eq!(cache.counted(), 0.0);
    }

    #[test]
    fn where_the_kernel_does_not_tell_all_counts() {
        let mut cache = PageCache::default();
        cache.switched(None);
        assert_eq!(cache.counted(), 1.0);
        cache.switched(Some(1 << 40));
        assert_eq!(cache.counted(), 1.0, "nothing is known of it yet");
        cache.switched(Some(1 << 39));
        assert!(cache.counted() < 1.0, "a number that fell is no news");
    }
}
