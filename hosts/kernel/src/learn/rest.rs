//! The end of a launch that is not told: the application rests.
//!
//! What a window system says is when a launch begins. A launch window that stayed open for its longest time after that
//! would take what is done with the application for its launch, and hold all of its memory meanwhile.

use std::time::Duration;

/// An application that does next to nothing for so long has answered.
const REST: Duration = Duration::from_millis(100);

/// Faults of an application that rests in that time, at most: it wakes up for a timer.
const FEW_FAULTS: u64 = 16;

/// The same of its CPU time, which is counted in clock ticks, mostly of 10 ms.
const FEW_CPU_TICKS: u64 = 1;

/// What the processes of an application did since they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Effort {
    pub faults: u64,
    pub cpu_ticks: u64,
    /// One of them waits for a disk.
    pub waits: bool,
}

/// How long an application has been at rest in its launch window.
#[derive(Debug)]
pub(crate) struct Rest {
    since_ns: u64,
    effort: Effort,
    /// It began to work.
    has_stirred: bool,
}

impl Rest {
    /// Of a launch that begins now.
    pub fn new(now_ns: u64, effort: Effort) -> Self {
        Self {
            since_ns: now_ns,
            effort,
            has_stirred: false,
        }
    }

    /// Whether the application worked since the launch began, and rests now. Where a process ended or was found since the
    /// last look, it worked.
    pub fn is_over(&mut self, now_ns: u64, effort: Effort) -> bool {
        let grown = |now: u64, before: u64| now.checked_sub(before).unwrap_or(u64::MAX);
        let faults = grown(effort.faults, self.effort.faults);
        let cpu_ticks = grown(effort.cpu_ticks, self.effort.cpu_ticks);
        let is_little = faults <= FEW_FAULTS && cpu_ticks <= FEW_CPU_TICKS;
        let stirs = (faults, cpu_ticks) != (0, 0);
        if effort.waits || !is_little || (stirs && !self.has_stirred) {
            *self = Self {
                has_stirred: true,
                ..Self::new(now_ns, effort)
            };
        }
        self.has_stirred && Duration::from_nanos(now_ns.saturating_sub(self.since_ns)) >= REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn effort(faults: u64, cpu_ticks: u64) -> Effort {
        Effort {
            faults,
            cpu_ticks,
            ..Effort::default()
        }
    }

    #[test]
    fn a_launch_ends_when_its_application_has_worked_and_rests() {
        let mut rest = Rest::new(0, effort(100, 7));
        for ms in (50..2_000).step_by(50) {
            assert!(!rest.is_over(ms * MS, effort(100, 7)), "it did not begin");
        }
        assert!(!rest.is_over(2_000 * MS, effort(101, 7)), "it begins");
        assert!(!rest.is_over(2_050 * MS, effort(400, 9)));
        assert!(!rest.is_over(2_100 * MS, effort(416, 10)));
        assert!(rest.is_over(2_150 * MS, effort(416, 10)));
    }

    #[test]
    fn an_application_that_works_on_does_not_rest_and_timers_are_no_work() {
        let mut busy = Rest::new(0, Effort::default());
        let mut blinking = Rest::new(0, Effort::default());
        assert!(!blinking.is_over(10 * MS, effort(1, 0)));
        for look in 1..100 {
            assert!(!busy.is_over(look * 50 * MS, effort(0, 2 * look)), "{look}");
        }
        assert!(blinking.is_over(120 * MS, effort(3, 1)));
    }

    #[test]
    fn an_application_that_waits_for_a_disk_does_not_rest() {
        let mut rest = Rest::new(0, effort(7, 7));
        for look in 1..10 {
            let waiting = Effort {
                waits: true,
                ..effort(7, 7)
            };
            assert!(!rest.is_over(look * 100 * MS, waiting));
        }
        assert!(!rest.is_over(950 * MS, effort(7, 7)));
        assert!(rest.is_over(1_000 * MS, effort(7, 7)));
    }

    #[test]
    fn where_processes_end_something_happened() {
        let mut rest = Rest::new(0, effort(1_000, 50));
        assert!(!rest.is_over(200 * MS, effort(30, 2)));
        assert!(!rest.is_over(250 * MS, effort(30, 2)));
        assert!(rest.is_over(300 * MS, effort(30, 2)));
    }
}
