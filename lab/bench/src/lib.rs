//! Live memory beside the kernel's own swap: the same pages, the same codec, alternating in one run.
//!
//! [`faults`] measures what a page costs on its way out of memory and back: in an arena of this process, and
//! under the kernel's zram on a device of its own. What is compared is CPU time (`CLOCK_THREAD_CPUTIME_ID` where
//! the work is done in the calling thread, `CLOCK_PROCESS_CPUTIME_ID` where threads of the arena do it), which
//! other programs stretch far less than the time on the wall; waiting times are reported beside it.
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

mod arena_side;
mod clock;
mod error;
mod faults;
mod fits;
pub mod fleet;
mod kernel_side;
mod latency;
mod memory;
mod pages;
pub mod program;
pub mod relaunch;
pub mod returns;

pub use error::BenchError;
pub use faults::{FaultsOptions, FaultsReport, Measure, faults};
pub use latency::Latency;
pub use pages::Pages;
pub use relaunch::{RelaunchOptions, RelaunchReport, relaunch};
pub use returns::{ReturnOptions, ReturnReport, returns};
