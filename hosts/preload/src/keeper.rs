//! The thread that takes the program's memory over when it nears its budget, and answers the command.
//!
//! There is none until the program has mapped more than its budget (files included where they are asked for), unless
//! a client wants to talk to it: a program that fits has nothing of this library running.

mod child;
mod descriptors;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libc::c_int;
use warmswap_program::Space;
use warmswap_protocol::{Answer, Phase, Reply, Request, Server, socket_path};
use warmswap_sys::process::run_like_main_thread;

pub use self::child::{forget, start_in_child};
use self::descriptors::{check_stderr, close_all_but, have_own_folders};
use crate::reentrancy::ReentrancyGuard;
use crate::settings::{Program, program, say};
use crate::{ends, fork, go, large, mover, report};

/// How often the keeper looks at what the program uses, until it is taken over.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a thread waits for the keeper that maps a file. It may hold what a new thread needs: libraries are
/// initialised under a lock of the loader's.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks at what the program does afterwards.
const TICK: Duration = Duration::from_millis(50);
/// A launch window that is not closed ends after so long without faults.
const LAUNCH_QUIET: Duration = Duration::from_millis(500);
/// And after so long in any case: a program that still faults works with more than there is room for.
const LAUNCH_LONGEST: Duration = Duration::from_secs(5);
/// CPU time in a tick below which a program does nothing.
const IDLE_CPU: Duration = Duration::from_micros(500);

/// Whether there is a keeper.
static IS_STARTED: AtomicBool = AtomicBool::new(false);
/// There is none, and will be none.
static HAS_GIVEN_UP: AtomicBool = AtomicBool::new(false);
/// It has what it needs to take the program's memory over.
static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
/// The program must not be paged.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
/// The keeper is to end: the program is not paged, and must have no thread of ours.
static IS_TO_END: AtomicBool = AtomicBool::new(false);
/// The program's memory is to be taken over, however little it is.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// A thread has the next three to itself.
static IS_LEAVING: AtomicBool = AtomicBool::new(false);
/// The addresses that it wants to be left to the kernel, first and behind the last.
static LEAVES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// They are not yet.
static HAS_TO_LEAVE: AtomicBool = AtomicBool::new(false);
/// Where the program stands: 0 foreground, 1 launch, 2 background.
static PHASE: AtomicU32 = AtomicU32::new(0);

pub fn phase() -> Phase {
    match PHASE.load(Ordering::Relaxed) {
        0 => Phase::Foreground,
        1 => Phase::Launch,
        _ => Phase::Background,
    }
}

/// The program mapped something.
pub fn mapped(space: &Space) {
    if !IS_STARTED.load(Ordering::Relaxed)
        && !IS_REFUSED.load(Ordering::Relaxed)
        && let Some(program) = program()
        && space.mapped_bytes() > program.settings.budget_bytes
    {
        start();
    }
}

/// Whether there is a keeper.
pub fn is_started() -> bool {
    IS_STARTED.load(Ordering::Acquire)
}

/// Starts the keeper, unless there is one.
pub fn start() {
    // Its thread is the library's.
    let _within = ReentrancyGuard::enter();
    if !IS_STARTED.swap(true, Ordering::AcqRel) {
        spawn(|program| program.space.attach().map_err(|error| error.to_string()));
    }
}

/// The program must not be paged from now on, and one line says so; false where it is already.
pub fn never_page(reason: &str) -> bool {
    let was_refused = IS_REFUSED.swap(true, Ordering::AcqRel);
    let is_adopted = program().is_some_and(|program| program.space.is_adopted());
    if is_adopted {
        IS_REFUSED.store(false, Ordering::Release);
    } else if !was_refused {
        report::runs_unpaged(reason);
        say(&format!("this program runs without paging: {reason}"));
    }
    !is_adopted
}

/// The same; and there is no keeper from now on.
pub fn end_unless_paged(reason: &str) -> bool {
    let is_unpaged = program().is_none() || never_page(reason);
    if is_unpaged && IS_STARTED.load(Ordering::Acquire) {
        IS_TO_END.store(true, Ordering::Release);
        // The keeper says that it is about to end by giving up.
        wait_for(|| false);
        wait_for_threads();
    }
    is_unpaged
}

