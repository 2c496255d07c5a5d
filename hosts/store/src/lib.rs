//! The compressed store of a host: chunks of pages, encoded, in a pool or in a backing file.
//!
//! [`Encoder`] makes an object of a chunk's pages; [`ChunkStore`] keeps it under the number that the engine gave the
//! chunk, moves it to the backing file, and gives it back as a [`Chunk`], which decodes itself. Chunks are read without
//! the engine's lock.

mod chunk;
mod chunk_word;
mod encoder;
mod error;
mod records;
mod store;

pub use chunk::{Chunk, MEMBER_BYTES};
pub use encoder::{Encoded, Encoder};
pub use error::StoreError;
pub use records::Records;
pub use store::{ChunkStore, Stored};
