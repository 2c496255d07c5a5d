//! One watched process: which of its anonymous pages came and went since it was last looked at.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use warmswap_sys::maps::Maps;
use warmswap_sys::pagemap::{Pagemap, Region, Residence};
use warmswap_sys::process::{Process, ProcessError, Stat};
use warmswap_sys::{FileError, PAGE_BYTES, Root};

use crate::application::ProcessId;

/// Pages that are kept together.
const BLOCK_PAGES: u64 = 512;

/// All blocks.
const ALL: Range<u64> = 0..u64::MAX;

/// Blocks between two others that are looked at along with them.
const NEAR_BLOCKS: u64 = 2;

// A page's state: where it is, in the two lowest bits, and marks.
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const SWAPPED: u8 = 2;
const WHERE: u8 = 3;
/// It is being brought back ahead of use.
const AHEAD: u8 = 4;
/// The kernel was told that it is cold.
const COOLED: u8 = 8;

/// What happened to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is in memory, and did not exist before.
    Appeared,
    /// It is in swap, and was not known before.
    AppearedSwapped,
    /// It was in swap and is in memory: it was touched, or read ahead by a prefetch that maps it.
    CameBack {
        /// It had been brought back ahead of use, and not been touched since.
        ahead: bool,
    },
    /// It was in memory and is in swap.
    Left,
    /// It existed, and does no more.
    Freed,
}

/// One change of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The page's number: its address / 4096.
    pub page: u64,
    /// What happened.
    pub what: What,
}

/// 512 neighbouring pages.
#[derive(Debug)]
struct Block {
    state: [u8; BLOCK_PAGES as usize],
    /// The launch in which the page was last seen to be accessed, modulo 256; 0 for none.
    seen: [u8; BLOCK_PAGES as usize],
}

impl Block {
    fn new() -> Box<Self> {
        Box::new(Self {
            state: [ABSENT; BLOCK_PAGES as usize],
            seen: [0; BLOCK_PAGES as usize],
        })
    }
}

/// Pages in memory and in swap at the last look.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    present: u64,
    swapped: u64,
}

impl Tally {
    /// A page goes from one place to another.
    fn moved(&mut self, from: u8, to: u8) {
        self.present -= u64::from(from == PRESENT);
        self.swapped -= u64::from(from == SWAPPED);
        self.present += u64::from(to == PRESENT);
        self.swapped += u64::from(to == SWAPPED);
    }
}

/// What of a process changes whenever a page of it comes or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pulse {
    minor_faults: u64,
    major_faults: u64,
    resident_pages: u64,
}

/// A process under watch.
#[derive(Debug)]
pub struct Watched {
    id: ProcessId,
    /// Its part of the application's page numbers.
    slice: u64,
    process: Arc<Process>,
    pagemap: Pagemap,
    can_scan: bool,
    blocks: BTreeMap<u64, Box<Block>>,
    pulse: Option<Pulse>,
    tally: Tally,
    /// It executed another program since it was watched.
    pub(crate) executed: u64,
    /// The kernel lets nobody page it out.
    pub(crate) is_untouchable: bool,
}

/// A process cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// It is gone, or may not be reached.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Its page table cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

impl WatchError {
    /// True when the process ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Process(e) => e.is_gone(),
            Self::File(e) => e.is_gone(),
        }
    }

    /// True when permission is missing.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let source = match self {
            Self::Process(e) => &e.source,
            Self::File(e) => &e.source,
        };
        source.kind() == std::io::ErrorKind::PermissionDenied
    }
}

