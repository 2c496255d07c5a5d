//! The memory map of a process: `/proc/PID/maps`.

use std::path::PathBuf;

use crate::{FileError, Root, file};
use warmswap_page::PAGE_BYTES;

/// What a mapping is backed by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Anonymous memory, named by the kernel (`[heap]`, `[stack]`, `[anon:..]`) or nameless.
    Anonymous,
    /// A file, or shared memory, which the kernel keeps as a file of a hidden file system.
    File(FileIdentity),
    /// Pages of the kernel (`[vdso]`, `[vvar]`, `[vsyscall]`): they can neither be paged out nor read.
    Kernel,
}

/// Which file a mapping shows. Equal identities are the same file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device number as `major:minor` in hexadecimal, as the kernel prints it.
    pub device: String,
    /// Inode number.
    pub inode: u64,
    /// Path; ends in ` (deleted)` when the name is gone (memfd and the like).
    pub path: PathBuf,
}

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub execute: bool,
    /// Shared; otherwise private (copy on write).
    pub shared: bool,
    /// Offset in the file of `start`, in bytes; 0 for anonymous memory.
    pub offset_bytes: u64,
    /// What stands behind it.
    pub backing: Backing,
    /// The kernel's name for it (`[heap]`), or empty.
    pub name: String,
}

impl Mapping {
    /// Pages in the mapping.
    #[must_use]
    pub fn pages(&self) -> u64 {
        (self.end - self.start) / PAGE_BYTES as u64
    }

    /// The page of the file that is mapped at `address`, for file mappings.
    #[must_use]
    pub fn file_page(&self, address: u64) -> u64 {
        (self.offset_bytes + (address - self.start)) / PAGE_BYTES as u64
    }
}

/// The file that a process maps from `start` to `end`, whatever its name is by now and wherever it is mounted; absent
/// once the mapping has other bounds. Opening it needs `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`.
#[must_use]
pub fn mapped_file(root: &Root, pid: u32, start: u64, end: u64) -> PathBuf {
    root.proc_file(pid, "map_files")
        .join(format!("{start:x}-{end:x}"))
}

/// A process's mappings, ascending and disjoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Maps(Vec<Mapping>);

impl Maps {
    /// Reads `/proc/PID/maps`. Costs about a microsecond per mapping.
    ///
    /// # Errors
    /// [`FileError`]; [`FileError::is_gone`] when the process ended.
    pub fn read(root: &Root, pid: u32) -> Result<Self, FileError> {
        let path = root.proc_file(pid, "maps");
        let text = file::read(&path)?;
        Self::parse(&text).ok_or_else(|| FileError::unexpected(&path, "a line is not a mapping"))
    }

    /// Parses the text of a maps file; `None` when a line has not the documented form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let maps: Vec<Mapping> = text.lines().map(parse_line).collect::<Option<_>>()?;
        let ascending = maps.windows(2).all(|pair| pair[0].end <= pair[1].start);
        ascending.then_some(Self(maps))
    }

    /// The mapping that holds `address`.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|m| m.start <= address);
        self.0[..after].last().filter(|m| address < m.end)
    }

    /// All mappings, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[Mapping] {
        &self.0
    }
}

fn parse_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let mode = fields.next()?.as_bytes();
    let offset = fields.next()?;
    let device = fields.next()?;
    let inode: u64 = fields.next()?.parse().ok()?;
    let name = fields.next().unwrap_or("").trim_start();
    let (start, end) = (
        u64::from_str_radix(start, 16).ok()?,
        u64::from_str_radix(end, 16).ok()?,
    );
    if mode.len() != 4 || start >= end || !start.is_multiple_of(PAGE_BYTES as u64) {
        return None;
    }
    let backing = match name {
        "[vvar]" | "[vvar_vclock]" | "[vdso]" | "[vsyscall]" | "[uprobes]" => Backing::Kernel,
        _ if inode == 0 => Backing::Anonymous,
        _ => Backing::File(FileIdentity {
            device: device.to_owned(),
            inode,
            path: PathBuf::from(name),
        }),
    };
    Some(Mapping {
        start,
        end,
        read: mode[0] == b'r',
        write: mode[1] == b'w',
        execute: mode[2] == b'x',
        shared: mode[3] == b's',
        offset_bytes: u64::from_str_radix(offset, 16).ok()?,
        name: if matches!(backing, Backing::File(_)) {
            String::new()
        } else {
            name.to_owned()
        },
        backing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
5581e0a00000-5581e0a02000 r-xp 00001000 fe:00 1234                       /usr/bin/a name with spaces
5581e1000000-5581e1021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000002000 rw-s 00003000 00:01 77                         /memfd:shared (deleted)
7f0000010000-7f0000012000 rw-p 00000000 00:00 0 
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn recorded_lines_are_understood() {
        let maps = Maps::parse(TEXT).unwrap();

        let [code, heap, shared, nameless, vdso] = maps.as_slice() else {
            panic!("{maps:?}")
        };
        assert!(code.execute && !code.write && !code.shared);
        let Backing::File(identity) = &code.backing else {
            panic!("{code:?}")
        };
        assert_eq!(
            (identity.inode, identity.path.to_str().unwrap()),
            (1234, "/usr/bin/a name with spaces")
        );
        assert_eq!(code.file_page(0x5581_e0a0_1000), 2);
        assert_eq!(
            (heap.name.as_str(), &heap.backing, heap.pages()),
            ("[heap]", &Backing::Anonymous, 0x21)
        );
        assert!(
            shared.shared
                && matches!(&shared.backing, Backing::File(f) if f.path.ends_with("memfd:shared (deleted)"))
        );
        assert_eq!(nameless.backing, Backing::Anonymous);
        assert_eq!(vdso.backing, Backing::Kernel);
    }

    #[test]
    fn find_respects_both_ends() {
        let maps = Maps::parse(TEXT).unwrap();

        assert_eq!(maps.find(0x7f00_0000_0000).unwrap().offset_bytes, 0x3000);
        assert_eq!(maps.find(0x7f00_0000_1fff).unwrap().offset_bytes, 0x3000);
        assert!(maps.find(0x7f00_0000_2000).is_none());
        assert!(maps.find(0).is_none());
        assert!(maps.find(u64::MAX).is_none());
    }

    #[test]
    fn lines_of_another_form_are_refused() {
        for bad in [
            "nonsense",
            "1000-1000 rw-p 0 00:00 0",
            "2000-3000 rw 0 00:00 0",
            "zz-3000 rw-p 0 00:00 0",
        ] {
            assert!(Maps::parse(bad).is_none(), "{bad}");
        }
        let overlapping = "1000-3000 rw-p 0 00:00 0\n2000-4000 rw-p 0 00:00 0\n";
        assert!(Maps::parse(overlapping).is_none());
    }

    #[test]
    fn the_machines_own_maps_are_understood() {
        let maps = Maps::read(&Root::machine(), std::process::id()).unwrap();
        let local = 0u8;

        let stack = maps.find(std::ptr::from_ref(&local) as u64).unwrap();

        assert!(stack.write);
    }
}
