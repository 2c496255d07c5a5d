//! The configuration of a pool.

use serde::{Deserialize, Serialize};
use warmswap_page::{Layout, mib};

/// The configuration of a [`Pool`](crate::Pool).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolConfig {
    /// Memory that the pool may hold, in bytes, its own bookkeeping included.
    pub limit_bytes: u64,
    /// Once a store was refused for the limit, stores are refused until the memory held is at most
    /// this part of the limit, in percent (zswap's `accept_threshold_percent`). 100 turns that off.
    pub resume_percent: u8,
    /// Objects larger than this part of their pages, in percent, are refused. 100 stores pages
    /// that did not shrink as they are (zram); 99 refuses them (zswap).
    pub accept_percent: u8,
    /// Empty spans are kept for reuse up to this many bytes; the rest goes back to the kernel.
    pub cache_bytes: u64,
    /// Whether empty spans beyond those go back to the kernel. If not, they leave the pool's books only, and are used
    /// again as they are: for models of a pool, where getting their pages again would take most of the time.
    pub returns_spans: bool,
    /// Whether each object carries a checksum (4 bytes) that is checked on every load.
    pub verify: bool,
    /// How objects are laid out.
    pub layout: Layout,
}

impl Default for PoolConfig {
    /// 1 GiB, resume at 90 %, raw pages accepted, 4 MiB of empty spans kept; checksums in debug
    /// builds.
    fn default() -> PoolConfig {
        PoolConfig {
            limit_bytes: 1 << 30,
            resume_percent: 90,
            accept_percent: 100,
            cache_bytes: 4 << 20,
            returns_spans: true,
            verify: cfg!(debug_assertions),
            layout: Layout::SizeClasses,
        }
    }
}

/// Why a pool cannot be configured as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The limit does not even hold the pool's own bookkeeping.
    #[error("a limit of {} is below the minimum of {}", mib(*limit_bytes), mib(*minimum_bytes))]
    LimitTooSmall {
        /// The limit asked for.
        limit_bytes: u64,
        /// The smallest limit.
        minimum_bytes: u64,
    },
    /// A percentage is not from 1 to 100.
    #[error("{field} is {percent}, not from 1 to 100")]
    Percent {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        percent: u8,
    },
}
