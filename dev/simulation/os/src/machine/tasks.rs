//! The tasks of a machine: what each waits for, and which of them can run.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::random::Random;

/// The first bit of the gate's word that is no count.
const CLOSING: u32 = 1 << 30;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The value of the word at this address is no longer this.
    Futex(usize, u32),
    /// A lock or a condition variable at this address.
    Lock(usize),
    /// The page of this number to be there, or to be writable.
    Page(usize),
    /// An event of the userfaultfd.
    Event,
    /// The end of a task.
    Task(usize),
    /// A token for this task.
    Token(usize),
    /// The deadline.
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// Ready, but not before that switch.
    Stalled(u64),
    Blocked(Wait, Option<u64>),
    Ended,
}

#[derive(Debug)]
pub(super) struct Task {
    pub name: String,
    state: State,
    /// Whether the last wait ended by its deadline.
    pub has_timed_out: bool,
    /// `unpark` was called.
    pub has_token: bool,
}

/// All tasks, by number. That one becomes ready by time, or by the number of switches, is noticed in [`Self::pass`].
#[derive(Debug)]
pub(super) struct Tasks {
    tasks: Vec<Task>,
    /// A bit for each that is ready.
    ready: Vec<u64>,
    alive: usize,
    /// No deadline of a task that waits is earlier; it may belong to one that was woken.
    earliest_ns: u64,
    /// No task that is stalled goes on at an earlier switch.
    stalled_until: u64,
}

/// No end.
const NEVER: u64 = u64::MAX;

impl Default for Tasks {
    fn default() -> Self {
        Self {
            tasks: Vec::new(),
            ready: Vec::new(),
            alive: 0,
            earliest_ns: NEVER,
            stalled_until: NEVER,
        }
    }
}

impl Tasks {
    /// Adds a task that is ready; its number.
    pub fn add(&mut self, name: String) -> usize {
        let number = self.tasks.len();
        self.tasks.push(Task {
            name,
            state: State::Ready,
            has_timed_out: false,
            has_token: false,
        });
        self.alive += 1;
        self.ready.resize(number / 64 + 1, 0);
        self.ready[number / 64] |= 1 << (number % 64);
        number
    }

    pub fn get_mut(&mut self, task: usize) -> &mut Task {
        &mut self.tasks[task]
    }

    pub fn get(&self, task: usize) -> &Task {
        &self.tasks[task]
    }

    pub fn has_ended(&self, task: usize) -> bool {
        self.tasks[task].state == State::Ended
    }

    /// Whether all have ended.
    pub fn have_ended(&self) -> bool {
        self.alive == 0
    }

    pub fn set(&mut self, task: usize, state: State) {
        let bit = 1 << (task % 64);
        if state == State::Ready {
            self.ready[task / 64] |= bit;
        } else {
            self.ready[task / 64] &= !bit;
        }
        match state {
            State::Stalled(until) => self.stalled_until = self.stalled_until.min(until),
            State::Blocked(_, Some(deadline_ns)) => {
                self.earliest_ns = self.earliest_ns.min(deadline_ns);
            }
            State::Ended => self.alive -= 1,
            State::Ready | State::Blocked(_, None) => {}
        }
        self.tasks[task].state = state;
    }

    /// Time and switches have gone on to these: tasks whose deadlines are over, or that are not stalled any more, are
    /// ready.
    #[inline]
    pub fn pass(&mut self, now_ns: u64, switches: u64) {
        if self.earliest_ns <= now_ns || self.stalled_until <= switches {
            self.notice(now_ns, switches);
        }
    }

    fn notice(&mut self, now_ns: u64, switches: u64) {
        (self.earliest_ns, self.stalled_until) = (NEVER, NEVER);
        for task in 0..self.tasks.len() {
            match self.tasks[task].state {
                State::Blocked(_, Some(deadline_ns)) if deadline_ns <= now_ns => {
                    self.set(task, State::Ready);
                    self.tasks[task].has_timed_out = true;
                }
                State::Stalled(until) if until <= switches => self.set(task, State::Ready),
                // Takes its end in again.
                state @ (State::Blocked(_, Some(_)) | State::Stalled(_)) => self.set(task, state),
                _ => {}
            }
        }
    }

    /// How many are ready.
    #[inline]
    pub fn ready(&self) -> u64 {
        self.ready
            .iter()
            .map(|bits| u64::from(bits.count_ones()))
            .sum()
    }

    /// The task before which so many are ready.
    pub fn nth_ready(&self, mut nth: u64) -> Option<usize> {
        for (word, &bits) in self.ready.iter().enumerate() {
            let count = u64::from(bits.count_ones());
            if nth < count {
                let rest = (0..nth).fold(bits, |bits, _| bits & (bits - 1));
                return Some(word * 64 + rest.trailing_zeros() as usize);
            }
            nth -= count;
        }
        None
    }

    /// The switch at which the first stalled task goes on, and the earliest deadline.
    pub fn next_ends(&self) -> (Option<u64>, Option<u64>) {
        let (mut switch, mut deadline_ns) = (None, None);
        for task in &self.tasks {
            match task.state {
                State::Stalled(until) => lower(&mut switch, until),
                State::Blocked(_, Some(end_ns)) => lower(&mut deadline_ns, end_ns),
                _ => {}
            }
        }
        (switch, deadline_ns)
    }

    /// Wakes at most so many tasks that wait for this, in a random order; how many.
    pub fn wake(
        &mut self,
        most: usize,
        random: &mut Random,
        is_it: impl Fn(Wait) -> bool,
    ) -> usize {
        let waits = |task: &Task| matches!(task.state, State::Blocked(wait, _) if is_it(wait));
        let mut count = self.tasks.iter().filter(|task| waits(task)).count();
        let mut woken = 0;
        let mut rest = most;
        for task in 0..self.tasks.len() {
            if rest == 0 || count == 0 {
                break;
            }
            if waits(&self.tasks[task]) {
                // Each has the same chance.
                if rest >= count || random.below(count as u64) < rest as u64 {
                    self.set(task, State::Ready);
                    rest -= 1;
                    woken += 1;
                }
                count -= 1;
            }
        }
        woken
    }

    /// Sleepers on a futex whose word has changed. Where no task can run, none is left that is about to wake them.
    pub fn late_wakes(&self) -> u64 {
        let is_late = |task: &&Task| {
            // A count of a closing gate changes while others still are to leave it, of whom the last one wakes.
            let State::Blocked(Wait::Futex(address, seen), _) = task.state else {
                return false;
            };
            let word: *const AtomicU32 = std::ptr::with_exposed_provenance(address);
            // SAFETY: the task is within `futex::wait`, which borrows the word.
            seen < CLOSING && unsafe { &*word }.load(Ordering::Relaxed) != seen
        };
        self.tasks.iter().filter(is_late).count() as u64
    }
}

fn lower(bound: &mut Option<u64>, to: u64) {
    *bound = Some(bound.map_or(to, |bound| bound.min(to)));
}
