//! What only the running kernel can tell.

use std::io;

use warmswap_page::PAGE_BYTES;
use warmswap_sys::accessed::{Accessed, AccessedError};
use warmswap_sys::perf::{FaultKind, PageFaults, PerfError};
use warmswap_sys::{FileError, Root, check_page_size, probe};
use warmswap_uffd::{Features, OpenError, Reach, Uffd};

/// Questions that are answered by a try on a throwaway descriptor.
pub trait Kernel: std::fmt::Debug {
    /// Bytes in a page.
    fn page_bytes(&self) -> usize;

    /// The features of a userfaultfd that serves faults of user code.
    ///
    /// # Errors
    /// When there is none.
    fn userfaultfd(&self) -> Result<Features, OpenError>;

    /// Whether this process may have a userfaultfd that serves faults within system calls.
    ///
    /// # Errors
    /// When it may not.
    fn userfaultfd_everywhere(&self) -> Result<(), OpenError>;

    /// Whether page-fault events of all processes can be had.
    ///
    /// # Errors
    /// When they cannot.
    fn page_fault_events(&self) -> Result<(), PerfError>;

    /// Whether memory of other processes can be advised.
    ///
    /// # Errors
    /// When it cannot.
    fn process_madvise(&self) -> io::Result<()>;

    /// Whether swap may be switched on.
    ///
    /// # Errors
    /// When it may not.
    fn swapon(&self) -> io::Result<()>;

    /// Whether page maps can be searched in one call.
    ///
    /// # Errors
    /// When this process has none.
    fn pagemap_scan(&self) -> Result<bool, FileError>;

    /// Whether accessed bits of other processes' pages can be read.
    ///
    /// # Errors
    /// When they cannot.
    fn accessed_bits(&self) -> Result<(), AccessedError>;
}

/// The running kernel.
#[derive(Clone, Copy, Debug)]
pub struct ThisKernel;

impl Kernel for ThisKernel {
    fn page_bytes(&self) -> usize {
        check_page_size().map_or_else(|wrong| wrong.found_bytes, |()| PAGE_BYTES)
    }

    fn userfaultfd(&self) -> Result<Features, OpenError> {
        Uffd::probe()
    }

    fn userfaultfd_everywhere(&self) -> Result<(), OpenError> {
        Uffd::open(Reach::Everything, Features::NONE).map(drop)
    }

    fn page_fault_events(&self) -> Result<(), PerfError> {
        PageFaults::open(&Root::machine(), FaultKind::All, 1).map(drop)
    }

    fn process_madvise(&self) -> io::Result<()> {
        probe::process_madvise()
    }

    fn swapon(&self) -> io::Result<()> {
        probe::swapon()
    }

    fn pagemap_scan(&self) -> Result<bool, FileError> {
        probe::pagemap_scan()
    }

    fn accessed_bits(&self) -> Result<(), AccessedError> {
        Accessed::open(&Root::machine()).map(drop)
    }
}
