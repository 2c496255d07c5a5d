//! The processes of an application, and where in the list each part of its page numbers is.

use std::ops::{Deref, DerefMut};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::application::ProcessId;
use crate::watch::Watched;

/// Processes under watch, each with a slice of its own.
#[derive(Debug, Default)]
pub(super) struct Processes {
    list: Vec<Watched>,
    /// Places in the list.
    by_slice: FxHashMap<u64, usize>,
}

impl Processes {
    /// Adds one whose slice none of them has. Its place.
    pub fn push(&mut self, process: Watched) -> usize {
        let at = self.list.len();
        let before = self.by_slice.insert(process.slice(), at);
        debug_assert_eq!(before, None, "one slice for two processes");
        self.list.push(process);
        at
    }

    /// The place of the process with that slice.
    pub fn by_slice(&self, slice: u64) -> Option<usize> {
        self.by_slice.get(&slice).copied()
    }

    /// Takes out those for which `stays` does not hold. Their slices.
    pub fn take_gone(&mut self, stays: impl Fn(ProcessId) -> bool) -> FxHashSet<u64> {
        let mut gone = FxHashSet::default();
        for at in (0..self.list.len()).rev() {
            if stays(self.list[at].id()) {
                continue;
            }
            let slice = self.list.swap_remove(at).slice();
            self.by_slice.remove(&slice);
            gone.insert(slice);
            if let Some(moved) = self.list.get(at) {
                self.by_slice.insert(moved.slice(), at);
            }
        }
        gone
    }
}

impl Deref for Processes {
    type Target = [Watched];
    fn deref(&self) -> &[Watched] {
        &self.list
    }
}

impl DerefMut for Processes {
    fn deref_mut(&mut self) -> &mut [Watched] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use warmswap_sys::Root;
    use warmswap_sys::process::Stat;

    use super::*;

    #[test]
    fn each_is_found_by_its_slice_while_others_come_and_go() {
        let root = Root::machine();
        let pid = std::process::id();
        let start_ticks = Stat::read(&root, pid).unwrap().start_ticks;
        let mut processes = Processes::default();
        let mut other = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let other_id = ProcessId {
            pid: other.id(),
            start_ticks: Stat::read(&root, other.id()).unwrap().start_ticks,
        };
        let own_id = ProcessId { pid, start_ticks };
        for (slice, id) in [
            (7, own_id),
            (9, other_id),
            (5, own_id),
            (3, other_id),
            (1, own_id),
        ] {
            processes.push(Watched::open(&root, id, slice).unwrap());
        }
        let slices = |processes: &Processes, of: &[u64]| {
            of.iter().all(|&slice| {
                let at = processes.by_slice(slice);
                at.is_some_and(|at| processes[at].slice() == slice)
            })
        };
        assert!(slices(&processes, &[1, 3, 5, 7, 9]));

        let gone = processes.take_gone(|id| id == own_id);

        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(gone, FxHashSet::from_iter([3, 9]));
        assert!(slices(&processes, &[1, 5, 7]));
        assert_eq!((processes.by_slice(3), processes.by_slice(9)), (None, None));
        assert_eq!(processes.len(), 3);
    }
}
