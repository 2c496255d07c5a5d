//! Who gives way for idle page cache: the cache, which the kernel drops for nothing, or anonymous memory, which the host
//! pages out before.
//!
//! Where memory nearly suffices, the kernel drops idle pages of files at the limit, and takes hardly an anonymous page. A
//! host that keeps clear of the limit would page out what is in use so that such pages stay. Where memory is short the
//! kernel takes anonymous pages along, in the faults of programs. Which it is shows only while the cache is left to the
//! kernel: so it is at first, and again for a few switches after the host had it for long.

/// Pages of anonymous memory that are much for the kernel to take between two switches.
const MUCH_PAGES: u64 = 512;
/// Of the last eight switches, those in which it may take so much.
const MOST_BAD_SWITCHES: u32 = 2;
/// Switches for which the host then makes room for the cache; twice as many each time.
const FIRST_TURN: u32 = 16;
const LONGEST_TURN: u32 = 256;

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct PageCache {
    /// Anonymous pages that the kernel had taken at the last switch, since it booted.
    taken: Option<u64>,
    /// Of the last switches, one a bit, those in which it took much.
    bad: u8,
    /// Switches for which the host still has it; none while the kernel does.
    turn: u32,
    next_turn: u32,
}

impl Default for PageCache {
    fn default() -> Self {
        Self {
            taken: None,
            bad: 0,
            turn: 0,
            next_turn: FIRST_TURN,
        }
    }
}

impl PageCache {
    /// The kernel may drop idle page cache, and the host pages nothing out for it.
    pub fn is_left_to_kernel(&self) -> bool {
        self.turn == 0
    }

    /// An application comes to the foreground; so many anonymous pages the kernel has taken since it booted. Where it does
    /// not tell, the host makes room.
    pub fn switched(&mut self, taken: Option<u64>) {
        let last = std::mem::replace(&mut self.taken, taken);
        let Some(taken) = taken else {
            self.turn = LONGEST_TURN;
            return;
        };
        if self.turn > 0 {
            self.turn -= 1;
            // One bad switch of the trial is forgiven.
            self.bad = 1;
            return;
        }
        let took = last.map_or(0, |last| taken.saturating_sub(last));
        self.bad = self.bad << 1 | u8::from(took > MUCH_PAGES);
        if self.bad.count_ones() > MOST_BAD_SWITCHES {
            self.turn = self.next_turn;
            self.next_turn = (2 * self.next_turn).min(LONGEST_TURN);
        } else if self.bad == 0 {
            self.next_turn = FIRST_TURN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(PageCache, u64);

    impl Machine {
        /// Switches between which the kernel takes so much; how many of them it had the cache for.
        fn switch(&mut self, switches: u32, takes: u64) -> u32 {
            let mut kernels = 0;
            for _ in 0..switches {
                kernels += u32::from(self.0.is_left_to_kernel());
                self.1 += takes;
                self.0.switched(Some(self.1));
            }
            kernels
        }
    }

    #[test]
    fn a_kernel_that_takes_little_keeps_it_and_one_that_takes_much_is_tried_ever_less() {
        let mut machine = Machine(PageCache::default(), 1000);
        assert_eq!(machine.switch(100, MUCH_PAGES), 100);
        // Three switches, sixteen for the host, and a trial of two; so on with twice as many.
        assert_eq!(machine.switch(3 + 16, MUCH_PAGES + 1), 3);
        assert_eq!(machine.switch(2 + 32, MUCH_PAGES + 1), 2);
        assert_eq!(machine.switch(2 + 64, MUCH_PAGES + 1), 2);
        assert_eq!(machine.switch(2 + 128 + 2 + 256 + 2 + 256, 5000), 6);
    }

    #[test]
    fn now_and_then_it_may_take_much_and_what_is_over_is_forgotten() {
        let mut machine = Machine(PageCache::default(), 0);
        for _ in 0..10 {
            assert_eq!(machine.switch(2, 5000) + machine.switch(7, 0), 9);
        }
        machine.switch(3, 5000);
        assert!(!machine.0.is_left_to_kernel());
        assert_eq!(
            machine.switch(16 + 20, 0),
            20,
            "memory is not short any more"
        );
        machine.switch(3, 5000);
        assert_eq!(machine.switch(17, 0), 1, "the first turn again");
    }

    #[test]
    fn where_the_kernel_does_not_tell_the_host_makes_room() {
        let mut cache = PageCache::default();
        for _ in 0..1000 {
            cache.switched(None);
            assert!(!cache.is_left_to_kernel());
        }
    }
}
