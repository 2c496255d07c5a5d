//! The command, run as people and scripts run it.

mod bench;
mod book;
mod command;
mod common;
mod golden;
mod install;
mod interface;
mod mistakes;
mod report;
mod study;
mod trace;
