//! The program while it runs: signals are passed on to it, and its statistics are asked for.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use warmswap_control::{Client, ProgramStats, RunSettings, socket_path};

/// Signals that are passed on.
const SIGNALS: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// How often the program is asked for its statistics, in case it is killed, and how long it has to answer.
const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(500);

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// The process that it was.
    pub pid: u32,
    /// Its status.
    pub status: ExitStatus,
    /// The last answer that it gave while it ran.
    pub last_stats: Option<ProgramStats>,
}

/// Runs `command` to its end.
pub fn run(command: &mut Command, settings: &RunSettings) -> io::Result<Ended> {
    // From here on signals wait until they can be passed on; none ends this process and leaves the program.
    let caught: Vec<_> = SIGNALS.into_iter().filter(|&s| !is_ignored(s)).collect();
    let mut signals = SignalsInfo::<WithOrigin>::new(&caught)?;
    let listener = signals.handle();
    let mut child = command.spawn()?;
    let pid = child.id();
    let socket = settings.control.clone().or_else(|| socket_path(pid).ok());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for origin in &mut signals {
                pass_on(&origin, pid);
            }
        });
        let (ended, end) = channel::<()>();
        let watcher = scope.spawn(move || watch(pid, socket?, &end, INTERVAL));
        let status = child.wait();
        listener.close();
        drop(ended);
        // A watcher that failed knows nothing.
        let last_stats = watcher.join().unwrap_or_default();
        Ok(Ended {
            pid,
            status: status?,
            last_stats,
        })
    })
}

/// Whether whoever started this process wants the signal ignored, as `nohup` does. The program inherits that.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = set.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & 1 << (signal - 1) != 0)
}

/// Sends the program a signal that this process was sent. What a terminal sends, it sends to both.
fn pass_on(origin: &Origin, pid: u32) {
    if matches!(origin.cause, Cause::Kernel) {
        return;
    }
    let signal = rustix::process::Signal::from_named_raw(origin.signal);
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let (Some(signal), Some(pid)) = (signal, pid) {
        // The number is the program's until it is waited for; if it ended meanwhile, there is nobody to tell.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Asks the program for its statistics until it ends, and returns its last answer.
fn watch(
    pid: u32,
    socket: PathBuf,
    end: &Receiver<()>,
    interval: Duration,
) -> Option<ProgramStats> {
    let mut client: Option<Client> = None;
    let mut last = None;
    while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let mut connected = client
            .take()
            .or_else(|| Client::connect(&socket, TIMEOUT).ok());
        let answer = connected.as_mut().map(Client::stats);
        if let Some(Ok(stats)) = answer {
            client = connected;
            // Another process of the program's may listen there.
            if stats.pid == pid {
                last = Some(stats);
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_control::{Answer, Request, Server};

    /// Watches process 7 while process `pid` listens and answers twice.
    fn watched(pid: u32) -> Option<ProgramStats> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("7.sock");
        let (ended, end) = channel::<()>();
        std::thread::scope(|scope| {
            let path = socket.clone();
            let watcher = scope.spawn(move || watch(7, path, &end, Duration::from_millis(1)));
            let mut server = Server::bind(&socket).unwrap();
            let mut answers = 0;
            while answers < 2 {
                let answer = |request| {
                    assert_eq!(request, Request::Stats);
                    answers += 1;
                    Ok(Answer::Stats(Box::new(ProgramStats {
                        pid,
                        swapped_out_pages: answers,
                        ..ProgramStats::default()
                    })))
                };
                server.poll_once(None, answer).unwrap();
            }
            // Killed: the socket file stays, and nobody listens.
            drop(server);
            drop(ended);
            watcher.join().unwrap()
        })
    }

    #[test]
    fn the_last_answer_of_a_program_that_is_killed_is_kept() {
        // The second answer may be lost with the socket.
        let last = watched(7).unwrap().swapped_out_pages;
        assert!((1..=2).contains(&last), "{last}");
    }

    #[test]
    fn another_process_on_the_socket_is_not_the_program() {
        assert_eq!(watched(8), None);
    }
}
