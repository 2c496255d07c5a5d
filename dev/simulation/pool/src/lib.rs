//! The files of `warmswap-pool`, compiled over the simulation's system.
#![cfg(not(test))] // The unit tests of these files are for the real system.

extern crate warmswap_sim_os as parking_lot;
extern crate warmswap_sim_os as rustix;
extern crate warmswap_sim_os as std;

#[path = "../../../../memory/pool/src"]
#[allow(dead_code, reason = "the simulation does not use all of it")]
mod real {
    pub mod budget;
    pub mod class;
    pub mod config;
    pub mod entry;
    pub mod folds;
    pub mod geometry;
    pub mod handle;
    pub mod memory;
    pub mod objects;
    pub mod pool;
    pub mod shared;
    pub mod spans;
    pub mod stats;
}

use real::{
    budget, class, config, entry, folds, geometry, handle, memory, objects, pool, shared, spans,
    stats,
};

pub use config::{ConfigError, PoolConfig};
pub use handle::Handle;
pub use pool::{Content, LoadError, MAX_OBJECT_BYTES, MAX_PAGES, ObjectInfo, Pool, Refusal};
pub use stats::{CompactionReport, PoolStats};
