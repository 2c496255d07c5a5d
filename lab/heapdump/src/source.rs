//! Where the bytes of a dump come from: a file, a compressed file, or a pipe.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::GzDecoder;

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

/// Reads a dump from its start. One that is compressed by gzip, in one member or many and zeros behind them, is unpacked on the
/// way.
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
        Box::new(Members(Some(GzDecoder::new(BufReader::new(input)))))
    } else {
        Box::new(input)
    })
}

/// The members of a file that is compressed by gzip, one after the other. Zeros behind the last one fill a block, as on tapes.
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let bytes = member.read(buffer)?;
            if bytes > 0 || buffer.is_empty() {
                return Ok(bytes);
            }
            let file = self.0.take().map(GzDecoder::into_inner);
            self.0 = file.map(next_member).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// The member that begins here; `None` where nothing but zeros follows.
fn next_member<R: BufRead>(mut file: R) -> io::Result<Option<GzDecoder<R>>> {
    let mut is_padded = false;
    loop {
        let bytes = file.fill_buf()?;
        match bytes.iter().position(|byte| *byte != 0) {
            None if bytes.is_empty() => return Ok(None),
            None => {
                is_padded = true;
                let count = bytes.len();
                file.consume(count);
            }
            Some(0) if !is_padded && bytes[0] == GZIP[0] => return Ok(Some(GzDecoder::new(file))),
            Some(_) => {
                let why = "behind the compressed data stands what is neither compressed by gzip nor zeros";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
    }
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
