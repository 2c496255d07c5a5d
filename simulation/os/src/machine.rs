//! The machine: tasks in the place of threads, and a scheduler that a seed decides.
//!
//! All tasks of a simulation are coroutines on one thread of the real machine. A task runs until a *shared step* (an
//! access to an atomic, a lock, a call of the kernel) at which the scheduler takes the processor away. How many steps a
//! task gets in a row, and which task comes next, are drawn from the seed, as is everything else that is random. So a
//! seed replays exactly.
//!
//! Time is a number. It grows with every switch, and jumps to the next deadline when no task can run.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::kernel::Kernel;
use crate::random::Random;

/// Bytes of a task's stack. A fault takes up to 32 KiB of it.
const STACK_BYTES: usize = 512 << 10;

/// What a switch takes, so that a task that spins does not stop the clock.
const SWITCH_NS: u64 = 500;

/// Time without progress after which the simulation counts as stuck.
const STUCK_NS: u64 = 20_000_000_000;

/// A task that is passed over is passed over for up to so many switches.
const MOST_STALLED_SWITCHES: u64 = 2000;

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
enum State {
    Ready,
    /// Ready, but not before that switch.
    Stalled(u64),
    Blocked(Wait, Option<u64>),
    Ended,
}

#[derive(Debug)]
struct Task {
    name: String,
    state: State,
    /// Whether the last wait ended by its deadline.
    has_timed_out: bool,
    /// `unpark` was called.
    pub has_token: bool,
}

type Body = Box<dyn FnOnce()>;

/// One simulation.
pub(crate) struct Machine {
    pub random: Random,
    pub kernel: Kernel,
    now_ns: u64,
    tasks: Vec<Task>,
    new: Vec<(usize, Body)>,
    current: usize,
    /// Steps that a task gets in a row, about.
    slice: u32,
    /// In how many of a thousand switches a task is stalled.
    stalls: u32,
    switches: u64,
    progress_ns: u64,
    /// A task that runs is to say where.
    is_stuck: bool,
    late_wakes: u64,
}

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
    /// Steps until the next switch. 0 only ever means "ask the scheduler".
    static SLICE: Cell<u32> = const { Cell::new(0) };
    static YIELDER: Cell<Option<*const Yielder<(), ()>>> = const { Cell::new(None) };
}

/// What a simulation counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Switches between tasks.
    pub switches: u64,
    /// Simulated time, in nanoseconds.
    pub time_ns: u64,
    /// Sleepers on a futex whose word had changed while no task could run: only a time limit woke them.
    pub late_wakes: u64,
    /// What the kernel did.
    pub kernel: crate::kernel::Counts,
}

/// A shared step: the scheduler may give the processor to another task here.
#[inline]
pub fn step() {
    let left = SLICE.get();
    if left > 0 {
        SLICE.set(left - 1);
    } else {
        end_of_slice();
    }
}

#[cold]
fn end_of_slice() {
    if YIELDER.get().is_some() {
        switch();
    } else {
        // No task: a test without a simulation, or its preparation.
        SLICE.set(u32::MAX);
    }
}

/// Gives the processor to the scheduler, which may give it back at once.
fn switch() {
    let yielder = YIELDER.get().unwrap_or_else(|| {
        panic!("a thread that is no task of the simulation waits for one");
    });
    // SAFETY: the yielder of the coroutine that is running lives on that coroutine's stack as long as its body runs, and
    // the scheduler sets it before it resumes one.
    unsafe { &*yielder }.suspend(());
    let stuck = with(|m| m.is_stuck.then(|| format!("{:#?}", m.tasks)));
    if let Some(tasks) = stuck.flatten() {
        panic!("nothing was achieved for {STUCK_NS} ns: {tasks}");
    }
}

/// Whether the caller is a task of a simulation.
pub(crate) fn is_task() -> bool {
    YIELDER.get().is_some()
}

/// Does something with the machine; `None` outside a simulation. Nothing in it takes a step.
pub(crate) fn with<R>(does: impl FnOnce(&mut Machine) -> R) -> Option<R> {
    MACHINE.with_borrow_mut(|machine| machine.as_mut().map(does))
}

/// The same, where there is a simulation.
pub(crate) fn machine<R>(does: impl FnOnce(&mut Machine) -> R) -> R {
    with(does).unwrap_or_else(|| panic!("no simulation is running"))
}

/// Waits; whether the deadline ended it.
pub(crate) fn block(wait: Wait, timeout_ns: Option<u64>) -> bool {
    machine(|m| {
        let deadline = timeout_ns.map(|ns| m.now_ns + ns);
        let current = m.current;
        m.tasks[current].state = State::Blocked(wait, deadline);
        m.tasks[current].has_timed_out = false;
    });
    switch();
    machine(|m| m.tasks[m.current].has_timed_out)
}

