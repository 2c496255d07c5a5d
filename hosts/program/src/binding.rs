//! A thread of the program that is bound to the processor of its handler for a while.
//!
//! The program must not come to see that: what a bound thread creates would be bound for good, and what asks how
//! many processors there are would be told one. So the library that replaces the functions that
//! create threads or processes, or that deal with processors, calls [`Binding::hold_off`] and [`Binding::release`]
//! before them.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use warmswap_arena::mechanism::Mutex;
use warmswap_sys::process::has_thread;

/// Which thread is bound, if one is, and where it may run otherwise.
#[derive(Debug, Default)]
pub struct Binding {
    /// Its number; 0 for none.
    thread: AtomicU32,
    /// Where it could run before, and the processor to which it is bound.
    before: Mutex<Option<(CpuSet, usize)>>,
    /// How often the program asked for none.
    held_off: AtomicU32,
}

impl Binding {
    /// Binds the thread to a processor, and lets go of the one that was bound before. False where the program wants
    /// it to run only elsewhere, or there anyway, or where it is gone or another process's: that reads this memory (as
    /// debuggers do), and may run where it likes.
    pub fn bind(&self, thread: Pid, cpu: usize) -> bool {
        let number = thread.as_raw_nonzero().get().unsigned_abs();
        if self.thread.load(Ordering::Relaxed) == number {
            return true;
        }
        self.release();
        if !has_thread(thread) {
            return false;
        }
        let mut place = self.before.lock();
        let Ok(before) = sched_getaffinity(Some(thread)) else {
            return false;
        };
        if !before.is_set(cpu) || before.count() == 1 {
            return false;
        }
        // Published before the affinity changes, cleared after it is restored: a thread that sees it waits for the lock.
        self.thread.store(number, Ordering::Release);
        let is_bound = sched_setaffinity(Some(thread), &only(cpu)).is_ok();
        if is_bound {
            *place = Some((before, cpu));
        } else {
            self.thread.store(0, Ordering::Release);
        }
        is_bound
    }

    /// The thread that is bound, if there is one, may run where it could before. Where another process has said meanwhile
    /// where it may run (`taskset -p`), it keeps to that. (One that says the same processor cannot be told apart.)
    pub fn release(&self) {
        if !self.is_bound() {
            return;
        }
        let mut place = self.before.lock();
        let thread = pid(self.thread.load(Ordering::Acquire));
        if let (Some((before, cpu)), Some(thread)) = (place.take(), thread)
            && may_run_only_on(Some(thread), cpu)
        {
            // It may be gone already.
            let _ = sched_setaffinity(Some(thread), &before);
        }
        self.thread.store(0, Ordering::Release);
    }

    /// Whether a thread is bound.
    pub fn is_bound(&self) -> bool {
        self.thread.load(Ordering::Acquire) != 0
    }

    /// The program is about to do what a bound thread must not: handlers bind none for a few faults. Whether one is
    /// bound.
    pub fn hold_off(&self) -> bool {
        self.held_off.fetch_add(1, Ordering::AcqRel);
        self.is_bound()
    }

    /// Changes with every [`Self::hold_off`].
    pub fn hold_off_generation(&self) -> u32 {
        self.held_off.load(Ordering::Acquire)
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Whether a thread, or the calling one, is where a binding to that processor has put it. If not, another process has said
/// where it may run.
pub fn may_run_only_on(thread: Option<Pid>, cpu: usize) -> bool {
    sched_getaffinity(thread).is_ok_and(|set| set == only(cpu))
}

/// One processor.
pub fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

#[cfg(test)]
mod tests {
    use rustix::thread::gettid;

    use super::*;

    fn places() -> CpuSet {
        sched_getaffinity(None).expect("a set")
    }

    #[test]
    fn a_thread_is_bound_until_it_is_let_go_or_another_is_bound() {
        let all = places();
        if all.count() < 2 {
            warmswap_testkit::skip!(
                "a_thread_is_bound_until_it_is_let_go_or_another_is_bound",
                "there is one processor"
            );
        }
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu));
        let cpu = cpu.expect("a processor");
        let binding = Binding::default();
        // In a thread of its own, which takes its places along when it ends.
        std::thread::spawn(move || {
            assert!(binding.bind(gettid(), cpu) && binding.bind(gettid(), cpu));
            assert_eq!(places(), only(cpu));
            assert!(binding.hold_off());
            binding.release();
            assert!(!binding.hold_off());
            assert_eq!((places(), binding.hold_off_generation()), (all, 2));

            assert!(binding.bind(gettid(), cpu));
            // A thread that is gone is not bound, and the one that was is let go all the same.
            let gone = Pid::from_raw(i32::MAX).expect("a number");
            assert!(!binding.bind(gone, cpu));
            assert_eq!(places(), all);
        })
        .join()
        .expect("it holds");
    }

    #[test]
    fn what_another_process_says_of_a_bound_thread_stays() {
        let cpus: Vec<_> = (0..CpuSet::MAX_CPU)
            .filter(|&cpu| places().is_set(cpu))
            .collect();
        let [cpu, other, ..] = cpus[..] else {
            warmswap_testkit::skip!(
                "what_another_process_says_of_a_bound_thread_stays",
                "there is one processor"
            );
        };
        std::thread::spawn(move || {
            let binding = Binding::default();
            assert!(binding.bind(gettid(), cpu));
            sched_setaffinity(None, &only(other)).expect("it may");
            binding.release();
            assert_eq!((places(), binding.is_bound()), (only(other), false));
        })
        .join()
        .expect("it holds");
    }

    #[test]
    fn threads_of_other_processes_are_left_alone() {
        let mut other = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .expect("it starts");
        let thread = pid(other.id()).expect("a number");
        let before = sched_getaffinity(Some(thread)).expect("a set");
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| before.is_set(cpu));
        let is_bound = Binding::default().bind(thread, cpu.expect("a processor"));
        let after = sched_getaffinity(Some(thread));
        let _ = other.kill();
        let _ = other.wait();
        assert!(!is_bound);
        assert_eq!(after, Ok(before));
    }

    #[test]
    fn who_has_one_place_of_his_own_choice_keeps_it() {
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| places().is_set(cpu));
        let cpu = cpu.expect("a processor");
        std::thread::spawn(move || {
            sched_setaffinity(None, &only(cpu)).expect("it may");
            let binding = Binding::default();
            assert!(!binding.bind(gettid(), cpu));
            binding.release();
            assert_eq!(places(), only(cpu));
        })
        .join()
        .expect("it holds");
    }
}
