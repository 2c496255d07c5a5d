//! Tables, units and JSON for people and machines.
//!
//! | module | what it is for |
//! |---|---|
//! | [`units`] | one [`Quantity`] has a form for people and a raw one, and no other place formats numbers |
//! | [`size_expr`] | sizes as people write them: `512M`, `1.5GiB`, `50%`, `4096` |
//! | [`table`] | one [`Table`] value that renders to text, Markdown and JSON |
//! | [`tables`] | the tables of comparisons, replays, studies, traces, machines and programs |
//! | [`json`] | the [`Envelope`] around every JSON output, written whole or not at all |
//! | [`machine`] | what the measurements ran on |
//!
//! Nothing here measures or decides anything; numbers come in, text goes out.

#![forbid(unsafe_code)]

pub mod json;
pub mod machine;
pub mod size_expr;
pub mod table;
pub mod tables;
pub mod units;

pub use json::Envelope;
pub use machine::Machine;
pub use size_expr::SizeExpr;
pub use table::{Cell, Column, Origin, Table};
pub use units::{Kind, Quantity, Style};
