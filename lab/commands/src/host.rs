//! What a command needs of the program that it runs in.

use std::path::Path;
use warmswap_output::Output;
use warmswap_replay::ReclaimFactory;
use warmswap_study::{Progress, StudyError, Subject};
use warmswap_trace::TraceReader;

/// Contents up to this many bytes stay in memory; those of larger traces are read when needed.
const CONTENTS_MEMORY_BYTES: u64 = 4 << 30;

/// Hears how far a piece of work is, from any thread. Dropped at its end.
pub type OnProgress = Box<dyn Fn(Progress) + Sync>;

/// The program that runs a command.
pub trait Host {
    /// Where results go.
    fn output(&self) -> &Output;

    /// What hears of the progress of work that is called so.
    fn progress(&self, what: &'static str) -> OnProgress;

    /// A trace.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    fn reader(&self, path: &Path) -> warmswap_trace::Result<TraceReader> {
        TraceReader::open(path)
    }

    /// A reclaim policy of the caller's, and its name: `replay` has it in place of the scheme's.
    fn reclaim(&self) -> Option<(String, ReclaimFactory)> {
        None
    }

    /// A trace that is studied, with its contents or without.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    fn subject(&self, path: &Path, contents: bool) -> Result<Subject, StudyError> {
        subject(self.reader(path)?, contents)
    }
}

/// A trace to be studied, with its contents or without.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn subject(reader: TraceReader, contents: bool) -> Result<Subject, StudyError> {
    let subject = Subject::of(reader)?;
    Ok(if contents {
        subject.with_contents(CONTENTS_MEMORY_BYTES)
    } else {
        subject
    })
}
