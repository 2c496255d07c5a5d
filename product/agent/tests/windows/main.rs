//! What window systems say, and what the daemon is told of it.

#[path = "../display/mod.rs"]
mod display;
mod ipc;
mod manager;
mod report;
