//! The memory of a process by mapping, with what of it is in swap: `/proc/PID/smaps`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use crate::maps::{Mapping, Maps};
use crate::{FileError, Root};

/// One mapping, and what the kernel says of its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryArea {
    /// Where it is, and what is behind it.
    pub mapping: Mapping,
    /// Bytes in swap. Those of shared memory are counted here and in no other file of the process.
    pub swapped_bytes: u64,
    /// Bytes whose accessed bit is set.
    pub referenced_bytes: u64,
    /// The kernel's flags, each two letters (`VmFlags`).
    pub flags: Vec<[u8; 2]>,
}

impl MemoryArea {
    /// Whether a read of its pages is answered by the kernel alone: not by a device, nor by a program that resolves faults of its
    /// own (userfaultfd), and its pages are not huge pages of a pool.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        const OTHERS: [&[u8; 2]; 7] = [b"io", b"pf", b"mm", b"um", b"uw", b"ui", b"ht"];
        !self.flags.is_empty() && !OTHERS.iter().any(|flag| self.flags.contains(flag))
    }
}

/// Reads `/proc/PID/smaps`. The kernel walks the page table: about 10 ns for each page, and a microsecond for each mapping. It
/// takes the lock of the process's address space, for which it may wait for long.
///
/// # Errors
/// [`FileError`]; [`FileError::is_gone`] when the process ended.
pub fn read(root: &Root, pid: u32) -> Result<Vec<MemoryArea>, FileError> {
    let path = root.proc_file(pid, "smaps");
    let file = File::open(&path).map_err(|error| FileError::new("open", &path, error))?;
    let mut areas: Vec<MemoryArea> = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| FileError::new("read", &path, error))?;
        // Paths may hold any bytes.
        let line = String::from_utf8_lossy(&line);
        match line.bytes().next() {
            Some(first) if !first.is_ascii_uppercase() => {
                let mapping = Maps::parse(&line).and_then(|maps| maps.as_slice().first().cloned());
                let mapping =
                    mapping.ok_or_else(|| FileError::unexpected(&path, "a line is no mapping"))?;
                areas.push(MemoryArea {
                    mapping,
                    swapped_bytes: 0,
                    referenced_bytes: 0,
                    flags: Vec::new(),
                });
            }
            Some(_) => {
                if let Some(area) = areas.last_mut() {
                    note(area, &line);
                }
            }
            None => {}
        }
    }
    Ok(areas)
}

/// One line below a mapping's own.
fn note(area: &mut MemoryArea, line: &str) {
    let Some((name, value)) = line.split_once(':') else {
        return;
    };
    let field = match name {
        "Swap" => &mut area.swapped_bytes,
        "Referenced" => &mut area.referenced_bytes,
        "VmFlags" => {
            let flags = value.split_ascii_whitespace();
            let two = flags.filter_map(|flag| <[u8; 2]>::try_from(flag.as_bytes()).ok());
            area.flags = two.collect();
            return;
        }
        _ => return,
    };
    let kib = value.trim().strip_suffix(" kB");
    *field = kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_mappings_are_understood() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        let text = "\
7f00-7f01 nonsense
";
        let root = Root::at(dir.path());
        let path = root.proc_file(7, "smaps");
        std::fs::write(&path, text).unwrap();
        assert!(read(&root, 7).is_err());
        let text = "\
5581e1000000-5581e1021000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
Rss:                  20 kB
Referenced:            8 kB
Swap:                 64 kB
SwapPss:              64 kB
VmFlags: rd wr mr mw me ac
7f0000000000-7f0000002000 rw-p 00000000 00:00 0 
Rss:                   0 kB
VmFlags: rd wr um
";
        std::fs::write(&path, text).unwrap();

        let areas = read(&root, 7).unwrap();

        assert_eq!(areas.len(), 2);
        assert_eq!(
            (areas[0].swapped_bytes, areas[0].referenced_bytes),
            (64 << 10, 8 << 10)
        );
        assert!(areas[0].is_ordinary());
        assert!(
            !areas[1].is_ordinary(),
            "its faults are resolved by a program"
        );
    }

    #[test]
    fn own_memory_is_ordinary() {
        let memory = vec![1u8; 1 << 20];
        let address = std::hint::black_box(&memory).as_ptr() as u64 + 4096;

        let areas = read(&Root::machine(), std::process::id()).unwrap();

        let own = |area: &&MemoryArea| (area.mapping.start..area.mapping.end).contains(&address);
        let area = areas.iter().find(own).unwrap();
        assert!(area.is_ordinary(), "{area:?}");
    }
}
