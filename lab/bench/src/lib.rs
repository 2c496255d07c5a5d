//! Live memory beside the kernel's own swap, alternating in one run.
//!
//! [`program`](mod@program) runs any program with a part of the memory that it needs, under a limit alone and under the
//! kernel host.
//!
//! [`fleet`] measures garbage collection and swap together, on the managed heap.
//!
//! [`relaunch`](mod@relaunch) measures how fast real applications come back when memory is short, with the kernel by itself and
//! with the kernel host.
//!
//! [`returns`](mod@returns) measures how fast they come back when memory is free again, after something else took it.

#[macro_use]
mod choices;

mod clock;
mod error;
pub mod fleet;
pub mod program;
pub mod relaunch;
pub mod returns;

pub use error::BenchError;
pub use relaunch::{RelaunchOptions, RelaunchReport, relaunch};
pub use returns::{ReturnOptions, ReturnReport, returns};
