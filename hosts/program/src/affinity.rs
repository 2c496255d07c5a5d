//! A handler thread on the processor of the thread whose faults it serves.
//!
//! The two take turns: one waits while the other works. On two processors each turn wakes a processor that went to
//! sleep, which takes longer than the fault itself, above all in a virtual machine. The scheduler cannot know, so it
//! is told: a thread of a program that makes one fault after the other is bound to the processor where its handler
//! is ([`Binding`]), and the handler stays there. Now and then both are let go, so that they come to where there is
//! room, and as soon as the faults pause.
//!
//! Other handlers do not wait for faults meanwhile ([`SharedAffinity::wait_outside`]): the thread often makes its next fault before
//! its handler waits again, and that would wake one of them on another processor.
//!
//! The pager follows them ([`PagerAffinity`]): to take a page out of the page table it must interrupt every other processor
//! on which the program runs, and there is none if it takes its turn where the program would run.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{
    CpuSet, Pid, futex, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity,
};
use warmswap_arena::mechanism::timespec;

use crate::binding::{Binding, may_run_only_on, only};

/// A thread that made so many faults in a row has the handler for itself.
const FAULTS_IN_A_ROW: u32 = 8;

/// After so many faults the scheduler chooses the handler's processor anew.
const FAULTS_AT_HOME: u32 = 256;

/// What a handler thread knows of the thread that it serves.
#[derive(Debug)]
pub struct FaultAffinity {
    handler: Pid,
    /// Where the handler may run.
    everywhere: CpuSet,
    /// Whose faults these are, and how many there were in a row.
    thread: Option<Pid>,
    row: u32,
    /// The processor to which the handler is bound, and its faults there; none if it is not.
    at_home: Option<(usize, u32)>,
    /// How often the program asked for no binding when it last looked.
    held_off: u32,
}

/// Where a program runs whose faults come from one thread alone, for others of the arena's threads.
#[derive(Debug, Default)]
pub struct SharedAffinity {
    /// The processor's number and one; 0 if several threads make faults.
    cpu: AtomicU32,
    /// The handler that alone waits for faults; 0 if all do.
    sole_handler: AtomicU32,
}

