//! Where the bytes of a dump come from: a file, a compressed file, or a pipe.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::{DumpError, Result};

const GZIP: &[u8] = b"\x1f\x8b";

/// Before text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes by which the format is told.
const HEAD_BYTES: u64 = 64;

/// Opens a file that can be read more than once. What a pipe gives is copied to a temporary file.
pub(crate) fn open(path: &Path) -> Result<File> {
    let failed = |source| DumpError::Io { offset: 0, source };
    let mut file = File::open(path).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if kind.is_dir() {
        return Err(DumpError::NotADump {
            found: Some("a folder"),
        });
    }
    if kind.is_file() {
        return Ok(file);
    }
    let mut copy = tempfile::tempfile().map_err(DumpError::Spool)?;
    io::copy(&mut file, &mut copy).map_err(DumpError::Spool)?;
    Ok(copy)
}

/// Reads a dump from its start. One that is compressed by gzip, in one member or many, is unpacked on the way.
pub(crate) fn unpacked<R: Read + Seek>(input: &mut R) -> Result<Box<dyn Read + '_>> {
    let failed = |source| DumpError::Io { offset: 0, source };
    input.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut head = Vec::new();
    let read = input
        .by_ref()
        .take(GZIP.len() as u64)
        .read_to_end(&mut head);
    read.map_err(failed)?;
    input.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(if head == GZIP {
        Box::new(MultiGzDecoder::new(BufReader::new(input)))
    } else {
        Box::new(input)
    })
}

/// Whether what is unpacked begins as a JSON object does, behind white space and a byte order mark.
pub(crate) fn is_json<R: Read + Seek>(input: &mut R) -> Result<bool> {
    let mut head = Vec::new();
    // A damage shows again where the file is read.
    let _ = unpacked(input)?.take(HEAD_BYTES).read_to_end(&mut head);
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
    Ok(head.trim_ascii_start().starts_with(b"{"))
}

/// What a file is that is no heap dump, by its first bytes.
pub(crate) fn recognize(head: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 12] = [
        (
            b"JAVA PROFILE 1.0.1,",
            "HPROF's text form, which format=b or jcmd GC.heap_dump avoids",
        ),
        (b"JAVA PROFILE", "another version of HPROF"),
        (
            b"\x00\x12portable heap",
            "a portable heap dump (PHD) of OpenJ9",
        ),
        (
            b"// Version:",
            "a heap dump of IBM's virtual machine in text form",
        ),
        (
            b"\x7fELF",
            "a core dump; jhsdb jmap --binaryheap makes a heap dump of it",
        ),
        (b"FLR\0", "a recording of JDK Flight Recorder"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x28\xb5\x2f\xfd", "a file compressed by zstd"),
        (b"\xfd7zXZ", "a file compressed by xz"),
        (b"BZh", "a file compressed by bzip2"),
        (GZIP, "a file compressed by gzip twice"),
        (b"\0\0\0\0", "zeros"),
    ];
    if head.is_empty() {
        return Some("an empty file");
    }
    let known = KNOWN.iter().find(|(start, _)| head.starts_with(start));
    known.map(|(_, name)| *name)
}
