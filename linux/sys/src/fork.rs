//! What parent and child of a `fork` need of each other, with no descriptor among those of the program.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use warmswap_page::PAGE_BYTES;

/// A number that a process and the children that it forks share, and can sleep on. Children inherit it.
#[derive(Debug)]
pub struct SharedWord {
    word: NonNull<AtomicU32>,
}

// SAFETY: the pointer stays valid as long as the value, and what it points to is an atomic.
unsafe impl Send for SharedWord {}
// SAFETY: as above.
unsafe impl Sync for SharedWord {}

impl SharedWord {
    /// A word of zero, in a page of its own.
    ///
    /// # Errors
    /// The system's answer: no memory, or too many mappings.
    pub fn new() -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, access, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let word = NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { word })
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped as long as this value lives, holds zeros at first, and is aligned for any number.
        unsafe { self.word.as_ref() }
    }

    /// The value (acquire).
    #[must_use]
    pub fn load(&self) -> u32 {
        self.word().load(Ordering::Acquire)
    }

    /// Sets the value (release) and wakes every process that sleeps on it.
    pub fn set(&self, value: u32) {
        self.word().store(value, Ordering::Release);
        self.wake();
    }

    /// Wakes every process that sleeps on it.
    pub fn wake(&self) {
        let word = self.word().as_ptr();
        // SAFETY: the word is live; the call changes nothing.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Sleeps while the value is `seen`, until it is set or the time is over. May return earlier.
    pub fn wait(&self, seen: u32, at_most: Duration) {
        let timeout = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let word = self.word().as_ptr();
        // SAFETY: word and timeout are live; the call changes nothing.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word,
                libc::FUTEX_WAIT,
                seen,
                &raw const timeout,
            )
        };
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone.
        unsafe { libc::munmap(self.word.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// Runs `body` in a copy of this process that has the calling thread alone, and of its descriptors `keep` and standard error; the copy's process number. The copy sends no signal when it ends, and only
/// [`reap`] hears of it.
///
/// `body` neither allocates nor takes a lock that another thread may hold: that thread is not in the copy.
///
/// # Errors
/// The system's answer: no room for a process, or no memory.
pub fn spawn_copy(keep: &[BorrowedFd<'_>], body: impl FnOnce()) -> io::Result<u32> {
    const NO_SIGNAL: libc::c_long = 0;
    let mut kept: Vec<i32> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    kept.push(libc::STDERR_FILENO);
    kept.sort_unstable();
    // SAFETY: without flags and a stack it is a fork; the copy runs `body`, which keeps to what is allowed there, and
    // ends without the exit handlers of the process.
    match unsafe { libc::syscall(libc::SYS_clone, NO_SIGNAL, 0, 0, 0, 0) } {
        ..0 => Err(io::Error::last_os_error()),
        0 => {
            close_all_but(&kept);
            body();
            // SAFETY: ends the copy.
            unsafe { libc::_exit(0) }
        }
        pid => Ok(pid as u32),
    }
}

/// Whether a copy of this process that does this, as in [`spawn_copy`], comes to its end: a filter of system calls may
/// end it. Waits for it.
///
/// # Errors
/// The system's answer: no room for another process.
pub fn survives(body: impl FnOnce()) -> io::Result<bool> {
    let pid = spawn_copy(&[], body)?;
    let mut status = 0;
    // SAFETY: the call fills in the status of a process of ours.
    while unsafe { libc::waitpid(pid as i32, &raw mut status, libc::__WCLONE) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(libc::WIFEXITED(status))
}

/// Closes all descriptors but these, which ascend.
fn close_all_but(kept: &[i32]) {
    let mut first = 0;
    for last in kept.iter().map(|kept| kept - 1).chain([i32::MAX]) {
        if first <= last {
            // SAFETY: descriptors of the copy, which does not use them.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
        first = last.saturating_add(2);
    }
}

/// Whether a process of [`spawn_copy`] has ended, or is none of this process's. Does not wait.
#[must_use]
pub fn reap(pid: u32) -> bool {
    // SAFETY: no status is asked for.
    let result = unsafe {
        libc::waitpid(
            pid as i32,
            std::ptr::null_mut(),
            libc::WNOHANG | libc::__WCLONE,
        )
    };
    result != 0
}

/// Takes a share in a file, by a lock that the open file has: it ends when no process has it open any more. Another that
/// is opened anew has shares of its own.
///
/// # Errors
/// The system's answer: a file system without locks.
pub fn share(file: BorrowedFd<'_>) -> io::Result<()> {
    lock(file, libc::F_OFD_SETLK, libc::F_RDLCK).map(drop)
}

/// Whether another open file has a share in this one. `true` where the system does not say.
#[must_use]
pub fn is_shared(file: BorrowedFd<'_>) -> bool {
    // To ask for what would conflict changes nothing.
    let found = lock(file, libc::F_OFD_GETLK, libc::F_WRLCK);
    !found.is_ok_and(|found| i32::from(found.l_type) == libc::F_UNLCK)
}

fn lock(file: BorrowedFd<'_>, command: i32, kind: i32) -> io::Result<libc::flock> {
    // All of the file.
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the structure is live, and what the commands take.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if result == 0 {
        Ok(lock)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// More than the files that this library opens. They have the lowest numbers of tables of their own.
const ENOUGH_FILES: libc::rlim_t = 1024;

/// The process may open as many files as it is allowed to at most, until this is dropped: while no other thread of the
/// program runs, as in the child of a `fork`.
#[derive(Debug)]
#[must_use = "dropping the guard restores the limit immediately"]
pub struct MostFiles(Option<libc::rlimit>);

impl MostFiles {
    /// Raises the limit. Where that fails, it stays what it is.
    pub fn allow() -> Self {
        let mut before = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the place is live.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) } != 0 {
            return Self(None);
        }
        let raise = |most| {
            let limit = libc::rlimit {
                rlim_cur: most,
                rlim_max: most,
            };
            // SAFETY: the limits are live.
            most > before.rlim_cur
                && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0
        };
        // The first needs CAP_SYS_RESOURCE where it is above what the program has left itself.
        let most = [before.rlim_max.max(ENOUGH_FILES), before.rlim_max];
        Self(most.into_iter().any(raise).then_some(before))
    }
}

impl Drop for MostFiles {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the limits are live.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const *before) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_is_shared_as_long_as_another_open_file_has_a_share() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "").expect("written");
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .open(&path)
                .expect("a file")
        };
        let (one, other) = (open(), open());
        for file in [&one, &other] {
            share(file.as_fd()).expect("a lock");
        }
        assert!(is_shared(one.as_fd()) && is_shared(other.as_fd()));
        let copy = other.try_clone().expect("a descriptor");
        drop(other);
        assert!(is_shared(one.as_fd()), "the copy is the same open file");
        drop(copy);
        assert!(!is_shared(one.as_fd()));
    }

    #[test]
    fn a_copy_shares_the_word_and_nothing_else_and_is_reaped_by_its_number() {
        let word = SharedWord::new().expect("a page");
        let (kept, other) = (
            File::open("/dev/null").expect("open"),
            File::open("/dev/null").expect("open"),
        );
        let own = std::sync::atomic::AtomicU32::new(0);
        let (kept_number, other_number) = (kept.as_raw_fd(), other.as_raw_fd());
        let pid = spawn_copy(&[kept.as_fd()], || {
            own.store(1, Ordering::Relaxed);
            // SAFETY: it changes nothing.
            let is_open = |number| unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
            let is_right = is_open(kept_number) && !is_open(other_number);
            word.set(if is_right { 1 } else { 2 });
        })
        .expect("a process");
        while word.load() == 0 {
            word.wait(0, Duration::from_millis(100));
        }
        assert_eq!(word.load(), 1);
        assert_eq!(own.load(Ordering::Relaxed), 0);
        while !reap(pid) {
            std::thread::yield_now();
        }
        assert!(reap(pid), "it is not there any more");
    }
}
