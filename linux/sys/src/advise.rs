//! Advice about another process's memory (`process_madvise`), over many ranges.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use crate::cpus;
use crate::process::{Process, ProcessError};
use warmswap_page::PAGE_BYTES;

/// What is advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Reclaim now: anonymous pages go to swap, clean file pages are dropped. Pages that another process
    /// maps too are left alone, and so is a file that the caller neither owns nor may write.
    PageOut,
    /// Read into the swap cache or the page cache; the page table changes at the first touch only. Before Linux 5.15 the kernel
    /// refuses it for other processes: all ranges are unsuitable then, and [`Advised::pages`] is 0.
    WillNeed,
}

impl Advice {
    const fn raw(self) -> i32 {
        match self {
            Self::PageOut => libc::MADV_PAGEOUT,
            Self::WillNeed => libc::MADV_WILLNEED,
        }
    }
}

/// Pages from `first` on, `count` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    /// Number (address / 4096) of the first page.
    pub first: u64,
    /// How many pages, at least 1.
    pub count: u64,
}

/// Joins ascending page numbers to ranges. Numbers that are not ascending start a new range.
pub fn ranges(numbers: impl IntoIterator<Item = u64>) -> Vec<PageRange> {
    let mut out: Vec<PageRange> = Vec::new();
    for number in numbers {
        match out.last_mut() {
            Some(last) if last.first + last.count == number => last.count += 1,
            _ => out.push(PageRange {
                first: number,
                count: 1,
            }),
        }
    }
    out
}

/// What became of a call over many ranges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Advised {
    /// Pages in ranges that the kernel went through. It does not tell how many of them it acted on.
    pub pages: u64,
    /// Ranges that were left out, whatever the reason.
    pub refused_ranges: u64,
    /// Of these, ranges that were not mapped (any more).
    pub unmapped_ranges: u64,
    /// Of these, ranges that cannot take the advice: locked, huge or device memory.
    pub unsuitable_ranges: u64,
    /// Of these, ranges that the kernel had no time for, again and again (EAGAIN).
    pub busy_ranges: u64,
    /// Of these, ranges whose pages could not be read or written.
    pub failed_ranges: u64,
}

impl std::ops::AddAssign for Advised {
    fn add_assign(&mut self, other: Self) {
        self.pages += other.pages;
        self.refused_ranges += other.refused_ranges;
        self.unmapped_ranges += other.unmapped_ranges;
        self.unsuitable_ranges += other.unsuitable_ranges;
        self.busy_ranges += other.busy_ranges;
        self.failed_ranges += other.failed_ranges;
    }
}

/// Ranges handed to the kernel by one system call (`IOV_MAX`).
const BATCH: usize = 1024;
/// Attempts that may pass without any progress when the kernel says EAGAIN.
const RETRIES: u32 = 100;

/// Gives `advice` for all `ranges` of `process`, in batches of 1024 ranges. A range that the kernel
/// refuses (unmapped in the meantime, locked, a device) is skipped and counted, the others are done.
///
/// Costs, per page of 4 KiB: page-out 1 µs when swap holds a valid copy, else 10 to 13 µs.
///
/// # Errors
/// [`ProcessError`] when the process ended, permission is missing (ptrace and `CAP_SYS_NICE`) or the
/// kernel has no such call (Linux 5.10).
pub fn advise(
    process: &Process,
    advice: Advice,
    ranges: &[PageRange],
) -> Result<Advised, ProcessError> {
    advise_telling(process, advice, ranges, |_| {})
}

/// As [`advise`]; tells each range that the kernel went through, in order.
///
/// # Errors
/// As [`advise`].
pub fn advise_telling(
    process: &Process,
    advice: Advice,
    ranges: &[PageRange],
    mut accepted: impl FnMut(PageRange),
) -> Result<Advised, ProcessError> {
    let mut done = Advised::default();
    for batch in ranges.chunks(BATCH) {
        advise_batch(process, advice, batch, &mut done, &mut accepted)?;
    }
    Ok(done)
}

/// As [`advise`], once on each CPU that this thread may run on.
///
/// A page that was just mapped waits in a batch of the CPU on which that happened, and cannot be
/// reclaimed before it reaches the kernel's lists. The call empties the batches of the CPU on which it
/// runs only. The result is the last CPU's.
///
/// # Errors
/// As [`advise`]; also when the thread cannot be moved.
pub fn advise_on_every_cpu(
    process: &Process,
    advice: Advice,
    ranges: &[PageRange],
) -> Result<Advised, ProcessError> {
    let mut result = Ok(Advised::default());
    cpus::on_each(|| result = advise(process, advice, ranges))
        .map_err(|error| ProcessError::new("move between CPUs to advise", process.pid(), error))?;
    result
}

