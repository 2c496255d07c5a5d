//! Which errors say that the input cannot be used.

use std::error::Error;
use warmswap_engine::ConfigError;
use warmswap_heapdump::DumpError;
use warmswap_policy::PolicyError;
use warmswap_replay::ReplayError;
use warmswap_study::StudyError;
use warmswap_trace::TraceError;

/// Whether this cause of an error is bad input.
pub fn is_bad_input(cause: &(dyn Error + 'static)) -> bool {
    cause
        .downcast_ref()
        .is_some_and(|error: &TraceError| !error.is_failed_write())
        || cause.is::<PolicyError>()
        || cause.is::<ConfigError>()
        || cause.is::<toml::de::Error>()
        || cause.downcast_ref().is_some_and(is_bad_study)
}

/// Errors in boxes, and those that show another as their own, hide it from a search of the chain.
fn is_bad_study(error: &StudyError) -> bool {
    match error {
        StudyError::Trace(_)
        | StudyError::Policy(_)
        | StudyError::NoContents { .. }
        | StudyError::NothingLeaves { .. }
        | StudyError::NoObject { .. }
        | StudyError::NoInstance { .. }
        | StudyError::NoAddresses { .. } => true,
        StudyError::Replay { source, .. } | StudyError::Contents { source, .. } => matches!(
            **source,
            ReplayError::Trace(_)
                | ReplayError::Policy(_)
                | ReplayError::Limits(_)
                | ReplayError::Pool(_)
        ),
        // A temporary copy that cannot be written is no fault of the dump.
        StudyError::HeapDump { source, .. } => !matches!(**source, DumpError::Spool(_)),
        StudyError::Pool { .. } | StudyError::Codec { .. } => false,
    }
}
