//! Pages of one process come back, mapped in place: its next use faults on nothing.
//!
//! What a disk holds is asked for in windows (`MADV_WILLNEED`, asynchronous), and each page is then read by a byte, which maps it.
//! Pages of compressed memory are read only: a read frees their compressed copy, which a readahead would leave.

use std::time::Instant;

use warmswap_page::PAGE_BYTES;
use warmswap_sys::advise::{Advice, PageRange, advise};
use warmswap_sys::memcg::{Group, bounds_of};
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::prepage::prepage;
use warmswap_sys::process::{Process, ProcessError, Stat};
use warmswap_sys::{FileError, Root};

use super::brake::{Brake, Halt};
use super::{Costs, Done, Target};
use crate::decide::order::{pages, without};
use crate::decide::switch::Cost;
use crate::see::areas::{self, Areas, Kind};
use crate::see::pages::{mapped, shared, swapped, within};
use crate::see::swap::Kinds;

/// Pages between two looks at what is free: 2 MiB, a few milliseconds.
const BATCH_PAGES: u64 = 512;

/// Pages of one read, after which the thread tells that it goes on: a slow disk takes half a second for them.
const READ_PAGES: usize = 64;

/// Pages that are read one by one, far apart, to see what a fault costs.
const SAMPLES: usize = 8;

/// Why a process cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It ended, or another has its number.
    #[error("the process has ended")]
    Gone,
    /// A call was refused.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file of it cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

impl TargetError {
    /// True when the process ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Gone => true,
            Self::Process(error) => error.is_gone(),
            Self::File(error) => error.is_gone(),
        }
    }
}

/// A process that is looked at: its handle, its page table and its mappings.
pub(super) struct Opened {
    pub process: Process,
    pub pagemap: Pagemap,
    pub areas: Areas,
}

impl Opened {
    /// Reads the mappings of a process that was opened.
    pub fn with(
        root: &Root,
        target: &Target,
        (process, pagemap): (Process, Pagemap),
    ) -> Result<Self, TargetError> {
        let areas = areas::read(root, target.id.pid)?;
        Ok(Self {
            process,
            pagemap,
            areas,
        })
    }

    /// Pages of files and of shared memory that the program used before, and that are not mapped now.
    pub fn unmapped(&self, target: &Target) -> Result<Vec<PageRange>, TargetError> {
        let known = within(target.memory.lock().mapped(), &self.areas.readable);
        if known.is_empty() {
            return Ok(known);
        }
        Ok(without(
            &known,
            &mapped(&self.pagemap, &self.areas.readable)?,
        ))
    }
}

/// Opens a process. None for one that is stopped or traced: nothing waits for its pages.
pub(super) fn open(
    root: &Root,
    target: &Target,
) -> Result<Option<(Process, Pagemap)>, TargetError> {
    let pid = target.id.pid;
    let process = Process::open(pid)?;
    let stat = Stat::read(root, pid)?;
    if stat.start_ticks != target.id.start_ticks || matches!(stat.state, 'Z' | 'X') {
        return Err(TargetError::Gone);
    }
    if matches!(stat.state, 'T' | 't') {
        return Ok(None);
    }
    Ok(Some((process, Pagemap::open(root, pid)?)))
}

/// One turn of bringing back.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The machine.
    pub root: &'a Root,
    /// When to stop.
    pub brake: Brake<'a>,
    /// Whether the kernel takes requests to read ahead.
    pub may_ask: bool,
    /// What pages cost, as it is measured meanwhile.
    pub costs: &'a mut Costs,
    /// What came back so far.
    pub done: Done,
}

