//! The subcommands.

pub mod bench;
pub mod compare;
pub mod record;
pub mod replay;
pub mod report;
pub mod schema;
pub mod schemes;
pub mod study;
pub mod trace;
