//! The command, run as people and scripts run it.

mod book;
mod common;
mod daemon;
mod install;
mod interface;
mod mistakes;
mod pipes;
mod programs;
mod run;
mod run_kernel;