fn advise_batch(
    process: &Process,
    advice: Advice,
    batch: &[PageRange],
    done: &mut Advised,
    accepted: &mut impl FnMut(PageRange),
) -> Result<(), ProcessError> {
    let mut todo: Vec<libc::iovec> = batch
        .iter()
        .map(|r| libc::iovec {
            iov_base: (r.first * PAGE_BYTES as u64) as *mut libc::c_void,
            iov_len: r.count as usize * PAGE_BYTES,
        })
        .collect();
    let mut rest = &mut todo[..];
    let mut idle = 0;
    while !rest.is_empty() {
        // SAFETY: `rest` is a live array of iovecs of the length given; the kernel only reads it. The addresses
        // in it belong to the other process and are checked by the kernel, nothing is dereferenced here.
        let result = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process.as_fd().as_raw_fd(),
                rest.as_ptr(),
                rest.len(),
                advice.raw(),
                0,
            )
        };
        if result > 0 {
            idle = 0;
            done.pages += result as u64 / PAGE_BYTES as u64;
            first(rest, result as usize).for_each(&mut *accepted);
            rest = skip(rest, result as usize);
            continue;
        }
        let error = if result == 0 {
            io::Error::from_raw_os_error(libc::EINVAL)
        } else {
            io::Error::last_os_error()
        };
        match error.raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) if idle < RETRIES => {
                idle += 1;
                std::thread::yield_now();
            }
            Some(
                code @ (libc::EINTR
                | libc::EAGAIN
                | libc::ENOMEM
                | libc::EINVAL
                | libc::EBADF
                | libc::EIO),
            ) => {
                idle = 0;
                done.refused_ranges += 1;
                *match code {
                    libc::ENOMEM => &mut done.unmapped_ranges,
                    libc::EINTR | libc::EAGAIN => &mut done.busy_ranges,
                    libc::EIO => &mut done.failed_ranges,
                    _ => &mut done.unsuitable_ranges,
                } += 1;
                rest = &mut rest[1..];
            }
            _ => return Err(ProcessError::new("advise", process.pid(), error)),
        }
    }
    Ok(())
}

/// The ranges that are the first `bytes` of what `ranges` describe.
fn first(ranges: &[libc::iovec], mut bytes: usize) -> impl Iterator<Item = PageRange> {
    ranges.iter().map_while(move |range| {
        let taken = range.iov_len.min(bytes);
        bytes -= taken;
        let page = range.iov_base as usize / PAGE_BYTES;
        (taken > 0).then_some(PageRange {
            first: page as u64,
            count: (taken / PAGE_BYTES) as u64,
        })
    })
}

/// Drops the first `bytes` of what `ranges` describe.
fn skip(mut ranges: &mut [libc::iovec], mut bytes: usize) -> &mut [libc::iovec] {
    while let Some(first) = ranges.first_mut() {
        if bytes < first.iov_len {
            first.iov_base = (first.iov_base as usize + bytes) as *mut libc::c_void;
            first.iov_len -= bytes;
            return ranges;
        }
        bytes -= first.iov_len;
        ranges = &mut ranges[1..];
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_hold_exactly_the_numbers(set in proptest::collection::btree_set(0u64..200, 0..100)) {
            let joined = ranges(set.iter().copied());

            let back: Vec<u64> = joined.iter().flat_map(|r| r.first..r.first + r.count).collect();
            prop_assert_eq!(back, set.into_iter().collect::<Vec<_>>());
            prop_assert!(joined.windows(2).all(|w| w[0].first + w[0].count < w[1].first), "not joined: {:?}", joined);
        }

        #[test]
        fn skip_drops_exactly_that_many_bytes(lengths in proptest::collection::vec(1usize..9, 1..8), part in 0usize..100) {
            let pages = |n| n * PAGE_BYTES;
            let mut vectors: Vec<libc::iovec> = lengths
                .iter()
                .map(|&n| libc::iovec { iov_base: 0x10_0000 as *mut _, iov_len: pages(n) })
                .collect();
            let total: usize = lengths.iter().copied().map(pages).sum();
            let drop = part * total / 100;

            let rest = skip(&mut vectors, drop);

            prop_assert_eq!(rest.iter().map(|v| v.iov_len).sum::<usize>(), total - drop);
        }
    }

    #[test]
    fn the_thread_may_run_where_it_could_before() {
        let me = Process::open(std::process::id()).unwrap();
        let before = rustix::thread::sched_getaffinity(None).unwrap();

        let _ = advise_on_every_cpu(&me, Advice::WillNeed, &[]);

        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn ranges_that_are_not_mapped_are_counted_and_the_others_are_done_and_told() {
        let me = Process::open(std::process::id()).unwrap();
        let page = vec![1u8; 6 * PAGE_BYTES];
        let mapped = page.as_ptr() as u64 / PAGE_BYTES as u64 + 1;
        let range = |first, count| PageRange { first, count };
        let unmapped = range(1 << 30, 1);
        let ranges = [
            unmapped,
            range(mapped, 2),
            range(mapped + 3, 1),
            unmapped,
            range(mapped + 4, 1),
        ];
        let mut told = Vec::new();

        let result = advise_telling(&me, Advice::WillNeed, &ranges, |range| told.push(range));

        match result {
            // Before Linux 5.15 the kernel refuses all of them.
            Ok(done) if done.unsuitable_ranges == 5 => assert!(told.is_empty(), "{told:?}"),
            Ok(done) => {
                assert_eq!((done.pages, done.unmapped_ranges), (4, 2), "{done:?}");
                assert_eq!(told, [ranges[1], ranges[2], ranges[4]]);
            }
            Err(e) => assert_eq!(e.source.raw_os_error(), Some(libc::EPERM), "{e}"),
        }
        assert_eq!(page[PAGE_BYTES], 1);
    }
}
