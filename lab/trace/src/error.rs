//! Everything that can go wrong with a trace, each in one line that names the file, the position in it and
//! what was expected there.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The parts of a trace file, as errors name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The fixed bytes at the start.
    Header,
    /// The JSON description after the header.
    Description,
    /// One block of events.
    EventBlock,
    /// One block of page contents.
    ContentBlock,
    /// The table of event blocks.
    EventIndex,
    /// The table of content blocks.
    ContentIndex,
    /// The JSON tables of applications and files.
    Tables,
    /// The fixed bytes at the end.
    Trailer,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Description => "description",
            Self::EventBlock => "event block",
            Self::ContentBlock => "content block",
            Self::EventIndex => "event index",
            Self::ContentIndex => "content index",
            Self::Tables => "application and file tables",
            Self::Trailer => "trailer",
        })
    }
}

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused a file operation.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a trace.
    #[error("{}: at byte 0: found {found}, expected the magic of a warmswap trace", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// The first bytes, in hex.
        found: String,
    },
    /// The file was written by a newer warmswap.
    #[error("{}: at byte {offset}: format version is {found}, expected at most {supported} (a newer warmswap wrote this file)", path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Where the version stands.
        offset: u64,
        /// The version of the file.
        found: u32,
        /// The newest version that this reader knows.
        supported: u32,
    },
    /// The trace was recorded on a machine with another page size.
    #[error("{}: pages have {found} bytes, expected {expected}", path.display())]
    PageSize {
        /// The file.
        path: PathBuf,
        /// The page size of the file.
        found: u32,
        /// The page size that warmswap knows.
        expected: u32,
    },
    /// More pages of one frame are in swap at a time than have numbers.
    #[error(
        "uid {uid}: more than {most} pages of the frame {pfn} are in swap at a time; a trace cannot tell them apart"
    )]
    TooManyPages {
        /// The application.
        uid: u64,
        /// The frame.
        pfn: u64,
        /// So many at most.
        most: u64,
    },
    /// The file ends too early.
    #[error("{}: at byte {offset}: the file ends, expected {expected} (the file is truncated or was never finished)", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where the file ends.
        offset: u64,
        /// What should stand there.
        expected: String,
    },
    /// A checksum does not match.
    #[error("{}: at byte {offset}: {section} checksum is {found:08x}, expected {expected:08x} (the file is damaged)", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// Where the section begins.
        offset: u64,
        /// The section.
        section: Section,
        /// CRC-32 of the bytes that were read.
        found: u32,
        /// CRC-32 that the file promises.
        expected: u32,
    },
    /// A section holds something that cannot be.
    #[error("{}: at byte {offset}: {section}: found {found}, expected {expected} (the file is damaged)", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the section begins.
        offset: u64,
        /// The section.
        section: Section,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The caller asked for a content that the trace does not have.
    #[error("{}: content {id} asked for, expected less than {count}", path.display())]
    NoSuchContent {
        /// The file.
        path: PathBuf,
        /// The content that was asked for.
        id: u64,
        /// Contents in the trace.
        count: u64,
    },
    /// Reading was ended by [`Stop`](crate::Stop).
    #[error("{}: stopped", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
    /// An event was written that is earlier than the one before it.
    #[error("{}: event {event} is at {found_ns} ns, expected at least {expected_ns} ns (events must not go back in time)", path.display())]
    TimeOrder {
        /// The file.
        path: PathBuf,
        /// Number of the refused event.
        event: u64,
        /// Its time in ns.
        found_ns: u64,
        /// Time of the event before, in ns.
        expected_ns: u64,
    },
    /// An event was written that no trace can hold.
    #[error("{}: event {event}: {field} is {found}, expected {expected}", path.display())]
    InvalidEvent {
        /// The file.
        path: PathBuf,
        /// Number of the refused event.
        event: u64,
        /// The field that is wrong.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What is allowed.
        expected: String,
    },
    /// A table has no room for one more entry.
    #[error("{}: more than {limit} {what}", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// The kind of entry that is counted.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
    /// A setting makes no sense.
    #[error("{name} is {found}, expected {expected}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// Its value.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// Data to import is not what its format says.
    #[error("{}: at {position}: found {found}, expected {expected}", path.display())]
    Import {
        /// The file that was read.
        path: PathBuf,
        /// The line or the byte.
        position: Position,
        /// What stands there.
        found: String,
        /// What should stand there.
        expected: String,
    },
    /// A folder to import has no swap-outs.
    #[error(
        "{}: No such file or directory; what can be imported is a folder of the Ariadne artifact, with swapout_trace.txt, or \
         swapout_trace.txt.meta and swapout_trace.txt.data",
        path.display()
    )]
    NothingToImport {
        /// The file that is missing.
        path: PathBuf,
    },
    /// A folder to import has files without a single page in them.
    #[error("{}: its files name no page: no swap-out, and none in lru_list.txt; nothing is written", .0.display())]
    NoPages(PathBuf),
    /// A folder to import has the same data in two forms, and which one is meant is not known.
    #[error("{}: {other} beside it is another form of the same: keep one of them", path.display())]
    TwoForms {
        /// The file of one form.
        path: PathBuf,
        /// The name of a file of the other.
        other: String,
    },
}

impl TraceError {
    /// Whether the system refused to write: what was read and asked for is not at fault.
    #[must_use]
    pub fn is_failed_write(&self) -> bool {
        match self {
            // What is named cannot be written by anybody.
            Self::Io { source, .. } if source.kind() == io::ErrorKind::InvalidInput => false,
            Self::Io { action, .. } => !matches!(*action, "open" | "read"),
            _ => false,
        }
    }
}

/// Where in an imported file something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Line, counted from 1.
    Line(u64),
    /// Byte, counted from 0.
    Byte(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Result of everything that reads or writes a trace.
pub type Result<T> = std::result::Result<T, TraceError>;
