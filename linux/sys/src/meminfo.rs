//! Memory of the machine and what was swapped: `/proc/meminfo`, `/proc/vmstat`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::{FileError, Root, file};

/// The fields of `/proc/meminfo` that this project uses, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meminfo {
    /// All memory.
    pub total_bytes: u64,
    /// Unused memory.
    pub free_bytes: u64,
    /// What could be had without swapping.
    pub available_bytes: u64,
    /// Swap, all areas.
    pub swap_total_bytes: u64,
    /// Of it, unused.
    pub swap_free_bytes: u64,
    /// Memory that zswap's pool takes; 0 on kernels that do not say.
    pub zswap_pool_bytes: u64,
    /// Pages in zswap's pool, uncompressed; 0 on kernels that do not say.
    pub zswap_stored_bytes: u64,
    /// Pages of files in memory.
    pub file_bytes: u64,
    /// Of them, those that were not used lately.
    pub inactive_file_bytes: u64,
    /// Pages of files that have to be written, or are being written, before they can be given up.
    pub unwritten_bytes: u64,
    /// Memory reserved for huge pages of all sizes, used or not. Nothing else can have it.
    pub huge_pages_bytes: u64,
    /// Size of a huge page; 0 on kernels without.
    pub huge_page_bytes: u64,
}

impl Meminfo {
    /// Reads `/proc/meminfo`. Costs about 15 µs.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(root: &Root) -> Result<Self, FileError> {
        let path = root.path("/proc/meminfo");
        let text = file::read(&path)?;
        let field = |name: &str| fields(&text, name, ':').map(|kib| kib * 1024);
        let missing = || FileError::unexpected(&path, "no MemTotal");
        let free_bytes = field("MemFree").unwrap_or(0);
        let huge_page_bytes = field("Hugepagesize").unwrap_or(0);
        // Before Linux 4.20 only the pages of the default size are told.
        let huge_pages_bytes = field("Hugetlb").unwrap_or_else(|| {
            fields(&text, "HugePages_Total", ':').unwrap_or(0) * huge_page_bytes
        });
        let inactive_file_bytes = field("Inactive(file)").unwrap_or(0);
        Ok(Self {
            total_bytes: field("MemTotal").ok_or_else(missing)?,
            free_bytes,
            available_bytes: field("MemAvailable").unwrap_or(free_bytes),
            swap_total_bytes: field("SwapTotal").unwrap_or(0),
            swap_free_bytes: field("SwapFree").unwrap_or(0),
            zswap_pool_bytes: field("Zswap").unwrap_or(0),
            zswap_stored_bytes: field("Zswapped").unwrap_or(0),
            file_bytes: field("Active(file)").unwrap_or(0) + inactive_file_bytes,
            inactive_file_bytes,
            unwritten_bytes: field("Dirty").unwrap_or(0) + field("Writeback").unwrap_or(0),
            huge_pages_bytes,
            huge_page_bytes,
        })
    }

    /// Memory that programs and kernel share: all but what is reserved for huge pages.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.huge_pages_bytes)
    }

    /// Pages of files that were not used lately and can be given up at once: what was read or written once, for the most part.
    #[must_use]
    pub fn idle_file_bytes(&self) -> u64 {
        let idle_bytes = self
            .inactive_file_bytes
            .saturating_sub(self.unwritten_bytes);
        idle_bytes.min(self.available_bytes.saturating_sub(self.free_bytes))
    }
}

/// Processes that the kernel killed for want of memory since boot, of the whole machine and of control groups.
///
/// # Errors
/// [`FileError`].
pub fn oom_kills(root: &Root) -> Result<u64, FileError> {
    let text = file::read(&root.path("/proc/vmstat"))?;
    Ok(fields(&text, "oom_kill", ' ').unwrap_or(0))
}

/// Pages that went to swap and came back, since boot or since a group was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapTraffic {
    /// Pages that came back from swap, or from zswap before it, pages of zeros included.
    pub in_pages: u64,
    /// Pages that left for swap or zswap, pages of zeros included: Linux 6.12 and later notes these in a bitmap and writes
    /// nothing, and Linux 6.13 and later counts them apart from what is written.
    pub out_pages: u64,
    /// Pages that zswap gave back to a swap device; 0 without zswap.
    pub zswap_written_back_pages: u64,
}