impl SharedAffinity {
    fn cpu(&self) -> Option<usize> {
        (self.cpu.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// The handler serves the one thread that makes faults, there. False if another says the same of itself.
    fn settle(&self, cpu: usize, handler: Pid) -> bool {
        let sole_handler = number(handler);
        let settled = self.sole_handler.compare_exchange(
            0,
            sole_handler,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let is_alone = settled.is_ok() || settled == Err(sole_handler);
        if is_alone {
            let number = u32::try_from(cpu + 1).unwrap_or(0);
            self.cpu.store(number, Ordering::Relaxed);
        }
        is_alone
    }

    fn leave(&self) {
        self.cpu.store(0, Ordering::Relaxed);
        self.call_others();
    }

    /// Lets all handlers wait for faults, if one alone does. It calls them before it waits for anything itself, and
    /// in the child of a fork, where it is gone.
    pub fn call_others(&self) {
        if self.sole_handler.load(Ordering::Relaxed) != 0
            && self.sole_handler.swap(0, Ordering::AcqRel) != 0
        {
            let _ = futex::wake(&self.sole_handler, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    fn is_alone(&self, handler: Pid) -> bool {
        self.sole_handler.load(Ordering::Acquire) == number(handler)
    }

    /// Whether no handler but this one alone waits for faults.
    pub fn lets_in(&self, handler: Pid) -> bool {
        let sole_handler = self.sole_handler.load(Ordering::Acquire);
        sole_handler == 0 || sole_handler == number(handler)
    }

    /// Waits while another handler alone waits for faults, at most for `timeout`; whether none does.
    pub fn wait_outside(&self, handler: Pid, timeout: Duration) -> bool {
        let sole_handler = self.sole_handler.load(Ordering::Acquire);
        if sole_handler == 0 || sole_handler == number(handler) {
            return true;
        }
        let timeout = timespec(timeout);
        let _ = futex::wait(
            &self.sole_handler,
            futex::Flags::PRIVATE,
            sole_handler,
            Some(&timeout),
        );
        self.lets_in(handler)
    }
}

fn number(handler: Pid) -> u32 {
    handler.as_raw_nonzero().get().unsigned_abs()
}

/// A thread of the arena that works where the program does, when one thread of it alone makes faults: what it takes
/// from the program's page table need not be told to another processor.
#[derive(Debug)]
pub struct PagerAffinity {
    /// Where it may run; none where there is no choice.
    everywhere: Option<CpuSet>,
    /// The processor to which it is bound.
    at: Option<usize>,
}

impl PagerAffinity {
    /// The calling thread.
    pub fn new() -> Self {
        let everywhere = sched_getaffinity(None).ok();
        Self {
            everywhere: everywhere.filter(|set| set.count() > 1),
            at: None,
        }
    }

    /// Goes where the program is, or anywhere if it is in several places.
    pub fn follow(&mut self, home: &SharedAffinity) {
        let home = home.cpu();
        let Some(everywhere) = self.everywhere.as_mut().filter(|_| home != self.at) else {
            return;
        };
        if !self.at.is_some_and(|cpu| may_run_only_on(None, cpu)) {
            // Another process may have said where the program's threads may run (`taskset -a -p`).
            *everywhere = sched_getaffinity(None).unwrap_or(*everywhere);
        }
        let set = match home {
            Some(cpu) if everywhere.is_set(cpu) => only(cpu),
            _ => *everywhere,
        };
        // Where that fails it stays where it is, which does no harm but to speed.
        let _ = sched_setaffinity(None, &set);
        self.at = home;
    }
}

impl FaultAffinity {
    /// For the calling thread; none where the system does not say where it may run.
    pub fn new() -> Option<Self> {
        let everywhere = sched_getaffinity(None).ok()?;
        (everywhere.count() > 1).then_some(Self {
            handler: gettid(),
            everywhere,
            thread: None,
            row: 0,
            at_home: None,
            held_off: 0,
        })
    }

    /// A fault of this thread is about to be served: it is to wake up here, if it is the only one that makes faults.
    pub fn serves(&mut self, thread: u32, home: &SharedAffinity, binding: &Binding) {
        let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
        let held_off = std::mem::replace(&mut self.held_off, binding.hold_off_generation());
        if self.thread == thread && held_off == self.held_off {
            self.row = self.row.saturating_add(1);
        } else {
            self.rest(home, binding);
            self.thread = thread;
        }
        if let Some(thread) = self.thread.filter(|_| self.has_one_thread())
            && let Some(here) = self.stay(binding)
        {
            if home.settle(here, self.handler) {
                binding.bind(thread, here);
            } else {
                self.rest(home, binding);
            }
        }
    }

    /// Whether all faults are of one thread.
    pub fn has_one_thread(&self) -> bool {
        self.row >= FAULTS_IN_A_ROW
    }

    /// The thread makes no more faults, or others do, too: everybody may run anywhere.
    pub fn rest(&mut self, home: &SharedAffinity, binding: &Binding) {
        self.row = 0;
        if self.at_home.is_some() || home.is_alone(self.handler) {
            self.leave_home(binding);
            home.leave();
        }
    }

    /// Binds the handler to the processor on which it is, and says which that is; now and then lets it and the thread
    /// go instead.
    fn stay(&mut self, binding: &Binding) -> Option<usize> {
        match &mut self.at_home {
            Some((_, faults)) if *faults >= FAULTS_AT_HOME => {
                self.leave_home(binding);
                None
            }
            Some((here, faults)) => {
                *faults += 1;
                Some(*here)
            }
            None => {
                // Another process may have said where the program's threads may run (`taskset -a -p`).
                self.everywhere = sched_getaffinity(Some(self.handler)).ok()?;
                let here = sched_getcpu();
                if self.everywhere.count() == 1 || !self.everywhere.is_set(here) {
                    return None;
                }
                sched_setaffinity(Some(self.handler), &only(here)).ok()?;
                self.at_home = Some((here, 0));
                Some(here)
            }
        }
    }

    /// The scheduler chooses where the handler and the thread run next.
    fn leave_home(&mut self, binding: &Binding) {
        binding.release();
        // Where another process has said where it may run (`taskset -a -p`), it keeps to that.
        if let Some((here, _)) = self.at_home.take()
            && may_run_only_on(Some(self.handler), here)
        {
            // Where that fails it stays where it is, which does no harm but to speed.
            let _ = sched_setaffinity(Some(self.handler), &self.everywhere);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_goes_where_the_program_is_and_then_anywhere_again() {
        // In a thread of its own, which takes its places along when it ends.
        let follow = || {
            let everywhere = sched_getaffinity(None).expect("a set");
            let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| everywhere.is_set(cpu));
            let (home, mut follower) = (SharedAffinity::default(), PagerAffinity::new());
            assert!(home.settle(cpu.expect("a processor"), gettid()));
            follower.follow(&home);
            let bound = sched_getaffinity(None).expect("a set");
            home.leave();
            follower.follow(&home);
            let free = sched_getaffinity(None).expect("a set");
            (cpu, bound, free == everywhere)
        };
        let (cpu, bound, is_free) = std::thread::spawn(follow).join().expect("a thread");
        assert!(cpu.is_some_and(|cpu| bound.is_set(cpu)) && bound.count() == 1);
        assert!(is_free);
    }

    /// As by `taskset -a -p`, while the thread is bound and while it is not.
    #[test]
    fn what_another_process_says_of_threads_of_the_library_stays() {
        let everywhere = sched_getaffinity(None).expect("a set");
        let cpus: Vec<_> = (0..CpuSet::MAX_CPU)
            .filter(|&cpu| everywhere.is_set(cpu))
            .collect();
        let [one, other, ..] = cpus[..] else {
            warmswap_testkit::skip!(
                "what_another_process_says_of_threads_of_the_library_stays",
                "there is one processor"
            );
        };
        let says = |cpu| sched_setaffinity(None, &only(cpu)).expect("it may");
        let stays = |cpu| assert_eq!(sched_getaffinity(None), Ok(only(cpu)));
        let follow = |while_bound: bool| {
            let (home, mut follower) = (SharedAffinity::default(), PagerAffinity::new());
            if while_bound {
                assert!(home.settle(one, gettid()));
                follower.follow(&home);
                stays(one);
                says(other);
                home.leave();
            } else {
                says(other);
                assert!(home.settle(one, gettid()));
            }
            follower.follow(&home);
            stays(other);
        };
        let handle = |while_bound: bool| {
            let binding = Binding::default();
            let mut near = FaultAffinity::new().expect("more than one processor");
            if while_bound {
                let here = near.stay(&binding).expect("it is bound");
                let elsewhere = if here == one { other } else { one };
                says(elsewhere);
                near.leave_home(&binding);
                stays(elsewhere);
            } else {
                says(other);
            }
            assert_eq!(near.stay(&binding), None);
            near.leave_home(&binding);
            assert_eq!(sched_getaffinity(None).map(|set| set.count()), Ok(1));
        };
        std::thread::scope(|scope| {
            for while_bound in [true, false] {
                let threads = [
                    scope.spawn(move || follow(while_bound)),
                    scope.spawn(move || handle(while_bound)),
                ];
                threads
                    .into_iter()
                    .for_each(|thread| thread.join().expect("it holds"));
            }
        });
    }

    #[test]
    fn one_handler_waits_alone_until_it_calls_the_others() {
        let home = SharedAffinity::default();
        let one = gettid();
        let other = std::thread::spawn(gettid).join().expect("a thread");
        assert!(home.lets_in(one) && home.lets_in(other));
        assert!(home.settle(0, one));
        assert!(
            home.wait_outside(one, Duration::ZERO) && !home.wait_outside(other, Duration::ZERO)
        );
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| while !home.wait_outside(other, Duration::from_secs(60)) {});
            home.call_others();
            waits.join().expect("it is called");
        });
        assert_eq!(home.cpu(), Some(0));
    }

    #[test]
    fn of_two_handlers_with_a_thread_each_none_waits_alone() {
        let home = SharedAffinity::default();
        let one = gettid();
        let other = std::thread::spawn(gettid).join().expect("a thread");
        assert!(home.settle(0, one) && home.settle(0, one));
        assert!(!home.settle(1, other));
        home.leave();
        assert!(home.lets_in(one) && home.lets_in(other));
        assert_eq!(home.cpu(), None);
    }

    #[test]
    fn a_thread_is_bound_while_it_alone_makes_faults() {
        let all = sched_getaffinity(None).expect("a set");
        if all.count() < 2 {
            warmswap_testkit::skip!(
                "a_thread_is_bound_while_it_alone_makes_faults",
                "there is one processor"
            );
        }
        let (home, binding) = (SharedAffinity::default(), Binding::default());
        let (begin, go_on) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let faulting = std::thread::spawn(move || {
            tell.send(gettid()).expect("it waits");
            let _ = go_on.recv();
        });
        let thread = told.recv().expect("it says so");
        let is_bound = || sched_getaffinity(Some(thread)).expect("a set").count() == 1;
        let handler = || {
            let mut near = FaultAffinity::new().expect("more than one processor");
            let mut serve = |thread: u32, times: u32| {
                (0..times).for_each(|_| near.serves(thread, &home, &binding));
                is_bound()
            };
            let thread = number(thread);
            assert!(!serve(thread, FAULTS_IN_A_ROW));
            assert!(serve(thread, 1));
            assert!(binding.hold_off());
            binding.release();
            assert!(!is_bound());
            // A thread that asked where it may run is not bound again at once.
            assert!(!serve(thread, FAULTS_IN_A_ROW) && serve(thread, 1));
            assert!(!serve(thread + 1, 1));
            assert_eq!(home.cpu(), None);
            assert!(serve(thread, FAULTS_IN_A_ROW + 1));
            // Now and then it is free, for one fault.
            assert!(!serve(thread, FAULTS_AT_HOME + 1) && serve(thread, 1));
            assert!(!serve(thread, FAULTS_AT_HOME + 1));
            assert!(!home.lets_in(Pid::INIT));
            near.rest(&home, &binding);
            assert!(home.lets_in(Pid::INIT));
            assert_eq!((is_bound(), home.cpu()), (false, None));
            sched_getaffinity(None).expect("a set")
        };
        let after = std::thread::scope(|scope| scope.spawn(handler).join());
        assert_eq!(after.expect("it holds"), all);
        drop(begin);
        faulting.join().expect("it ends");
    }
}
