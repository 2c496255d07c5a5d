//! Heaps of every collector, beside models and under stress.

mod arena;
mod common;
mod errors;
mod fleet;
mod follow;
mod model;
mod regressions;
mod stress;
mod threads;
