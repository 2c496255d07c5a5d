//! When to stop bringing back: the machine and the group are looked at between batches.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use warmswap_sys::Root;
use warmswap_sys::memcg::Group;

use crate::decide::{Controller, Seen, State, Stop, stop};
use crate::see::bounds;

/// Groups that bound programs, as they were seen; they outlast a turn, so that what was reclaimed before is known.
#[derive(Debug, Default)]
pub struct Groups(FxHashMap<PathBuf, Controller>);

/// So many groups are remembered; of more, all are looked at anew.
const MOST_GROUPS: usize = 256;

impl Groups {
    /// Whether the memory of a group forbids to go on with its processes, where `brought_bytes` came back so far.
    pub fn stop(&mut self, bound: Option<&(Group, u64)>, brought_bytes: u64) -> Option<Stop> {
        let (group, bound_bytes) = bound?;
        let Ok(seen) = bounds::group(group, *bound_bytes) else {
            // It is gone, and its processes with it.
            return Some(Stop::Reserve);
        };
        if self.0.len() == MOST_GROUPS && !self.0.contains_key(group.path()) {
            self.0.clear();
        }
        let controller = self.0.entry(group.path().to_owned()).or_default();
        let seen = Seen {
            brought_bytes,
            ..seen
        };
        match controller.see(seen, true) {
            State::Calm => None,
            State::Short => Some(Stop::Pressure),
            State::Rest => Some(Stop::Reserve),
        }
    }
}

/// Stops at the first sign of pressure on the machine, and at the reserve.
#[derive(Debug)]
pub struct Brake {
    root: Root,
    begin: Seen,
    reserve_bytes: u64,
}

impl Brake {
    /// A brake for what begins when the machine is as `begin` says.
    #[must_use]
    pub fn new(root: &Root, begin: Seen, reserve_bytes: u64) -> Self {
        Self {
            root: root.clone(),
            begin,
            reserve_bytes,
        }
    }

    /// Whether the machine's memory forbids to go on. A machine that cannot be read does.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        let Ok(seen) = bounds::brief(&self.root) else {
            return Some(Stop::Pressure);
        };
        let seen = Seen {
            floor_bytes: self.begin.floor_bytes,
            ..seen
        };
        stop(&self.begin, &seen, self.reserve_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_group_stops_and_one_that_reclaims_waits() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let set = |used_mib: u64, hits: u64| {
            write("cg/apps/memory.current", &(used_mib << 20).to_string());
            write("cg/apps/memory.events", &format!("max {hits}\n"));
        };
        write("proc/self/mounts", "none /cg cgroup2 rw 0 0\n");
        write("cg/cgroup.controllers", "memory\n");
        set(100, 7);
        let group = Group::open(&Root::at(dir.path()), "/apps".as_ref()).unwrap();
        let bound = (group, 400u64 << 20);
        let mut groups = Groups::default();
        assert_eq!(groups.stop(None, 0), None);
        assert_eq!(groups.stop(Some(&bound), 0), None);
        set(100, 8);
        assert_eq!(groups.stop(Some(&bound), 0), Some(Stop::Pressure));
        let mut others = Groups::default();
        set(398, 8);
        assert_eq!(others.stop(Some(&bound), 0), Some(Stop::Reserve));
        std::fs::remove_dir_all(dir.path().join("cg")).unwrap();
        assert_eq!(others.stop(Some(&bound), 0), Some(Stop::Reserve));
    }
}
