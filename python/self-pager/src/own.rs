//! This process: its mappings, its page table, its counters, and where its threads stand.

use std::path::Path;

use warmswap_page::PAGE_BYTES;
use warmswap_sys::maps::{Backing, Mapping, Maps};
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::pagemap::{Pagemap, Region, Residence};
use warmswap_sys::{FileError, Root, check_page_size, file};

use crate::PagerError;
use crate::pages::PageSet;

/// Bytes above a thread's stack pointer that stay: its innermost frames, which run first when it wakes.
const STACK_BYTES: u64 = 64 << 10;

/// The end of all addresses.
const END: u64 = u64::MAX;

/// What the kernel counts for this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Resident anonymous memory (`RssAnon`).
    pub anon_bytes: u64,
    /// Resident pages of files and shared memory (`RssFile` and `RssShmem`).
    pub file_bytes: u64,
    /// In swap (`VmSwap`).
    pub swapped_bytes: u64,
}

/// Swap of the whole machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapSpace {
    /// All of it; 0 where there is none.
    pub total_bytes: u64,
    /// Unused.
    pub free_bytes: u64,
}

/// Where the pages are that may be paged out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// In memory.
    pub present: PageSet,
    /// In swap, or in the swap cache without being mapped.
    pub swapped: PageSet,
}

/// The calling process.
#[derive(Debug)]
pub struct Own {
    root: Root,
    pid: u32,
    pagemap: Pagemap,
    can_scan: bool,
}

impl Own {
    /// Opens the process's page table. It stays the opener's: a child of a fork opens its own.
    ///
    /// # Errors
    /// [`PagerError`].
    pub fn open() -> Result<Self, PagerError> {
        check_page_size()?;
        let (root, pid) = (Root::machine(), std::process::id());
        let pagemap = Pagemap::open(&root, pid)?;
        let can_scan = pagemap.can_scan();
        Ok(Self {
            root,
            pid,
            pagemap,
            can_scan,
        })
    }

    /// The mappings that may be paged out: private anonymous memory that can be written. The main thread's stack,
    /// files, shared memory and the kernel's own pages are left alone.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn mappings(&self) -> Result<Vec<Mapping>, FileError> {
        let maps = Maps::read(&self.root, self.pid)?;
        Ok(maps
            .as_slice()
            .iter()
            .filter(|map| {
                map.backing == Backing::Anonymous
                    && map.write
                    && !map.shared
                    && map.name != "[stack]"
            })
            .cloned()
            .collect())
    }

    /// Where the pages of `mappings` are. Costs about 10 ns a page that exists.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn look(&self, mappings: &[Mapping]) -> Result<Look, FileError> {
        let mut look = Look::default();
        let note = |region: Region| {
            let run = region.first..region.first + region.count;
            match region.residence {
                Residence::Present => look.present.push(run),
                Residence::Swapped => look.swapped.push(run),
            }
        };
        if self.can_scan {
            self.pagemap.scan_pages(0..END, note)?;
        } else {
            self.pagemap.read_anonymous(mappings, 0..END, note)?;
        }
        let mapped = page_set(mappings);
        Ok(Look {
            present: look.present.and(&mapped),
            swapped: look.swapped.and(&mapped),
        })
    }

    /// What the kernel counts.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn counters(&self) -> Result<Counters, FileError> {
        let path = self.root.proc_file(self.pid, "status");
        let text = file::read(&path)?;
        counters(&text).ok_or_else(|| FileError::unexpected(&path, "RssAnon or VmSwap is missing"))
    }

    /// Swap of the machine.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn swap(&self) -> Result<SwapSpace, FileError> {
        let memory = Meminfo::read(&self.root)?;
        Ok(SwapSpace {
            total_bytes: memory.swap_total_bytes,
            free_bytes: memory.swap_free_bytes,
        })
    }

    /// Memory that programs can still have without swapping.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn available_bytes(&self) -> Result<u64, FileError> {
        Ok(Meminfo::read(&self.root)?.available_bytes)
    }

    /// The innermost 64 KiB of each sleeping thread's stack. Threads that run are left out: the kernel does not
    /// say where they stand, and what they use comes back at once.
    #[must_use]
    pub fn stacks(&self) -> PageSet {
        let Ok(tasks) = std::fs::read_dir(self.root.proc_file(self.pid, "task")) else {
            return PageSet::default();
        };
        let pages = tasks
            .flatten()
            .filter_map(|task| stack_pointer(&task.path().join("syscall")))
            .flat_map(|at| {
                let first = at / PAGE_BYTES as u64;
                first..first + STACK_BYTES / PAGE_BYTES as u64
            })
            .collect();
        PageSet::of_numbers(pages)
    }
}

/// The pages of all mappings.
#[must_use]
pub fn page_set(mappings: &[Mapping]) -> PageSet {
    let mut set = PageSet::default();
    for map in mappings {
        set.push(map.start / PAGE_BYTES as u64..map.end / PAGE_BYTES as u64);
    }
    set
}

fn counters(status: &str) -> Option<Counters> {
    let field = |name: &str| {
        status.lines().find_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix(':')?.trim();
            value.strip_suffix(" kB")?.parse::<u64>().ok()
        })
    };
    Some(Counters {
        anon_bytes: field("RssAnon")? << 10,
        file_bytes: (field("RssFile")? + field("RssShmem")?) << 10,
        swapped_bytes: field("VmSwap")? << 10,
    })
}

/// The stack pointer in `/proc/PID/task/TID/syscall`: the last but one field of a thread that sleeps.
fn stack_pointer(path: &Path) -> Option<u64> {
    let text = file::read(path).ok()?;
    let mut fields = text.split_ascii_whitespace().rev();
    let _instruction = fields.next()?;
    u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_status_file() {
        let text = "Name:\tpython\nVmRSS:\t  60 kB\nRssAnon:\t   40 kB\nRssFile:\t   16 kB\n\
                    RssShmem:\t    4 kB\nVmSwap:\t   120 kB\n";
        let found = counters(text).unwrap();
        assert_eq!((found.anon_bytes, found.file_bytes), (40 << 10, 20 << 10));
        assert_eq!(found.swapped_bytes, 120 << 10);
        assert!(counters("Name:\tx\n").is_none());
    }

    #[test]
    fn own_memory_is_found_where_it_is() {
        let own = Own::open().unwrap();
        let memory = vec![1u8; 1 << 20];
        let first = memory.as_ptr() as u64 / PAGE_BYTES as u64 + 1;
        let mappings = own.mappings().unwrap();
        let look = own.look(&mappings).unwrap();
        assert!(look.present.contains(first) || look.swapped.contains(first));
        assert!(look.present.and(&look.swapped).is_empty());
        assert!(own.counters().unwrap().anon_bytes >= 1 << 20);
        let no_call = Own {
            can_scan: false,
            ..own
        };
        let read = no_call.look(&mappings).unwrap();
        assert!(read.present.contains(first) || read.swapped.contains(first));
    }

    #[test]
    fn sleeping_threads_have_stacks_and_running_ones_are_left_out() {
        let (wake, asleep) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel::<u64>();
        let sleeper = std::thread::spawn(move || {
            let here = 0u8;
            tell.send((&raw const here) as u64).unwrap();
            asleep.recv().unwrap();
        });
        let at = told.recv().unwrap() / PAGE_BYTES as u64;
        let own = Own::open().unwrap();
        // It may not sleep yet.
        let found = (0..10_000).any(|_| {
            std::thread::yield_now();
            own.stacks().contains(at)
        });
        wake.send(()).unwrap();
        sleeper.join().unwrap();
        assert!(found);
    }
}
