//! How much may be locked of control groups.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use warmswap_page::PAGE_BYTES;
use warmswap_sys::Root;
use warmswap_sys::memcg::{Group, bound_of};

use super::LOCKED_PART;
use super::locks::GroupId;

/// A group that bounds memory.
#[derive(Debug)]
struct Bound {
    group: Group,
    most_pages: u64,
}

/// The groups that bound processes of which something is to be locked.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    numbers: FxHashMap<PathBuf, GroupId>,
    bounds: FxHashMap<GroupId, Bound>,
    next: GroupId,
}

impl Bounds {
    /// The group that bounds a process most. Costs about 100 µs.
    pub fn group_of(&mut self, root: &Root, pid: u32) -> Option<GroupId> {
        let (group, bytes) = bound_of(root, pid)?;
        if let Some(&number) = self.numbers.get(group.path()) {
            return Some(number);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.numbers.insert(group.path().to_owned(), number);
        let most_pages = part(bytes);
        self.bounds.insert(number, Bound { group, most_pages });
        Some(number)
    }

    /// Pages that may be locked of a group; none of one that is gone.
    pub fn most_pages(&self, group: GroupId) -> u64 {
        self.bounds.get(&group).map_or(0, |bound| bound.most_pages)
    }

    /// Reads the bounds again: they can be changed at any time. All groups.
    pub fn refresh(&mut self) -> Vec<GroupId> {
        for bound in self.bounds.values_mut() {
            bound.most_pages = bound.group.bound_bytes().map_or(u64::MAX, part);
        }
        self.bounds.keys().copied().collect()
    }

    /// Forgets the groups for which `stays` does not hold.
    pub fn retain(&mut self, stays: impl Fn(GroupId) -> bool) {
        self.numbers.retain(|_, &mut group| stays(group));
        self.bounds.retain(|&group, _| stays(group));
    }
}

fn part(bytes: u64) -> u64 {
    bytes / LOCKED_PART / PAGE_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_a_group_holds_for_all_its_processes_and_is_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mounts", "none /cg cgroup2 rw 0 0\n");
        write("cg/cgroup.controllers", "memory\n");
        write("cg/a/memory.max", &(64 << 20).to_string());
        write("cg/a/b/memory.max", "max\n");
        for pid in [7, 8] {
            write(&format!("proc/{pid}/cgroup"), "0::/a/b\n");
        }
        write("proc/9/cgroup", "0::/\n");
        let root = Root::at(dir.path());
        let mut bounds = Bounds::default();
        let group = bounds.group_of(&root, 7).unwrap();
        assert_eq!(bounds.group_of(&root, 8), Some(group));
        assert_eq!(bounds.group_of(&root, 9), None);
        assert_eq!(bounds.most_pages(group), 2048);
        write("cg/a/memory.swap.max", "0\n");
        assert_eq!(bounds.refresh(), [group]);
        assert_eq!(bounds.most_pages(group), 0, "nothing can go to swap");
        bounds.retain(|_| false);
        assert_eq!(bounds.most_pages(group), 0);
        write("cg/a/memory.swap.max", "max\n");
        let later = bounds.group_of(&root, 8).unwrap();
        assert_ne!(later, group);
    }
}
