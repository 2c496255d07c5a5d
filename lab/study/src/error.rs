//! Why a study has no result.

use std::path::PathBuf;

use thiserror::Error;
use warmswap_heapdump::DumpError;
use warmswap_policy::PolicyError;
use warmswap_replay::ReplayError;
use warmswap_trace::TraceError;

/// Why a study has no result.
#[derive(Debug, Error)]
pub enum StudyError {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(Box<TraceError>),
    /// A heap dump cannot be read.
    #[error("{}: {source}", path.display())]
    HeapDump {
        /// The dump.
        path: PathBuf,
        /// Why.
        source: Box<DumpError>,
    },
    /// A heap dump has no object at all.
    #[error("{}: heap dump {dump} of the file has no object; take it again while the program runs", path.display())]
    NoObject {
        /// The file.
        path: PathBuf,
        /// Its number in the file, from 1.
        dump: u32,
    },
    /// A heap dump has no instance of the class that marks a moment.
    #[error("{}: no instance of {class}, behind which young objects would lie", path.display())]
    NoInstance {
        /// The dump.
        path: PathBuf,
        /// The class.
        class: String,
    },
    /// Young objects are known by where they lie, which the dump does not say.
    #[error("{}: identifiers are no addresses, so that no object is known to be younger than another", path.display())]
    NoAddresses {
        /// The dump.
        path: PathBuf,
    },
    /// A scheme is none.
    #[error(transparent)]
    Policy(Box<PolicyError>),
    /// Under this policy pages never leave, so that no number of them fits.
    #[error("under reclaim={policy} pages never leave: leave it out")]
    NothingLeaves {
        /// The policy.
        policy: String,
    },
    /// A replay stopped.
    #[error("{trace} under {scheme}: {source}")]
    Replay {
        /// The trace's name.
        trace: String,
        /// The scheme.
        scheme: String,
        /// Why.
        source: Box<ReplayError>,
    },
    /// The contents of a trace cannot be loaded.
    #[error("contents of {trace}: {source}")]
    Contents {
        /// The trace's name.
        trace: String,
        /// Why.
        source: Box<ReplayError>,
    },
    /// The study works on page contents, and the trace has none, or they were left out.
    #[error("{path} has no page contents to measure; record it with contents")]
    NoContents {
        /// The trace.
        path: PathBuf,
    },
    /// The pool does not take what is to be measured.
    #[error("the pool to measure {plan} in: {reason}")]
    Pool {
        /// Codec and chunk size.
        plan: String,
        /// What the pool said.
        reason: String,
    },
    /// A codec did not give back what it was given.
    #[error("{plan} did not give back the pages that it was given: {reason}")]
    Codec {
        /// Codec and chunk size.
        plan: String,
        /// What was wrong.
        reason: String,
    },
}

impl StudyError {
    /// As [`ReplayError::needs_more_pages`].
    #[must_use]
    pub fn needs_more_pages(&self) -> bool {
        matches!(self, Self::Replay { source, .. } if source.needs_more_pages())
    }
}

impl From<TraceError> for StudyError {
    fn from(error: TraceError) -> Self {
        Self::Trace(Box::new(error))
    }
}

impl From<PolicyError> for StudyError {
    fn from(error: PolicyError) -> Self {
        Self::Policy(Box::new(error))
    }
}
