//! One watched process: what its page tables and memory say.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use warmswap_page::PAGE_BYTES;
use warmswap_page::{AppId, PageAddr};
use warmswap_sys::Root;
use warmswap_sys::advise::{Advice, PageRange, advise, advise_on_every_cpu, ranges};
use warmswap_sys::maps::{Backing, Mapping, Maps};
use warmswap_sys::memory::MemoryFile;
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::process::Process;

use crate::error::RecordError;
use crate::tape::{Change, Tape};

/// Bits of a page number that hold the address within one process; the process's place in its
/// application stands above. 36 bits cover the 48-bit addresses that Linux gives unless asked for more.
pub const SLICE_BITS: u32 = 36;

/// Most processes of one application that can be told apart: page numbers have 52 bits.
pub(crate) const MAX_SLICES: u64 = 1 << (52 - SLICE_BITS);

/// Pages read by one system call.
const READ_PAGES: usize = 256;

/// A process under recording.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) process: Arc<Process>,
    slice: u64,
    pagemap: Pagemap,
    memory: MemoryFile,
    maps: Maps,
    /// Anonymous pages that it has, by address / 4096.
    anonymous: FxHashSet<u64>,
    /// Pages that the last page-out left in memory: their touches raise no fault.
    resident: FxHashSet<u64>,
    /// Pages that an access was written for in the present period.
    pub(crate) reported: FxHashSet<u64>,
    /// Not scanned yet.
    fresh: bool,
}

/// A page that is in memory at the end of a period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) page: PageAddr,
    /// Against what the trace said so far; [`Change::Same`] once the trace has told it.
    pub(crate) change: Change,
    /// The page must have been touched in this period, fault event or not.
    pub(crate) came_back: bool,
}

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The pages in memory, by address / 4096.
    pub(crate) seen: FxHashMap<u64, Seen>,
    /// Anonymous pages that are gone.
    pub(crate) freed: Vec<PageRange>,
    /// Addresses / 4096 of `seen`, ascending.
    order: Vec<u64>,
}

impl Scan {
    /// The pages in memory, ascending.
    pub(crate) fn order(&self) -> &[u64] {
        &self.order
    }
}

impl Subject {
    /// Takes hold of process `pid`, the `slice`-th of its application.
    pub(crate) fn open(root: &Root, pid: u32, slice: u64) -> Result<Self, RecordError> {
        Ok(Self {
            process: Arc::new(Process::open(pid)?),
            slice,
            pagemap: Pagemap::open(root, pid)?,
            memory: MemoryFile::open(root, pid)?,
            maps: Maps::read(root, pid)?,
            anonymous: FxHashSet::default(),
            resident: FxHashSet::default(),
            reported: FxHashSet::default(),
            fresh: true,
        })
    }

    pub(crate) fn anonymous_pages(&self) -> u64 {
        self.anonymous.len() as u64
    }

    pub(crate) fn resident_pages(&self) -> u64 {
        self.resident.len() as u64
    }

    /// All its anonymous pages as ranges of page numbers, for when it ended.
    pub(crate) fn all_anonymous(&self) -> Vec<PageRange> {
        let mut numbers: Vec<u64> = self.anonymous.iter().map(|n| self.number(*n)).collect();
        numbers.sort_unstable();
        ranges(numbers)
    }

    /// Reads the page tables and the contents of the pages in memory; the process stands still. The first
    /// scan reads the pages in swap as well.
    pub(crate) fn scan(
        &mut self,
        root: &Root,
        app: AppId,
        files: bool,
        tape: &mut Tape,
    ) -> Result<Scan, RecordError> {
        self.maps = match Maps::read(root, self.process.pid()) {
            Err(e) if e.is_gone() => return Ok(Scan::default()),
            maps => maps?,
        };
        let mut anonymous = FxHashSet::default();
        let mut to_read: Vec<(u64, PageAddr)> = Vec::new();
        let mut pages = Vec::new();
        for mapping in self.maps.as_slice().iter().filter(|m| accessible(m)) {
            pages.clear();
            self.pagemap
                .scan(mapping.start, mapping.end, |number, entry| {
                    pages.push((number, entry))
                })?;
            let is_file = matches!(mapping.backing, Backing::File(_));
            for &(number, entry) in &pages {
                // In a file's mapping, a page of the process's own is one copied on write.
                if is_file && (mapping.shared || entry.present() && entry.file()) {
                    if files && entry.present() && !is_shared_memory(mapping) {
                        to_read.push((number, file_page(mapping, number, tape)?));
                    }
                } else {
                    anonymous.insert(number);
                    if entry.present() || self.fresh {
                        to_read.push((
                            number,
                            PageAddr::Anon {
                                number: self.number(number),
                            },
                        ));
                    }
                }
            }
        }
        let freed = self.freed(&mut anonymous);
        for range in &freed {
            for number in range.first..range.first + range.count {
                tape.forget(app, PageAddr::Anon { number });
            }
        }
        self.anonymous = anonymous;
        let scan = Scan {
            freed,
            ..self.read(app, &to_read, tape)?
        };
        self.fresh = false;
        Ok(scan)
    }

    /// The pages that were anonymous and are no more. Those in memory without access right, which was not
    /// looked at, are added to `now`.
    fn freed(&self, now: &mut FxHashSet<u64>) -> Vec<PageRange> {
        let mut freed = Vec::new();
        for &number in self
            .anonymous
            .iter()
            .filter(|n| !now.contains(n))
            .collect::<Vec<_>>()
        {
            match self.maps.find(number * PAGE_BYTES as u64) {
                Some(mapping) if !accessible(mapping) => {
                    now.insert(number);
                }
                _ => freed.push(self.number(number)),
            }
        }
        freed.sort_unstable();
        ranges(freed)
    }

