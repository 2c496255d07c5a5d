//! What can go wrong in making an arena and its regions.

use std::sync::atomic::{AtomicBool, Ordering};

use warmswap_backing::BackingError;
use warmswap_uffd::PagedError;

/// An arena cannot be made, or cannot give what is asked for.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// No usable userfaultfd, or no address space.
    #[error(transparent)]
    Memory(#[from] PagedError),
    /// The scheme is none.
    #[error(transparent)]
    Scheme(#[from] warmswap_policy::PolicyError),
    /// The limits make no sense.
    #[error(transparent)]
    Limits(#[from] warmswap_engine::ConfigError),
    /// The pool cannot be that small.
    #[error(transparent)]
    Pool(#[from] warmswap_pool::ConfigError),
    /// The backing file cannot be used.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// The handler of SIGBUS cannot be installed.
    #[error(transparent)]
    Handler(#[from] warmswap_uffd::sigbus::RegisterError),
    /// No memory for tables, or no thread.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The page size is another.
    #[error(transparent)]
    PageSize(#[from] warmswap_sys::WrongPageSize),
    /// A file cannot be mapped.
    #[error("cannot map {path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The arena's address space is used up.
    #[error("no {bytes} bytes in a row are left of an address space of {space_bytes} bytes")]
    AddressSpace {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes of the whole address space.
        space_bytes: usize,
    },
    /// There are 65,535 applications.
    #[error("no more applications")]
    Applications,
    /// Faults within system calls cannot be served.
    #[error(
        "no right to serve page faults within system calls: needs root, CAP_SYS_PTRACE, or \
         `sysctl vm.unprivileged_userfaultfd=1`"
    )]
    UserOnly,
    /// A program's pages cannot be moved.
    #[error(
        "pages cannot be moved before Linux 6.8, and what the kernel or a device writes to a copied page could be lost: \
         `--mechanism copy` pages it all the same, and refuses it io_uring, Linux AIO and O_DIRECT"
    )]
    CannotMove,
    /// A program's memory cannot be made ours.
    #[error("cannot take over the program's memory: {0}")]
    Adopt(String),
    /// Not whole within the region.
    #[error("{len} bytes at {offset:#x} are not within a region of {region_bytes} bytes")]
    OutOfRange {
        /// First byte.
        offset: usize,
        /// Bytes.
        len: usize,
        /// Bytes of the region.
        region_bytes: usize,
    },
}

impl ArenaError {
    /// For `map_err`: what was tried, as a verb.
    pub fn system(action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}

/// A page cannot be served: the process ends, since the page's content is lost and zeros in its place would
/// be worse.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// Its chunk cannot be read.
    #[error(transparent)]
    Store(#[from] warmswap_store::StoreError),
    /// The kernel refuses.
    #[error(transparent)]
    Uffd(#[from] warmswap_uffd::UffdError),
    /// The kernel refuses.
    #[error(transparent)]
    Memory(#[from] PagedError),
    /// It is not mapped.
    #[error("the address is in no region")]
    NotMapped,
    /// It was discarded or replaced by `madvise` or `mmap`.
    #[error(
        "the page was discarded or replaced by other means than the arena: by a system call of the program's own, or of \
         another process (`warmswap run --host kernel` can page such programs)"
    )]
    Vanished,
    /// The descriptor cannot be read.
    #[error("cannot read page faults: {0}")]
    Events(#[source] std::io::Error),
    /// It read as zeros in a child.
    #[error("the page was used between a fork and the take-over of the child's memory")]
    UsedInFork,
    /// Its file cannot be read.
    #[error("cannot read its file: {0}")]
    File(#[source] std::io::Error),
    /// Its file ends before it.
    #[error(
        "its file has become shorter or cannot be read, and SIGBUS cannot be raised before Linux 6.6"
    )]
    FileEnds,
    /// Its word names a chunk without it.
    #[error("the chunk does not hold the page")]
    NotInChunk,
}

/// A thread ends the process.
static IS_DYING: AtomicBool = AtomicBool::new(false);

/// Whether a thread is in [`die`]: an allocator whose lock may never be given back has to do without it.
pub fn is_dying() -> bool {
    IS_DYING.load(Ordering::Relaxed)
}

/// Says why a page cannot be served, and ends the process. Takes no lock but the allocator's: the system's words for an
/// error are allocated ([`is_dying`]).
pub fn die(address: usize, reason: &dyn std::fmt::Display) -> ! {
    use std::io::Write;
    IS_DYING.store(true, Ordering::Relaxed);
    let mut line = [0u8; 512];
    let mut rest = &mut line[..];
    let _ = writeln!(
        rest,
        "warmswap: cannot serve the page at {address:#x}: {reason}"
    );
    let left = rest.len();
    let len = line.len() - left;
    // A line that did not fit still ends.
    line[len - 1] = b'\n';
    write_line(&line[..len]);
    std::process::abort()
}

/// Says something on the program's standard error, also on threads that do not have it among their descriptors.
pub fn say(line: &str) {
    write_line(line.as_bytes());
}

fn write_line(line: &[u8]) {
    use rustix::fs::{Mode, OFlags};
    if rustix::io::write(rustix::stdio::stderr(), line).is_ok() {
        return;
    }
    // What the process's first thread has there.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    if let Ok(stderr) = rustix::fs::open("/proc/self/fd/2", flags, Mode::empty()) {
        let _ = rustix::io::write(stderr, line);
    }
}

/// Ends the process if the thread panics, with what it was: a host that lives on without it would hang.
pub(crate) struct AbortOnPanic(pub &'static str);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!(
                "warmswap: the {} panicked; the pages that it serves would be lost\n",
                self.0
            ));
            std::process::abort();
        }
    }
}
