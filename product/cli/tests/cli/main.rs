//! The command, run as people and scripts run it.

mod bench;
mod book;
mod command;
mod common;
mod daemon;
mod golden;
mod install;
mod interface;
mod mistakes;
mod programs;
mod report;
mod run;
mod run_kernel;
mod schema;
mod study;
mod trace;
