//! Page faults with address, process and time, from perf software events.
//!
//! One counter per CPU (`PERF_COUNT_SW_PAGE_FAULTS`, or `_MAJ` for major faults; sample period 1) sees the faults of every process on
//! the machine, children that are not born yet included; the caller keeps those of its processes. Faults
//! that the kernel raises on behalf of a process at a user address (`read(2)` into a swapped-out buffer)
//! are seen too. Not seen are pages that the kernel touches without a fault: through `/proc/PID/mem`,
//! `process_vm_readv`, direct I/O and futexes.

mod record;
mod ring;

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, RawFd};

use perf_event_open_sys as sys;
use sys::bindings as abi;

use crate::{FileError, Root, file};
use ring::Ring;

/// One page fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// `CLOCK_MONOTONIC`, as [`crate::monotonic_ns`].
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The address that was touched.
    pub address: u64,
    /// The instruction that touched it.
    pub instruction: u64,
}

/// What a reading brought, and what is missing from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Faults that found the buffer full.
    pub lost: u64,
    /// Times that the kernel held a counter back because it was too busy.
    pub throttled: u64,
    /// Records of a form that is not understood.
    pub unknown: u64,
}

/// Page-fault events could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The kernel was built without perf events.
    #[error("page-fault events are not available: this kernel lacks CONFIG_PERF_EVENTS")]
    Missing,
    /// Not allowed.
    #[error(
        "page-fault events of all processes need CAP_PERFMON or kernel.perf_event_paranoid <= 0 (it is {paranoid}); \
         run the command with `sudo`"
    )]
    Permission {
        /// The present value of the sysctl, or `unknown`.
        paranoid: String,
    },
    /// Another answer of the kernel.
    #[error("cannot open page-fault events on CPU {cpu}: {source}")]
    Open {
        /// The CPU.
        cpu: u32,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The list of CPUs cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Which page faults are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// All of them.
    All,
    /// Those that waited for a disk or for swap.
    Major,
}

/// Page-fault events of the whole machine.
#[derive(Debug)]
pub struct PageFaults {
    rings: Vec<Ring>,
}

/// Pages of the buffer of one CPU; a power of two. 8 MiB hold about 170 000 faults.
pub const DEFAULT_BUFFER_PAGES: usize = 2048;

impl PageFaults {
    /// Opens one counter of such faults with a buffer of `buffer_pages` pages (a power of two) per online CPU. They
    /// count from now on.
    ///
    /// # Errors
    /// [`PerfError`].
    ///
    /// # Panics
    /// When `buffer_pages` is not a power of two.
    pub fn open(root: &Root, kind: FaultKind, buffer_pages: usize) -> Result<Self, PerfError> {
        assert!(buffer_pages.is_power_of_two(), "a power of two");
        if !root.path("/proc/sys/kernel/perf_event_paranoid").exists() {
            return Err(PerfError::Missing);
        }
        let rings = online_cpus(root)?
            .into_iter()
            .map(|cpu| {
                let file = open_counter(cpu, kind).map_err(|e| explain(root, cpu, e))?;
                Ring::map(file, buffer_pages).map_err(|source| PerfError::Open { cpu, source })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { rings })
    }

    /// Appends all faults that came since the last call to `out`, ascending by time within the call, and
    /// returns what is missing. Costs about 0.05 µs a fault; call it at least every 50 ms under load.
    ///
    /// Faults of one call may be older than the latest of the call before, by the microseconds that
    /// reading the CPUs one after the other takes: sort what belongs together once it is complete.
    pub fn read(&mut self, out: &mut Vec<Fault>) -> Losses {
        let first = out.len();
        let mut losses = Losses::default();
        for ring in &mut self.rings {
            ring.read(|bytes| record::parse_all(bytes, out, &mut losses));
        }
        out[first..].sort_unstable();
        losses
    }
}

impl std::ops::AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.throttled += other.throttled;
        self.unknown += other.unknown;
    }
}

