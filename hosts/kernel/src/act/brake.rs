//! When to stop bringing back: the machine and the groups are looked at between batches.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use warmswap_page::PAGE_BYTES;
use warmswap_sys::memcg::Group;
use warmswap_sys::{FileError, Root};

use super::worker::Beat;
use crate::decide::{Controller, Seen, State, Stop, stop};
use crate::see::bounds;
use crate::see::swap::Kinds;

/// Groups that bound programs, as they were seen; they outlast a turn, so that what was reclaimed before is known.
#[derive(Debug, Default)]
pub struct Groups {
    seen: FxHashMap<PathBuf, Controller>,
    /// Cache of theirs that was not used lately is free: where swap is on a disk. Over compressed memory alone the kernel swapped
    /// others of their pages for those that came back.
    counts_cache: bool,
}

/// So many groups are remembered; of more, all are looked at anew.
const MOST_GROUPS: usize = 256;

impl Groups {
    /// The group above a process whose memory forbids to go on with it, where the host brought `brought_bytes` back so far, which
    /// are no growth of programs. Each of `bounds` has to allow it.
    pub fn full(&mut self, bounds: &[(Group, u64)], brought_bytes: u64) -> Option<PathBuf> {
        let is_full = |(group, bound_bytes): &&(Group, u64)| {
            // One that cannot be read is gone, and its processes with it.
            self.look(group, *bound_bytes, brought_bytes)
                .map_or(true, |controller| controller.state() != State::Calm)
        };
        let full = bounds.iter().find(is_full);
        full.map(|(group, _)| group.path().to_owned())
    }

    /// Looks at a group, where the host brought `brought_bytes` back so far; what is known of it then.
    ///
    /// # Errors
    /// [`FileError`], also when the group is gone.
    pub fn look(
        &mut self,
        group: &Group,
        bound_bytes: u64,
        brought_bytes: u64,
    ) -> Result<&Controller, FileError> {
        let seen = bounds::group(group, bound_bytes, self.counts_cache)?;
        if self.seen.len() == MOST_GROUPS && !self.seen.contains_key(group.path()) {
            self.seen.clear();
        }
        let controller = self.seen.entry(group.path().to_owned()).or_default();
        let seen = Seen {
            brought_bytes,
            ..seen
        };
        controller.see(seen, true);
        Ok(controller)
    }
}

/// What forbids to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// The machine's memory, or the host: no process goes on.
    All(Stop),
    /// This group's memory: processes of others go on.
    Group(PathBuf),
}

/// Stops at the first sign of pressure on the machine or in a group, and at their reserves.
#[derive(Debug)]
pub struct Brake<'a> {
    root: &'a Root,
    beat: &'a Beat,
    groups: &'a mut Groups,
    begin: Seen,
    reserve_bytes: u64,
}

impl<'a> Brake<'a> {
    /// A brake for what begins when the machine is as `begin` says, in a thread that beats.
    #[must_use]
    pub fn new(
        root: &'a Root,
        beat: &'a Beat,
        groups: &'a mut Groups,
        begin: Seen,
        reserve_bytes: u64,
    ) -> Self {
        groups.counts_cache = Kinds::in_use(root).disk;
        Self {
            root,
            beat,
            groups,
            begin,
            reserve_bytes,
        }
    }

    /// Groups as they are now, each with what stays free in it.
    ///
    /// # Errors
    /// [`FileError`], also when one is gone.
    pub fn look(&mut self, bounds: &[(Group, u64)]) -> Result<Vec<(Seen, u64)>, FileError> {
        let brought_bytes = self.beat.pace().brought_bytes();
        let look = |(group, bound_bytes): &(Group, u64)| {
            let controller = self.groups.look(group, *bound_bytes, brought_bytes)?;
            let seen = controller.last().unwrap_or_default();
            Ok((seen, controller.reserve_bytes()))
        };
        bounds.iter().map(look).collect()
    }

    /// The thread goes on.
    pub fn beat(&self) {
        self.beat.beat();
    }

    /// So many pages came back, or were asked for.
    pub fn brought(&self, pages: u64) {
        self.beat.pace().brought(pages * PAGE_BYTES as u64);
    }

    /// As [`Beat::wait_for_launch`].
    pub fn wait_for_launch(&self) {
        self.beat.wait_for_launch();
    }

