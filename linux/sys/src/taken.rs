//! Memory taken away from the whole machine: a child process maps and locks it.
//!
//! The kernel cannot reclaim locked pages, so that it works as on a machine with less memory. The child is a copy of this
//! process that only maps and locks; the kernel ends it along with the thread that started it (`PR_SET_PDEATHSIG`), and so
//! frees its memory on any death. It has the highest `oom_score_adj`: when memory runs out, it is the first that the kernel
//! kills. It is in the topmost memory group, where no limit holds.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warmswap_page::{PAGE_BYTES, mib};

use crate::fork::{reap, spawn_copy};
use crate::memcg::Hierarchy;
use crate::meminfo::Meminfo;
use crate::zones::Zones;
use crate::{FileError, Root, file};

/// Memory is locked in steps of so much, between which the machine is looked at.
const STEP_BYTES: u64 = 256 << 20;
/// What is available may differ from what was to be by so much, or by a hundredth.
const GRAIN_BYTES: u64 = 2 << 20;
/// Programs that have just ended free their memory late: so many looks in a row must find the same.
const STEADY_LOOKS: u32 = 5;
/// Time between two of them.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// After so many the memory of this machine does not settle.
const MOST_LOOKS: u32 = 300;

/// Memory cannot be taken away from the machine.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Less is there than is to be left.
    #[error(
        "{} are to be left, but only {} are available: end what else runs here, or leave less",
        mib(*left_bytes), mib(*available_bytes)
    )]
    TooLittle {
        /// What was to be left, in bytes.
        left_bytes: u64,
        /// What is available, in bytes.
        available_bytes: u64,
    },
    /// Others take memory and give it back all the time.
    #[error(
        "what is available does not stay at {} (now {}): other programs take memory and give it back; end them, \
         or leave more",
        mib(*left_bytes), mib(*available_bytes)
    )]
    Unsteady {
        /// What was to be left, in bytes.
        left_bytes: u64,
        /// What is available, in bytes.
        available_bytes: u64,
    },
    /// The process that holds the memory was killed.
    #[error("memory ran out, and what was taken away was given back; leave more memory")]
    RanOut,
    /// No process, or it cannot map or lock memory; often root is missing.
    #[error("cannot {action}: {source}")]
    Process {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A file of the kernel cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What is to be left of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// So many bytes that programs can still take (`MemAvailable`, and what processors hold for themselves), within a
    /// hundredth.
    Available(u64),
    /// So many bytes for programs and kernel together, whatever they hold of it now.
    Machine(u64),
}

/// Memory that nothing else can have. Dropping it gives it back.
#[derive(Debug)]
pub struct TakenMemory {
    holder: Holder,
    taken_bytes: u64,
    usable_bytes: u64,
    available_bytes: u64,
}

impl TakenMemory {
    /// Takes memory away until so much is left, and stays so for half a second: what programs that have ended free late is
    /// taken too. Takes about 0.1 s for each GiB. The thread that calls must outlive what it took.
    ///
    /// # Errors
    /// [`TakeError`]; everything is given back then.
    pub fn take(root: &Root, left: Left) -> Result<Self, TakeError> {
        let total_bytes = Meminfo::read(root)?.usable_bytes();
        let mut holder = Holder::start(root, total_bytes)?;
        let taken_bytes = match left {
            Left::Machine(bytes) => {
                let taken_bytes = total_bytes.saturating_sub(bytes);
                holder.hold(taken_bytes)?;
                taken_bytes
            }
            Left::Available(bytes) => settle(
                bytes,
                || Ok(available_bytes(root)?),
                |bytes| holder.hold(bytes),
                || std::thread::sleep(LOOK_INTERVAL),
            )?,
        };
        Ok(Self {
            holder,
            taken_bytes,
            usable_bytes: total_bytes.saturating_sub(taken_bytes),
            available_bytes: available_bytes(root)?,
        })
    }

    /// What was taken away, in bytes.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// What is left for programs and kernel together, in bytes.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }

    /// What was available once it was taken, in bytes.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        self.available_bytes
    }

    /// Gives everything back now.
    pub fn give_back(&self) {
        self.holder.end();
    }

    /// Whether the memory is still taken.
    ///
    /// # Errors
    /// [`TakeError::RanOut`] if it was given back, or the kernel killed the process that held it.
    pub fn check(&self) -> Result<(), TakeError> {
        if self.holder.has_ended() {
            return Err(TakeError::RanOut);
        }
        Ok(())
    }
}

/// What programs can still take.
fn available_bytes(root: &Root) -> Result<u64, FileError> {
    Ok(Meminfo::read(root)?.available_bytes + Zones::read(root)?.on_processors_bytes)
}

