//! Which pages a process accessed: the accessed bits of its page table.
//!
//! The processor sets a bit in the page table entry of each page that it accesses. No file of `/proc` shows these bits by
//! page, and idle page tracking is left out of most kernels. What every distribution's kernel has is BPF: a program that
//! only reads kernel memory (`bpf`) copies page tables to this process, which looks at the bits (`walk`). Where the
//! tables are follows from the kernel's own description of its types (`btf`) and from the descriptor of
//! `/proc/PID/pagemap`, which refers to the process's address space.
//!
//! Nothing is written to kernel memory. Bits are cleared through `/proc/PID/clear_refs`, as by any tool. What is read while
//! the kernel changes it can be wrong, as can be what is read of tables that are freed at that moment: callers must take
//! the result for a hint.
//!
//! [`Accessed::open`] proves that it reads the right tables: it looks up pages of this process, and compares where they are
//! in memory with what `/proc/self/pagemap` says.

mod bpf;
mod btf;
mod walk;

use std::io;
use std::path::Path;

use warmswap_page::PAGE_BYTES;

use crate::pagemap::Pagemap;
use crate::{FileError, Root, file};
use bpf::KernelReader;
use walk::Layout;

/// Pages of a last-level page table: what [`Accessed::read`] visits at once.
pub const TABLE_PAGES: u64 = 512;

/// Pages of this process by which the layout of page tables is checked.
const PROOF_PAGES: usize = 16;

/// Accessed bits cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AccessedError {
    /// Page tables of other processors look different.
    #[error("accessed bits are read on x86-64 only")]
    Processor,
    /// The kernel does not describe its types, or not those that are needed.
    #[error("the kernel does not describe its types ({path}): CONFIG_DEBUG_INFO_BTF is missing")]
    Types {
        /// Where it would.
        path: String,
    },
    /// The kernel refuses the program.
    #[error("the kernel refuses a BPF program that reads kernel memory: {source}")]
    Program {
        /// Its answer: EPERM without CAP_BPF and CAP_PERFMON, or when the kernel is locked down.
        #[source]
        source: io::Error,
    },
    /// The tables that were found are not this process's.
    #[error("page tables were not found where this kernel should have them")]
    Layout,
    /// This process's own page table cannot be looked at.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Where the kernel keeps what leads from a descriptor to a page table; offsets in bytes.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    task_files: u64,
    files_table: u64,
    table_files: u64,
    file_private: u64,
    mm_top_table: u64,
}

impl Offsets {
    fn read(root: &Root) -> Result<Self, AccessedError> {
        let path = root.path("/sys/kernel/btf/vmlinux");
        let of = |path: &Path| {
            let types = btf::Types::parse(std::fs::read(path).ok()?)?;
            Some(Self {
                task_files: types.offset("task_struct", "files")?,
                files_table: types.offset("files_struct", "fdt")?,
                table_files: types.offset("fdtable", "fd")?,
                file_private: types.offset("file", "private_data")?,
                mm_top_table: types.offset("mm_struct", "pgd")?,
            })
        };
        of(&path).ok_or_else(|| AccessedError::Types {
            path: path.display().to_string(),
        })
    }
}

/// The page table of a process, by the kernel's address of its top level. It means something as long as the [`Pagemap`]
/// that it was found by is open, and the process has not executed another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTable(u64);

/// Reads accessed bits.
#[derive(Debug)]
pub struct Accessed {
    kernel: KernelReader,
    offsets: Offsets,
    layout: Layout,
}

