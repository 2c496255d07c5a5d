//! Opens a heap dump of any format that is read here.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use crate::error::Result;
use crate::graph::ObjectGraph;
use crate::{hprof, source, v8};

/// Which heap dump of a file to read. Tools append HPROF dumps to one file; each stands for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichDump {
    /// The first.
    First,
    /// The last.
    Last,
    /// By its number, from 1.
    Number(u32),
}

impl ObjectGraph {
    /// Reads the first dump in the file at `path`, which may be a pipe, or compressed by gzip. The format shows in its first
    /// bytes.
    ///
    /// # Errors
    /// As [`ObjectGraph::read`]; the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        DumpFile::open(path)?.graph(WhichDump::First)
    }

    /// Reads the first dump of a file, twice. The file may be compressed by gzip.
    ///
    /// Memory while reading: about 60 bytes for an object and 8 for a reference (V8: 30 and 4), at worst a small multiple of
    /// the file.
    ///
    /// # Errors
    /// The file is damaged, cannot be read, changes meanwhile, or has more than 2³² - 1 objects.
    pub fn read(input: &mut (impl Read + Seek)) -> Result<Self> {
        Self::read_dump(input, WhichDump::First)
    }

    /// The same for any dump of the file.
    ///
    /// # Errors
    /// As [`ObjectGraph::read`]; the file has fewer dumps.
    pub fn read_dump(input: &mut (impl Read + Seek), which: WhichDump) -> Result<Self> {
        if source::is_json(input)? {
            v8::read(input, which)
        } else {
            hprof::read(input, which)
        }
    }
}

/// A file of heap dumps.
#[derive(Debug)]
pub struct DumpFile {
    file: File,
}

impl DumpFile {
    /// Opens it. What a pipe gives is copied to a temporary file, since a dump is read twice.
    ///
    /// # Errors
    /// It cannot be opened or copied.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let file = source::open(path.as_ref())?;
        Ok(Self { file })
    }

    /// Reads one of its dumps.
    ///
    /// # Errors
    /// As [`ObjectGraph::read_dump`].
    pub fn graph(&mut self, which: WhichDump) -> Result<ObjectGraph> {
        ObjectGraph::read_dump(&mut self.file, which)
    }
}
