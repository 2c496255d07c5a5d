//! Runs of pages in the same state, by one system call for many (`PAGEMAP_SCAN`, Linux 6.7), or by reading
//! the whole page table where the kernel has no such call.

use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use super::{Pagemap, PagemapEntry};
use crate::FileError;
use crate::maps::Mapping;
use warmswap_page::PAGE_BYTES;

/// Where the pages of a region are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
    /// In memory, mapped.
    Present,
    /// In swap, or in the swap cache without being mapped.
    Swapped,
}

/// Neighbouring pages in the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Number (address / 4096) of the first page.
    pub first: u64,
    /// How many pages, at least 1.
    pub count: u64,
    /// Where they are.
    pub residence: Residence,
}

/// End of the addresses of a process with four levels of page tables, whose last page is never used; the kernel
/// gives no other addresses unless asked for.
const SPACE_END: u64 = (1 << 47) - PAGE_BYTES as u64;

/// Regions that one call may return.
const BATCH: usize = 1024;

// From the kernel's include/uapi/linux/fs.h.
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl =
    (3 << 30 | (size_of::<ScanArg>() as u64) << 16 | (b'f' as u64) << 8 | 16) as libc::Ioctl;

impl Pagemap {
    /// Whether this kernel scans page tables by itself (Linux 6.7); otherwise [`Self::read_anonymous`] needs the
    /// process's mappings.
    #[must_use]
    pub fn can_scan(&self) -> bool {
        let mut none = ScanArg {
            size: size_of::<ScanArg>() as u64,
            ..ScanArg::default()
        };
        self.ioctl(&mut none).is_ok()
    }

    /// Calls `visit` for every region of the process's own (anonymous) pages that are in memory or in swap within the
    /// `addresses`, ascending. The zero page does not count: it takes no memory. Costs about 10 ns a page that exists, and
    /// nothing for what is not mapped.
    ///
    /// # Errors
    /// [`FileError`], with `ENOTTY` where the kernel has no such call ([`Self::can_scan`]). A process that
    /// ended reads as empty.
    pub fn scan_pages(
        &self,
        addresses: Range<u64>,
        visit: impl FnMut(Region),
    ) -> Result<(), FileError> {
        let wanted = ScanArg {
            category_inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_FILE | PAGE_IS_PFNZERO,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            ..ScanArg::default()
        };
        self.scan_regions(addresses, &wanted, visit)
    }

    /// The same for pages of files and of shared memory alone that are mapped there: touched, or next to one that was.
    /// Neighbours in memory that belong to different mappings come as one region.
    ///
    /// # Errors
    /// As [`Self::scan_pages`].
    pub fn scan_files(
        &self,
        start: u64,
        end: u64,
        visit: impl FnMut(Region),
    ) -> Result<(), FileError> {
        let wanted = ScanArg {
            category_mask: PAGE_IS_FILE | PAGE_IS_PRESENT,
            ..ScanArg::default()
        };
        self.scan_regions(start..end, &wanted, visit)
    }

    /// The same for pages in swap alone, the swap cache's unmapped ones included. Costs nothing for pages in memory and about
    /// 10 ns for each in swap.
    ///
    /// # Errors
    /// As [`Self::scan_pages`].
    pub fn scan_swapped(
        &self,
        addresses: Range<u64>,
        visit: impl FnMut(Region),
    ) -> Result<(), FileError> {
        let wanted = ScanArg {
            category_mask: PAGE_IS_SWAPPED,
            ..ScanArg::default()
        };
        self.scan_regions(addresses, &wanted, visit)
    }

    /// Calls `visit` for every region of pages of the categories that are `wanted`.
    fn scan_regions(
        &self,
        addresses: Range<u64>,
        wanted: &ScanArg,
        mut visit: impl FnMut(Region),
    ) -> Result<(), FileError> {
        let mut found = [PageRegion::default(); BATCH];
        let end = addresses.end.min(SPACE_END);
        let mut from = addresses.start;
        while from < end {
            let mut arg = ScanArg {
                size: size_of::<ScanArg>() as u64,
                start: from,
                end,
                vec: found.as_mut_ptr() as u64,
                vec_len: BATCH as u64,
                return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                ..*wanted
            };
            let count = match self.ioctl(&mut arg) {
                Ok(count) => count,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                // The process has no memory any more.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
                Err(e) => return Err(FileError::new("scan", &self.path, e)),
            };
            for region in &found[..count.min(BATCH)] {
                let residence = if region.categories & PAGE_IS_PRESENT != 0 {
                    Residence::Present
                } else {
                    Residence::Swapped
                };
                visit(Region {
                    first: region.start / PAGE_BYTES as u64,
                    count: (region.end - region.start) / PAGE_BYTES as u64,
                    residence,
                });
            }
            // After more regions than the kernel collects at a time (512) `walk_end` can be where it was in between, though the
            // regions behind it are among those found: they must not come twice.
            let last = found[..count.min(BATCH)].last();
            let walked = last.map_or(0, |region| region.end).max(arg.walk_end);
            if walked <= from {
                return Ok(());
            }
            from = walked;
        }
        Ok(())
    }