impl Watched {
    /// Takes hold of a process. Nothing of it is looked at yet.
    ///
    /// # Errors
    /// [`WatchError`]; permission is that of ptrace.
    pub fn open(root: &Root, id: ProcessId, slice: u64) -> Result<Self, WatchError> {
        let process = Process::open(id.pid)?;
        let pagemap = Pagemap::open(root, id.pid)?;
        // The handles were opened by number: check that it is still that process.
        if Stat::read(root, id.pid)?.start_ticks != id.start_ticks {
            let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(FileError::new("open", &root.proc_file(id.pid, "stat"), gone).into());
        }
        let can_scan = pagemap.can_scan();
        Ok(Self {
            id,
            slice,
            process: Arc::new(process),
            pagemap,
            can_scan,
            blocks: BTreeMap::new(),
            pulse: None,
            tally: Tally::default(),
            executed: 0,
            is_untouchable: false,
        })
    }

    /// Which process it is.
    #[must_use]
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Its part of the application's page numbers.
    #[must_use]
    pub fn slice(&self) -> u64 {
        self.slice
    }

    /// A handle that other threads may use.
    #[must_use]
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Pages in memory at the last look.
    #[must_use]
    pub fn present_pages(&self) -> u64 {
        self.tally.present
    }

    /// Pages in swap at the last look.
    #[must_use]
    pub fn swapped_pages(&self) -> u64 {
        self.tally.swapped
    }

