//! Results: read from files, and shown as tables or as one page with every figure of the papers beside ours.
//!
//! The page is a single file without scripts that asks for nothing over a network. Everything in it comes from stored
//! results ([`stored`]); what it says of them is computed here and in `warmswap-study`, and nowhere else.
//!
//! | module | subject |
//! |---|---|
//! | [`stored`] | files, told apart by schema; what is wrong with one is named by file and field |
//! | [`tables`] | tables of comparisons, replays, studies, traces and measurements |
//! | [`claims`] | the papers' numbers, ours, and whether they hold: a table |
//! | [`summary`] | what a newcomer is to know |
//! | [`difference`] | two results of one kind: what changed, and whether it is more than noise |
//! | `series`, `chart` | what charts show, and how they are drawn |
//! | `page`, `html` | the page around them |

#![forbid(unsafe_code)]

mod arms;
mod chart;
pub mod claims;
pub mod difference;
mod error;
mod html;
mod page;
mod picture;
mod series;
pub mod stored;
pub mod summary;
pub mod tables;

pub use error::ResultError;
pub use page::{difference_page, page};
pub use picture::picture;
pub use stored::Results;
