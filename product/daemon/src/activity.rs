//! An application that begins to work after it rested.
//!
//! Where no window system says what is looked at, CPU time does: programs rest while they are not used, as a
//! rule. One that worked all the time is never switched to in this way, and one that wakes up by itself is,
//! which costs a prefetch in vain.

use std::collections::BTreeMap;
use std::time::Duration;

use warmswap_kernel::AppId;

/// How long an application must have rested.
const IDLE: Duration = Duration::from_secs(30);

/// Share of one processor from which on CPU time is work: timers of programs at rest take less.
const BUSY_SHARE: f64 = 0.05;

/// Watches the CPU time of applications.
#[derive(Debug, Default)]
pub struct Activity {
    apps: BTreeMap<AppId, Seen>,
}

/// What was seen of an application.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Duration,
    cpu: Duration,
    /// When it last worked, or was first seen.
    busy_at: Duration,
}

impl Activity {
    /// An application is gone; another one may have its number from now on.
    pub fn forget(&mut self, app: AppId) {
        self.apps.remove(&app);
    }

    /// Notes that at the time `now`, of any clock, the applications have had so much CPU time each. Returns the
    /// one that began to work after a rest; of several, the one that works most.
    pub fn look(
        &mut self,
        now: Duration,
        apps: impl IntoIterator<Item = (AppId, Duration)>,
    ) -> Option<AppId> {
        let mut began: Option<(Duration, AppId)> = None;
        let mut seen = BTreeMap::new();
        for (app, cpu) in apps {
            let Some(last) = self.apps.get(&app).copied() else {
                let first = Seen {
                    at: now,
                    cpu,
                    busy_at: now,
                };
                seen.insert(app, first);
                continue;
            };
            // Less than before when one of its processes ended.
            let worked = cpu.saturating_sub(last.cpu);
            let passed = now.saturating_sub(last.at);
            let is_busy = !worked.is_zero() && worked >= passed.mul_f64(BUSY_SHARE);
            let rested = last.at.saturating_sub(last.busy_at) >= IDLE;
            if is_busy && rested && began.is_none_or(|(most, _)| worked > most) {
                began = Some((worked, app));
            }
            let busy_at = if is_busy { now } else { last.busy_at };
            let now = Seen {
                at: now,
                cpu,
                busy_at,
            };
            seen.insert(app, now);
        }
        self.apps = seen;
        began.map(|(_, app)| app)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: AppId = AppId(1);
    const B: AppId = AppId(2);

    struct Clock(Activity, Duration);

    impl Clock {
        fn new() -> Self {
            Self(Activity::default(), Duration::ZERO)
        }

        /// Two seconds later the two have had so many milliseconds.
        fn next(&mut self, a_ms: u64, b_ms: u64) -> Option<AppId> {
            self.1 += Duration::from_secs(2);
            let cpu = [(A, a_ms), (B, b_ms)].map(|(app, ms)| (app, Duration::from_millis(ms)));
            self.0.look(self.1, cpu)
        }
    }

    #[test]
    fn work_after_rest_is_a_switch_and_work_after_work_is_none() {
        let mut clock = Clock::new();
        // A rests; B works all the time.
        for turn in 0..20 {
            assert_eq!(clock.next(5 * turn, 1000 * turn), None, "{turn}");
        }
        assert_eq!(clock.next(300, 21_000), Some(A));
        assert_eq!(clock.next(900, 22_000), None, "it works on");
    }

    #[test]
    fn a_short_rest_is_no_rest() {
        let mut clock = Clock::new();
        assert_eq!(clock.next(1000, 0), None, "seen for the first time");
        for _ in 0..10 {
            assert_eq!(clock.next(1000, 0), None);
        }
        assert_eq!(clock.next(2000, 0), None, "20 seconds");
    }

    #[test]
    fn a_number_that_another_application_has_now_begins_anew() {
        let mut clock = Clock::new();
        for _ in 0..20 {
            clock.next(0, 0);
        }
        clock.0.forget(A);
        assert_eq!(clock.next(90_000, 0), None, "seen for the first time");
        assert_eq!(clock.next(180_000, 0), None, "it did not rest");
    }

    #[test]
    fn of_two_the_one_that_works_most_is_meant() {
        let mut clock = Clock::new();
        for _ in 0..20 {
            clock.next(0, 0);
        }
        assert_eq!(clock.next(200, 1500), Some(B));
    }

    #[test]
    fn a_process_that_ended_is_no_work() {
        let mut clock = Clock::new();
        for _ in 0..20 {
            clock.next(90_000, 0);
        }
        assert_eq!(clock.next(100, 0), None);
        assert_eq!(clock.next(300, 0), Some(A));
    }
}