/// Has so many bytes held that `left_bytes` are available in several looks in a row; what is held then.
fn settle(
    left_bytes: u64,
    mut look: impl FnMut() -> Result<u64, TakeError>,
    mut hold: impl FnMut(u64) -> Result<(), TakeError>,
    mut wait: impl FnMut(),
) -> Result<u64, TakeError> {
    let tolerance_bytes = GRAIN_BYTES.max(left_bytes / 100);
    let (mut held_bytes, mut steady_looks) = (0u64, 0);
    let mut available_bytes = 0;
    for _ in 0..MOST_LOOKS {
        available_bytes = look()?;
        if held_bytes == 0 && available_bytes < left_bytes {
            return Err(TakeError::TooLittle {
                left_bytes,
                available_bytes,
            });
        }
        if available_bytes.abs_diff(left_bytes) <= tolerance_bytes {
            steady_looks += 1;
            if steady_looks == STEADY_LOOKS {
                return Ok(held_bytes);
            }
        } else {
            steady_looks = 0;
            held_bytes = (held_bytes + available_bytes).saturating_sub(left_bytes);
            hold(held_bytes)?;
        }
        wait();
    }
    Err(TakeError::Unsteady {
        left_bytes,
        available_bytes,
    })
}

/// The child that holds memory.
#[derive(Debug)]
struct Holder {
    pid: u32,
    /// Bytes to hold, as a number in native order.
    requests: File,
    /// A zero for each request, or the number of an error.
    answers: File,
    held_bytes: u64,
    has_ended: AtomicBool,
}

impl Holder {
    /// Starts the child, which holds nothing yet and can hold `most_bytes`.
    fn start(root: &Root, most_bytes: u64) -> Result<Self, TakeError> {
        let failed = |action| move |source| TakeError::Process { action, source };
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let make = || -> io::Result<_> { Ok((pipe()?, pipe()?)) };
        let ((requested, requests), (answers, answered)) = make().map_err(failed("make a pipe"))?;
        let parent = std::process::id();
        let keep = [requested.as_fd(), answered.as_fd()];
        let body = || {
            hold_memory(
                requested.as_raw_fd(),
                answered.as_raw_fd(),
                parent,
                most_bytes,
            )
        };
        let pid = spawn_copy(&keep, body).map_err(failed("start a process that holds memory"))?;
        let mut holder = Self {
            pid,
            requests: requests.into(),
            answers: answers.into(),
            held_bytes: 0,
            has_ended: AtomicBool::new(false),
        };
        file::write(&root.proc_file(pid, "oom_score_adj"), "1000")?;
        // Without groups there is no limit; where it may not move, the limit of its group shows as memory that runs out.
        if let Ok(groups) = Hierarchy::find(root) {
            let _ = file::write(&groups.mount.join("cgroup.procs"), &pid.to_string());
        }
        // Once it answers, the death of this thread is a signal to it.
        holder.ask(0)?;
        Ok(holder)
    }

    /// Holds the whole pages of so many bytes, and no more: advice is about pages.
    fn hold(&mut self, bytes: u64) -> Result<(), TakeError> {
        let bytes = bytes - bytes % PAGE_BYTES as u64;
        while self.held_bytes != bytes {
            self.ask(bytes.min(self.held_bytes.saturating_add(STEP_BYTES)))?;
        }
        Ok(())
    }