    /// Whether nothing is free any more: that alone stops what is worth it though memory is short.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let has_room = |seen: Seen| seen.room_bytes(0) > 0;
        self.beat.stop().is_some() || !self.machine().is_some_and(has_room)
    }

    /// What forbids to go on with a process below groups with these bounds. A machine that cannot be read does.
    pub fn halt(&mut self, bounds: &[(Group, u64)]) -> Option<Halt> {
        let of_machine = || match self.machine() {
            Some(seen) => stop(&self.begin, &seen, self.reserve_bytes),
            None => Some(Stop::Pressure),
        };
        if let Some(stop) = self.beat.stop().or_else(of_machine) {
            return Some(Halt::All(stop));
        }
        let full = self.groups.full(bounds, self.beat.pace().brought_bytes());
        full.map(Halt::Group)
    }

    fn machine(&self) -> Option<Seen> {
        let seen = bounds::brief(self.root).ok()?;
        Some(Seen {
            floor_bytes: self.begin.floor_bytes,
            ..seen
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::act::pace::Pace;
    use crate::testing::Machine;

    #[test]
    fn a_full_group_stops_one_that_reclaims_waits_and_all_above_count() {
        let machine = Machine::with_groups();
        machine.set_group("apps", 100, 7);
        machine.set_group("apps/one", 50, 0);
        // The lower group has the lesser bound, and far more room.
        let bounds = [
            (machine.group("/apps/one"), 300u64 << 20),
            (machine.group("/apps"), 400 << 20),
        ];
        let upper = Some(bounds[1].0.path().to_owned());

        let mut groups = Groups::default();
        assert_eq!(groups.full(&[], 0), None);
        assert_eq!(groups.full(&bounds, 0), None);
        machine.set_group("apps", 100, 8);
        assert_eq!(groups.full(&bounds, 0), upper, "it reclaimed");
        let mut others = Groups::default();
        machine.set_group("apps", 398, 8);
        assert_eq!(others.full(&bounds, 0), upper, "only its reserve is left");
        std::fs::remove_dir_all(machine.path("cg")).unwrap();
        let lower = Some(bounds[0].0.path().to_owned());
        assert_eq!(others.full(&bounds, 0), lower, "it is gone");
    }

    #[test]
    fn what_can_wait_goes_on_after_the_launch_or_when_it_is_to_end() {
        let root = Machine::new().root();
        let wait = |beat: &Beat| {
            let mut groups = Groups::default();
            Brake::new(&root, beat, &mut groups, Seen::default(), 0).wait_for_launch();
        };
        let pace = Arc::new(Pace::default());
        let beat = Beat::at(&pace);
        wait(&beat);
        for end in [
            &(|_: &Beat| pace.expect_answer(None)) as &dyn Fn(&Beat),
            &Beat::abandon,
        ] {
            pace.expect_answer(Some(u64::MAX));
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| wait(&beat));
                let count = beat.count();
                // It beats meanwhile: it is not stuck.
                while beat.count() < count + 3 {
                    std::thread::yield_now();
                }
                assert!(!waiting.is_finished());
                end(&beat);
                waiting.join().unwrap();
            });
        }
    }

    #[test]
    fn reclaim_stops_it_and_what_is_worth_it_stops_where_nothing_is_free() {
        let machine = Machine::new();
        let root = machine.root();
        let begin = Seen {
            reclaims: 7,
            losses: 7,
            floor_bytes: 1 << 20,
            ..Seen::default()
        };
        let (beat, mut groups) = (Beat::default(), Groups::default());
        let mut brake = Brake::new(&root, &beat, &mut groups, begin, 1 << 20);
        for (free_mib, reclaimed, halt, is_exhausted) in [
            (3, 7, None, false),
            (2, 7, Some(Stop::Reserve), false),
            (3, 8, Some(Stop::Pressure), false),
            (1, 7, Some(Stop::Reserve), true),
        ] {
            machine.set_memory(free_mib, reclaimed);
            assert_eq!(brake.halt(&[]), halt.map(Halt::All), "{free_mib}");
            assert_eq!(brake.is_exhausted(), is_exhausted, "{free_mib}");
        }
        std::fs::remove_file(machine.path("proc/meminfo")).unwrap();
        assert_eq!(brake.halt(&[]), Some(Halt::All(Stop::Pressure)));
        assert!(brake.is_exhausted());
    }
}
