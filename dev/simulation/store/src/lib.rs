//! The files of `warmswap-store`, compiled over the simulation's system.
#![cfg(not(test))] // The unit tests of these files are for the real system.

extern crate warmswap_sim_os as std;
extern crate warmswap_sim_pool as warmswap_pool;
extern crate warmswap_sim_uffd as warmswap_uffd;

#[path = "../../../../hosts/store/src"]
#[allow(dead_code, reason = "the simulation does not use all of it")]
mod real {
    pub mod chunk;
    pub mod chunk_word;
    pub mod encoder;
    pub mod error;
    pub mod records;
    pub mod store;
}

use real::{chunk, chunk_word, encoder, error, records, store};

pub use chunk::{Chunk, MEMBER_BYTES};
pub use encoder::{Encoded, Encoder};
pub use error::StoreError;
pub use records::Records;
pub use store::{ChunkStore, Stored};
