//! The command, run as people and scripts run it.

mod bench;
mod command;
mod common;
mod daemon;
mod golden;
mod install;
mod programs;
mod run;
mod run_kernel;
mod study;
mod trace;
