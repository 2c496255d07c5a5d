//! What was learned, kept over a restart of the host: a small text file for each program.
//!
//! Page numbers mean something in the same process alone, so that entries stand under the number and the start of their process,
//! and a file of another boot is not read. Losing a file costs a few faults: one that is damaged is reported, and never used.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use warmswap_sys::advise::PageRange;
use warmswap_sys::{FileError, Root, file};

use super::{ProcessMemory, Region};
use crate::see::application::ProcessId;

/// The first line of a file of this form.
const HEADER: &str = "warmswap learned pages 1";

/// Page numbers fit 52 bits.
const PAGES_END: u64 = 1 << 52;

/// What is known of the processes of one program.
pub type Memories = FxHashMap<ProcessId, ProcessMemory>;

/// The file of a program in a folder.
#[must_use]
pub fn path_of(folder: &Path, name: &str) -> PathBuf {
    let mut file = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => file.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => _ = write!(file, "%{byte:02x}"),
        }
    }
    folder.join(format!("{file}.pages"))
}

/// Reads what is kept of a program; nothing where there is none, or it is of another boot.
///
/// # Errors
/// [`FileError`] where the file cannot be read, or is damaged.
pub fn load(root: &Root, folder: &Path, name: &str) -> Result<Memories, FileError> {
    let path = path_of(folder, name);
    let text = match file::read(&path) {
        Err(error) if error.is_gone() => return Ok(Memories::default()),
        text => text?,
    };
    parse(&text, &boot(root)?).ok_or_else(|| FileError::unexpected(&path, "no learned pages"))
}

/// Keeps what is known of the processes of a program. What was kept before stays until all is written.
///
/// # Errors
/// [`FileError`].
pub fn save(
    root: &Root,
    folder: &Path,
    name: &str,
    memories: &[(ProcessId, ProcessMemory)],
) -> Result<(), FileError> {
    let text = text(&boot(root)?, memories);
    std::fs::create_dir_all(folder).map_err(|error| FileError::new("make", folder, error))?;
    let path = path_of(folder, name);
    let new = path.with_extension("new");
    let written = std::fs::File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| FileError::new("write", &new, error))?;
    std::fs::rename(&new, &path).map_err(|error| FileError::new("replace", &path, error))
}

fn boot(root: &Root) -> Result<String, FileError> {
    let text = file::read(&root.path("/proc/sys/kernel/random/boot_id"))?;
    Ok(text.trim().to_owned())
}

fn text(boot: &str, memories: &[(ProcessId, ProcessMemory)]) -> String {
    let mut text = format!("{HEADER}\nboot {boot}\n");
    let mut line = |words: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = text.write_fmt(words);
    };
    for (id, memory) in memories {
        line(format_args!("process {} {}\n", id.pid, id.start_ticks));
        let known = |(_, region): &(&u64, &Region)| region.hot != 0 || region.unused != 0;
        for (number, region) in memory.regions.iter().filter(known) {
            let Region { hot, unused, .. } = region;
            line(format_args!("region {number} {hot} {unused}\n"));
        }
        for range in &memory.mapped {
            line(format_args!("mapped {} {}\n", range.first, range.count));
        }
    }
    line(format_args!("end\n"));
    text
}

fn parse(text: &str, boot: &str) -> Option<Memories> {
    let mut lines = text.strip_suffix("end\n")?.lines();
    if lines.next()? != HEADER {
        return None;
    }
    if lines.next()?.strip_prefix("boot ")? != boot {
        return Some(Memories::default());
    }
    let mut memories = Memories::default();
    let mut memory: Option<&mut ProcessMemory> = None;
    for line in lines {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        match (kind, &numbers[..]) {
            ("process", &[pid, start_ticks]) => {
                let pid = u32::try_from(pid).ok()?;
                memory = Some(memories.entry(ProcessId { pid, start_ticks }).or_default());
            }
            ("region", &[number, hot, unused]) if number < PAGES_END / super::REGION_PAGES => {
                let region = Region {
                    hot,
                    unused: u8::try_from(unused).ok()?,
                    ..Region::default()
                };
                memory.as_mut()?.regions.insert(number, region);
            }
            ("mapped", &[first, count]) if count > 0 && first.checked_add(count)? <= PAGES_END => {
                let mapped = &mut memory.as_mut()?.mapped;
                if mapped.last().is_some_and(|l| l.first + l.count > first) {
                    return None;
                }
                mapped.push(PageRange { first, count });
            }
            _ => return None,
        }
    }
    Some(memories)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Machine, range};

    fn learned() -> ProcessMemory {
        let mut memory = ProcessMemory::default();
        for page in [5, 6, 7, 64, 900] {
            memory.note_touched(page);
        }
        memory.set_mapped(vec![range(3, 9), range(40, 1)]);
        memory
    }

    fn machine(boot: &str) -> Machine {
        let machine = Machine::new();
        machine.write("proc/sys/kernel/random/boot_id", format!("{boot}\n"));
        machine
    }

    const ID: ProcessId = ProcessId {
        pid: 7,
        start_ticks: 99,
    };

    #[test]
    fn what_is_saved_is_loaded_by_the_same_boot_alone() {
        let one = machine("one");
        let (root, folder) = (one.root(), one.path("learned"));
        let memory = learned();
        assert!(load(&root, &folder, "a/b").unwrap().is_empty());

        save(&root, &folder, "a/b", &[(ID, memory.clone())]).unwrap();

        let loaded = load(&root, &folder, "a/b").unwrap();
        assert_eq!(loaded[&ID], memory);
        assert!(load(&root, &folder, "a").unwrap().is_empty());
        let two = machine("two");
        assert!(load(&two.root(), &folder, "a/b").unwrap().is_empty());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_never_a_panic() {
        let whole = text("one", &[(ID, learned())]);
        assert!(parse(&whole, "one").is_some());
        for at in 0..whole.len() {
            assert!(parse(&whole[..at], "one").is_none(), "cut at {at}");
            let mut bytes = whole.clone().into_bytes();
            bytes[at] = b'9';
            // It may be another number; it is no panic.
            let _ = parse(&String::from_utf8(bytes).unwrap(), "one");
        }
        for bad in [
            "region 1 1 1",
            "process 7 1\nmapped 5 0",
            "process 7 1\nmapped 18446744073709551615 2",
            "process 7 1\nmapped 5 4\nmapped 6 1",
            "process 7 1\nregion 18446744073709551615 1 1",
            "process 7",
        ] {
            let text = format!("{HEADER}\nboot one\n{bad}\nend\n");
            assert!(parse(&text, "one").is_none(), "{bad}");
        }
    }
}
