//! The processors that a thread may run on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Calls `call` once on each processor that this thread may run on; one that went offline meanwhile is left out. The
/// thread may run on all of them again afterwards, after a panic too.
///
/// # Errors
/// When the kernel does not say or set where the thread may run.
pub fn on_each(mut call: impl FnMut()) -> io::Result<()> {
    let allowed = Allowed(sched_getaffinity(None)?);
    for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.0.is_set(cpu)) {
        let mut one = CpuSet::new();
        one.set(cpu);
        if sched_setaffinity(None, &one).is_ok() {
            call();
        }
    }
    allowed.restore()
}

/// Where the thread may run; dropping it lets the thread run there again.
struct Allowed(CpuSet);

impl Allowed {
    fn restore(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let _ = self.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_is_visited_and_the_thread_may_run_on_all_of_them_afterwards() {
        let allowed = || {
            let set = sched_getaffinity(None).unwrap();
            let is_set = |&cpu: &usize| set.is_set(cpu);
            (0..CpuSet::MAX_CPU).filter(is_set).collect::<Vec<_>>()
        };
        let before = allowed();
        let mut visited = Vec::new();
        on_each(|| visited.extend(allowed())).unwrap();
        assert_eq!(visited, before);
        assert_eq!(allowed(), before);
        let panicked = std::panic::catch_unwind(|| on_each(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(allowed(), before);
    }
}
