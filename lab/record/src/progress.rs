//! What happens during a recording.

/// One thing that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// The application was started and its memory read.
    Started {
        /// Its name.
        app: &'a str,
        /// Anonymous pages that it has.
        pages: u64,
    },
    /// The application was relaunched.
    Relaunched {
        /// Its name.
        app: &'a str,
        /// Which relaunch, from 1.
        relaunch: u32,
        /// How many there will be.
        of: u32,
        /// From the request to the answer, under recording.
        latency_ns: u64,
        /// Distinct pages touched in the launch window.
        pages: u64,
    },
    /// The trace is complete.
    Written,
}
