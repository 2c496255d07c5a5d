//! When something is looked at, and when the host wants to be called again.

use std::time::Duration;

use super::Tick;

/// How often processes and swap devices are looked for.
pub(super) const FIND_INTERVAL: Duration = Duration::from_secs(2);

/// How often the application in the foreground is looked at between events: what it brings back meanwhile is in use,
/// and no candidate for a page-out.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The same for those in the background, as long as there is something to page out. What they bring back is no
/// candidate before it was seen.
pub(super) const LOOK_BEHIND_INTERVAL: Duration = Duration::from_secs(5);

/// What could not be paged out is tried again after so long, and ever more seldom as long as some of it is refused.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(60);
pub(super) const LAST_RETRY: Duration = Duration::from_secs(3600);
/// And so long after the last time at the earliest, when a process of the application has ended: it may have had the pages,
/// too.
pub(super) const EARLIEST_RETRY: Duration = Duration::from_secs(10);

/// The longest wait for a tick after a switch, whatever the tick before said: an application that comes back takes
/// memory by the megabyte.
pub const AFTER_SWITCH: Duration = Duration::from_millis(50);

/// A switch makes the host watchful for so long.
pub(super) const WATCHFUL: Duration = Duration::from_secs(2);

/// What programs wait for memory counts for a switch for so long. The kernel sums it up every 2 s.
pub(super) const WAITING: Duration = Duration::from_secs(4);

/// The wait while pages leave.
const BUSY: Duration = Duration::from_millis(1);
/// While memory is not ample.
const PRESSED: Duration = Duration::from_millis(500);
/// At rest.
const REST: Duration = Duration::from_secs(2);

/// The wait until the next tick. `is_watchful`: there was a switch a moment ago.
pub(super) fn wait(tick: &Tick, is_busy: bool, is_ample: bool, is_watchful: bool) -> Duration {
    match tick {
        _ if is_busy => BUSY,
        _ if is_watchful && !is_ample => AFTER_SWITCH,
        tick if tick.missing_bytes > 0 || !is_ample => PRESSED,
        _ => REST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_there_is_to_do_the_sooner_it_goes_on() {
        let short = Tick {
            missing_bytes: 5,
            ..Tick::default()
        };
        let none = Tick::default();
        assert_eq!(wait(&short, true, false, true), BUSY);
        assert_eq!(wait(&none, false, false, true), AFTER_SWITCH);
        assert_eq!(wait(&short, false, true, true), PRESSED);
        assert_eq!(wait(&none, false, false, false), PRESSED);
        assert_eq!(wait(&none, false, true, true), REST);
    }
}
