//! The subcommands.

pub mod bench;
pub mod calibrate;
pub mod compare;
pub mod doctor;
pub mod record;
pub mod replay;
pub mod run;
pub mod schemes;
pub mod status;
pub mod study;
pub mod switch;
pub mod top;
pub mod trace;