    /// Bytes that this watch takes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.blocks.len() * (size_of::<Block>() + 24)
    }

    /// About how many pages came or went since the last look, by the process's counters: 0 if it did not stir.
    /// Costs about 10 µs.
    #[must_use]
    pub fn news(&self, root: &Root) -> u64 {
        match (self.pulse, read_pulse(root, self.id)) {
            (Some(last), Ok(now)) => {
                let minor = now.minor_faults.saturating_sub(last.minor_faults);
                let major = now.major_faults.saturating_sub(last.major_faults);
                minor + major + now.resident_pages.abs_diff(last.resident_pages)
            }
            (None, _) => u64::MAX,
            // It is gone: that is noticed when processes are looked for.
            (_, Err(_)) => 0,
        }
    }

    /// Looks at the page table, and appends what changed since the last look, by page number. Costs about
    /// 10 ns a page (50 ns where the kernel has no `PAGEMAP_SCAN`).
    ///
    /// # Errors
    /// [`WatchError`]; what was known stays as it was.
    pub fn look(&mut self, root: &Root, changes: &mut Vec<Change>) -> Result<(), WatchError> {
        let pulse = read_pulse(root, self.id)?;
        let mut fresh = self.scan(root, ALL)?;
        if fresh.is_empty() && !self.blocks.is_empty() {
            // The page table that the file was opened for is gone: the process executed another program, or ends.
            self.pagemap = Pagemap::open(root, self.id.pid)?;
            self.executed += 1;
            self.compare(ALL, &[], changes);
            fresh = self.scan(root, ALL)?;
        }
        self.pulse = Some(pulse);
        self.compare(ALL, &fresh, changes);
        Ok(())
    }

    /// Looks at the surroundings of these pages only, which ascend: where something was just done to them. What
    /// else happened is left to the next [`Self::look`]. Costs about 10 ns for each page of the blocks of 2 MiB in
    /// which they are, and 10 µs.
    ///
    /// # Errors
    /// [`WatchError`]; what was not looked at yet stays as it was.
    pub fn look_around(
        &mut self,
        root: &Root,
        pages: &[u64],
        changes: &mut Vec<Change>,
    ) -> Result<(), WatchError> {
        for span in spans(pages) {
            let fresh = self.scan(root, span.clone())?;
            self.compare(span, &fresh, changes);
        }
        let now = read_pulse(root, self.id)?;
        if let Some(last) = &mut self.pulse
            && (last.minor_faults, last.major_faults) == (now.minor_faults, now.major_faults)
        {
            // It did not stir: what left was sent away.
            last.resident_pages = now.resident_pages;
        }
        Ok(())
    }

    /// The pages that there are in a span of blocks.
    fn scan(&self, root: &Root, span: Range<u64>) -> Result<Vec<Fresh>, WatchError> {
        const BLOCK_BYTES: u64 = BLOCK_PAGES * PAGE_BYTES as u64;
        let (start, end) = (
            span.start.saturating_mul(BLOCK_BYTES),
            span.end.saturating_mul(BLOCK_BYTES),
        );
        let mut fresh = Vec::new();
        if self.can_scan {
            self.pagemap
                .scan_anonymous(start, end, |region| note(&mut fresh, region))?;
        } else {
            let maps = Maps::read(root, self.id.pid)?;
            let visit = |region| note(&mut fresh, region);
            self.pagemap
                .read_anonymous(maps.as_slice(), start..end, visit)?;
        }
        Ok(fresh)
    }

    /// Compares the blocks of a span with what they are now.
    fn compare(&mut self, span: Range<u64>, fresh: &[Fresh], changes: &mut Vec<Change>) {
        let mut next = fresh.iter().map(|f| f.number).peekable();
        let mut gone = Vec::new();
        for (&number, block) in self.blocks.range(span) {
            while next.peek().is_some_and(|&n| n < number) {
                next.next();
            }
            if next.peek() != Some(&number) {
                gone.push(number);
                for (at, &state) in block.state.iter().enumerate() {
                    self.tally.moved(state & WHERE, ABSENT);
                    if state & WHERE != ABSENT {
                        let page = number * BLOCK_PAGES + at as u64;
                        let what = What::Freed;
                        changes.push(Change { page, what });
                    }
                }
            }
        }
        for number in gone {
            self.blocks.remove(&number);
        }
        for Fresh { number, state } in fresh {
            let block = self.blocks.entry(*number).or_insert_with(Block::new);
            for (at, &now) in state.iter().enumerate() {
                let before = block.state[at];
                if before & WHERE == now {
                    continue;
                }
                self.tally.moved(before & WHERE, now);
                let what = match (before & WHERE, now) {
                    (ABSENT, PRESENT) => What::Appeared,
                    (ABSENT, _) => What::AppearedSwapped,
                    (_, ABSENT) => What::Freed,
                    (_, SWAPPED) => What::Left,
                    _ => What::CameBack {
                        ahead: before & AHEAD != 0,
                    },
                };
                block.state[at] = now;
                if now == ABSENT {
                    block.seen[at] = 0;
                }
                let page = number * BLOCK_PAGES + at as u64;
                changes.push(Change { page, what });
            }
        }
    }

    /// Notes that a page that is in swap is being brought back ahead of use.
    pub fn mark_ahead(&mut self, page: u64) {
        if let Some(block) = self.blocks.get_mut(&(page / BLOCK_PAGES)) {
            let state = &mut block.state[(page % BLOCK_PAGES) as usize];
            if *state & WHERE == SWAPPED {
                *state |= AHEAD;
            }
        }
    }

    /// Takes the mark back. True if it was there: the page was not touched.
    pub fn take_ahead(&mut self, page: u64) -> bool {
        let block = self.blocks.get_mut(&(page / BLOCK_PAGES));
        block.is_some_and(|block| {
            let state = &mut block.state[(page % BLOCK_PAGES) as usize];
            let was = *state & AHEAD != 0;
            *state &= !AHEAD;
            was
        })
    }

    /// Notes that the kernel is told that a page in memory is cold. True if it was not told since the page came.
    pub fn mark_cooled(&mut self, page: u64) -> bool {
        let block = self.blocks.get_mut(&(page / BLOCK_PAGES));
        block.is_some_and(|block| {
            let state = &mut block.state[(page % BLOCK_PAGES) as usize];
            let is_news = *state == PRESENT;
            *state |= if is_news { COOLED } else { 0 };
            is_news
        })
    }

    /// Whether the page was in memory at the last look; none if it did not exist.
    #[must_use]
    pub fn residence(&self, page: u64) -> Option<Residence> {
        let block = self.blocks.get(&(page / BLOCK_PAGES))?;
        match block.state[(page % BLOCK_PAGES) as usize] & WHERE {
            PRESENT => Some(Residence::Present),
            SWAPPED => Some(Residence::Swapped),
            _ => None,
        }
    }

    /// Notes that the page was seen to be accessed in this launch (modulo 256, not 0).
    pub fn mark_seen(&mut self, page: u64, launch: u8) {
        if let Some(block) = self.blocks.get_mut(&(page / BLOCK_PAGES)) {
            block.seen[(page % BLOCK_PAGES) as usize] = launch;
        }
    }

    /// Whether the page was seen to be accessed in one of the `launches` launches before `launch`, or in it.
    #[must_use]
    pub fn was_seen(&self, page: u64, launch: u8, launches: u8) -> bool {
        let block = self.blocks.get(&(page / BLOCK_PAGES));
        block.is_some_and(|block| {
            let seen = block.seen[(page % BLOCK_PAGES) as usize];
            seen != 0 && launches_between(seen, launch) <= launches
        })
    }

    /// The pages in memory that were seen to be accessed in one of the `launches` launches before `launch`, but
    /// not in it.
    pub fn seen_lately(&self, launch: u8, launches: u8) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().flat_map(move |(number, block)| {
            let pages = block.state.iter().zip(&block.seen).enumerate();
            pages.filter_map(move |(at, (state, &seen))| {
                let age = launches_between(seen, launch);
                let is_late = seen != 0 && age > 0 && age <= launches;
                (is_late && state & WHERE == PRESENT).then_some(number * BLOCK_PAGES + at as u64)
            })
        })
    }

    /// All its pages, to forget them.
    pub fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().flat_map(|(number, block)| {
            let pages = block.state.iter().enumerate();
            pages.filter_map(move |(at, state)| {
                (state & WHERE != ABSENT).then_some(number * BLOCK_PAGES + at as u64)
            })
        })
    }
}

