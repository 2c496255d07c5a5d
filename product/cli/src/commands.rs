//! The subcommands.

pub mod agent;
pub mod config;
pub mod daemon;
pub mod doctor;
pub mod launch;
pub mod man;
pub mod run;
pub mod status;
pub mod switch;
