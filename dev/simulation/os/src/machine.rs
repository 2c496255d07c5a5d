//! The machine: tasks in the place of threads, and a scheduler that a seed decides.
//!
//! All tasks of a simulation are coroutines on one thread of the real machine. A task runs until a *shared step* (an
//! access to an atomic, a lock, a call of the kernel) at which the scheduler takes the processor away. How many steps a
//! task gets in a row, and which task comes next, are drawn from the seed, as is everything else that is random. So a
//! seed replays exactly.
//!
//! Time is a number. It grows with every switch, and jumps to the next deadline when no task can run.

mod tasks;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

pub(crate) use self::tasks::Wait;
use self::tasks::{State, Tasks};
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

type Body = Box<dyn FnOnce()>;

/// One simulation.
pub(crate) struct Machine {
    pub random: Random,
    pub kernel: Kernel,
    now_ns: u64,
    tasks: Tasks,
    /// What new tasks are to do, in the order of their numbers.
    new: Vec<Body>,
    current: usize,
    /// Steps that a task gets in a row, about.
    slice: u32,
    /// In how many of a thousand switches a task is stalled.
    stalls: u32,
    switches: u64,
    progress_ns: u64,
    late_wakes: u64,
}

thread_local! {
    /// A reference, which needs no destructor: an access does not look whether one is registered.
    static MACHINE: RefCell<Option<&'static mut Machine>> = const { RefCell::new(None) };
    /// Steps until the next switch. 0 only ever means "ask the scheduler".
    static SLICE: Cell<u32> = const { Cell::new(0) };
    /// Nothing is achieved: the running task is to say where it is.
    static IS_STUCK: Cell<bool> = const { Cell::new(false) };
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

/// Asks the scheduler which task goes on, and gives the processor to that if it is another.
fn switch() {
    let yielder = YIELDER.get().unwrap_or_else(|| {
        panic!("a thread that is no task of the simulation waits for one");
    });
    let stays = machine(|m| {
        let before = m.current;
        m.choose();
        m.current == before
    });
    if !stays {
        // SAFETY: the yielder of the coroutine that is running lives on that coroutine's stack as long as its body runs,
        // and each sets its own whenever it begins or goes on.
        unsafe { &*yielder }.suspend(());
        YIELDER.set(Some(yielder));
    }
    if IS_STUCK.get() {
        machine(|m| panic!("nothing was achieved for {STUCK_NS} ns: {:#?}", m.tasks));
    }
}

/// Whether the caller is a task of a simulation.
pub(crate) fn is_task() -> bool {
    YIELDER.get().is_some()
}

/// Does something with the machine; `None` outside a simulation. Nothing in it takes a step.
#[inline]
pub(crate) fn with<R>(does: impl FnOnce(&mut Machine) -> R) -> Option<R> {
    MACHINE.with_borrow_mut(|machine| machine.as_deref_mut().map(does))
}

/// The same, where there is a simulation.
#[inline]
pub(crate) fn machine<R>(does: impl FnOnce(&mut Machine) -> R) -> R {
    with(does).unwrap_or_else(|| panic!("no simulation is running"))
}

/// Waits; whether the deadline ended it.
pub(crate) fn block(wait: Wait, timeout_ns: Option<u64>) -> bool {
    machine(|m| {
        let deadline = timeout_ns.map(|ns| m.now_ns + ns);
        m.tasks.set(m.current, State::Blocked(wait, deadline));
        m.tasks.get_mut(m.current).has_timed_out = false;
    });
    switch();
    machine(|m| m.tasks.get(m.current).has_timed_out)
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
        self.new.push(body);
        self.tasks.add(name)
    }

    /// Whether a task has ended.
    pub fn has_ended(&self, task: usize) -> bool {
        self.tasks.has_ended(task)
    }

    /// Takes the token of the running task.
    pub fn take_token(&mut self) -> bool {
        std::mem::take(&mut self.tasks.get_mut(self.current).has_token)
    }

    /// Gives a task its token.
    pub fn give_token(&mut self, task: usize) {
        self.tasks.get_mut(task).has_token = true;
        self.wake(usize::MAX, |wait| wait == Wait::Token(task));
    }

    /// Wakes at most so many tasks that wait for this, in a random order; how many.
    pub fn wake(&mut self, most: usize, is_it: impl Fn(Wait) -> bool) -> usize {
        self.tasks.wake(most, &mut self.random, is_it)
    }

    /// Chooses the task that goes on for some steps. One must be there that has not ended.
    fn choose(&mut self) {
        loop {
            self.switches += 1;
            self.now_ns += SWITCH_NS;
            self.tasks.pass(self.now_ns, self.switches);
            let ready = self.tasks.ready();
            if ready == 0 {
                self.skip();
                continue;
            }
            let nth = self.random.below(ready);
            let Some(task) = self.tasks.nth_ready(nth) else {
                continue;
            };
            if ready > 1 && self.random.per_mille(self.stalls) {
                // As if the real scheduler took the processor away for long.
                let until = self.switches + 1 + self.random.below(MOST_STALLED_SWITCHES);
                self.tasks.set(task, State::Stalled(until));
                continue;
            }
            self.current = task;
            SLICE.set(self.random.slice(self.slice));
            if self.is_stuck() {
                IS_STUCK.set(true);
            }
            return;
        }
    }

    /// The running task has ended; whether it was the last.
    fn end(&mut self) -> bool {
        let task = self.current;
        self.tasks.set(task, State::Ended);
        self.wake(usize::MAX, |wait| wait == Wait::Task(task));
        let is_last = self.tasks.have_ended();
        if !is_last {
            self.choose();
        }
        is_last
    }

    /// No task can run: goes on to where one can.
    fn skip(&mut self) {
        assert!(
            !self.is_stuck(),
            "nothing was achieved for {STUCK_NS} ns: {:#?}",
            self.tasks
        );
        match self.tasks.next_ends() {
            (Some(switch), _) => self.switches = switch,
            (None, Some(deadline_ns)) => {
                self.late_wakes += self.tasks.late_wakes();
                self.now_ns = deadline_ns;
            }
            (None, None) => panic!("all tasks wait for ever: {:#?}", self.tasks),
        }
    }

    /// Whether nothing was achieved for long.
    fn is_stuck(&self) -> bool {
        self.now_ns.saturating_sub(self.progress_ns) > STUCK_NS
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
        tasks: Tasks::default(),
        new: Vec::new(),
        current: 0,
        slice,
        stalls,
        switches: 0,
        progress_ns: 0,
        late_wakes: 0,
    };
    machine.spawn("main".into(), Box::new(main));
    MACHINE.set(Some(Box::leak(Box::new(machine))));
    IS_STUCK.set(false);
    // After a failure the tasks stay where they are: what they would do on their way out is no part of the simulation.
    let mut coroutines = std::mem::ManuallyDrop::new(Vec::new());
    self::machine(Machine::choose);
    loop {
        let current = self::machine(|m| {
            if !m.new.is_empty() {
                coroutines.extend(m.new.drain(..).map(|body| Some(coroutine(body))));
            }
            m.current
        });
        resume(&mut coroutines, current);
        if coroutines[current].is_none() {
            let is_last = self::machine(Machine::end);
            if is_last {
                break;
            }
        }
    }
    SLICE.set(0);
    let Some(leaked) = MACHINE.take() else {
        return Report::default();
    };
    // SAFETY: it was leaked above, and this was the only reference.
    let m = unsafe { Box::from_raw(leaked) };
    Report {
        switches: m.switches,
        time_ns: m.now_ns,
        late_wakes: m.late_wakes,
        kernel: m.kernel.counts,
    }
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

/// Lets a task run until another is chosen, or it ends.
fn resume(coroutines: &mut [Option<Stack>], task: usize) {
    let Some(coroutine) = &mut coroutines[task] else {
        panic!("an ended task was chosen");
    };
    let result = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
    YIELDER.set(None);
    match result {
        Ok(CoroutineResult::Yield(())) => {}
        Ok(CoroutineResult::Return(())) => coroutines[task] = None,
        Err(reason) => {
            let failed = MACHINE.take();
            let (name, switches) = failed.map_or((String::new(), 0), |m| {
                (m.tasks.get(task).name.clone(), m.switches)
            });
            SLICE.set(0);
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
