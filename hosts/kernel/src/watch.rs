//! One watched process: which of its anonymous pages came and went since it was last looked at.

use std::ops::Range;
use std::sync::Arc;

use warmswap_page::PAGE_BYTES;
use warmswap_sys::accessed::{self, Accessed, PageTable};
use warmswap_sys::maps::Maps;
use warmswap_sys::pagemap::{Pagemap, Whose};
use warmswap_sys::process::{MemoryUse, Process, ProcessError, Stat};
use warmswap_sys::{FileError, Root};

use crate::application::ProcessId;
use crate::files::{FileNames, MappedFiles, Part};
use crate::pages::{ALL, BLOCK_PAGES, Change, Fresh, Pages, note};
use crate::rest::Effort;

/// Blocks between two others that are looked at along with them.
const NEAR_BLOCKS: u64 = 2;

/// Of so many looks at all pages, one asks anew which of them belong to files: a page of a file that is mapped privately
/// becomes the process's own when it is written to, and where another mapping took the place of one of a file, too.
const SURE_LOOKS: u32 = 16;

/// The part of the pages of files that is little when it comes or goes.
const FEW_FILE_PAGES: u64 = 32;

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
    /// Its anonymous pages, as they were at the last look.
    pub pages: Pages,
    pulse: Option<Pulse>,
    /// Where its accessed bits are; none before they were read.
    page_table: Option<PageTable>,
    /// What it had done when they were read last.
    accessed_effort: Option<Effort>,
    /// Looks at all pages so far.
    looks: u32,
    /// What it has mapped of files, as it was at the last look at that.
    pub files: MappedFiles,
    /// How many pages of files it had then.
    file_pages: Option<u64>,
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
        self.source().kind() == std::io::ErrorKind::PermissionDenied
    }

    /// True when descriptors or memory ran out: it can be watched another time.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        warmswap_sys::file::is_exhausted(self.source())
    }

    fn source(&self) -> &std::io::Error {
        match self {
            Self::Process(e) => &e.source,
            Self::File(e) => &e.source,
        }
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
        // Some have to be left: without one, the processes that ended could not be found.
        if pagemap.descriptor() + RESERVED_DESCRIPTORS > descriptor_limit() {
            let exhausted = std::io::Error::from(rustix::io::Errno::MFILE);
            return Err(
                FileError::new("open", &root.proc_file(id.pid, "pagemap"), exhausted).into(),
            );
        }
        let can_scan = pagemap.can_scan();
        Ok(Self {
            id,
            slice,
            process: Arc::new(process),
            pagemap,
            can_scan,
            pages: Pages::default(),
            pulse: None,
            page_table: None,
            accessed_effort: None,
            looks: 0,
            files: MappedFiles::default(),
            file_pages: None,
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

    /// Bytes that this watch takes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.pages.state_bytes() + self.files.state_bytes()
    }

    /// Forgets what was seen of it: as if it were not looked at yet.
    pub(crate) fn forget(&mut self) {
        self.pages = Pages::default();
        self.pulse = None;
        self.accessed_effort = None;
        self.looks = 0;
        self.files = MappedFiles::default();
        self.file_pages = None;
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

    /// What it did since it began; none if it is gone. Costs about 10 µs.
    #[must_use]
    pub(crate) fn effort(&self, root: &Root) -> Option<Effort> {
        let stat = Stat::read(root, self.id.pid).ok()?;
        (stat.start_ticks == self.id.start_ticks).then_some(Effort {
            faults: stat.minor_faults + stat.major_faults,
            cpu_ticks: stat.cpu_ticks,
            jobs: 0,
            waits: stat.state == 'D',
        })
    }

    /// Looks at the page table, and appends what changed since the last look, by page number. Costs about
    /// 10 ns a page, a quarter of that where nothing is new (50 ns where the kernel has no `PAGEMAP_SCAN`).
    ///
    /// # Errors
    /// [`WatchError`]; what was known stays as it was.
    pub fn look(&mut self, root: &Root, changes: &mut Vec<Change>) -> Result<(), WatchError> {
        let pulse = read_pulse(root, self.id)?;
        let is_sure = self.looks.is_multiple_of(SURE_LOOKS);
        self.looks = self.looks.wrapping_add(1);
        let mut fresh = self.scan(root, ALL, is_sure)?;
        if fresh.is_empty() {
            // The page table that the file was opened for is gone: the process executed another program, or ends.
            self.pagemap = Pagemap::open(root, self.id.pid)?;
            self.page_table = None;
            self.file_pages = None;
            if !self.pages.is_empty() {
                self.executed += 1;
                self.pages.compare(ALL, &[], changes);
            }
            fresh = self.scan(root, ALL, true)?;
        }
        self.pulse = Some(pulse);
        self.pages.compare(ALL, &fresh, changes);
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
        for span in spans(pages.iter().map(|page| page / BLOCK_PAGES)) {
            let fresh = self.scan(root, span.clone(), false)?;
            self.pages.compare(span, &fresh, changes);
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

    /// Appends the pages of which it is news that their accessed bits are set. Costs 1 µs for each 512 pages.
    ///
    /// # Errors
    /// That of [`Accessed::read`].
    pub(crate) fn accessed(
        &mut self,
        accessed: &mut Accessed,
        root: &Root,
        news: &mut Vec<u64>,
    ) -> std::io::Result<()> {
        self.accessed_effort = self.effort(root);
        let table = match self.page_table {
            Some(table) => table,
            None => *self.page_table.insert(accessed.page_table(&self.pagemap)?),
        };
        let blocks = self.pages.block_numbers();
        let pages = &mut self.pages;
        accessed.read(table, &blocks, |number, bits| {
            pages.note_accessed(number, bits, news);
        })
    }

    /// Whether it did anything since its accessed bits were read.
    pub(crate) fn stirs(&self, root: &Root) -> bool {
        self.accessed_effort != self.effort(root)
    }

    /// Clears the accessed bits of all its pages. Costs 0.1 µs a page.
    ///
    /// # Errors
    /// [`FileError`] when it is gone, or may not be written to.
    pub(crate) fn clear_accessed(&mut self, root: &Root) -> Result<(), FileError> {
        accessed::clear(root, self.id.pid)?;
        self.pages.forget_accessed();
        Ok(())
    }

    /// Looks at what is mapped of files, unless about as much is as the last time and it is not to be told `exactly`: what few
    /// pages tell is not worth a look at all of them. Costs about 1 µs a mapping and 10 ns a page (50 ns where the kernel has no `PAGEMAP_SCAN`).
    ///
    /// # Errors
    /// [`WatchError`]; what was known stays as it was.
    pub fn look_at_files(
        &mut self,
        root: &Root,
        names: &mut FileNames,
        exactly: bool,
    ) -> Result<(), WatchError> {
        let file_pages = MemoryUse::read(root, self.id.pid)?.file_bytes / PAGE_BYTES as u64;
        let is_alike = |last: u64| last.abs_diff(file_pages) <= last / FEW_FILE_PAGES;
        if !exactly && self.file_pages.is_some_and(is_alike) {
            return Ok(());
        }
        let maps = Maps::read(root, self.id.pid)?;
        let parts = Part::of(maps.as_slice(), names);
        let mut regions = Vec::new();
        let note = |region| regions.push(region);
        if self.can_scan {
            self.pagemap.scan_files(0, u64::MAX, note)?;
        } else {
            self.pagemap
                .read_files(maps.as_slice(), 0..u64::MAX, note)?;
        }
        self.files = MappedFiles::new(parts, &regions);
        self.file_pages = Some(file_pages);
        Ok(())
    }

    /// The pages that there are in a span of blocks. Which are foreign is asked where something is new; everywhere, to be
    /// sure.
    fn scan(&self, root: &Root, span: Range<u64>, is_sure: bool) -> Result<Vec<Fresh>, WatchError> {
        let mut fresh = Vec::new();
        if !self.can_scan {
            let maps = Maps::read(root, self.id.pid)?;
            let visit = |region| note(&mut fresh, region);
            self.pagemap
                .read_anonymous(maps.as_slice(), addresses(&span), visit)?;
            return Ok(fresh);
        }
        let visit = |region| note(&mut fresh, region);
        self.pagemap
            .scan_pages(Whose::Any, addresses(&span), visit)?;
        let asked = match is_sure {
            true => fresh.iter().map(Fresh::number).collect(),
            false => self.pages.unknown(&fresh),
        };
        let mut own = Vec::new();
        for span in spans(asked.iter().copied()) {
            let visit = |region| note(&mut own, region);
            self.pagemap
                .scan_pages(Whose::Own, addresses(&span), visit)?;
        }
        self.pages.classify(&mut fresh, &asked, &own);
        Ok(fresh)
    }
}

/// The addresses of a span of blocks.
fn addresses(span: &Range<u64>) -> Range<u64> {
    const BLOCK_BYTES: u64 = BLOCK_PAGES * PAGE_BYTES as u64;
    span.start.saturating_mul(BLOCK_BYTES)..span.end.saturating_mul(BLOCK_BYTES)
}

/// The spans in which these blocks are, which ascend. What is near is one span: a call for each costs more than to look at
/// a few blocks in vain.
fn spans(blocks: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for block in blocks {
        match spans.last_mut() {
            Some(last) if block < last.end + NEAR_BLOCKS => last.end = last.end.max(block + 1),
            _ => spans.push(block..block + 1),
        }
    }
    spans
}

/// Descriptors that no process under watch takes.
const RESERVED_DESCRIPTORS: u64 = 32;

/// Descriptors that this process may have.
fn descriptor_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
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
