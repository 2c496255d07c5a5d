//! The structures and numbers of the header.
#![allow(non_camel_case_types)] // Their names are those of the header.

use std::ffi::{c_char, c_int};

use warmswap_arena::ArenaStats;

/// Not needed for long.
pub const WARMSWAP_COLD: c_int = 0;
/// Needed now and at every launch.
pub const WARMSWAP_HOT: c_int = 1;
/// Needed soon.
pub const WARMSWAP_WORKING_SET: c_int = 2;

/// What an arena is made with; 0 and null stand for the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct warmswap_config {
    /// Memory for all of it together, in bytes.
    pub budget_bytes: u64,
    /// The scheme.
    pub scheme: *const c_char,
    /// The backing file.
    pub backing_path: *const c_char,
    /// Its size in bytes.
    pub backing_limit_bytes: u64,
    /// Addresses for all regions together, in bytes.
    pub address_space_bytes: u64,
}

/// What an arena holds and has done.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct warmswap_stats {
    /// What all of it together may hold, in bytes.
    pub budget_bytes: u64,
    /// What all of it together holds, in bytes.
    pub used_bytes: u64,
    /// Pages in their places.
    pub resident_pages: u64,
    /// Pages that are stored, in the pool or in the file.
    pub stored_pages: u64,
    /// Memory of the pool, in bytes.
    pub pool_bytes: u64,
    /// Faults that found work to do.
    pub faults: u64,
    /// Of them, first touches.
    pub first_touches: u64,
    /// Pages that came along with another, or together ahead of use.
    pub neighbours: u64,
    /// Times that the budget was exceeded.
    pub overcommits: u64,
}

impl From<ArenaStats> for warmswap_stats {
    fn from(stats: ArenaStats) -> Self {
        Self {
            budget_bytes: stats.budget_bytes,
            used_bytes: stats.used_bytes(),
            resident_pages: stats.resident_frames,
            stored_pages: stats.stored_pages,
            pool_bytes: stats.pool_bytes,
            faults: stats.faults,
            first_touches: stats.first_touches,
            neighbours: stats.neighbours,
            overcommits: stats.pager.overcommits,
        }
    }
}
