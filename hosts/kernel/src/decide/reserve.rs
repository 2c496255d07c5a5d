//! The reserve: memory that stays free for what programs take next.

use std::collections::VecDeque;

use super::Seen;

/// Growth is remembered for so many minutes.
const MINUTES: usize = 60;

/// The reserve is at least this part of all memory, as a divisor: the kernel's own watermarks are about a 200th.
const LEAST_PART: u64 = 64;

/// It is at most this part: one program that once took all memory must not keep pages away for an hour.
const MOST_PART: u64 = 16;

const MINUTE_NS: u64 = 60_000_000_000;

/// The largest growth between two looks, for each minute of the last hour.
#[derive(Debug, Default)]
pub struct Reserve {
    /// The minute by the monotonic clock, and the largest growth in it; ascending.
    growths: VecDeque<(u64, u64)>,
}

impl Reserve {
    /// Takes in two looks, one after the other.
    pub fn note(&mut self, last: &Seen, now: &Seen) {
        let minute = now.now_ns / MINUTE_NS;
        let since = |of: fn(&Seen) -> u64| of(now).saturating_sub(of(last));
        // What this host took is no growth of programs.
        let own_bytes = since(|seen| seen.brought_bytes);
        let given_bytes = since(|seen| seen.exchanged_bytes) + since(|seen| seen.swapped_bytes);
        let grown_bytes = (last.free_bytes + given_bytes)
            .saturating_sub(now.free_bytes)
            .saturating_sub(own_bytes);
        match self.growths.back_mut() {
            Some((of, most)) if *of == minute => *most = grown_bytes.max(*most),
            _ => self.growths.push_back((minute, grown_bytes)),
        }
        let is_old = |&(of, _): &(u64, u64)| of + MINUTES as u64 <= minute;
        while self.growths.front().is_some_and(is_old) {
            self.growths.pop_front();
        }
    }

    /// What is to stay free beyond the kernel's watermarks.
    #[must_use]
    pub fn bytes(&self, seen: &Seen) -> u64 {
        let largest = self.growths.iter().map(|&(_, bytes)| bytes).max();
        let most = seen.total_bytes / MOST_PART;
        largest
            .unwrap_or(0)
            .clamp(least_bytes(seen.total_bytes), most)
    }
}

/// What stays free at least, of so much memory.
#[must_use]
pub fn least_bytes(total_bytes: u64) -> u64 {
    total_bytes / LEAST_PART
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(minute: u64, free_mib: u64, brought_mib: u64) -> Seen {
        Seen {
            now_ns: minute * MINUTE_NS,
            free_bytes: free_mib * MIB,
            total_bytes: 6400 * MIB,
            brought_bytes: brought_mib * MIB,
            ..Seen::default()
        }
    }

    #[test]
    fn the_largest_growth_of_the_last_hour_sets_it() {
        let mut reserve = Reserve::default();
        assert_eq!(reserve.bytes(&at(0, 0, 0)), 100 * MIB);
        reserve.note(&at(0, 3000, 0), &at(1, 2800, 0));
        reserve.note(&at(1, 2800, 0), &at(2, 2900, 0));
        assert_eq!(reserve.bytes(&at(2, 0, 0)), 200 * MIB);
        reserve.note(&at(60, 2900, 0), &at(60, 2750, 0));
        assert_eq!(reserve.bytes(&at(60, 0, 0)), 200 * MIB);
        reserve.note(&at(60, 2750, 0), &at(61, 2750, 0));
        assert_eq!(reserve.bytes(&at(61, 0, 0)), 150 * MIB);
    }

    #[test]
    fn a_hog_does_not_set_it_alone_and_what_was_brought_back_does_not_count() {
        let mut reserve = Reserve::default();
        reserve.note(&at(0, 5000, 0), &at(0, 4500, 500));
        assert_eq!(reserve.bytes(&at(0, 0, 0)), 100 * MIB);
        reserve.note(&at(0, 5000, 0), &at(0, 10, 0));
        assert_eq!(reserve.bytes(&at(0, 0, 0)), 400 * MIB);
        assert!(reserve.growths.len() <= MINUTES);
    }

    #[test]
    fn a_group_at_its_limit_grows_by_what_it_gives_up() {
        let at_limit = |exchanged_mib| Seen {
            exchanged_bytes: exchanged_mib * MIB,
            ..at(0, 10, 0)
        };
        let mut reserve = Reserve::default();
        reserve.note(&at_limit(1000), &at_limit(1250));
        assert_eq!(reserve.bytes(&at(0, 0, 0)), 250 * MIB);
        let swapped = |swapped_mib| Seen {
            swapped_bytes: swapped_mib * MIB,
            ..at(1, 10, 0)
        };
        reserve.note(&swapped(700), &swapped(1000));
        reserve.note(&swapped(1000), &swapped(300));
        assert_eq!(reserve.bytes(&at(1, 0, 0)), 300 * MIB);
    }
}