    fn ask(&mut self, bytes: u64) -> Result<(), TakeError> {
        let mut answer = [0; 4];
        let asked = self.requests.write_all(&bytes.to_ne_bytes());
        // The pipe breaks when the kernel kills the child.
        asked
            .and_then(|()| self.answers.read_exact(&mut answer))
            .map_err(|_| TakeError::RanOut)?;
        match i32::from_ne_bytes(answer) {
            0 => {
                self.held_bytes = bytes;
                Ok(())
            }
            errno => Err(TakeError::Process {
                action: "lock memory",
                source: io::Error::from_raw_os_error(errno),
            }),
        }
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire) || {
            let ended = reap(self.pid);
            self.has_ended.fetch_or(ended, Ordering::AcqRel) || ended
        }
    }

    fn end(&self) {
        if self.has_ended() {
            return;
        }
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid.cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        while !self.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the child does, until the pipe closes: it neither allocates nor takes a lock.
fn hold_memory(requests: i32, answers: i32, parent: u32, most_bytes: u64) {
    let most = most_bytes as usize;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: calls of the child about itself; the new mapping is at an address of the kernel's choice.
    let base = unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // A parent that had ended before sends no signal any more.
        if libc::getppid().cast_unsigned() != parent {
            return;
        }
        libc::mmap(std::ptr::null_mut(), most, access, flags, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return;
    }
    // SAFETY: advice about the whole mapping, which changes no content.
    unsafe { libc::madvise(base, most, libc::MADV_HUGEPAGE) };
    let (mut held, mut request) = (0usize, 0u64);
    loop {
        // SAFETY: the kernel writes a number into a live one.
        let read = unsafe { libc::read(requests, (&raw mut request).cast(), size_of::<u64>()) };
        if read != size_of::<u64>() as isize {
            return;
        }
        let wanted = (request as usize).min(most);
        let (from, length) = (held.min(wanted), held.abs_diff(wanted));
        // SAFETY: `from + length` is within the mapping, which nothing else uses.
        let result = unsafe {
            let part = base.byte_add(from);
            if wanted > held {
                libc::mlock(part, length)
            } else {
                libc::munlock(part, length);
                libc::madvise(part, length, libc::MADV_DONTNEED)
            }
        };
        let mut answer = 0i32;
        if result == 0 {
            held = wanted;
        } else {
            // SAFETY: the number of this thread's last error.
            answer = unsafe { *libc::__errno_location() };
        }
        // SAFETY: the kernel reads a live number.
        unsafe { libc::write(answers, (&raw const answer).cast(), size_of::<i32>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Settles on a made-up machine with 1,000 MiB available, from which others take or free `others` at each look.
    fn settled(left_mib: u64, mut others: impl FnMut(u32) -> i64) -> Result<u64, TakeError> {
        let held = std::cell::Cell::new(0);
        let (mut free, mut looks) = (1000 * MIB as i64, 0);
        let look = || {
            looks += 1;
            free += others(looks) * MIB as i64;
            Ok((free - held.get() as i64).cast_unsigned())
        };
        let hold = |bytes| {
            held.set(bytes);
            Ok(())
        };
        settle(left_mib * MIB, look, hold, || {})
    }

    #[test]
    fn what_is_freed_late_is_taken_too() {
        assert_eq!(settled(400, |_| 0).unwrap(), 600 * MIB);
        let freed_late = |look| if look == 4 { 50 } else { 0 };
        assert_eq!(settled(400, freed_late).unwrap(), 650 * MIB);
        let taken_late = |look| if look == 4 { -50 } else { 0 };
        assert_eq!(settled(400, taken_late).unwrap(), 550 * MIB);
    }

    #[test]
    fn too_little_and_unsteady_memory_are_refused() {
        let error = settled(1001, |_| 0).unwrap_err();
        assert!(matches!(error, TakeError::TooLittle { .. }), "{error}");
        let error = settled(400, |look| if look % 2 == 0 { 90 } else { -90 }).unwrap_err();
        assert!(matches!(error, TakeError::Unsteady { .. }), "{error}");
    }

    /// Memory that is locked in a process.
    fn locked_bytes(pid: u32) -> u64 {
        let status = file::read(&Root::machine().proc_file(pid, "status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap() * 1024
    }

    #[test]
    fn the_child_holds_as_much_as_asked_until_it_is_dropped() {
        let root = Root::machine();
        let mut holder = match Holder::start(&root, 64 * MIB) {
            Err(TakeError::File(error)) => {
                warmswap_testkit::skip!("the_child_holds_as_much_as_asked", "{error}")
            }
            holder => holder.unwrap(),
        };
        match holder.hold(MIB) {
            Err(TakeError::Process { source, .. }) => {
                warmswap_testkit::skip!("the_child_holds_as_much_as_asked", "{source}")
            }
            held => held.unwrap(),
        }
        for mib in [32, 8, 20, 0, 12] {
            holder.hold(mib * MIB + 100).unwrap();
            assert_eq!(locked_bytes(holder.pid), mib * MIB);
        }
        let own = holder.pid;
        assert!(!holder.has_ended());
        drop(holder);
        assert!(!root.proc_file(own, "status").exists());
    }

    #[test]
    fn a_child_that_is_killed_is_noticed_and_one_without_parent_ends() {
        let root = Root::machine();
        let Ok(mut holder) = Holder::start(&root, MIB) else {
            warmswap_testkit::skip!("a_child_that_is_killed_is_noticed", "it is not permitted");
        };
        holder.end();
        let error = holder.hold(4096).unwrap_err();
        assert!(matches!(error, TakeError::RanOut), "{error}");

        // The parent of a child is the thread that started it.
        let starts = std::thread::spawn(move || Holder::start(&Root::machine(), MIB).unwrap());
        let orphan = starts.join().unwrap();
        while !orphan.has_ended() {
            std::thread::yield_now();
        }
    }
}
