//! Pressure stall information: how much of the time processes wait for memory.
//! Kernel documentation: accounting/psi.rst.

use std::path::Path;

use crate::{FileError, Root, file};

/// One kind of stall.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stall {
    /// Share of the last 10 s, 0 to 100.
    pub avg10_percent: f64,
    /// Share of the last 60 s, 0 to 100.
    pub avg60_percent: f64,
    /// Microseconds since boot.
    pub total_us: u64,
}

/// How much of the time tasks waited for memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryPressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks waited.
    pub full: Stall,
}

impl MemoryPressure {
    /// The machine's. `None` where the kernel does not keep it, or it is switched off.
    ///
    /// # Errors
    /// [`FileError`] for a file of another form.
    pub fn read(root: &Root) -> Result<Option<Self>, FileError> {
        Self::read_file(&root.path("/proc/pressure/memory"))
    }

    /// The file of a control group of version 2 (`memory.pressure`).
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn of_group(group: &Path) -> Result<Option<Self>, FileError> {
        Self::read_file(&group.join("memory.pressure"))
    }

    fn read_file(path: &Path) -> Result<Option<Self>, FileError> {
        match file::read(path) {
            Ok(text) => Self::parse(&text)
                .map(Some)
                .ok_or_else(|| FileError::unexpected(path, "no pressure line")),
            // Booted with psi=0, reading says EOPNOTSUPP.
            Err(e) if e.is_gone() || e.source.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Parses the text of a pressure file.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line = |kind: &str| {
            text.lines()
                .find_map(|l| l.strip_prefix(kind)?.strip_prefix(' '))
        };
        Some(Self {
            some: stall(line("some")?)?,
            full: line("full").and_then(stall).unwrap_or_default(),
        })
    }
}

fn stall(fields: &str) -> Option<Stall> {
    let field = |name: &str| {
        fields
            .split_ascii_whitespace()
            .find_map(|f| f.strip_prefix(name)?.strip_prefix('='))
    };
    Some(Stall {
        avg10_percent: field("avg10")?.parse().ok()?,
        avg60_percent: field("avg60")?.parse().ok()?,
        total_us: field("total")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "some avg10=1.53 avg60=0.87 avg300=0.25 total=4711\n\
                        full avg10=0.50 avg60=0.10 avg300=0.00 total=99\n";

    #[test]
    fn a_recorded_file_is_understood_and_a_missing_one_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/pressure")).unwrap();
        let root = Root::at(dir.path());
        assert_eq!(MemoryPressure::read(&root).unwrap(), None);

        std::fs::write(dir.path().join("proc/pressure/memory"), TEXT).unwrap();
        let pressure = MemoryPressure::read(&root).unwrap().unwrap();

        assert_eq!(pressure.some.avg10_percent, 1.53);
        assert_eq!((pressure.some.total_us, pressure.full.total_us), (4711, 99));
        std::fs::write(dir.path().join("proc/pressure/memory"), "none\n").unwrap();
        assert!(MemoryPressure::read(&root).is_err());
    }
}
