//! A memory in memory: a host that carries out an engine's decisions on version numbers in place of page
//! contents, and checks them against what was last written.
//!
//! | module | subject |
//! |---|---|
//! | [`memory`] | frames, pool and backing file, with their sizes, limits and failures |
//! | [`host`] | drives an engine over that memory, at once or with several decisions under way |
//! | `checks` | what is checked: budget, kills, the place and content of every page |
//! | [`events`] | what applications do, and how to draw it at random |

// Each test crate uses its own part.
#![allow(dead_code, unused_imports)]

mod checks;
pub mod events;
pub mod host;
pub mod memory;

pub use events::{Event, Setup, events, events_with_parts, setup};
pub use host::{Host, Pace};
pub use memory::{Key, Shape, key};

use warmswap_engine::Limits;
use warmswap_page::{AppId, FileId, PageAddr};
use warmswap_policy::SchemeSpec;

/// Anonymous page `number`.
pub fn anon(number: u64) -> PageAddr {
    PageAddr::Anon { number }
}

/// Page `number` of file 0.
pub fn file(number: u64) -> PageAddr {
    PageAddr::File {
        file: FileId(0),
        number,
    }
}

/// A host that carries everything out at once, for a scheme by name (`zram+eviction=lru`), with a budget
/// in pages, a pool that may take all of it, and no backing file.
pub fn host(scheme: &str, budget_pages: u64) -> Host {
    host_with(scheme, pages(budget_pages, budget_pages, 0))
}

/// The same with limits.
pub fn host_with(scheme: &str, limits: Limits) -> Host {
    let spec = SchemeSpec::parse(scheme).unwrap_or_else(|error| panic!("{scheme}: {error}"));
    Host::new(&spec, limits, Shape::Even { bytes: 1000 }, Pace::AtOnce)
}

/// Limits in pages: budget, pool, backing file.
pub fn pages(budget: u64, pool: u64, backing: u64) -> Limits {
    Limits {
        budget_bytes: budget * 4096,
        pool_limit_bytes: pool * 4096,
        backing_limit_bytes: backing * 4096,
    }
}

/// Application number `n`.
pub fn app(n: u16) -> AppId {
    AppId(n)
}
