//! The subcommands.

pub mod calibrate;
pub mod compare;
pub mod record;
pub mod replay;
pub mod schemes;
pub mod study;
pub mod trace;
