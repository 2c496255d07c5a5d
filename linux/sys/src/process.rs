//! One process: a stable handle, its signals and its state.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::{FileError, Root, file};

/// A process could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} process {pid}: {source}")]
pub struct ProcessError {
    /// What was tried, as a verb.
    pub action: &'static str,
    /// The process.
    pub pid: u32,
    /// The system's answer.
    #[source]
    pub source: io::Error,
}

impl ProcessError {
    pub(crate) fn new(action: &'static str, pid: u32, source: impl Into<io::Error>) -> Self {
        Self {
            action,
            pid,
            source: source.into(),
        }
    }

    /// True when the process ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.source.raw_os_error() == Some(libc::ESRCH)
    }
}

/// A process that cannot be mistaken for a later one with the same number (a pidfd).
#[derive(Debug)]
pub struct Process {
    pid: u32,
    fd: OwnedFd,
}

impl Process {
    /// Takes hold of the process `pid`.
    ///
    /// # Errors
    /// [`ProcessError`]; [`ProcessError::is_gone`] when there is none.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        let gone = || ProcessError::new("open", pid, io::Error::from_raw_os_error(libc::ESRCH));
        let raw = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(gone)?;
        let fd =
            pidfd_open(raw, PidfdFlags::empty()).map_err(|e| ProcessError::new("open", pid, e))?;
        Ok(Self { pid, fd })
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends SIGKILL.
    ///
    /// # Errors
    /// [`ProcessError`]; [`ProcessError::is_gone`] when it ended already.
    pub fn kill(&self) -> Result<(), ProcessError> {
        self.signal(Signal::KILL, "kill")
    }

    /// Sends SIGSTOP; the process stops soon after, see [`Stat::state`].
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn stop(&self) -> Result<(), ProcessError> {
        self.signal(Signal::STOP, "stop")
    }

    /// Sends SIGCONT.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn resume(&self) -> Result<(), ProcessError> {
        self.signal(Signal::CONT, "resume")
    }

    fn signal(&self, signal: Signal, action: &'static str) -> Result<(), ProcessError> {
        pidfd_send_signal(&self.fd, signal).map_err(|e| ProcessError::new(action, self.pid, e))
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Gives the calling thread the least share of a processor that others want, and has it interrupt none of them. Unlike under the
/// idle policy ([`idle_priority`]) it is not held up for long, so that it may hold a lock that other threads wait for.
///
/// # Errors
/// [`io::Error`]; no privilege is needed.
pub fn background_priority() -> io::Result<()> {
    set_policy(libc::SCHED_BATCH)?;
    rustix::process::setpriority_process(None, 19)?;
    Ok(())
}

/// Gives the calling thread the idle policy: it runs when no other thread wants the processor, and may be
/// held up for long when others do.
///
/// # Errors
/// [`io::Error`]; no privilege is needed.
pub fn idle_priority() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE)
}

