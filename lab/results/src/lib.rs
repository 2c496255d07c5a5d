//! Results: read from files, and shown as tables, with every figure of the papers beside ours.
//!
//! Everything shown comes from stored results ([`stored`]); what is said of them is computed here and in `warmswap-study`,
//! and nowhere else.
//!
//! | module | subject |
//! |---|---|
//! | [`stored`] | files, told apart by schema; what is wrong with one is named by file and field |
//! | [`tables`] | tables of comparisons, replays, studies, traces and measurements |
//! | [`claims`], [`evidence`] | the papers' numbers, ours, and whether they hold; the same as a result |
//! | [`summary`] | what a newcomer is to know |
//! | [`difference`] | two results of one kind: what changed, whether it is more than noise, and what they did not have alike |

#![forbid(unsafe_code)]

pub mod claims;
mod conditions;
pub mod difference;
mod error;
pub mod evidence;
mod latencies;
pub mod stored;
pub mod summary;
pub mod tables;

pub use error::ResultError;
pub use stored::Results;
