//! The bound on the group's memory, at which members reclaim or wait and none is ended.
//!
//! Version 2 has `memory.high` for it: above it members reclaim and are slowed down. Version 1 has a hard limit only, at
//! which the kernel ends a member when it cannot reclaim. There the killer is switched off (`memory.oom_control`): members
//! wait instead, the kernel sends an event, and the limit rises. Memory that the kernel itself needs for a system call is
//! refused meanwhile (ENOMEM), so that the limit must rise before: [`Bound::kernel_bytes`] and
//! [`Bound::locked_bytes`] say what cannot be reclaimed.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use warmswap_sys::memcg::{Group, Version};
use warmswap_sys::{FileError, file};

/// Wakes the thread that waits in [`Bound::wait`].
#[derive(Debug, Clone)]
pub(super) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(event()?)))
    }

    pub fn wake(&self) {
        // It fails only where a wake is pending already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

fn event() -> std::io::Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    Ok(eventfd(0, flags)?)
}

/// The bound of one group.
#[derive(Debug)]
pub(super) struct Bound {
    group: Group,
    /// Readable when members wait since nothing can be reclaimed (version 1).
    starved: Option<OwnedFd>,
}

impl Bound {
    /// Switches the killer off where a bound would need it. Without a file for that the limit alone holds.
    pub fn new(group: Group) -> Self {
        let starved = match group.version() {
            Version::V1 => hold_off_killer(&group).ok(),
            Version::V2 => None,
        };
        Self { group, starved }
    }

    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Takes the bound away from a group that is about to go.
    pub fn lift(group: &Group) {
        // Its members leave it next, and its bounds with it.
        let _ = group.set_limit(None);
        if group.version() == Version::V2 {
            let _ = file::write(&group.path().join("memory.high"), "max");
        }
    }

    /// Raises the bound.
    pub fn raise(&self, bytes: u64) -> Result<(), FileError> {
        match self.group.version() {
            Version::V1 => self.group.set_limit(Some(bytes)),
            Version::V2 => self.set_high(bytes),
        }
    }

    /// Lowers the bound from `now_bytes`, and reclaims in the calling thread.
    ///
    /// # Errors
    /// [`FileError`]; busy where version 1 cannot reclaim enough. The bound is somewhere between both then.
    pub fn lower(&self, bytes: u64, now_bytes: u64) -> Result<(), FileError> {
        match self.group.version() {
            Version::V1 => self.group.lower_limit(bytes, now_bytes),
            Version::V2 => self.set_high(bytes),
        }
    }

    fn set_high(&self, bytes: u64) -> Result<(), FileError> {
        file::write(&self.group.path().join("memory.high"), &bytes.to_string())
    }

    /// Memory of the kernel on behalf of the group, which cannot be reclaimed: page tables, stacks of threads, and the rest.
    /// Version 1 counts what can be, too, and does not say how much it is: the kernel's caches of names and files.
    pub fn kernel_bytes(&self) -> Result<u64, FileError> {
        match self.group.version() {
            Version::V1 => file::read_u64(&self.path("memory.kmem.usage_in_bytes")),
            Version::V2 => {
                // One number since Linux 5.18.
                let parts = ["kernel_stack", "pagetables", "percpu", "slab", "sock"];
                let text = file::read(&self.path("memory.stat"))?;
                let sum = || parts.iter().filter_map(|name| number(&text, name)).sum();
                let all: u64 = number(&text, "kernel").unwrap_or_else(sum);
                let caches = number(&text, "slab_reclaimable").unwrap_or(0);
                Ok(all.saturating_sub(caches))
            }
        }
    }

    /// Memory that members have locked.
    pub fn locked_bytes(&self) -> Result<u64, FileError> {
        let name = match self.group.version() {
            Version::V1 => "total_unevictable",
            Version::V2 => "unevictable",
        };
        self.number_in("memory.stat", name)
    }

    /// Memory that is shared, or in a tmpfs, and not in swap. It is charged as page cache, and leaves for swap all the same.
    pub fn shared_bytes(&self) -> Result<u64, FileError> {
        let name = match self.group.version() {
            Version::V1 => "total_shmem",
            Version::V2 => "shmem",
        };
        self.number_in("memory.stat", name)
    }

    /// The most that was ever charged to the group; `None` before Linux 5.19 in version 2.
    pub fn peak_bytes(&self) -> Option<u64> {
        let name = match self.group.version() {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        };
        file::read_u64(&self.path(name)).ok()
    }

    /// How many members the kernel's OOM killer ended; `None` where it does not say.
    pub fn kills(&self) -> Option<u64> {
        let name = match self.group.version() {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        self.number_in(name, "oom_kill").ok()
    }

    /// Whether members wait since nothing can be reclaimed (version 1).
    pub fn is_starved(&self) -> bool {
        let is_under_oom = || self.number_in("memory.oom_control", "under_oom").ok() == Some(1);
        self.group.version() == Version::V1 && is_under_oom()
    }

    /// Waits for so long, until members starve, or until `waker` is used.
    pub fn wait(&self, waker: &Waker, timeout: Duration) {
        let waited = [Some(&*waker.0), self.starved.as_ref()].into_iter();
        let polled = waited.flatten().map(|fd| PollFd::new(fd, PollFlags::IN));
        let mut fds: Vec<_> = polled.collect();
        let timeout = Timespec::try_from(timeout).ok();
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return;
        }
        if let Some(starved) = &self.starved {
            let mut count = [0; 8];
            // Nothing to read is the rule.
            let _ = rustix::io::read(starved, &mut count);
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.group.path().join(name)
    }

    /// The number behind a word in a file of the group.
    fn number_in(&self, name: &str, word: &str) -> Result<u64, FileError> {
        let path = self.path(name);
        let text = file::read(&path)?;
        number(&text, word).ok_or_else(|| FileError::unexpected(&path, &format!("no field {word}")))
    }
}

/// The number behind a word at the begin of a line.
fn number(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let number = line.strip_prefix(word)?.strip_prefix(' ')?;
        number.trim().parse().ok()
    })
}

/// Version 1: has members wait where the kernel would end one. What becomes readable then.
fn hold_off_killer(group: &Group) -> Result<OwnedFd, FileError> {
    let control = group.path().join("memory.oom_control");
    let failed = |error: std::io::Error| FileError::new("open", &control, error);
    let event = event().map_err(failed)?;
    let opened = File::open(&control).map_err(failed)?;
    let pair = format!("{} {}", event.as_raw_fd(), opened.as_raw_fd());
    file::write(&group.path().join("cgroup.event_control"), &pair)?;
    file::write(&control, "1")?;
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;

    #[test]
    fn memory_of_the_kernel_is_one_number_or_the_sum_of_its_parts_without_its_caches() {
        let machine = Machine::with_groups();
        machine.write("cg/p/memory.current", "0\n");
        let parts = "anon 9\nkernel_stack 1\nslab_reclaimable 8\nslab 10\npagetables 4\n";
        machine.write("cg/p/memory.stat", parts);
        let bound = Bound::new(machine.group("/p"));
        assert_eq!(bound.kernel_bytes().unwrap(), 7);
        machine.write("cg/p/memory.stat", format!("kernel 30\n{parts}"));
        assert_eq!(bound.kernel_bytes().unwrap(), 22);
    }
}
