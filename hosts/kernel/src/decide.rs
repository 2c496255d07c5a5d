//! What is to be done, by what was seen: pure functions of numbers, without I/O and without a clock.
//!
//! One [`Controller`] watches each bound of memory: the machine, and every control group that bounds a program. It is in one of
//! three states. `short`: the kernel reclaims at the cost of programs, or they wait while little is free; nothing comes back. `calm`: memory is free,
//! and pages may be away; they come back. `rest`: there is nothing to do.
//!
//! | module | subject |
//! |---|---|
//! | [`reserve`] | how much stays free for what programs take next |
//! | [`order`] | which programs and which pages come back first |
//! | [`switch`] | what is read in bulk when a program comes to the foreground |

pub mod order;
pub mod reserve;
pub mod switch;

use std::time::Duration;

use self::reserve::Reserve;

/// After the last sign of pressure nothing comes back for so long: a build that swaps in bursts pauses for less.
pub const QUIET: Duration = Duration::from_secs(1);

/// Programs that wait for memory for more than this part of the time, in percent, are a sign of pressure where little is free.
/// Where much is free they read their own pages back, which is none.
pub const STALL_PERCENT: u64 = 10;

/// Pages begin to come back when so much is free beyond the reserve: less is not worth a look at each program.
pub const LEAST_ROOM_BYTES: u64 = 8 << 20;

/// What a host is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Memory is free, and pages come back.
    Calm,
    /// Programs wait for memory: nothing comes back.
    Short,
    /// Nothing to do.
    #[default]
    Rest,
}

impl State {
    /// Its name, as people and programs are told.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Short => "short",
            Self::Rest => "rest",
        }
    }
}

/// One bound of memory as it was seen at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// When, by the monotonic clock.
    pub now_ns: u64,
    /// Memory that nothing uses, or only cache that was not used lately.
    pub free_bytes: u64,
    /// All memory below this bound.
    pub total_bytes: u64,
    /// The kernel begins to reclaim when less is free.
    pub floor_bytes: u64,
    /// Counts reclaim since some time: pages of the machine, or times that a group met its limit.
    pub reclaims: u64,
    /// Counts what reclaim costs programs since some time: pages of theirs that left, and reclaim that they waited for. Where it
    /// stands still, only cache is given up.
    pub losses: u64,
    /// Time that programs waited for memory, in microseconds since some time; none where the kernel does not tell.
    pub stalled_us: Option<u64>,
    /// Memory of programs that is in swap, where reclaim counts nothing that shows what left; else 0.
    pub swapped_bytes: u64,
    /// Bytes that this host brought back since some time.
    pub brought_bytes: u64,
    /// Bytes that programs were given in place of others since some time: a group at its limit grows by what it gives up.
    pub exchanged_bytes: u64,
}

impl Seen {
    /// Bytes that may be taken before the reserve is touched.
    #[must_use]
    pub fn room_bytes(&self, reserve_bytes: u64) -> u64 {
        self.free_bytes
            .saturating_sub(self.floor_bytes + reserve_bytes)
    }

    /// Whether reclaim cost programs something since an earlier look. What other groups lose at limits of their own does not count
    /// while this bound reclaims nothing.
    #[must_use]
    pub fn has_lost_since(&self, before: &Self) -> bool {
        let is_lost = self.losses != before.losses || self.swapped_bytes > before.swapped_bytes;
        self.reclaims != before.reclaims && is_lost
    }
}

/// Why no more may come back for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The kernel reclaims at the cost of programs.
    Pressure,
    /// Only the reserve is left.
    Reserve,
}

/// Whether pages may go on coming back, where bringing back began with `begin` and the bound is as in `now`.
#[must_use]
pub fn stop(begin: &Seen, now: &Seen, reserve_bytes: u64) -> Option<Stop> {
    if now.has_lost_since(begin) {
        Some(Stop::Pressure)
    } else if now.room_bytes(reserve_bytes) == 0 {
        Some(Stop::Reserve)
    } else {
        None
    }
}

/// The state of one bound.
#[derive(Debug, Default)]
pub struct Controller {
    reserve: Reserve,
    last: Option<Seen>,
    /// When the last sign of pressure was seen.
    pressed_ns: Option<u64>,
    state: State,
}

impl Controller {
    /// Takes in a look at the bound. `is_away`: pages may be away that would come back.
    pub fn see(&mut self, seen: Seen, is_away: bool) -> State {
        if let Some(last) = self.last {
            self.reserve.note(&last, &seen);
            if self.is_pressed(&last, &seen) {
                self.pressed_ns = Some(seen.now_ns);
            }
        }
        self.last = Some(seen);
        let room_bytes = self.room_bytes();
        // What began goes on to the reserve; it begins anew when there is something to gain.
        let is_room = match self.state {
            State::Calm => room_bytes > 0,
            State::Short | State::Rest => room_bytes >= LEAST_ROOM_BYTES,
        };
        self.state = match (self.is_short(seen.now_ns), is_away && is_room) {
            (true, _) => State::Short,
            (false, true) => State::Calm,
            (false, false) => State::Rest,
        };
        self.state
    }

    fn is_pressed(&self, last: &Seen, now: &Seen) -> bool {
        if now.has_lost_since(last) {
            return true;
        }
        let stalled_us = match (last.stalled_us, now.stalled_us) {
            (Some(last), Some(now)) => now.saturating_sub(last),
            _ => 0,
        };
        let passed_us = now.now_ns.saturating_sub(last.now_ns) / 1000;
        let is_stalled = stalled_us * 100 > passed_us * STALL_PERCENT;
        is_stalled && now.room_bytes(2 * self.reserve.bytes(now)) == 0
    }

