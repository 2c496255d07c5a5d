//! The arena under a seeded scheduler and a model of the kernel.
//!
//! What runs is the arena itself, with its threads, pool and store: their files are compiled a second time, over
//! [`warmswap_sim_os`] in place of `std`, `parking_lot`, `rustix` and `libc`. Programs read and write pages meanwhile, and
//! every page is compared with what it should hold, at each access and in the end. A simulation is one number, its seed:
//! it decides what programs do, which thread runs when, and what the kernel refuses, so that a failure replays exactly.
//!
//! - [`simulate`]: an arena of regions, or the memory of a paged program with forks.
//! - [`simulate_pinned`]: nothing can leave its place.
//! - [`simulate_pool`]: the pool alone.
#![cfg(not(test))] // The unit tests of these files are for the real system.

extern crate warmswap_sim_os as parking_lot;
extern crate warmswap_sim_os as rustix;
extern crate warmswap_sim_os as std;
extern crate warmswap_sim_pool as warmswap_pool;
extern crate warmswap_sim_store as warmswap_store;
extern crate warmswap_sim_uffd as warmswap_sys;
extern crate warmswap_sim_uffd as warmswap_uffd;

#[path = "../../../../hosts/arena/src"]
#[allow(dead_code, reason = "the simulation does not use all of it")]
mod real {
    pub mod address_map;
    pub mod application;
    pub mod arena;
    pub mod arrivals;
    pub mod config;
    pub mod content_hash;
    pub mod error;
    pub mod fault;
    pub mod file_region;
    pub mod files;
    pub mod frames;
    pub mod gate;
    pub mod hooks;
    pub mod learned;
    pub mod lock;
    pub mod page_words;
    pub mod pager;
    pub mod region;
    pub mod regions;
    pub mod restore;
    pub mod shared;
    pub mod stats;
    pub mod sync;
    pub mod tape;
    pub mod threads;
}

mod content;
mod pool;
mod program;
mod scenario;

pub use pool::simulate_pool;
pub use scenario::{Outcome, simulate, simulate_pinned};

use real::{
    address_map, application, arena, arrivals, config, content_hash, error, fault, files, frames,
    gate, hooks, lock, page_words, pager, region, regions, restore, shared, stats, sync, tape,
    threads,
};