impl Accessed {
    /// Loads the program, and finds out where page tables are. Takes about 20 ms.
    ///
    /// # Errors
    /// [`AccessedError`] says what is missing.
    pub fn open(root: &Root) -> Result<Self, AccessedError> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err(AccessedError::Processor);
        }
        let offsets = Offsets::read(root)?;
        let kernel = KernelReader::load().map_err(|source| AccessedError::Program { source })?;
        let mut this = Self {
            kernel,
            offsets,
            layout: Layout::default(),
        };
        this.layout = this.find_layout(root)?;
        Ok(this)
    }

    /// The page table that an open pagemap is about.
    ///
    /// # Errors
    /// The kernel's answer when the program cannot run; `NotFound` when this process's table of descriptors moved meanwhile.
    pub fn page_table(&mut self, pagemap: &Pagemap) -> io::Result<PageTable> {
        // Another thread may have the kernel move the table of descriptors between two steps: what is found then differs.
        let (first, second) = (self.top_table(pagemap)?, self.top_table(pagemap)?);
        let is_table = first != 0 && first.is_multiple_of(PAGE_BYTES as u64);
        match is_table && first == second {
            true => Ok(PageTable(first)),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn top_table(&mut self, pagemap: &Pagemap) -> io::Result<u64> {
        let Offsets {
            task_files,
            files_table,
            table_files,
            file_private,
            mm_top_table,
        } = self.offsets;
        let task = self.kernel.own_task()?;
        let files = self.kernel.word(task.wrapping_add(task_files))?;
        let table = self.kernel.word(files.wrapping_add(files_table))?;
        let array = self.kernel.word(table.wrapping_add(table_files))?;
        let at = array.wrapping_add(8 * pagemap.descriptor());
        let file = self.kernel.word(at)?;
        let mm = self.kernel.word(file.wrapping_add(file_private))?;
        self.kernel.word(mm.wrapping_add(mm_top_table))
    }

    /// Calls `visit`, in any order, for those of the `tables` (page numbers / [`TABLE_PAGES`], ascending) in which a page that
    /// is in memory was accessed since its bit was cleared, with a bit for each of their pages. Costs about 1 µs a table.
    ///
    /// # Errors
    /// The kernel's answer when the program cannot run.
    pub fn read(
        &mut self,
        process: PageTable,
        tables: &[u64],
        visit: impl FnMut(u64, &Bits),
    ) -> io::Result<()> {
        walk::accessed(&mut self.kernel, self.layout, process.0, tables, visit)
    }

    fn find_layout(&mut self, root: &Root) -> Result<Layout, AccessedError> {
        let proof = vec![1u8; (PROOF_PAGES + 1) * PAGE_BYTES];
        let first = (proof.as_ptr() as u64).div_ceil(PAGE_BYTES as u64);
        let own = Pagemap::open(root, std::process::id())?;
        let mut frames = Vec::new();
        let (start, end) = (first, first + PROOF_PAGES as u64);
        own.scan(
            start * PAGE_BYTES as u64,
            end * PAGE_BYTES as u64,
            |page, entry| frames.push((page, entry.frame())),
        )?;
        if frames.len() != PROOF_PAGES || frames.iter().any(|&(_, frame)| frame == 0) {
            return Err(AccessedError::Layout);
        }
        let find = |this: &mut Self| {
            let top = this.page_table(&own)?;
            walk::find_layout(&mut this.kernel, top.0, &frames)
        };
        let layout = find(self).map_err(|source| AccessedError::Program { source })?;
        // The bytes have to stay where they are until here.
        std::hint::black_box(&proof);
        layout.ok_or(AccessedError::Layout)
    }
}

/// A bit for each page of a table, the first page lowest.
pub type Bits = [u64; (TABLE_PAGES / 64) as usize];

/// Clears the accessed bits of a process's pages, but for its mappings of files. The kernel's reclaim holds what is cleared
/// not to be used until it is accessed again; for pages of files, which are read from a disk, it needs the bits itself.
/// Processors are not told: a page whose entry one of them has at hand is not seen to be accessed until it has read the
/// entry anew. Costs 0.1 µs a page, and about as much again for each that is accessed afterwards.
///
/// # Errors
/// [`FileError`] when the process is gone, or may not be written to.
pub fn clear(root: &Root, pid: u32) -> Result<(), FileError> {
    file::write(&root.proc_file(pid, "clear_refs"), "2")
}

#[cfg(test)]
mod tests;
