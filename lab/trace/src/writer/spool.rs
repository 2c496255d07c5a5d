//! The index of a trace that is being written.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

/// Index entries of a trace under way, in a nameless file so that they need no memory.
pub(crate) struct Spool {
    file: BufWriter<File>,
    pub(crate) entries: u64,
}

impl Spool {
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(tempfile::tempfile_in(dir)?),
            entries: 0,
        })
    }

    pub(crate) fn push(&mut self, encode: impl Fn(u64) -> Vec<u8>) -> io::Result<()> {
        self.file.write_all(&encode(self.entries))?;
        self.entries += 1;
        Ok(())
    }

    /// The spool's file, positioned at its start.
    pub(crate) fn rewind(&mut self) -> io::Result<File> {
        self.file.flush()?;
        let mut file = self.file.get_ref().try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}
