//! A handler thread on the processor of the thread whose faults it serves.
//!
//! The two take turns: one waits while the other works. On two processors each turn wakes a processor that went to
//! sleep, which takes longer than the fault itself, above all in a virtual machine. The scheduler cannot know, so it
//! is told: a thread that makes one fault after the other is woken where its handler runs, and the handler stays
//! there. Now and then the handler lets the scheduler choose anew, so that both go where there is room.
//!
//! Other handlers do not wait for faults meanwhile ([`Home::wait_outside`]): the thread often makes its next fault before
//! its handler waits again, and that would wake one of them on another processor.
//!
//! The pager follows them ([`Follower`]): to take a page out of the page table it must interrupt every other processor
//! on which the program runs, and there is none if it takes its turn where the program would run.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{self, Timespec};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// A thread that made so many faults in a row has the handler for itself.
const FAULTS_IN_A_ROW: u32 = 8;

/// After so many faults the scheduler chooses the handler's processor anew.
const FAULTS_AT_HOME: u32 = 256;

/// What a handler thread knows of the thread that it serves.
#[derive(Debug)]
pub struct Nearness {
    handler: Pid,
    /// Where the handler may run.
    everywhere: CpuSet,
    /// Whose faults these are, and how many there were in a row.
    thread: Option<Pid>,
    row: u32,
    /// Faults since the handler is bound to one processor; none if it is not.
    at_home: Option<u32>,
}

/// Where a program is of which one thread alone makes faults, for others of the arena's threads.
#[derive(Debug, Default)]
pub struct Home {
    /// The processor's number and one; 0 if several threads make faults.
    cpu: AtomicU32,
    /// The handler that alone waits for faults; 0 if all do.
    keeper: AtomicU32,
}