/// Lets other tasks go first.
pub fn yield_now() {
    if is_task() {
        machine(|m| m.now_ns += SWITCH_NS);
        switch();
    }
}

/// Draws a number below `end`.
pub fn draw(end: u64) -> u64 {
    machine(|m| m.random.below(end))
}

/// Something was achieved: the simulation is not stuck.
pub fn progress() {
    machine(|m| m.progress_ns = m.now_ns);
}

/// Simulated time in nanoseconds.
pub fn now_ns() -> u64 {
    with(|m| m.now_ns).unwrap_or(0)
}

impl Machine {
    /// The number of the running task.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Adds a task; its number.
    pub fn spawn(&mut self, name: String, body: Body) -> usize {
        let number = self.tasks.len();
        self.tasks.push(Task {
            name,
            state: State::Ready,
            has_timed_out: false,
            has_token: false,
        });
        self.new.push((number, body));
        number
    }

    /// Whether a task has ended.
    pub fn has_ended(&self, task: usize) -> bool {
        self.tasks[task].state == State::Ended
    }

    /// Takes the token of the running task.
    pub fn take_token(&mut self) -> bool {
        std::mem::take(&mut self.tasks[self.current].has_token)
    }

    /// Gives a task its token.
    pub fn give_token(&mut self, task: usize) {
        self.tasks[task].has_token = true;
        self.wake(usize::MAX, |wait| wait == Wait::Token(task));
    }

    /// Wakes at most so many tasks that wait for this, in a random order; how many.
    pub fn wake(&mut self, most: usize, is_it: impl Fn(Wait) -> bool) -> usize {
        let waits = |state| matches!(state, State::Blocked(wait, _) if is_it(wait));
        let mut count = self.tasks.iter().filter(|task| waits(task.state)).count();
        let mut woken = 0;
        let mut rest = most;
        for i in 0..self.tasks.len() {
            if rest == 0 || count == 0 {
                break;
            }
            if waits(self.tasks[i].state) {
                // Each has the same chance.
                if rest >= count || self.random.below(count as u64) < rest as u64 {
                    self.tasks[i].state = State::Ready;
                    rest -= 1;
                    woken += 1;
                }
                count -= 1;
            }
        }
        woken
    }

    /// The task that runs next; `None` when all have ended.
    fn next(&mut self) -> Option<usize> {
        loop {
            self.switches += 1;
            self.now_ns += SWITCH_NS;
            let (now, switches) = (self.now_ns, self.switches);
            let (mut ready, mut earliest, mut stalled, mut alive) = (0, u64::MAX, u64::MAX, false);
            for task in &mut self.tasks {
                match task.state {
                    State::Blocked(_, Some(deadline)) if deadline <= now => {
                        task.state = State::Ready;
                        task.has_timed_out = true;
                    }
                    State::Blocked(_, Some(deadline)) => earliest = earliest.min(deadline),
                    State::Stalled(until) if until <= switches => task.state = State::Ready,
                    State::Stalled(until) => stalled = stalled.min(until),
                    _ => {}
                }
                alive |= task.state != State::Ended;
                ready += u64::from(task.state == State::Ready);
            }
            if !alive {
                return None;
            }
            self.is_stuck = now.saturating_sub(self.progress_ns) > STUCK_NS;
            if self.is_stuck && ready == 0 {
                panic!("nothing was achieved for {STUCK_NS} ns: {:#?}", self.tasks);
            }
            if ready > 0 {
                let nth = self.random.below(ready) as usize;
                let is_ready = |(_, task): &(usize, &Task)| task.state == State::Ready;
                let found = self.tasks.iter().enumerate().filter(is_ready).nth(nth);
                let task = found.map(|(number, _)| number)?;
                if ready > 1 && self.random.per_mille(self.stalls) {
                    // As if the real scheduler took the processor away for long.
                    let until = self.switches + 1 + self.random.below(MOST_STALLED_SWITCHES);
                    self.tasks[task].state = State::Stalled(until);
                    continue;
                }
                return Some(task);
            }
            if stalled != u64::MAX {
                self.switches = stalled;
            } else if earliest == u64::MAX {
                panic!("all tasks wait for ever: {:#?}", self.tasks);
            } else {
                self.count_late_wakes();
                self.now_ns = earliest;
            }
        }
    }