/// Waits until threads of ours have ended, but not for ever.
fn wait_for_threads() {
    let begin = Instant::now();
    while ends::are_own_left() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The program is about to give up rights: opens what needs them, so that its memory can be taken over later.
pub fn attach_now() {
    if program().is_none() || !report::is_own_process() || IS_REFUSED.load(Ordering::Acquire) {
        return;
    }
    let _within = ReentrancyGuard::enter();
    start();
    wait_for(|| IS_ATTACHED.load(Ordering::Acquire));
}

/// Waits for the keeper, as long as there is one; whether it did what was waited for.
fn wait_for(is_done: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !is_done() {
        if HAS_GIVEN_UP.load(Ordering::Acquire) || begin.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The program is about to map a file of so many bytes: takes its memory over if that is more than its budget allows.
/// Whether it is taken over.
pub fn adopted_for(space: &Space, bytes: usize) -> bool {
    if space.is_adopted() {
        return true;
    }
    let budget = program().map_or(u64::MAX, |program| program.settings.budget_bytes);
    let is_refused = IS_REFUSED.load(Ordering::Relaxed);
    if is_refused || space.mapped_bytes() + bytes as u64 <= budget {
        return false;
    }
    IS_WANTED.store(true, Ordering::Release);
    start();
    wait_for(|| space.is_adopted())
}

/// The program wants to have the faults of this range itself: has the keeper leave it to the kernel, since only its table
/// of descriptors has the library's.
pub fn leave(range: &Range<usize>) {
    let wait_until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_until(&|| !IS_LEAVING.swap(true, Ordering::AcqRel));
    LEAVES[0].store(range.start, Ordering::Relaxed);
    LEAVES[1].store(range.end, Ordering::Relaxed);
    HAS_TO_LEAVE.store(true, Ordering::Release);
    wait_until(&|| !HAS_TO_LEAVE.load(Ordering::Acquire));
    IS_LEAVING.store(false, Ordering::Release);
}

/// Leaves the range that a thread waits for, if one does.
fn leave_wanted(space: &Space) {
    if HAS_TO_LEAVE.load(Ordering::Acquire) {
        let [start, end] = [0, 1].map(|i| LEAVES[i].load(Ordering::Relaxed));
        if let Err(error) = space.leave(&(start..end)) {
            die(&error.to_string());
        }
        HAS_TO_LEAVE.store(false, Ordering::Release);
    }
}

fn die(line: &str) -> ! {
    warmswap_arena::say(&format!("warmswap: {line}\n"));
    std::process::abort()
}

fn spawn(attach: impl FnOnce(&'static Program) -> Result<(), String> + Send + 'static) {
    if let Err(error) = try_spawn(Vec::new(), attach) {
        HAS_GIVEN_UP.store(true, Ordering::Release);
        let reason = format!("no thread: {error}");
        report::runs_unpaged(&reason);
        say(&format!("this program runs without paging: {reason}"));
    }
}

fn try_spawn(
    descriptors: Vec<c_int>,
    attach: impl FnOnce(&'static Program) -> Result<(), String> + Send + 'static,
) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("warmswap keeper".into());
    let started = thread.spawn(move || {
        let Some(program) = program() else { return };
        // All threads of ours begin here, and take after this one: not after whichever thread crossed the budget.
        run_like_main_thread();
        close_all_but(descriptors);
        have_own_folders();
        match attach(program) {
            Ok(()) => {
                IS_ATTACHED.store(true, Ordering::Release);
                Keeper::new(program).run();
                HAS_GIVEN_UP.store(true, Ordering::Release);
            }
            Err(error) => {
                HAS_GIVEN_UP.store(true, Ordering::Release);
                report::runs_unpaged(&error);
                warmswap_arena::say(&format!(
                    "warmswap: this program runs without paging: {error}\n"
                ));
            }
        }
    });
    started.map(drop)
}

struct Keeper {
    program: &'static Program,
    server: Option<Server>,
    is_adopted: bool,
    launched: Option<Instant>,
    activity: Activity,
    freed: large::Look,
    seen_alive: Instant,
}

/// What the program does, from tick to tick.
#[derive(Default)]
struct Activity {
    cpu: Duration,
    faults: u64,
    active_at: Option<Instant>,
    faulted_at: Option<Instant>,
}

impl Keeper {
    fn new(program: &'static Program) -> Self {
        Self {
            program,
            server: listen(program),
            is_adopted: program.space.is_adopted(),
            launched: None,
            activity: Activity::default(),
            freed: large::Look::default(),
            seen_alive: Instant::now(),
        }
    }

    /// Returns only if it is to end.
    fn run(mut self) {
        while !IS_TO_END.load(Ordering::Acquire) {
            let is_wanted = IS_WANTED.load(Ordering::Acquire) || self.is_near_budget();
            if !self.is_adopted && is_wanted && !IS_REFUSED.load(Ordering::Acquire) {
                self.adopt();
            }
            if self.is_adopted {
                leave_wanted(&self.program.space);
                self.freed.again(&self.program.space);
                mover::start_if_wanted(&self.program.space);
                if let Err(error) = self.program.space.recover() {
                    die(&error.to_string());
                }
            }
            let timeout = if self.is_adopted { TICK } else { LOOK_EVERY };
            self.answer(timeout);
            report::look(self.program);
            check_stderr();
            self.end_if_over();
            self.look();
        }
    }

    /// Ends the process whose threads have all ended but those of this library.
    fn end_if_over(&mut self) {
        if self.seen_alive.elapsed() >= TICK {
            self.seen_alive = Instant::now();
            if let Some(status) = ends::status_of_ended() {
                report::exit(status);
            }
        }
    }

    /// Takes the program's memory over. Where that cannot be, as without another thread, it stays the kernel's.
    fn adopt(&mut self) {
        if fork::may_lock_allocator() {
            never_page("its own memory allocator may be locked in a fork");
            return;
        }
        if go::is_loaded() {
            never_page(go::REASON);
            return;
        }
        match self.program.space.adopt() {
            Ok(()) => self.is_adopted = true,
            Err(error) if self.program.space.is_adopted() => die(&error.to_string()),
            Err(error) => {
                never_page(&error.to_string());
            }
        }
    }

    /// Whether the program uses half of its budget already. More than that is mapped.
    fn is_near_budget(&self) -> bool {
        let budget = self.program.settings.budget_bytes;
        self.program.space.mapped_bytes() > budget && anonymous_bytes() > budget / 2
    }

    fn answer(&mut self, timeout: Duration) {
        let Some(mut server) = self.server.take() else {
            std::thread::sleep(timeout);
            return;
        };
        let polled = server.poll_once(Some(timeout), |request| self.carry_out(&request));
        if polled.is_err() {
            std::thread::sleep(timeout);
        }
        self.server = Some(server);
    }

    fn carry_out(&mut self, request: &Request) -> Reply {
        match request {
            Request::Status => Ok(Answer::Status(report::stats(self.program).status())),
            Request::Stats => Ok(Answer::Stats(Box::new(report::stats(self.program)))),
            Request::Background => {
                self.background();
                Ok(Answer::Done)
            }
            Request::Foreground => {
                self.foreground();
                Ok(Answer::Done)
            }
            Request::LaunchDone => {
                self.launch_done(Instant::now());
                Ok(Answer::Done)
            }
            _ => Err(warmswap_protocol::Refusal::new(
                warmswap_protocol::RefusalKind::Unknown,
                "not known to paged programs of this version",
            )),
        }
    }

    fn background(&mut self) {
        self.launched = None;
        PHASE.store(2, Ordering::Relaxed);
        self.program.space.application().background();
    }

    fn foreground(&mut self) {
        if self.launched.replace(Instant::now()).is_none() {
            PHASE.store(1, Ordering::Relaxed);
            self.activity.faulted_at = self.launched;
            self.program.space.application().foreground();
        }
    }

    fn launch_done(&mut self, at: Instant) {
        if let Some(start) = self.launched.take() {
            self.program.space.application().launch_done();
            PHASE.store(0, Ordering::Relaxed);
            report::launched(at.saturating_duration_since(start));
        }
    }

    /// Notices what the program does: a launch that has ended, a program that rests, one that is back.
    fn look(&mut self) {
        let now = Instant::now();
        let faults = self.program.space.awaited_faults();
        let has_faulted = faults != self.activity.faults;
        self.activity.faults = faults;
        if has_faulted {
            self.activity.faulted_at = Some(now);
        }
        let since = |time: Option<Instant>| time.map_or(Duration::ZERO, |time| now - time);
        let without_faults = since(self.activity.faulted_at);
        if self.launched.is_some() && without_faults > LAUNCH_QUIET {
            self.launch_done(now - without_faults);
        } else if since(self.launched) > LAUNCH_LONGEST {
            self.launch_done(now);
        }
        if let Some(idle_after_ms) = self.program.settings.idle_after_ms {
            self.look_whether_idle(now, has_faulted, Duration::from_millis(idle_after_ms));
        }
    }

    fn look_whether_idle(&mut self, now: Instant, has_faulted: bool, idle_after: Duration) {
        let cpu = report::program_cpu().saturating_sub(self.program.space.cpu_time());
        let activity = &mut self.activity;
        let is_active = has_faulted || cpu.saturating_sub(activity.cpu) > IDLE_CPU;
        activity.cpu = cpu;
        if is_active {
            activity.active_at = Some(now);
        }
        let active_at = *activity.active_at.get_or_insert(now);
        if is_active && phase() == Phase::Background {
            self.foreground();
        } else if now - active_at > idle_after && phase() == Phase::Foreground {
            self.background();
        }
    }
}

/// Listens where the command looks for the program. Without a socket the program is paged all the same.
fn listen(program: &Program) -> Option<Server> {
    let own = || socket_path(std::process::id()).map_err(|error| error.to_string());
    let bind = |path: &std::path::Path| Server::bind(path).map_err(|error| error.to_string());
    let server = match &program.settings.control {
        // Another process of the same program may be there already.
        Some(path) => bind(path).or_else(|_| bind(&own()?)),
        None => own().and_then(|path| bind(&path)),
    };
    match server {
        Ok(server) => {
            report::listens_at(server.path());
            Some(server)
        }
        Err(error) => {
            warmswap_arena::say(&format!("warmswap: no control socket: {error}\n"));
            None
        }
    }
}

/// Anonymous memory of this process in frames.
fn anonymous_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut fields = statm.split(' ').map(|field| field.parse().unwrap_or(0u64));
    let (resident, shared) = (fields.nth(1).unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared) * 4096
}