impl Home {
    fn cpu(&self) -> Option<usize> {
        (self.cpu.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    fn settle(&self, cpu: usize, handler: Pid) {
        self.cpu
            .store(u32::try_from(cpu + 1).unwrap_or(0), Ordering::Relaxed);
        let keeper = number(handler);
        let settled = self
            .keeper
            .compare_exchange(0, keeper, Ordering::AcqRel, Ordering::Acquire);
        if settled.is_err_and(|other| other != keeper) {
            // Each serves a thread of its own.
            self.leave();
        }
    }

    fn leave(&self) {
        self.cpu.store(0, Ordering::Relaxed);
        self.call_others();
    }

    /// Lets all handlers wait for faults, if one alone does. It calls them before it waits for anything itself, and
    /// in the child of a fork, where it is gone.
    pub fn call_others(&self) {
        if self.keeper.load(Ordering::Relaxed) != 0 && self.keeper.swap(0, Ordering::AcqRel) != 0 {
            let _ = futex::wake(&self.keeper, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// Whether no handler but this one alone waits for faults.
    pub fn lets_in(&self, handler: Pid) -> bool {
        let keeper = self.keeper.load(Ordering::Acquire);
        keeper == 0 || keeper == number(handler)
    }

    /// Waits while another handler alone waits for faults, at most for `timeout_ms`; whether none does.
    pub fn wait_outside(&self, handler: Pid, timeout_ms: u32) -> bool {
        let keeper = self.keeper.load(Ordering::Acquire);
        if keeper == 0 || keeper == number(handler) {
            return true;
        }
        let timeout = Timespec {
            tv_sec: i64::from(timeout_ms / 1000),
            tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000,
        };
        let _ = futex::wait(&self.keeper, futex::Flags::PRIVATE, keeper, Some(&timeout));
        self.lets_in(handler)
    }
}

fn number(handler: Pid) -> u32 {
    handler.as_raw_nonzero().get().unsigned_abs()
}

/// A thread of the arena that works where the program does, when one thread of it alone makes faults: what it takes
/// from the program's page table need not be told to another processor.
#[derive(Debug)]
pub struct Follower {
    /// Where it may run; none where there is no choice.
    everywhere: Option<CpuSet>,
    /// The processor to which it is bound.
    at: Option<usize>,
}

impl Follower {
    /// The calling thread.
    pub fn new() -> Self {
        let everywhere = sched_getaffinity(None).ok();
        Self {
            everywhere: everywhere.filter(|set| set.count() > 1),
            at: None,
        }
    }

    /// Goes where the program is, or anywhere if it is in several places.
    pub fn follow(&mut self, home: &Home) {
        let home = home.cpu();
        let Some(everywhere) = self.everywhere.as_ref().filter(|_| home != self.at) else {
            return;
        };
        let set = match home {
            Some(cpu) if everywhere.is_set(cpu) => only(cpu),
            _ => *everywhere,
        };
        // Where that fails it stays where it is, which does no harm but to speed.
        let _ = sched_setaffinity(None, &set);
        self.at = home;
    }
}

/// A thread that wakes up on the handler's processor.
#[derive(Debug)]
#[must_use = "the thread is bound to a processor until it is let go"]
pub struct Near {
    thread: Pid,
    before: CpuSet,
}

impl Nearness {
    /// For the calling thread; none where the system does not say where it may run.
    pub fn new() -> Option<Self> {
        let everywhere = sched_getaffinity(None).ok()?;
        (everywhere.count() > 1).then_some(Self {
            handler: gettid(),
            everywhere,
            thread: None,
            row: 0,
            at_home: None,
        })
    }

    /// Has a thread that waits for a page wake up here, if it is the only one that makes faults.
    pub fn bring(&mut self, thread: u32, home: &Home) -> Option<Near> {
        let thread = Pid::from_raw(i32::try_from(thread).ok()?)?;
        if self.thread == Some(thread) {
            self.row = self.row.saturating_add(1);
        } else {
            (self.thread, self.row) = (Some(thread), 0);
            self.leave_home();
            home.leave();
        }
        if !self.has_one_thread() {
            return None;
        }
        let here = self.stay()?;
        home.settle(here, self.handler);
        let before = sched_getaffinity(Some(thread)).ok()?;
        // Where the program wants it to run only elsewhere, or here anyway, there is nothing to do.
        if !before.is_set(here) || before.count() == 1 {
            return None;
        }
        sched_setaffinity(Some(thread), &only(here)).ok()?;
        Some(Near { thread, before })
    }

    /// Whether all faults are of one thread.
    pub fn has_one_thread(&self) -> bool {
        self.row >= FAULTS_IN_A_ROW
    }

    /// Binds the handler to the processor on which it is, and says which that is; now and then lets it go instead.
    fn stay(&mut self) -> Option<usize> {
        let here = sched_getcpu();
        match &mut self.at_home {
            Some(faults) if *faults < FAULTS_AT_HOME => *faults += 1,
            Some(_) => self.leave_home(),
            None => {
                sched_setaffinity(Some(self.handler), &only(here)).ok()?;
                self.at_home = Some(0);
            }
        }
        Some(here)
    }

    /// The scheduler chooses where the handler runs next.
    fn leave_home(&mut self) {
        if self.at_home.take().is_some() {
            // Where that fails it stays where it is, which does no harm but to speed.
            let _ = sched_setaffinity(Some(self.handler), &self.everywhere);
        }
    }
}

impl Near {
    /// The thread is awake, or about to be, and may run where it could before.
    pub fn let_go(self) {
        // It may be gone already.
        let _ = sched_setaffinity(Some(self.thread), &self.before);
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
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
            let (home, mut follower) = (Home::default(), Follower::new());
            home.settle(cpu.expect("a processor"), gettid());
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

    #[test]
    fn one_handler_waits_alone_until_it_calls_the_others() {
        let home = Home::default();
        let one = gettid();
        let other = std::thread::spawn(gettid).join().expect("a thread");
        assert!(home.lets_in(one) && home.lets_in(other));
        home.settle(0, one);
        assert!(home.wait_outside(one, 0) && !home.wait_outside(other, 1));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| while !home.wait_outside(other, 60_000) {});
            home.call_others();
            waits.join().expect("it is called");
        });
        assert_eq!(home.cpu(), Some(0));
    }

    #[test]
    fn two_handlers_with_a_thread_each_both_wait_for_faults() {
        let home = Home::default();
        let one = gettid();
        let other = std::thread::spawn(gettid).join().expect("a thread");
        home.settle(0, one);
        home.settle(1, other);
        assert!(home.lets_in(one) && home.lets_in(other));
        assert_eq!(home.cpu(), None);
    }
}