    /// As [`Self::scan_pages`], by reading the page table of the `mappings` within the addresses `span` entry by
    /// entry: for kernels without the call. Costs about 50 ns a page that is mapped, whether it exists or not.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read_anonymous(
        &self,
        mappings: &[Mapping],
        span: Range<u64>,
        visit: impl FnMut(Region),
    ) -> Result<(), FileError> {
        self.read_regions(mappings, span, residence, visit)
    }

    /// As [`Self::scan_files`], likewise.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read_files(
        &self,
        mappings: &[Mapping],
        span: Range<u64>,
        visit: impl FnMut(Region),
    ) -> Result<(), FileError> {
        let residence = |entry: PagemapEntry, shared: bool| {
            let is_mapped = entry.present() && (shared || entry.file());
            is_mapped.then_some(Residence::Present)
        };
        self.read_regions(mappings, span, residence, visit)
    }

    fn read_regions(
        &self,
        mappings: &[Mapping],
        span: Range<u64>,
        residence: impl Fn(PagemapEntry, bool) -> Option<Residence>,
        mut visit: impl FnMut(Region),
    ) -> Result<(), FileError> {
        let mut open: Option<Region> = None;
        for mapping in mappings {
            let (start, end) = (mapping.start.max(span.start), mapping.end.min(span.end));
            self.scan(start, end, |number, entry| {
                let Some(residence) = residence(entry, mapping.shared) else {
                    return;
                };
                match &mut open {
                    Some(r) if r.first + r.count == number && r.residence == residence => {
                        r.count += 1;
                    }
                    _ => {
                        let next = Region {
                            first: number,
                            count: 1,
                            residence,
                        };
                        if let Some(done) = open.replace(next) {
                            visit(done);
                        }
                    }
                }
            })?;
        }
        if let Some(done) = open {
            visit(done);
        }
        Ok(())
    }

    fn ioctl(&self, arg: &mut ScanArg) -> std::io::Result<usize> {
        ioctl(self.file.as_fd(), arg)
    }
}

fn ioctl(pagemap: BorrowedFd<'_>, arg: &mut ScanArg) -> std::io::Result<usize> {
    // SAFETY: `arg` is a live `pm_scan_arg` of the size that it states. The kernel writes to it, and at most
    // `vec_len` regions to `vec`, which the caller holds for the call (or gives no room for).
    let result = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, arg) };
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error())
}

/// Runs that one call of [`scan_used`] may return: few, for stacks that are small.
const SMALL_BATCH: usize = 128;

/// Calls `visit` with the addresses of every run of pages that are in memory or in swap, ascending; two runs may be neighbours.
/// It finds the pages whose entries are not [`PagemapEntry::empty`]: those of files, too, and the zero page. Allocates nothing.
///
/// Returns the address up to which all were found: the end, or less where the kernel says no more. A kernel without the
/// call says nothing.
pub fn scan_used(
    pagemap: BorrowedFd<'_>,
    addresses: Range<u64>,
    mut visit: impl FnMut(Range<u64>),
) -> u64 {
    let mut found = [PageRegion::default(); SMALL_BATCH];
    let mut from = addresses.start;
    while from < addresses.end {
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: from,
            end: addresses.end,
            vec: found.as_mut_ptr() as u64,
            vec_len: SMALL_BATCH as u64,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            ..ScanArg::default()
        };
        let count = match ioctl(pagemap, &mut arg) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return from,
        };
        let runs = &found[..count.min(SMALL_BATCH)];
        runs.iter().for_each(|run| visit(run.start..run.end));
        // As in `scan_regions`.
        let walked = runs.last().map_or(0, |run| run.end).max(arg.walk_end);
        if walked <= from {
            return from;
        }
        from = walked;
    }
    addresses.end
}

/// Where an anonymous page is; none for a page of a file or of shared memory.
fn residence(entry: PagemapEntry, shared: bool) -> Option<Residence> {
    if shared || entry.file() {
        None
    } else if entry.present() {
        Some(Residence::Present)
    } else {
        entry.swapped().then_some(Residence::Swapped)
    }
}

#[cfg(test)]
mod tests;
