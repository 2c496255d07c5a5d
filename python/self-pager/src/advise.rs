//! Advice about this process's own memory: many ranges by one `process_madvise`, or one by one where a sandbox or an
//! old kernel refuses that call.
#![allow(unsafe_code)] // One system call, on addresses that it does not dereference.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use warmswap_page::PAGE_BYTES;
use warmswap_sys::advise::{Advice, Advised, PageRange, advise};
use warmswap_sys::process::Process;

/// Pages between two looks at whether to stop: about 5 ms of page-out.
const OUT_STEP_PAGES: u64 = 512;

/// Pages that are populated by one call. The call holds the lock of the address space, for which the program waits
/// whenever it maps or unmaps: about 0.1 ms.
const POPULATE_STEP_PAGES: u64 = 16;

/// What is advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// Reclaim now.
    PageOut,
    /// Read what is in swap and map it (`MADV_POPULATE_READ`, Linux 5.14).
    Populate,
}

/// The way to the kernel.
#[derive(Debug)]
pub struct Adviser {
    process: Option<Process>,
    /// Why ranges are handed over one by one.
    fallback: Option<String>,
}

/// The kernel takes no such advice.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses madvise({advice:?}): {source}")]
pub struct Refused {
    /// Which.
    pub advice: Own,
    /// Its answer.
    #[source]
    pub source: io::Error,
}

impl Adviser {
    /// For the calling process.
    #[must_use]
    pub fn new() -> Self {
        match Process::open(std::process::id()) {
            Ok(process) => Self {
                process: Some(process),
                fallback: None,
            },
            Err(error) => Self {
                process: None,
                fallback: Some(error.to_string()),
            },
        }
    }

    /// Why `process_madvise` is not used; `None` while it is.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Gives `advice` for all `ranges`, some pages at a time, until `stop` is set. Ranges that cannot take it are
    /// skipped and counted.
    ///
    /// # Errors
    /// [`Refused`] when the kernel takes the advice for no memory at all.
    pub fn advise(
        &mut self,
        advice: Own,
        ranges: &[PageRange],
        stop: &AtomicBool,
    ) -> Result<Advised, Refused> {
        let mut done = Advised::default();
        let step_pages = match advice {
            Own::PageOut => OUT_STEP_PAGES,
            Own::Populate => POPULATE_STEP_PAGES,
        };
        for step in steps(ranges, step_pages) {
            if stop.load(Relaxed) {
                break;
            }
            done += self.advise_step(advice, &step)?;
        }
        Ok(done)
    }

    fn advise_step(&mut self, advice: Own, ranges: &[PageRange]) -> Result<Advised, Refused> {
        if advice == Own::PageOut
            && let Some(process) = &self.process
        {
            match advise(process, Advice::PageOut, ranges) {
                Ok(done) => return Ok(done),
                Err(error) => {
                    self.fallback = Some(error.to_string());
                    self.process = None;
                }
            }
        }
        let mut done = Advised::default();
        for range in ranges {
            match advise_one(advice, *range) {
                Ok(()) => done.pages += range.count,
                Err(source) => {
                    done.refused_ranges += 1;
                    *match source.raw_os_error() {
                        Some(libc::ENOMEM) => &mut done.unmapped_ranges,
                        Some(libc::EAGAIN | libc::EINTR) => &mut done.busy_ranges,
                        Some(libc::EIO | libc::EFAULT | libc::EHWPOISON) => &mut done.failed_ranges,
                        Some(libc::EINVAL | libc::EBADF) => &mut done.unsuitable_ranges,
                        _ => return Err(Refused { advice, source }),
                    } += 1;
                }
            }
        }
        Ok(done)
    }
}

impl Default for Adviser {
    fn default() -> Self {
        Self::new()
    }
}

fn advise_one(advice: Own, range: PageRange) -> io::Result<()> {
    let raw = match advice {
        Own::PageOut => libc::MADV_PAGEOUT,
        Own::Populate => libc::MADV_POPULATE_READ,
    };
    let address = (range.first * PAGE_BYTES as u64) as *mut libc::c_void;
    loop {
        // SAFETY: neither advice changes what the program reads at any address: a page that was reclaimed comes
        // back by a fault with the same content, and populating reads only. The kernel checks the addresses.
        let result = unsafe { libc::madvise(address, range.count as usize * PAGE_BYTES, raw) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Cuts ranges into steps of at most `pages` pages together.
fn steps(ranges: &[PageRange], pages: u64) -> impl Iterator<Item = Vec<PageRange>> {
    let mut rest = ranges.iter().copied();
    let mut open = rest.next();
    std::iter::from_fn(move || {
        let (mut step, mut room) = (Vec::new(), pages);
        while room > 0
            && let Some(range) = open
        {
            let count = range.count.min(room);
            step.push(PageRange { count, ..range });
            room -= count;
            open = if count < range.count {
                Some(PageRange {
                    first: range.first + count,
                    count: range.count - count,
                })
            } else {
                rest.next()
            };
        }
        (!step.is_empty()).then_some(step)
    })
}

/// Gives free memory at the ends and in the middle of the C library's heaps back to the kernel. It touches the
/// headers of free blocks, so it belongs before a page-out.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes the allocator's own locks and releases free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_are_small_and_hold_all_pages(
            counts in proptest::collection::vec(1u64..1500, 0..12),
        ) {
            let ranges: Vec<PageRange> = counts
                .iter()
                .enumerate()
                .map(|(i, &count)| PageRange { first: i as u64 * 10_000, count })
                .collect();
            let pages = |ranges: &[PageRange]| -> Vec<u64> {
                ranges.iter().flat_map(|r| r.first..r.first + r.count).collect()
            };
            let cut: Vec<Vec<PageRange>> = steps(&ranges, 512).collect();
            prop_assert!(cut.iter().all(|s| s.iter().map(|r| r.count).sum::<u64>() <= 512));
            prop_assert_eq!(pages(&cut.concat()), pages(&ranges));
        }
    }

    #[test]
    fn both_ways_leave_contents_alone_and_count_what_is_not_mapped() {
        let memory: Vec<u8> = (0..64 * PAGE_BYTES).map(|i| (i % 251) as u8).collect();
        let expected = memory.clone();
        let first = (memory.as_ptr() as u64).div_ceil(PAGE_BYTES as u64);
        let ranges = [
            PageRange {
                first: 1 << 30,
                count: 1,
            },
            PageRange { first, count: 60 },
        ];
        let one_by_one = Adviser {
            process: None,
            fallback: Some("refused".to_owned()),
        };
        for mut adviser in [Adviser::new(), one_by_one] {
            let stop = AtomicBool::new(false);
            let out = adviser.advise(Own::PageOut, &ranges, &stop).unwrap();
            let back = adviser.advise(Own::Populate, &ranges[1..], &stop).unwrap();
            assert!(out.pages >= 60, "{out:?}");
            assert_eq!(out.refused_ranges, out.unmapped_ranges);
            // Kernels before 5.14 do not know it.
            assert!(back.pages == 60 || back.unsuitable_ranges == 1, "{back:?}");
            assert_eq!(memory, expected);
        }
    }

    #[test]
    fn a_stop_ends_it_at_once() {
        let stop = AtomicBool::new(true);
        let range = PageRange {
            first: 1 << 30,
            count: 1,
        };
        let done = Adviser::new()
            .advise(Own::PageOut, &[range], &stop)
            .unwrap();
        assert_eq!(done, Advised::default());
    }
}
