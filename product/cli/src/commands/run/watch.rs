//! What the paged processes of a program answer while it runs. It is all that is known of those that write nothing at
//! their ends: killed ones, and those that become another program (exec).

use std::cmp::Ordering::Equal;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;
use warmswap_protocol::{Client, ProgramStats, socket_path};
use warmswap_sys::{Root, tree};

/// How often the processes are asked for their statistics, and how long each has to answer.
pub const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(500);

/// The last answer of each program that was seen: of each process, and of each program that a process was.
#[derive(Debug, Default)]
pub struct Answers {
    pub programs: Vec<ProgramStats>,
    /// The program had other processes, paged or not.
    pub has_children: bool,
}

impl Answers {
    /// Takes note of an answer, in the place of an earlier one of the same program.
    fn note(&mut self, stats: ProgramStats) {
        match self.last_of(&stats) {
            Some(index) => self.programs[index] = stats,
            None => self.programs.push(stats),
        }
    }

    /// Leaves the answers of programs that wrote none of these reports.
    pub fn drop_reported(&mut self, reports: &[ProgramStats]) {
        for report in reports {
            if let Some(index) = self.last_of(report) {
                self.programs.remove(index);
            }
        }
    }

    /// The last answer of the process, if it is of the same program. Earlier ones are of programs that it was before.
    fn last_of(&self, stats: &ProgramStats) -> Option<usize> {
        let mut answers = self.programs.iter();
        let index = answers.rposition(|answer| answer.pid == stats.pid)?;
        is_same_program(&self.programs[index], stats).then_some(index)
    }
}

/// Whether these are of one program in one process: exec begins a program's time anew, and the CPU time of the process
/// goes on.
fn is_same_program(one: &ProgramStats, other: &ProgramStats) -> bool {
    let time = one.elapsed_seconds.partial_cmp(&other.elapsed_seconds);
    let cpu = one
        .program_cpu_seconds
        .partial_cmp(&other.program_cpu_seconds);
    let is_time_alike = time == cpu || time == Some(Equal) || cpu == Some(Equal);
    one.pid == other.pid && one.name == other.name && is_time_alike
}

/// Where the processes of a program listen.
pub trait Family {
    /// The sockets of those that are paged, with the process that is expected there; and how many processes there are.
    fn sockets(&self) -> (Vec<(u32, PathBuf)>, usize);
}

/// A process of this machine, and its descendants.
pub struct Descendants {
    pub pid: u32,
    /// Where the first of them listens, if not at its own place.
    pub control: Option<PathBuf>,
}

impl Family for Descendants {
    fn sockets(&self) -> (Vec<(u32, PathBuf)>, usize) {
        let family = tree::descendants(&Root::machine(), self.pid).unwrap_or_default();
        let control = self.control.iter().map(|path| (self.pid, path.clone()));
        let own = family.iter().filter_map(|stat| {
            let path = socket_path(stat.pid).ok()?;
            path.exists().then_some((stat.pid, path))
        });
        (control.chain(own).collect(), family.len())
    }
}

/// Asks the processes of the program for their statistics until it ends.
pub fn watch(family: &impl Family, end: &Receiver<()>, interval: Duration) -> Answers {
    let mut clients: HashMap<PathBuf, Client> = HashMap::new();
    let mut answers = Answers::default();
    while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let (sockets, processes) = family.sockets();
        answers.has_children |= processes > 1;
        for (pid, socket) in sockets {
            if end.try_recv() == Err(TryRecvError::Disconnected) {
                return answers;
            }
            let connect = || Client::connect(&socket, TIMEOUT).ok();
            let Some(mut client) = clients.remove(&socket).or_else(connect) else {
                continue;
            };
            if let Ok(stats) = client.stats() {
                clients.insert(socket, client);
                // Another process may listen there.
                if stats.pid == pid {
                    answers.note(stats);
                }
            }
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use warmswap_protocol::{Answer, Request, Server};

    /// Process 7, which listens there.
    struct One(PathBuf);

    impl Family for One {
        fn sockets(&self) -> (Vec<(u32, PathBuf)>, usize) {
            (vec![(7, self.0.clone())], 1)
        }
    }

    /// Watches process 7 while process `pid` listens and answers twice.
    fn watched(pid: u32) -> Vec<ProgramStats> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("7.sock");
        let (ended, end) = channel::<()>();
        std::thread::scope(|scope| {
            let family = One(socket.clone());
            let watcher = scope.spawn(move || watch(&family, &end, Duration::from_millis(1)));
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
            // Killed: the socket file stays, and nothing listens.
            drop(server);
            drop(ended);
            watcher.join().unwrap().programs
        })
    }

    #[test]
    fn the_last_answer_of_a_program_that_is_killed_is_kept() {
        let answers = watched(7);
        assert_eq!(answers.len(), 1);
        // The second answer may be lost with the socket.
        let last = answers[0].swapped_out_pages;
        assert!((1..=2).contains(&last), "{last}");
    }

    #[test]
    fn another_process_on_the_socket_is_not_the_program() {
        assert_eq!(watched(8), []);
    }

    fn stats(pid: u32, elapsed_seconds: f64, program_cpu_seconds: f64) -> ProgramStats {
        ProgramStats {
            pid,
            elapsed_seconds,
            program_cpu_seconds,
            ..ProgramStats::default()
        }
    }

    #[test]
    fn each_program_that_a_process_was_is_kept() {
        let mut answers = Answers::default();
        for answer in [
            stats(7, 1.0, 0.5),
            stats(8, 0.5, 0.1),
            stats(7, 2.0, 0.8),
            // It became itself again (exec).
            stats(7, 0.3, 0.9),
        ] {
            answers.note(answer);
        }
        let kept: Vec<_> = answers.programs.iter().map(|s| s.elapsed_seconds).collect();
        assert_eq!(kept, [2.0, 0.5, 0.3]);

        // Its report, and that of a child.
        answers.drop_reported(&[stats(7, 2.8, 3.1), stats(8, 0.7, 0.2)]);
        assert_eq!(answers.programs, [stats(7, 2.0, 0.8)]);
    }

    #[test]
    fn a_report_that_was_written_early_is_of_the_program_that_goes_on_to_answer() {
        let mut answers = Answers::default();
        answers.note(stats(7, 2.0, 0.8));
        answers.drop_reported(&[stats(7, 1.0, 0.4)]);
        assert_eq!(answers.programs, []);
    }
}