impl SwapTraffic {
    /// Reads `/proc/vmstat`: the whole machine. Costs about 20 µs.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(root: &Root) -> Result<Self, FileError> {
        let text = file::read(&root.path("/proc/vmstat"))?;
        Ok(Self::parse(&text))
    }

    /// Reads `memory.stat` of the control group with this folder; `None` where it does not count what goes to swap, as in
    /// version 1.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn of_group(folder: &Path) -> Result<Option<Self>, FileError> {
        let text = file::read(&folder.join("memory.stat"))?;
        // Earlier kernels count what goes to zswap alone.
        let is_counted = fields(&text, "pswpout", ' ').is_some();
        Ok(is_counted.then(|| Self::parse(&text)))
    }

    fn parse(text: &str) -> Self {
        let field = |name: &str| fields(text, name, ' ').unwrap_or(0);
        // What zswap writes back left memory before.
        let written = (field("pswpout") + field("zswpout")).saturating_sub(field("zswpwb"));
        Self {
            in_pages: field("pswpin") + field("zswpin") + field("swpin_zero"),
            out_pages: written + field("swpout_zero"),
            zswap_written_back_pages: field("zswpwb"),
        }
    }
}

/// What the kernel reclaimed since boot, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// For want of memory on the machine, in the background or while a program waited. What it reclaims in groups at a limit of
    /// their own is not counted, nor what is paged out by advice.
    pub pages: u64,
    /// Of these, what it reclaimed while a program waited.
    pub waited_pages: u64,
    /// Memory of programs that went to swap, also in groups at a limit of their own; none before Linux 5.8.
    pub anonymous_pages: Option<u64>,
}

impl Reclaimed {
    /// Reads `/proc/vmstat`. Costs about 20 µs.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(root: &Root) -> Result<Self, FileError> {
        let text = file::read(&root.path("/proc/vmstat"))?;
        let field = |name| fields(&text, name, ' ');
        let waited_pages = field("pgsteal_direct").unwrap_or(0);
        Ok(Self {
            pages: field("pgsteal_kswapd").unwrap_or(0) + waited_pages,
            waited_pages,
            anonymous_pages: field("pgsteal_anon"),
        })
    }
}

/// What block devices and swap did since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockTraffic {
    /// Pages read from swap.
    pub in_pages: u64,
    /// Pages written to swap.
    pub out_pages: u64,
    /// Bytes read from all block devices, those of swap among them.
    pub read_bytes: u64,
    /// Bytes written to them.
    pub written_bytes: u64,
    /// Major faults of all processes.
    pub major_faults: u64,
}

/// `/proc/vmstat`, held open for frequent reads.
#[derive(Debug)]
pub struct VmstatFile {
    path: PathBuf,
    file: File,
    text: Vec<u8>,
}

impl VmstatFile {
    /// Opens it.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(root: &Root) -> Result<Self, FileError> {
        let path = root.path("/proc/vmstat");
        let file = File::open(&path).map_err(|e| FileError::new("open", &path, e))?;
        let text = Vec::new();
        Ok(Self { path, file, text })
    }

    /// Reads the counts of now. Costs about 20 µs.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(&mut self) -> Result<BlockTraffic, FileError> {
        let mut len = 0;
        loop {
            // Its length is not known before; a read of nothing is the end.
            self.text.resize((2 * len).max(8192), 0);
            let read = self.file.read_at(&mut self.text[len..], len as u64);
            let read = read.map_err(|e| FileError::new("read", &self.path, e))?;
            len += read;
            if read == 0 {
                break;
            }
        }
        let text = String::from_utf8_lossy(&self.text[..len]);
        let field = |name: &str| fields(&text, name, ' ').unwrap_or(0);
        Ok(BlockTraffic {
            in_pages: field("pswpin"),
            out_pages: field("pswpout"),
            read_bytes: field("pgpgin") * 1024,
            written_bytes: field("pgpgout") * 1024,
            major_faults: field("pgmajfault"),
        })
    }
}