/// Launches have the numbers 1 to 255, over and over.
#[must_use]
pub fn next_launch(launch: u8) -> u8 {
    launch % 255 + 1
}

fn launches_between(earlier: u8, later: u8) -> u8 {
    if later >= earlier {
        later - earlier
    } else {
        (u16::from(later) + 255 - u16::from(earlier)) as u8
    }
}

/// A block as the page table has it now.
struct Fresh {
    number: u64,
    state: [u8; BLOCK_PAGES as usize],
}

/// Adds a region; they come in ascending order.
fn note(fresh: &mut Vec<Fresh>, region: Region) {
    let state = match region.residence {
        Residence::Present => PRESENT,
        Residence::Swapped => SWAPPED,
    };
    let (mut page, end) = (region.first, region.first + region.count);
    while page < end {
        let number = page / BLOCK_PAGES;
        let block_end = end.min((number + 1) * BLOCK_PAGES);
        if fresh.last().is_none_or(|last| last.number != number) {
            fresh.push(Fresh {
                number,
                state: [ABSENT; BLOCK_PAGES as usize],
            });
        }
        if let Some(block) = fresh.last_mut() {
            let base = number * BLOCK_PAGES;
            block.state[(page - base) as usize..(block_end - base) as usize].fill(state);
        }
        page = block_end;
    }
}

/// The spans of blocks in which these pages are, which ascend. What is near is one span: a call for each costs more
/// than to look at a few blocks in vain.
fn spans(pages: &[u64]) -> Vec<Range<u64>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for block in pages.iter().map(|page| page / BLOCK_PAGES) {
        match spans.last_mut() {
            Some(last) if block < last.end + NEAR_BLOCKS => last.end = last.end.max(block + 1),
            _ => spans.push(block..block + 1),
        }
    }
    spans
}

fn read_pulse(root: &Root, id: ProcessId) -> Result<Pulse, FileError> {
    let stat = Stat::read(root, id.pid)?;
    if stat.start_ticks != id.start_ticks {
        let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(FileError::new(
            "read",
            &root.proc_file(id.pid, "stat"),
            gone,
        ));
    }
    Ok(Pulse {
        minor_faults: stat.minor_faults,
        major_faults: stat.major_faults,
        resident_pages: stat.resident_pages,
    })
}

#[cfg(test)]
mod tests;