    fn is_short(&self, now_ns: u64) -> bool {
        let since = |at| Duration::from_nanos(now_ns.saturating_sub(at));
        self.pressed_ns.is_some_and(|at| since(at) < QUIET)
    }

    /// Its state at the last look.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The last look.
    #[must_use]
    pub fn last(&self) -> Option<Seen> {
        self.last
    }

    /// What stays free, by the last look.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        self.last.map_or(u64::MAX, |seen| self.reserve.bytes(&seen))
    }

    /// What may come back, by the last look; nothing before it.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        let room = |seen: Seen| seen.room_bytes(self.reserve.bytes(&seen));
        self.last.map_or(0, room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64, free_mib: u64, reclaims: u64) -> Seen {
        Seen {
            now_ns: seconds * SECOND,
            free_bytes: free_mib * MIB,
            total_bytes: 4096 * MIB,
            floor_bytes: 32 * MIB,
            reclaims,
            losses: reclaims,
            ..Seen::default()
        }
    }

    #[test]
    fn pages_come_back_when_a_hog_has_ended_and_not_before() {
        let mut controller = Controller::default();
        assert_eq!(controller.see(at(0, 2000, 7), true), State::Calm);
        // A hog begins, and stays.
        assert_eq!(controller.see(at(2, 30, 900), true), State::Short);
        assert_eq!(controller.see(at(4, 40, 1900), true), State::Short);
        assert_eq!(controller.see(at(6, 40, 1900), true), State::Rest);
        assert_eq!(controller.see(at(8, 40, 1901), true), State::Short);
        // It ends.
        let just_after = Seen {
            now_ns: 8 * SECOND + SECOND / 2,
            ..at(0, 3000, 1901)
        };
        assert_eq!(controller.see(just_after, true), State::Short);
        assert_eq!(controller.see(at(10, 3000, 1901), true), State::Calm);
        assert_eq!(controller.see(at(12, 2000, 1901), false), State::Rest);
    }

    #[test]
    fn stalls_are_pressure_where_little_is_free() {
        let stalled = |seconds: u64, free_mib, stalled_ms: u64| Seen {
            stalled_us: Some(stalled_ms * 1000),
            ..at(seconds, free_mib, 0)
        };
        let mut controller = Controller::default();
        controller.see(stalled(0, 3000, 0), true);
        // Programs read their own pages back.
        assert_eq!(controller.see(stalled(2, 3000, 1500), true), State::Calm);
        let state = controller.see(stalled(4, 100, 3000), true);
        assert_eq!(state, State::Short);
        assert_eq!(controller.see(stalled(8, 100, 3100), false), State::Rest);
    }

    #[test]
    fn it_stops_at_the_reserve_and_begins_again_with_room_to_gain() {
        let mut controller = Controller::default();
        // A 64th of 4 GiB is kept, and the kernel's own 32 MiB.
        for (seconds, free_mib, expected) in [
            (0, 110, State::Calm),
            (60, 100, State::Calm),
            (120, 90, State::Rest),
            (180, 100, State::Rest),
            (240, 110, State::Calm),
        ] {
            let state = controller.see(at(seconds, free_mib, 0), true);
            assert_eq!(state, expected, "{free_mib} MiB are free");
        }
        assert_eq!(controller.reserve_bytes(), 64 * MIB);
    }

    #[test]
    fn cache_that_is_given_up_is_no_pressure_and_neither_are_losses_of_other_groups() {
        let with = |seconds, reclaims, losses| Seen {
            losses,
            ..at(seconds, 2000, reclaims)
        };
        let mut controller = Controller::default();
        for (seconds, reclaims, losses, expected) in [
            (0, 0, 0, State::Calm),
            (2, 500, 0, State::Calm),
            (4, 500, 80, State::Calm),
            (6, 501, 81, State::Short),
        ] {
            let seen = with(seconds, reclaims, losses);
            assert_eq!(controller.see(seen, true), expected, "{seen:?}");
        }
        assert_eq!(stop(&with(0, 0, 0), &with(1, 9, 0), 0), None);
    }

    #[test]
    fn more_in_swap_is_a_loss_and_less_is_none() {
        let with = |seconds, reclaims, swapped_mib: u64| Seen {
            losses: 0,
            swapped_bytes: swapped_mib * MIB,
            ..at(seconds, 2000, reclaims)
        };
        let mut controller = Controller::default();
        for (seconds, reclaims, swapped_mib, expected) in [
            (0, 0, 90, State::Calm),
            (2, 500, 90, State::Calm),
            (4, 900, 80, State::Calm),
            (6, 900, 81, State::Calm),
            (8, 901, 82, State::Short),
        ] {
            let seen = with(seconds, reclaims, swapped_mib);
            assert_eq!(controller.see(seen, true), expected, "{seen:?}");
        }
    }

    #[test]
    fn a_clock_that_stands_still_or_a_counter_that_begins_anew_does_no_harm() {
        let mut controller = Controller::default();
        assert_eq!(controller.room_bytes(), 0, "nothing was seen");
        controller.see(at(9, 2000, 50), true);
        assert_eq!(controller.see(at(9, 2000, 50), true), State::Calm);
        assert_eq!(controller.see(at(9, 2000, 3), true), State::Short);
        assert_eq!(controller.see(at(11, 2000, 3), true), State::Calm);
    }
}
