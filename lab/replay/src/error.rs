//! Why a replay stops.

use thiserror::Error;
use warmswap_codec::ChunkError;
use warmswap_engine::ConfigError;
use warmswap_page::{AppId, PageAddr};
use warmswap_policy::PolicyError;
use warmswap_store::StoreError;
use warmswap_trace::TraceError;

/// Why a replay stops. Apart from the first five, each is a defect that must never pass silently.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The scheme is not one.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The limits make no sense.
    #[error(transparent)]
    Limits(#[from] ConfigError),
    /// The pool cannot be made.
    #[error("cannot make the pool: {0}")]
    Pool(#[from] warmswap_pool::ConfigError),
    /// There is no address space for the store's tables.
    #[error("cannot reserve addresses for tables: {0}")]
    Tables(#[source] std::io::Error),
    /// A page that came back is not what was stored.
    #[error("{app} page {addr} came back with other content than it was stored with")]
    WrongContent {
        /// The application.
        app: AppId,
        /// The page.
        addr: PageAddr,
    },
    /// A chunk could not be compressed.
    #[error("chunk {chunk} cannot be encoded: {source}")]
    Encode {
        /// The chunk's number.
        chunk: u32,
        /// What the codec said.
        source: ChunkError,
    },
    /// A chunk was lost or damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine asked for a chunk that is not where it said.
    #[error("chunk {chunk} is not in the {place}")]
    NoSuchChunk {
        /// The chunk's number.
        chunk: u32,
        /// Where it was looked for.
        place: &'static str,
    },
}

impl ReplayError {
    /// Whether a part of what the trace touches is too little memory for an engine or a pool: a longer recording has more.
    #[must_use]
    pub fn needs_more_pages(&self) -> bool {
        use warmswap_pool::ConfigError as PoolError;

        let small_pool = matches!(self, Self::Pool(PoolError::LimitTooSmall { .. }));
        small_pool || matches!(self, Self::Limits(ConfigError::BudgetTooSmall { .. }))
    }
}
