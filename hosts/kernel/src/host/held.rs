//! Groups that had no room for pages of their processes, and when they are tried again.
//!
//! Some never have any: a group whose page cache fills it to its limit is as full a minute later.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::act::Target;

/// A group is tried again after so long at first; the time doubles with each try in vain.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The longest time: room that a program leaves in a group is seen by then.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Groups without room, by their folders.
#[derive(Debug, Default)]
pub(super) struct HeldGroups(FxHashMap<PathBuf, Hold>);

#[derive(Debug)]
struct Hold {
    wait: Duration,
    until_ns: u64,
}

impl HeldGroups {
    /// Whether a process may be tried at a time.
    pub fn is_ready(&self, target: &Target, now_ns: u64) -> bool {
        let hold = target.held_by.as_ref().and_then(|group| self.0.get(group));
        hold.is_none_or(|hold| hold.until_ns <= now_ns)
    }

    /// A turn is over in which these processes found no room.
    pub fn note(&mut self, held: &[Target], now_ns: u64) {
        for group in held.iter().filter_map(|target| target.held_by.as_deref()) {
            let known = self.0.get(group);
            // All processes of a group are one try.
            if known.is_none_or(|hold| hold.until_ns <= now_ns) {
                let wait = known.map_or(FIRST_WAIT, |hold| LONGEST_WAIT.min(hold.wait * 2));
                let until_ns = now_ns + wait.as_nanos() as u64;
                self.0.insert(group.to_owned(), Hold { wait, until_ns });
            }
        }
    }

    /// Forgets groups of which no process waits: they had room.
    pub fn keep_only(&mut self, waiting: &[Target]) {
        let is_of = |target: &Target, group: &Path| target.held_by.as_deref() == Some(group);
        let is_waited_for = |group: &Path| waiting.iter().any(|target| is_of(target, group));
        self.0.retain(|group, _| is_waited_for(group));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::see::application::ProcessId;

    const SECOND: u64 = 1_000_000_000;

    fn target(pid: u32, group: Option<&str>) -> Target {
        Target {
            app: 0,
            id: ProcessId {
                pid,
                start_ticks: 1,
            },
            user: None,
            memory: Arc::default(),
            held_by: group.map(PathBuf::from),
        }
    }

    #[test]
    fn a_group_that_never_has_room_is_tried_more_and_more_seldom() {
        let mut groups = HeldGroups::default();
        let full = [target(1, Some("/full")), target(2, Some("/full"))];
        let mut tries = Vec::new();
        for second in 0..300 {
            if groups.is_ready(&full[0], second * SECOND) {
                tries.push(second);
                groups.note(&full, second * SECOND);
            }
        }
        assert_eq!(tries, [0, 2, 6, 14, 30, 62, 122, 182, 242]);
        assert!(groups.is_ready(&target(3, Some("/other")), 243 * SECOND));
        assert!(groups.is_ready(&target(3, None), 243 * SECOND));
    }

    #[test]
    fn a_group_that_had_room_meanwhile_begins_anew() {
        let mut groups = HeldGroups::default();
        let full = [target(1, Some("/full"))];
        for second in [0, 2] {
            groups.note(&full, second * SECOND);
        }
        groups.keep_only(&full);
        assert!(!groups.is_ready(&full[0], 5 * SECOND));
        groups.keep_only(&[target(1, None)]);
        groups.note(&full, 10 * SECOND);
        assert!(groups.is_ready(&full[0], 12 * SECOND));
    }
}
