//! CPU time to the nanosecond, read often and cheaply: clocks of processes, and files of threads that stay open.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::{FileError, Root, file};

/// The kernel's limit of process numbers (`PID_MAX_LIMIT`).
const MOST_PROCESSES: i32 = 4 << 20;

/// The clock of the CPU time of a process with all its threads, or of a thread of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// A process's clock; kernel threads have one, too. `None` when there is no such process.
    #[must_use]
    pub fn of_process(pid: u32) -> Option<Self> {
        // 0 would be the calling process, and what the clock's number has no room for, any.
        let pid = i32::try_from(pid).ok();
        let pid = pid.filter(|pid| (1..=MOST_PROCESSES).contains(pid))?;
        let mut clock = 0;
        // SAFETY: the call writes one number to `clock`.
        let result = unsafe { libc::clock_getcpuclockid(pid, &mut clock) };
        (result == 0).then_some(Self(clock))
    }

    /// The calling thread's clock, which other threads of the process may read.
    #[must_use]
    pub fn of_this_thread() -> Self {
        if cfg!(miri) {
            // Miri knows no such clocks, but one for all.
            return Self(libc::CLOCK_MONOTONIC);
        }
        let mut clock = 0;
        // SAFETY: a thread's own handle is valid, and the call writes one number to `clock`. It fails for no
        // thread that runs.
        let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
        debug_assert_eq!(result, 0);
        Self(clock)
    }

    /// CPU time so far. Costs about 0.5 µs, and some more for each thread. `None` when the process or thread
    /// has ended.
    #[must_use]
    pub fn read_ns(self) -> Option<u64> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the call writes one time to `time`.
        let result = unsafe { libc::clock_gettime(self.0, &mut time) };
        (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// CPU time that the machine's processors spent on anything but idling, all together, in nanoseconds: programs, threads
/// of the kernel and interrupts, but not what the hypervisor took away. Counted in the kernel's ticks, 10 ms as a rule.
///
/// # Errors
/// [`FileError`].
pub fn machine_busy_ns(root: &Root) -> Result<u64, FileError> {
    let path = root.path("/proc/stat");
    let text = file::read(&path)?;
    let unexpected = || FileError::unexpected(&path, "no line of all processors");
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks: Vec<u64> = line
        .ok_or_else(unexpected)?
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq; guests are in user and nice.
    let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else {
        return Err(unexpected());
    };
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    Ok((user + nice + system + irq + softirq) * tick_ns)
}

/// What child processes used that ended and were waited for: CPU time, with their own children's, by mode, and memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildrenCpu {
    /// In their own code.
    pub user_ns: u64,
    /// In the kernel on their behalf, page faults included.
    pub system_ns: u64,
    /// The most memory that the largest of them had, files included. A child begins with what its parent had when it was
    /// started.
    pub peak_bytes: u64,
}

impl ChildrenCpu {
    /// Of the calling process's children so far.
    #[must_use]
    pub fn read() -> Self {
        // SAFETY: a `rusage` of zeros is valid, and the call fills it in; it fails for no valid first argument.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
            usage
        };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Self {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            peak_bytes: (usage.ru_maxrss as u64).saturating_mul(1024),
        }
    }
}

/// The CPU time of a thread of any process: its `schedstat`, held open. The kernel brings it up to date when the
/// thread gives the processor up, and at its ticks.
#[derive(Debug)]
pub struct ThreadTime(File);

impl ThreadTime {
    /// Those threads of a process whose names begin with `prefix`. Threads that end meanwhile are left out.
    #[must_use]
    pub fn of_threads(root: &Root, pid: u32, prefix: &str) -> Vec<Self> {
        let tasks = std::fs::read_dir(root.proc_file(pid, "task"));
        let folders = tasks.into_iter().flatten().flatten().map(|t| t.path());
        let is_wanted = |folder: &PathBuf| {
            file::read(&folder.join("comm")).is_ok_and(|name| name.starts_with(prefix))
        };
        folders
            .filter(is_wanted)
            .filter_map(|folder| File::open(folder.join("schedstat")).ok().map(Self))
            .collect()
    }

