//! Ending what reads a trace, from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A switch that all readers of a trace look at that were made by
/// [`TraceReader::with_stop`](crate::TraceReader::with_stop). Once set, they give
/// [`TraceError::Stopped`](crate::TraceError::Stopped), within 1024 events or one page content. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends what reads.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