fn fields(text: &str, name: &str, separator: char) -> Option<u64> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(separator)?.trim();
        value.trim_end_matches(" kB").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_files_are_understood() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        let meminfo = "MemTotal:       24682404 kB\nMemFree:         1198080 kB\nMemAvailable:   23797760 kB\n\
                       SwapTotal:       1048572 kB\nSwapFree:         948572 kB\nZswap:              2048 kB\n\
                       Zswapped:           8192 kB\nActive(file):   100 kB\nInactive(file):   28 kB\n\
                       Dirty:   5 kB\nWriteback:   3 kB\n\
                       HugePages_Total:       3\nHugepagesize:       2048 kB\nHugetlb:         1054720 kB\n";
        std::fs::write(dir.path().join("proc/meminfo"), meminfo).unwrap();
        let vmstat = "pgpgin 40\npgpgout 50\npswpin 12\npswpout 34\npswpoutx 9\nzswpin 3\nzswpout 20\nzswpwb 5\npgmajfault 8\npgsteal_kswapd 77\npgsteal_direct 5\npgsteal_anon 9\noom_kill 2\n";
        std::fs::write(dir.path().join("proc/vmstat"), vmstat).unwrap();
        let root = Root::at(dir.path());

        let memory = Meminfo::read(&root).unwrap();
        let traffic = SwapTraffic::read(&root).unwrap();

        assert_eq!(memory.total_bytes, 24_682_404 << 10);
        assert_eq!(
            memory.swap_total_bytes - memory.swap_free_bytes,
            100_000 << 10
        );
        assert_eq!(
            (memory.zswap_pool_bytes, memory.zswap_stored_bytes),
            (2 << 20, 8 << 20)
        );
        assert_eq!(memory.file_bytes, 128 << 10);
        assert_eq!(memory.idle_file_bytes(), 20 << 10);
        let short = Meminfo {
            available_bytes: memory.free_bytes + 7,
            ..memory
        };
        assert_eq!(short.idle_file_bytes(), 7);
        assert_eq!(memory.huge_pages_bytes, 1030 << 20);
        assert_eq!(memory.usable_bytes(), (24_682_404 << 10) - (1030 << 20));
        assert_eq!(oom_kills(&root).unwrap(), 2);
        // What zswap wrote back left memory before.
        let expected = SwapTraffic {
            in_pages: 12 + 3,
            out_pages: 34 + 20 - 5,
            zswap_written_back_pages: 5,
        };
        assert_eq!(traffic, expected);
        let expected = Reclaimed {
            pages: 82,
            waited_pages: 5,
            anonymous_pages: Some(9),
        };
        assert_eq!(Reclaimed::read(&root).unwrap(), expected);
        let mut open = VmstatFile::open(&root).unwrap();
        let expected = BlockTraffic {
            in_pages: 12,
            out_pages: 34,
            read_bytes: 40 << 10,
            written_bytes: 50 << 10,
            major_faults: 8,
        };
        assert_eq!(open.read().unwrap(), expected);
        assert_eq!(open.read().unwrap(), expected);
    }

    #[test]
    fn pages_of_zeros_went_to_swap_though_nothing_was_written() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        let vmstat = "pswpin 12\npswpout 34\nswpin_zero 1000\nswpout_zero 2000\nzswpin 3\nzswpout 20\nzswpwb 5\n";
        std::fs::write(dir.path().join("proc/vmstat"), vmstat).unwrap();

        let traffic = SwapTraffic::read(&Root::at(dir.path())).unwrap();

        let expected = SwapTraffic {
            in_pages: 12 + 3 + 1000,
            out_pages: 34 + 20 - 5 + 2000,
            zswap_written_back_pages: 5,
        };
        assert_eq!(traffic, expected);
    }

    #[test]
    fn a_group_has_traffic_of_its_own_where_it_counts_what_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            std::fs::write(dir.path().join("memory.stat"), text).unwrap();
            SwapTraffic::of_group(dir.path()).unwrap()
        };

        let own = of("anon 1\npswpin 4\npswpout 6\nswpin_zero 1\nswpout_zero 2\n").unwrap();
        assert_eq!((own.in_pages, own.out_pages), (5, 8));
        assert_eq!(of("anon 1\nzswpin 4\nzswpout 6\n"), None);
        assert_eq!(of("rss 1\ntotal_rss 1\n"), None);
    }

    #[test]
    fn an_old_kernel_tells_huge_pages_by_their_number() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        let meminfo =
            "MemTotal: 1048576 kB\nHugePages_Total:       3\nHugepagesize:       2048 kB\n";
        std::fs::write(dir.path().join("proc/meminfo"), meminfo).unwrap();
        let root = Root::at(dir.path());

        assert_eq!(Meminfo::read(&root).unwrap().huge_pages_bytes, 6 << 20);
    }

    #[test]
    fn the_machines_own_files_are_understood() {
        let memory = Meminfo::read(&Root::machine()).unwrap();

        assert!(memory.total_bytes >= memory.available_bytes && memory.available_bytes > 0);
        assert!(memory.usable_bytes() >= memory.available_bytes);
        Reclaimed::read(&Root::machine()).unwrap();
        oom_kills(&Root::machine()).unwrap();
        SwapTraffic::read(&Root::machine()).unwrap();
        let mut vmstat = VmstatFile::open(&Root::machine()).unwrap();
        let (before, after) = (vmstat.read().unwrap(), vmstat.read().unwrap());
        assert!(after.read_bytes >= before.read_bytes);
    }
}