    fn read(
        &self,
        app: AppId,
        pages: &[(u64, PageAddr)],
        tape: &mut Tape,
    ) -> Result<Scan, RecordError> {
        let mut scan = Scan::default();
        let mut buffer = vec![0; READ_PAGES * PAGE_BYTES];
        let mut rest = pages;
        while let Some(&(first, _)) = rest.first() {
            let run = rest
                .iter()
                .zip(first..)
                .take(READ_PAGES)
                .take_while(|((n, _), m)| n == m)
                .count();
            let got = self
                .memory
                .read_pages(first, &mut buffer[..run * PAGE_BYTES])?;
            for ((number, page), bytes) in rest[..got].iter().zip(buffer.chunks_exact(PAGE_BYTES)) {
                let bytes = bytes.try_into().expect("chunks of one page");
                let change = tape.learn(app, *page, bytes)?;
                let came_back = !self.fresh && !self.resident.contains(number);
                scan.seen.insert(
                    *number,
                    Seen {
                        page: *page,
                        change,
                        came_back,
                    },
                );
                scan.order.push(*number);
            }
            // The page at which reading ended cannot be read: a hole of a file, a device.
            rest = &rest[(got + 1).min(run).max(got)..];
        }
        Ok(scan)
    }

    /// The page at `address`, as far as the mappings tell.
    pub(crate) fn resolve(
        &self,
        address: u64,
        tape: &mut Tape,
    ) -> Result<Option<PageAddr>, RecordError> {
        let number = address / PAGE_BYTES as u64;
        let own = PageAddr::Anon {
            number: self.number(number),
        };
        if self.anonymous.contains(&number) {
            return Ok(Some(own));
        }
        Ok(match self.maps.find(address) {
            Some(mapping) => match mapping.backing {
                Backing::Anonymous => Some(own),
                Backing::File(_) if is_shared_memory(mapping) => None,
                Backing::File(_) => Some(file_page(mapping, number, tape)?),
                Backing::Kernel => None,
            },
            None => None,
        })
    }

    /// Whether the page at `address` is one of a file, as of the last scan.
    pub(crate) fn is_of_file(&self, address: u64) -> bool {
        let is_own = self.anonymous.contains(&(address / PAGE_BYTES as u64));
        let mapping = self.maps.find(address);
        !is_own && mapping.is_some_and(|m| matches!(m.backing, Backing::File(_)))
    }

    /// Pages out everything that `scan` found in memory; what stays is remembered.
    pub(crate) fn page_out(&mut self, scan: &Scan) -> Result<(), RecordError> {
        self.reported.clear();
        let mut present = scan.order.clone();
        // What waits in the batch of another CPU is missed by the first attempt.
        for attempt in [advise, advise_on_every_cpu] {
            if present.is_empty() {
                break;
            }
            let runs = ranges(present.iter().copied());
            match attempt(&self.process, Advice::PageOut, &runs) {
                Err(e) if e.is_gone() => return Ok(()),
                result => result?,
            };
            present.clear();
            let page = PAGE_BYTES as u64;
            for run in runs {
                self.pagemap.scan(
                    run.first * page,
                    (run.first + run.count) * page,
                    |number, entry| {
                        if entry.present() {
                            present.push(number);
                        }
                    },
                )?;
            }
        }
        self.resident = present.into_iter().collect();
        Ok(())
    }

    fn number(&self, address_number: u64) -> u64 {
        self.slice << SLICE_BITS | address_number
    }
}

/// Whether the process may use the mapping, and the kernel lets us look at it.
fn accessible(mapping: &Mapping) -> bool {
    (mapping.read || mapping.write || mapping.execute) && mapping.backing != Backing::Kernel
}

/// Whether it is memory that processes share, which the kernel keeps as a file without a disk: it can be swapped, not
/// dropped and read again.
fn is_shared_memory(mapping: &Mapping) -> bool {
    const NAMES: [&[u8]; 4] = [b"/memfd:", b"/dev/shm/", b"/dev/zero", b"/SYSV"];
    match &mapping.backing {
        Backing::File(identity) => {
            let path = identity.path.as_os_str().as_encoded_bytes();
            NAMES.iter().any(|name| path.starts_with(name))
        }
        _ => false,
    }
}

fn file_page(mapping: &Mapping, number: u64, tape: &mut Tape) -> Result<PageAddr, RecordError> {
    let Backing::File(identity) = &mapping.backing else {
        unreachable!("asked for mappings of files only")
    };
    let least_bytes = mapping.offset_bytes + (mapping.end - mapping.start);
    let file = tape.file(identity, least_bytes)?;
    Ok(PageAddr::File {
        file,
        number: mapping.file_page(number * PAGE_BYTES as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_processes_share_is_no_file() {
        let maps = Maps::parse(
            "1000-2000 rw-s 00000000 00:01 77 /memfd:region (deleted)\n\
             3000-4000 rw-s 00000000 00:15 78 /dev/shm/segment\n\
             5000-6000 rw-s 00000000 00:01 79 /dev/zero (deleted)\n\
             7000-8000 r--s 00000000 fe:00 80 /usr/share/memfd:data\n\
             9000-a000 rw-p 00000000 00:00 0 \n",
        );
        let is_shared = maps
            .unwrap()
            .as_slice()
            .iter()
            .map(is_shared_memory)
            .collect::<Vec<_>>();
        assert_eq!(is_shared, [true, true, true, false, false]);
    }
}