    /// No task can run. A word that has changed under a sleeper by now has no one left who is about to wake it.
    fn count_late_wakes(&mut self) {
        for task in &self.tasks {
            // A count of a closing gate changes while others still are to leave it, of whom the last one wakes.
            if let State::Blocked(Wait::Futex(address, seen), _) = task.state
                && seen < CLOSING
            {
                let word: *const AtomicU32 = std::ptr::with_exposed_provenance(address);
                // SAFETY: the task is within `futex::wait`, which borrows the word.
                let value = unsafe { &*word }.load(Ordering::Relaxed);
                self.late_wakes += u64::from(value != seen);
            }
        }
    }
}

/// How a simulation is run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Decides everything.
    pub seed: u64,
    /// What the kernel refuses.
    pub kernel: crate::kernel::Config,
}

/// Runs `main` and all tasks that it starts to their ends.
///
/// # Panics
/// When a task does, when all wait for ever, and when nothing is achieved for long.
pub fn run(config: Config, main: impl FnOnce() + 'static) -> Report {
    name_seed(config.seed);
    let mut random = Random::new(config.seed);
    let slice = [1, 2, 8, 32, 128][random.below(5) as usize];
    let stalls = [0, 1, 10, 50][random.below(4) as usize];
    let mut machine = Machine {
        random,
        kernel: Kernel::new(config.kernel),
        now_ns: 0,
        tasks: Vec::new(),
        new: Vec::new(),
        current: 0,
        slice,
        stalls,
        switches: 0,
        progress_ns: 0,
        is_stuck: false,
        late_wakes: 0,
    };
    machine.spawn("main".into(), Box::new(main));
    MACHINE.set(Some(machine));
    // After a failure the tasks stay where they are: what they would do on their way out is no part of the simulation.
    let mut coroutines = std::mem::ManuallyDrop::new(Vec::new());
    while let Some(task) = self::machine(Machine::next) {
        let new = self::machine(|m| {
            m.current = task;
            std::mem::take(&mut m.new)
        });
        for (number, body) in new {
            debug_assert_eq!(number, coroutines.len());
            coroutines.push(Some(coroutine(body)));
        }
        resume(&mut coroutines, task);
    }
    let machine = MACHINE.take();
    machine.map_or_else(Report::default, |m| Report {
        switches: m.switches,
        time_ns: m.now_ns,
        late_wakes: m.late_wakes,
        kernel: m.kernel.counts,
    })
}

/// Has every panic name the seed, also one that cannot unwind.
fn name_seed(seed: u64) {
    thread_local! {
        static SEED: Cell<u64> = const { Cell::new(0) };
    }
    static HOOK: std::sync::Once = std::sync::Once::new();
    SEED.set(seed);
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            eprintln!("simulation: this is seed {}", SEED.get());
            usual(info);
        }));
    });
}

type Stack = Coroutine<(), (), (), DefaultStack>;

fn coroutine(body: Body) -> Stack {
    let stack = DefaultStack::new(STACK_BYTES).expect("memory for a stack");
    Coroutine::with_stack(stack, move |yielder, ()| {
        YIELDER.set(Some(yielder));
        body();
    })
}

/// Lets a task run until its next switch.
fn resume(coroutines: &mut [Option<Stack>], task: usize) {
    thread_local! {
        static YIELDERS: RefCell<Vec<Option<*const Yielder<(), ()>>>> = const { RefCell::new(Vec::new()) };
    }
    let Some(mut coroutine) = coroutines[task].take() else {
        panic!("an ended task was chosen");
    };
    let slice = machine(|m| m.random.slice(m.slice));
    SLICE.set(slice);
    let yielder = YIELDERS.with_borrow_mut(|yielders| {
        yielders.resize(yielders.len().max(coroutines.len()), None);
        yielders[task]
    });
    // A new task says itself what its yielder is.
    YIELDER.set(yielder.filter(|_| coroutine.started()));
    let result = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
    let own = YIELDER.replace(None);
    YIELDERS.with_borrow_mut(|yielders| yielders[task] = own);
    SLICE.set(0);
    match result {
        Ok(CoroutineResult::Yield(())) => coroutines[task] = Some(coroutine),
        Ok(CoroutineResult::Return(())) => machine(|m| {
            m.tasks[task].state = State::Ended;
            m.wake(usize::MAX, |wait| wait == Wait::Task(task));
        }),
        Err(reason) => {
            std::mem::forget(coroutine);
            let failed = MACHINE.take();
            let (name, switches) = failed.map_or((String::new(), 0), |m| {
                let failed = (m.tasks[task].name.clone(), m.switches);
                std::mem::forget(m);
                failed
            });
            eprintln!("simulation: task {name:?} failed after {switches} switches");
            resume_unwind(reason);
        }
    }
}

impl Machine {
    /// Simulated time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now_ns
    }
}