    /// CPU time so far. Costs about 1 µs. `None` when the thread has ended.
    #[must_use]
    pub fn read_ns(&self) -> Option<u64> {
        let mut bytes = [0; 64];
        let len = self.0.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..len]).ok()?;
        text.split(' ').next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works until `done`.
    fn work_until(done: impl Fn() -> bool) {
        while !done() {
            std::hint::black_box((0..10_000u64).sum::<u64>());
        }
    }

    #[test]
    fn a_process_and_its_threads_have_clocks_that_others_read() {
        let process = CpuClock::of_process(std::process::id()).unwrap();
        let thread = CpuClock::of_this_thread();
        let before = (process.read_ns().unwrap(), thread.read_ns().unwrap());

        work_until(|| thread.read_ns().unwrap() > before.1 + 1_000_000);

        let elsewhere = std::thread::spawn(move || thread.read_ns().unwrap());
        assert!(elsewhere.join().unwrap() > before.1);
        assert!(process.read_ns().unwrap() >= before.0 + 1_000_000);
        assert_eq!(CpuClock::of_process(0), None);
        assert_eq!(CpuClock::of_process(i32::MAX as u32), None);
    }

    #[test]
    fn the_machine_is_busy_with_all_but_idling_and_waiting() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let root = Root::at(dir.path());
        let write = |text: &str| std::fs::write(dir.path().join("proc/stat"), text).unwrap();

        write("cpu  1 2 3 1000 1000 4 5 1000 1 0\ncpu0 9 9 9 9 9 9 9 9 0 0\n");
        assert_eq!(machine_busy_ns(&root).unwrap(), 15 * tick_ns);
        write("cpu  1 2 3\n");
        assert!(machine_busy_ns(&root).is_err());
        // This process's own time is in the machine's.
        let root = Root::machine();
        let before = machine_busy_ns(&root).unwrap();
        work_until(|| machine_busy_ns(&root).unwrap() >= before + 2 * tick_ns);
    }

    #[test]
    fn what_an_ended_child_took_is_told_by_mode() {
        let before = ChildrenCpu::read();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh")
            .args(["-c", script])
            .status();
        assert!(status.unwrap().success());
        let after = ChildrenCpu::read();
        assert!(after.user_ns > before.user_ns && after.system_ns >= before.system_ns);
        assert!(after.peak_bytes >= 500 << 10, "a shell has more");
    }

    #[test]
    fn kernel_threads_have_clocks() {
        let root = Root::machine();
        let all = crate::tree::all(&root).unwrap();
        // In a container there may be none.
        for stat in all.iter().filter(|stat| stat.parent == 2) {
            let time = CpuClock::of_process(stat.pid).map(CpuClock::read_ns);
            let has_ended = || crate::process::Stat::read(&root, stat.pid).is_err();
            assert!(time.flatten().is_some() || has_ended(), "{}", stat.command);
        }
    }

    #[test]
    fn threads_are_found_by_their_names() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (started, ready) = std::sync::mpsc::channel();
        let builder = std::thread::Builder::new().name("found by name".to_owned());
        let thread = builder
            .spawn(move || {
                let clock = CpuClock::of_this_thread();
                work_until(|| clock.read_ns().unwrap() > 5_000_000);
                started.send(()).unwrap();
                receiver.recv()
            })
            .unwrap();
        ready.recv().unwrap();

        let found = ThreadTime::of_threads(&Root::machine(), std::process::id(), "found by");

        assert_eq!(found.len(), 1);
        // It gave the processor up at `recv`, or soon does.
        work_until(|| found[0].read_ns().unwrap() >= 4_000_000);
        drop(sender);
        thread.join().unwrap().unwrap_err();
        work_until(|| found[0].read_ns().is_none());
    }
}