fn open_counter(cpu: u32, kind: FaultKind) -> io::Result<File> {
    let event = match kind {
        FaultKind::All => abi::PERF_COUNT_SW_PAGE_FAULTS,
        FaultKind::Major => abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
    };
    let mut attr = abi::perf_event_attr {
        type_: abi::PERF_TYPE_SOFTWARE,
        size: size_of::<abi::perf_event_attr>() as u32,
        config: u64::from(event),
        sample_type: record::SAMPLE_TYPE,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    attr.set_use_clockid(1);
    let no_group: RawFd = -1;
    // SAFETY: `attr` is a live, fully initialised attribute block whose `size` is its true size.
    let fd = unsafe {
        sys::perf_event_open(
            &raw mut attr,
            -1,
            cpu as i32,
            no_group,
            abi::PERF_FLAG_FD_CLOEXEC.into(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above returned this descriptor to us alone.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn explain(root: &Root, cpu: u32, source: io::Error) -> PerfError {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = file::read(&root.path("/proc/sys/kernel/perf_event_paranoid"))
                .map_or_else(|_| "unknown".to_owned(), |t| t.trim().to_owned());
            PerfError::Permission { paranoid }
        }
        Some(libc::ENOSYS) => PerfError::Missing,
        _ => PerfError::Open { cpu, source },
    }
}

/// The CPUs that are online, from `/sys/devices/system/cpu/online` ("0-3,8").
fn online_cpus(root: &Root) -> Result<Vec<u32>, FileError> {
    let path = root.path("/sys/devices/system/cpu/online");
    parse_cpus(&file::read(&path)?)
        .ok_or_else(|| FileError::unexpected(&path, "not a list of CPUs"))
}

fn parse_cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_understood() {
        assert_eq!(parse_cpus("0-2,5,7-8\n").unwrap(), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_cpus("0").unwrap(), [0]);
        assert!(parse_cpus("a-b").is_none());
        assert!(parse_cpus("").is_none());
    }

    #[test]
    fn a_kernel_without_perf_is_told() {
        let dir = tempfile::tempdir().unwrap();

        assert!(matches!(
            PageFaults::open(&Root::at(dir.path()), FaultKind::All, 8),
            Err(PerfError::Missing)
        ));
    }

    #[test]
    fn first_touches_of_own_memory_are_seen_in_order() {
        let mut faults =
            match PageFaults::open(&Root::machine(), FaultKind::All, DEFAULT_BUFFER_PAGES) {
                Ok(faults) => faults,
                Err(e @ (PerfError::Permission { .. } | PerfError::Missing)) => {
                    warmswap_testkit::skip!("first_touches_of_own_memory_are_seen_in_order", "{e}");
                }
                Err(e) => panic!("{e}"),
            };
        let before = crate::monotonic_ns();
        // SAFETY: a fresh private anonymous mapping of 64 pages; only its own bytes are written below.
        let memory = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                64 * warmswap_page::PAGE_BYTES,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::PRIVATE,
            )
        }
        .unwrap();
        let first = memory as u64;
        for page in (0..64usize).rev() {
            // SAFETY: inside the mapping, which no other code knows.
            unsafe {
                memory
                    .cast::<u8>()
                    .add(page * warmswap_page::PAGE_BYTES)
                    .write_volatile(1)
            };
        }
        let after = crate::monotonic_ns();

        let mut seen = Vec::new();
        let losses = faults.read(&mut seen);

        assert_eq!(losses, Losses::default());
        let range = first..first + 64 * warmswap_page::PAGE_BYTES as u64;
        seen.retain(|f| f.pid == std::process::id() && range.contains(&f.address));
        let expected: Vec<u64> = (0..64)
            .rev()
            .map(|p| first + p * warmswap_page::PAGE_BYTES as u64)
            .collect();
        assert_eq!(seen.iter().map(|f| f.address).collect::<Vec<_>>(), expected);
        assert!(seen.iter().all(|f| (before..=after).contains(&f.time_ns)));
        // SAFETY: the mapping of above, no longer used.
        unsafe { rustix::mm::munmap(memory, 64 * warmswap_page::PAGE_BYTES) }.unwrap();
    }
}
