//! The tables of comparisons, replays, studies, traces and measurements.
//!
//! Each function takes a finished result and lays it out; text, Markdown and JSON come from the one
//! [`Table`](warmswap_columns::Table) that it returns. Nothing is computed here. Where a number has a measured and a
//! modelled part, a footnote says so.
//!
//! | module | subject |
//! |---|---|
//! | [`compare`] | schemes side by side |
//! | [`mod@replay`] | one replay in detail |
//! | [`studies`] | the figures of the Ariadne paper, with the paper's numbers beside ours |
//! | [`mod@ezswap`] | the figures of the ezswap paper |
//! | [`asap`] | the figures of the ASAP paper |
//! | [`mod@heap`] | object graphs: the figures of the Fleet paper |
//! | [`mod@parts`] | what the parts of the papers are worth, together and alone |
//! | [`mod@program_bench`] | one program with a part of its memory |
//! | [`mod@fleet`] | garbage collection and swap together |
//! | [`mod@relaunch`] | how fast applications come back |
//! | [`mod@returns`] | the same after something else took their memory |
//! | [`mod@trace_info`] | what is in a trace |

pub mod asap;
mod cells;
pub mod compare;
pub mod ezswap;
pub mod fleet;
pub mod heap;
pub mod parts;
pub mod program_bench;
pub mod relaunch;
pub mod replay;
pub mod returns;
pub mod studies;
pub mod trace_info;

pub use compare::comparison;
pub use fleet::fleet;
pub use heap::heap;
pub use parts::parts;
pub use program_bench::program_bench;
pub use relaunch::relaunch;
pub use replay::replay;
pub use returns::returns;
pub use trace_info::trace_info;

#[cfg(test)]
mod tests;
