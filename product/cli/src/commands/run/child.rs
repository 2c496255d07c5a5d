//! The program while it runs: signals are passed on to it, and this process stops and ends when it does.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGURG,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use warmswap_sys::Root;
use warmswap_sys::process::Stat;

/// Signals that are passed on, besides those of real time. SIGTSTP is among them, so that this process stops only when the program
/// did, which may have something to do before. SIGTTOU is not: a terminal sends it again until a background process stops.
const SIGNALS: [i32; 18] = [
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGABRT, SIGALRM,
    SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, SIGURG, SIGWINCH, SIGPWR, SIGSTKFLT,
];

/// Signals that signal-hook has no names for.
const SIGSTKFLT: i32 = 16;
const SIGPWR: i32 = 30;

/// Signals of timers that outlive an `exec`: a process that has one and becomes this command has meant the program.
const TIMERS: [i32; 3] = [SIGALRM, SIGVTALRM, SIGPROF];

/// The first signal of real time that the C library leaves to programs, and how many there are.
const FIRST_REAL_TIME: i32 = 34;
const REAL_TIME: i32 = 31;

/// A program that stopped and is to stay so is stopped for longer.
const STAYS_STOPPED: Duration = Duration::from_millis(20);

/// The signals that this process is sent, caught from the moment of [`Signals::catch`] until it ends.
#[derive(Debug)]
pub struct Signals(SignalsInfo<WithOrigin>);

impl Signals {
    /// Catches them. Those that this process was started to ignore stay ignored.
    pub fn catch() -> io::Result<Self> {
        let real_time = FIRST_REAL_TIME..FIRST_REAL_TIME + REAL_TIME;
        let all = SIGNALS.into_iter().chain(real_time);
        let caught: Vec<_> = all.filter(|&signal| !is_ignored(signal)).collect();
        SignalsInfo::<WithOrigin>::new(&caught).map(Self)
    }
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended<T> {
    /// The process that it was.
    pub pid: u32,
    /// Its status.
    pub status: ExitStatus,
    /// What the observer returned; `None` if it failed.
    pub seen: Option<T>,
}

/// Runs `command` to its end. `observe` runs in a thread of its own meanwhile, with the process's number and a channel
/// that closes when the process has ended.
pub fn run<T: Send>(
    command: &mut Command,
    signals: &mut Signals,
    observe: impl FnOnce(u32, Receiver<()>) -> T + Send,
) -> io::Result<Ended<T>> {
    let listener = signals.0.handle();
    let child = command.spawn()?;
    let pid = child.id();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for origin in signals.0.forever() {
                pass_on(&origin, pid);
            }
        });
        let (ended, end) = channel::<()>();
        let observer = scope.spawn(move || observe(pid, end));
        let status = wait(pid);
        listener.close();
        drop(ended);
        let seen = observer.join().ok();
        Ok(Ended {
            pid,
            status: status?,
            seen,
        })
    })
}

/// Waits until the process ends. When it stops, so does this process: a shell sees its job stop.
fn wait(pid: u32) -> io::Result<ExitStatus> {
    let process = process(pid).ok_or(io::ErrorKind::NotFound)?;
    loop {
        let status = match waitpid(Some(process), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => status,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if !status.stopped() {
            return Ok(ExitStatus::from_raw(status.as_raw()));
        }
        std::thread::sleep(STAYS_STOPPED);
        let stat = Stat::read(&Root::machine(), pid);
        if stat.is_ok_and(|stat| matches!(stat.state, 'T' | 't')) {
            // It is passed SIGCONT when this process is sent one.
            kill_process(getpid(), Signal::STOP)?;
        }
    }
}

fn process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Whether this process was started to ignore the signal, as by `nohup`. The program inherits that.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = set.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & 1 << (signal - 1) != 0)
}

/// Sends the program a signal that this process was sent. What a terminal sends, it sends to both; what the kernel says of this
/// process's own files and limits is not for the program.
fn pass_on(origin: &Origin, pid: u32) {
    if matches!(origin.cause, Cause::Kernel) && !TIMERS.contains(&origin.signal) {
        return;
    }
    // The number is the program's until it is waited for; if it ended meanwhile, there is nothing to tell.
    let _ = warmswap_sys::process::send_signal(pid, origin.signal);
}
