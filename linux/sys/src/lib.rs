//! The Linux system-call layer: the one place for raw system calls on other processes, swap devices and
//! perf events.
//!
//! One subject per file. Everything that reads `/proc` or `/sys` goes through a [`Root`], so that the
//! parsers can be tested on recorded files. Everything that changes the machine goes through an
//! [`Undo`](undo::Undo) registry first, so that the change is taken back on every way out.
//!
//! The crate knows nothing about schemes, traces or applications.
#![allow(unsafe_code)] // Each block states its obligations; no other crate of the lower layers may have any.

pub mod accessed;
pub mod advise;
pub mod cpu_time;
pub mod cpus;
pub mod file;
pub mod fork;
pub mod heap;
pub mod inherited;
pub mod lock;
pub mod maps;
pub mod memcg;
pub mod meminfo;
pub mod memory;
pub mod mount;
pub mod opened;
pub mod page_cache;
pub mod pagemap;
pub mod peer;
pub mod perf;
pub mod prepage;
pub mod probe;
pub mod process;
pub mod psi;
pub mod readahead;
pub mod residency;
pub mod root;
pub mod runtime;
pub mod session;
pub mod smaps;
pub mod stderr;
pub mod swap;
pub mod taken;
pub mod tls;
pub mod touch;
pub mod tree;
pub mod tunable;
pub mod undo;
pub mod zones;
pub mod zram;

pub use file::FileError;
pub use root::Root;

use warmswap_page::PAGE_BYTES;

/// The machine's pages have another size than [`PAGE_BYTES`].
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("this machine has pages of {found_bytes} bytes; warmswap works with pages of 4096 bytes")]
pub struct WrongPageSize {
    /// The machine's page size.
    pub found_bytes: usize,
}

/// Checks that the machine's page size is [`PAGE_BYTES`].
///
/// # Errors
/// [`WrongPageSize`] with the machine's size.
pub fn check_page_size() -> Result<(), WrongPageSize> {
    let found_bytes = rustix::param::page_size();
    if found_bytes == PAGE_BYTES {
        Ok(())
    } else {
        Err(WrongPageSize { found_bytes })
    }
}

/// True when the effective user is root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock of every time in this crate (perf records included).
#[must_use]
pub fn monotonic_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
