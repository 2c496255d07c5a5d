//! What the commands `warmswap` and `warmswap-lab` print, and how.
//!
//! | module | what it is for |
//! |---|---|
//! | [`size_expr`] | sizes as people write them: `512M`, `1.5GiB`, `50%`, `4096` |
//! | [`table`], [`units`] | those of `warmswap-columns` |
//! | [`json`] | the [`Envelope`] around every JSON output, written whole or not at all |
//! | [`mod@file`] | files that a command writes |
//! | [`machine`] | what the measurements ran on |
//! | [`output`] | the options for results, and where results go |
//! | [`exit`] | errors in one line, and exit codes |
//! | [`program`] | the file of a program that is named |
//! | [`manual`] | manual pages, completions and the reference of the book, from the command line's definition |
//!
//! Nothing here measures or decides anything; numbers come in, text goes out. A reader that closes standard output or
//! standard error is no error: the rest of the text is dropped, and the command ends as it would have.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod exit;
pub mod file;
pub mod json;
pub mod machine;
pub mod manual;
pub mod output;
pub mod program;
pub mod size_expr;

pub use exit::{BadInput, BadLines};
pub use file::is_stdout;
pub use json::Envelope;
pub use machine::Machine;
pub use output::Output;
pub use size_expr::SizeExpr;
pub use warmswap_columns::{Column, Kind, Origin, Quantity, Style, Table, table, units};
pub use warmswap_sys::tell;