/// Gives the calling thread a policy without priorities.
fn set_policy(policy: libc::c_int) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; `parameter` is a live `sched_param`, which the kernel only reads.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has the kernel read and write for the calling thread after other programs (ionice's lowest level of best effort). The idle
/// class would wait for as long as a disk is busy, and what waits may hold a lock of another process.
///
/// # Errors
/// [`io::Error`]; no privilege is needed.
pub fn background_io_priority() -> io::Result<()> {
    // SAFETY: three numbers; 0 is the calling thread. Nothing but its I/O priority changes.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, LEAST_BEST_EFFORT) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// From the kernel's include/uapi/linux/ioprio.h.
const WHO_PROCESS: libc::c_int = 1;
const LEAST_BEST_EFFORT: libc::c_int = 2 << 13 | 7;

/// Lets the calling thread run where and how the process's main thread does, whichever thread created it: processors, scheduling
/// class, nice value. As far as that is allowed; without rights a thread does not rise.
pub fn run_like_main_thread() {
    let main = std::process::id().cast_signed();
    if let Some(set) = rustix::process::Pid::from_raw(main)
        .and_then(|main| rustix::thread::sched_getaffinity(Some(main)).ok())
    {
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
    let mut parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel fills in a live `sched_param` and reads it again; the other arguments are numbers. Nothing but
    // the calling thread's scheduling changes.
    unsafe {
        let class = libc::sched_getscheduler(main);
        if class >= 0 && libc::sched_getparam(main, &raw mut parameter) == 0 {
            libc::sched_setscheduler(0, class, &raw const parameter);
        }
        // -1 is a nice value, too; where the call fails it is the one of least harm.
        let nice = libc::getpriority(libc::PRIO_PROCESS, main.cast_unsigned());
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
    }
}

/// Whether a thread is one of the calling process. Does not allocate.
#[must_use]
pub fn has_thread(thread: rustix::process::Pid) -> bool {
    let (process, thread) = (std::process::id(), thread.as_raw_nonzero().get());
    // SAFETY: signal 0 is not sent; the kernel only looks for the thread within the process.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) == 0 }
}

/// Sends a process a signal, by number: those of real time have no names.
///
/// # Errors
/// [`io::Error`]: it is gone, may not be sent one, or there is no such signal.
pub fn send_signal(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: it reads two numbers.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes `command` start as the leader of a new session, out of reach of the terminal's signals.
pub fn in_new_session(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: between fork and exec only setsid is called, which is async-signal-safe and touches no
    // memory of the parent.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        })
    };
}

/// Makes `command` start in the control group whose `cgroup.procs`, opened for writing, this is: all its memory is the
/// group's.
pub(crate) fn in_group(command: &mut std::process::Command, procs: std::fs::File) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: between fork and exec only write is called, which is async-signal-safe and touches no memory of the
    // parent. 0 is the writer itself.
    unsafe {
        command.pre_exec(move || {
            rustix::io::write(&procs, b"0")?;
            Ok(())
        })
    };
}

/// The fields of `/proc/PID/stat` that this project uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Process number.
    pub pid: u32,
    /// Name of the program, at most 15 bytes.
    pub command: String,
    /// `R` running, `S` sleeping, `D` waiting for I/O, `T` stopped, `Z` ended but not waited for.
    pub state: char,
    /// Parent.
    pub parent: u32,
    /// Session.
    pub session: u32,
    /// Minor faults (the page was in memory, or is new).
    pub minor_faults: u64,
    /// Major faults (the page had to be read or decompressed).
    pub major_faults: u64,
    /// CPU time in user and kernel mode, in clock ticks.
    pub cpu_ticks: u64,
    /// The same of children that ended and were waited for, and of theirs.
    pub children_cpu_ticks: u64,
    /// Start, in clock ticks since boot; with the number it identifies a process for ever.
    pub start_ticks: u64,
    /// Resident pages, anonymous and of files; the kernel lets it lag by some dozens.
    pub resident_pages: u64,
}

impl Stat {
    /// Reads `/proc/PID/stat`.
    ///
    /// # Errors
    /// [`FileError`]; [`FileError::is_gone`] when the process ended.
    pub fn read(root: &Root, pid: u32) -> Result<Self, FileError> {
        Self::read_file(&root.proc_file(pid, "stat"))
    }

    fn read_file(path: &std::path::Path) -> Result<Self, FileError> {
        Self::parse(&file::read(path)?)
            .ok_or_else(|| FileError::unexpected(path, "not a process status line"))
    }

    /// Parses the one line of a stat file. The name may hold blanks and parentheses.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        let (command, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Field 3 of proc(5) is fields[0].
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            command: command.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: number(4)? as u32,
            session: fields.get(3)?.parse::<i64>().ok()?.max(0) as u32,
            minor_faults: number(10)?,
            major_faults: number(12)?,
            cpu_ticks: number(14)? + number(15)?,
            children_cpu_ticks: number(16)? + number(17)?,
            start_ticks: number(22)?,
            resident_pages: number(24)?,
        })
    }

    /// True when every thread of `pid` is stopped (or the process ended).
    #[must_use]
    pub fn all_threads_stopped(root: &Root, pid: u32) -> bool {
        let Ok(tasks) = std::fs::read_dir(root.proc_file(pid, "task")) else {
            return true;
        };
        tasks
            .flatten()
            .all(|task| match Self::read_file(&task.path().join("stat")) {
                Ok(stat) => matches!(stat.state, 'T' | 't' | 'Z' | 'X'),
                Err(e) => e.is_gone(),
            })
    }
}

