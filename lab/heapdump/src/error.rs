//! Why a dump cannot be read: the place in the file, and what was expected there.

use std::io;

/// A result of this crate.
pub type Result<T, E = DumpError> = std::result::Result<T, E>;

/// Why a dump cannot be read. Offsets count bytes from the start of the file, unpacked if it is compressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The operating system refused to open or read the file.
    #[error("at byte {offset}: cannot read: {source}")]
    Io {
        /// Where the read began.
        offset: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file does not start as a heap dump does.
    #[error(
        "at byte 0: expected \"JAVA PROFILE 1.0.1\", 1.0.2 or 1.0.3, or V8's JSON{}",
        found_text(*found)
    )]
    NotADump {
        /// What the file is instead, where its first bytes tell.
        found: Option<&'static str>,
    },
    /// The file ends between two records of an unfinished heap dump, or goes on with zeros.
    #[error("at byte {offset}: the file is cut off, {missing} is missing")]
    CutOff {
        /// Where the missing item would begin.
        offset: u64,
        /// What is missing.
        missing: &'static str,
    },
    /// The file has fewer heap dumps.
    #[error("there is no heap dump number {wanted} in the file, which has {dumps}")]
    NoSuchDump {
        /// The number asked for.
        wanted: u32,
        /// Heap dumps in the file.
        dumps: u32,
    },
    /// A pipe is read twice, and so is copied to a temporary file first.
    #[error("cannot keep a temporary copy of what a pipe gives: {0}")]
    Spool(#[source] io::Error),
    /// The file ends too early.
    #[error("at byte {offset}: the file ends, expected {expected}")]
    Ended {
        /// Where the missing item begins.
        offset: u64,
        /// What is missing.
        expected: &'static str,
    },
    /// An item does not fit into the record that holds it.
    #[error("at byte {offset}: expected {expected}, which does not fit into its record")]
    Overrun {
        /// Where the item begins.
        offset: u64,
        /// The item.
        expected: &'static str,
    },
    /// A value has no meaning here.
    #[error("at byte {offset}: found {found}, expected {expected}")]
    Unexpected {
        /// Where the value stands.
        offset: u64,
        /// The value.
        found: u64,
        /// What may stand there.
        expected: &'static str,
    },
    /// The text is no JSON, or has another kind of value here.
    #[error("at byte {offset}: found \"{found}\", expected {expected}")]
    Syntax {
        /// Where it stands.
        offset: u64,
        /// The text there, or its first byte.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// A heap snapshot of V8 lacks a part that each has, or has it before one that is needed to read it.
    #[error(
        "at byte {offset}: expected {expected:?} before this place, as heap snapshots of V8 have it"
    )]
    Lacks {
        /// Where it is missed.
        offset: u64,
        /// What is missing.
        expected: &'static str,
    },
    /// Two places of a file contradict each other about a number.
    #[error("at byte {offset}: found {found} {what}, expected {expected}")]
    WrongCount {
        /// Where the things that were counted end.
        offset: u64,
        /// What was counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many the file says.
        expected: u64,
    },
    /// The dump has more of something than this crate handles.
    #[error("the dump has more than {limit} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The most that is handled.
        limit: u64,
    },
    /// The file changed between the two passes.
    #[error("the file changed while it was read")]
    Changed,
}

fn found_text(found: Option<&str>) -> String {
    found.map_or_else(String::new, |found| format!(", found {found}"))
}