impl Turn<'_> {
    /// Brings back what is away of a process and not cold: hot pages of its own memory, the others, shared memory, and pages of files.
    /// What stopped it before the end, if anything did.
    ///
    /// # Errors
    /// [`TargetError`]; what came back is in [`Self::done`].
    pub fn bring(&mut self, target: &Target) -> Result<Option<Halt>, TargetError> {
        self.brake.wait_for_launch();
        let bounds = bounds_of(self.root, target.id.pid);
        // Where there is no room nothing is looked at.
        if let Some(halt) = self.brake.halt(&bounds) {
            return Ok(Some(halt));
        }
        let Some(handles) = open(self.root, target)? else {
            return Ok(None);
        };
        let opened = Opened::with(self.root, target, handles)?;
        self.brake.beat();
        self.done.skipped_regions += opened.areas.skipped;
        let away = swapped(&opened.pagemap, &opened.areas.readable)?;
        let wanted = {
            let mut memory = target.memory.lock();
            memory.keep_only(&extents(&opened.areas));
            pages(&away, &memory)
        };
        self.done.cold_pages += wanted.cold_pages;
        for list in [&wanted.hot, &wanted.warm] {
            let halt = self.read(&opened, target, &bounds, list, Source::Private)?;
            if halt.is_some() {
                return Ok(halt);
            }
        }
        for readable in &opened.areas.readable {
            let area = &readable.area;
            if readable.kind == Kind::Shared && area.swapped_bytes > 0 {
                // Without the right to see the file behind it, it stays where it is.
                let found = shared(self.root, target.id.pid, &area.mapping).unwrap_or_default();
                let halt = self.read(&opened, target, &bounds, &found, Source::Shared)?;
                if halt.is_some() {
                    return Ok(halt);
                }
            }
        }
        let dropped = opened.unmapped(target)?;
        self.read(&opened, target, &bounds, &dropped, Source::File)
    }

    /// Reads pages in batches, as long as memory is free.
    fn read(
        &mut self,
        opened: &Opened,
        target: &Target,
        bounds: &[(Group, u64)],
        list: &[PageRange],
        source: Source,
    ) -> Result<Option<Halt>, TargetError> {
        let kinds = Kinds::in_use(self.root);
        let is_ahead = self.may_ask && (source != Source::Private || kinds.disk);
        let batches = batches(list);
        for (turn, batch) in batches.iter().enumerate() {
            self.brake.wait_for_launch();
            if let Some(halt) = self.brake.halt(bounds) {
                return Ok(Some(halt));
            }
            let pages = |range: &PageRange| range.first..range.first + range.count;
            let numbers: Vec<u64> = batch.iter().flat_map(pages).collect();
            let pid = target.id.pid;
            let sampled = match source {
                Source::Private if turn == 0 => sample(pid, &numbers)?,
                _ => None,
            };
            let begin = Instant::now();
            if is_ahead && turn == 0 {
                advise(&opened.process, Advice::WillNeed, batch)?;
            }
            // A disk reads the next batch while this one is mapped.
            if let Some(next) = batches.get(turn + 1).filter(|_| is_ahead) {
                advise(&opened.process, Advice::WillNeed, next)?;
            }
            let mut read = 0;
            for some in numbers.chunks(READ_PAGES) {
                read += prepage(pid, some)?;
                self.brake.beat();
            }
            if let Some(fault_ns) = sampled {
                let bulk_ns = begin.elapsed().as_nanos() as u64 / numbers.len() as u64;
                self.measured(kinds, Cost { fault_ns, bulk_ns });
            }
            self.done.refused_pages += numbers.len() as u64 - read;
            self.brake.brought(read);
            *match source {
                Source::Private => &mut self.done.private_pages,
                Source::Shared => &mut self.done.shared_pages,
                Source::File => &mut self.done.file_pages,
            } += read;
            if source == Source::Private {
                target.memory.lock().note_brought(batch);
            }
        }
        Ok(None)
    }

    /// Where several kinds of swap are in use, no page tells which one it came from.
    fn measured(&mut self, kinds: Kinds, cost: Cost) {
        match kinds {
            Kinds {
                memory: true,
                disk: false,
            } => self.costs.memory = self.costs.memory.with(cost),
            Kinds {
                memory: false,
                disk: true,
            } => self.costs.disk = self.costs.disk.with(cost),
            _ => {}
        }
    }
}

/// Reads a few pages of a full batch one by one; what each took.
fn sample(pid: u32, numbers: &[u64]) -> Result<Option<u64>, TargetError> {
    if (numbers.len() as u64) < BATCH_PAGES {
        return Ok(None);
    }
    let begin = Instant::now();
    for page in numbers.iter().step_by(numbers.len() / SAMPLES) {
        prepage(pid, std::slice::from_ref(page))?;
    }
    Ok(Some(begin.elapsed().as_nanos() as u64 / SAMPLES as u64))
}

/// Where pages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Private,
    Shared,
    File,
}

/// Pages in pieces that are read between two looks.
#[must_use]
pub fn batches(list: &[PageRange]) -> Vec<Vec<PageRange>> {
    let (mut batches, mut batch, mut left) = (Vec::new(), Vec::new(), BATCH_PAGES);
    for range in list {
        let (mut first, end) = (range.first, range.first + range.count);
        while first < end {
            let count = left.min(end - first);
            batch.push(PageRange { first, count });
            first += count;
            left -= count;
            if left == 0 {
                batches.push(std::mem::take(&mut batch));
                left = BATCH_PAGES;
            }
        }
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

fn extents(areas: &Areas) -> Vec<PageRange> {
    let page = PAGE_BYTES as u64;
    let mappings = areas.readable.iter().map(|readable| &readable.area.mapping);
    mappings
        .map(|mapping| PageRange {
            first: mapping.start / page,
            count: mapping.pages(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::range;

    #[test]
    fn batches_hold_all_pages_in_their_order() {
        let list = [range(10, 500), range(1000, 600), range(5000, 1)];
        let batches = batches(&list);
        assert_eq!(
            batches,
            [
                vec![range(10, 500), range(1000, 12)],
                vec![range(1012, 512)],
                vec![range(1524, 76), range(5000, 1)],
            ]
        );
    }
}
