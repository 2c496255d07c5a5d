//! Whether processes of the program run outside of its group, where they are neither bounded nor counted.

use warmswap_sys::memcg::Group;
use warmswap_sys::process::{MemoryUse, Stat};
use warmswap_sys::{Root, tree};

use crate::host::thread_cpu_ns;

/// Between looks at all descendants, which read the state of every process of the machine.
const LOOK_NS: u64 = 1_000_000_000;

/// The looks take this part of a processor at most, as a divisor.
const LOOK_PART: u64 = 100;

/// What earlier looks found.
#[derive(Debug, Default)]
pub(super) struct Membership {
    members: Vec<u32>,
    /// The descendants are not looked at before.
    look_ns: u64,
}

impl Membership {
    /// Whether the program's first process, or a member of the last look, lives and is no member now. `process` is 0 before
    /// it is known.
    pub fn has_member_left(&mut self, root: &Root, group: &Group, process: u32) -> bool {
        let Ok(members) = group.pids() else {
            return false;
        };
        let before = std::mem::replace(&mut self.members, members);
        let mut known = before.into_iter().chain((process != 0).then_some(process));
        known.any(|pid| !self.members.contains(&pid) && is_alive(root, pid))
    }

    /// Whether a descendant of the program's first process lives outside of the group: one may leave before any look found
    /// it inside. One whose parents ended is no descendant any more.
    pub fn has_descendant_outside(
        &mut self,
        root: &Root,
        group: &Group,
        process: u32,
        now_ns: u64,
    ) -> bool {
        if process == 0 || now_ns < self.look_ns {
            return false;
        }
        let begin_ns = thread_cpu_ns();
        // The family is read first: a child that is started in between is only in the second list.
        let family = tree::descendants(root, process).unwrap_or_default();
        let is_outside = group.pids().is_ok_and(|members| {
            let mut pids = family.iter().map(|stat| stat.pid);
            pids.any(|pid| !members.contains(&pid) && is_alive(root, pid))
        });
        let took_ns = thread_cpu_ns().saturating_sub(begin_ns);
        self.look_ns = now_ns + LOOK_NS.max(took_ns.saturating_mul(LOOK_PART));
        is_outside
    }
}

/// Whether the process has memory. One that ends gives its memory up before it leaves its group.
fn is_alive(root: &Root, pid: u32) -> bool {
    let is_running = Stat::read(root, pid).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'));
    let memory = MemoryUse::read(root, pid).unwrap_or_default();
    is_running && memory.anonymous_bytes + memory.file_bytes + memory.swapped_bytes > 0
}