/// The memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Resident anonymous memory.
    pub anonymous_bytes: u64,
    /// Resident pages of files, without memory that processes share.
    pub file_bytes: u64,
    /// Anonymous memory in swap.
    pub swapped_bytes: u64,
}

impl MemoryUse {
    /// Reads `/proc/PID/status`. Costs 15 µs. A thread of the kernel, or a process that ends, has no memory.
    ///
    /// # Errors
    /// [`FileError`] when it is gone, or the file is none.
    pub fn read(root: &Root, pid: u32) -> Result<Self, FileError> {
        let path = root.proc_file(pid, "status");
        let text = file::read(&path)?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = match line {
                Some(line) => line
                    .trim()
                    .strip_suffix(" kB")
                    .and_then(|kib| kib.parse().ok()),
                None => Some(0u64),
            };
            kib.map(|kib| kib * 1024)
                .ok_or_else(|| FileError::unexpected(&path, "memory is not in kB"))
        };
        Ok(Self {
            anonymous_bytes: field("RssAnon:")?,
            file_bytes: field("RssFile:")?,
            swapped_bytes: field("VmSwap:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_in_the_background_still_reads_from_a_busy_disk() {
        let priority = std::thread::spawn(|| {
            background_io_priority().unwrap();
            // SAFETY: two numbers; 0 is the calling thread.
            unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) }
        });
        let priority = priority.join().unwrap();
        assert_eq!((priority >> 13, priority & 7), (2, 7), "best effort, last");
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = "42 (a (b) c) S 7 42 41 0 -1 4194560 100 0 33 0 5 6 0 0 20 0 1 0 987654 0 0";

        let stat = Stat::parse(line).unwrap();

        assert_eq!(
            (stat.pid, stat.parent, stat.session, stat.state),
            (42, 7, 41, 'S')
        );
        assert_eq!(stat.command, "a (b) c");
        assert_eq!(
            (stat.major_faults, stat.cpu_ticks, stat.start_ticks),
            (33, 11, 987_654)
        );
        assert!(Stat::parse("42 (short) S 7").is_none());
        assert!(Stat::parse("").is_none());
    }

    #[test]
    fn memory_is_told_by_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/42")).unwrap();
        let root = Root::at(folder.path());
        let path = root.proc_file(42, "status");
        let status = "VmRSS:\t   30000 kB\nRssAnon:\t   20000 kB\nRssFile:\t    4936 kB\nRssShmem:\t    64 kB\nVmSwap:\t    8 kB\n";
        std::fs::write(&path, status).unwrap();
        let expected = MemoryUse {
            anonymous_bytes: 20_000 << 10,
            file_bytes: 4936 << 10,
            swapped_bytes: 8 << 10,
        };
        assert_eq!(MemoryUse::read(&root, 42).unwrap(), expected);
        std::fs::write(&path, "Name:\tkthreadd\n").unwrap();
        assert_eq!(MemoryUse::read(&root, 42).unwrap(), MemoryUse::default());
        std::fs::write(&path, "RssFile:\t4936 pages\n").unwrap();
        let error = MemoryUse::read(&root, 42).unwrap_err();
        assert!(error.to_string().contains("status"), "{error}");
        assert!(MemoryUse::read(&root, 43).unwrap_err().is_gone());
    }

    #[test]
    fn a_child_stops_resumes_and_dies_by_its_handle() {
        let root = Root::machine();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let process = Process::open(child.id()).unwrap();

        process.stop().unwrap();
        while !Stat::all_threads_stopped(&root, process.pid()) {
            std::thread::yield_now();
        }
        process.resume().unwrap();
        process.kill().unwrap();
        child.wait().unwrap();

        assert!(process.kill().unwrap_err().is_gone());
        assert!(Process::open(0).unwrap_err().is_gone());
    }
}
