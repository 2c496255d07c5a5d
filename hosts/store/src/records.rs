//! What keeps chunks outside of the pool.

use warmswap_backing::{Backing, BackingError, RecordId};

/// Keeps records outside of the pool, and gives them back as they were: a backing file, or what stands for one.
pub trait Records {
    /// Keeps a record of at least a byte.
    ///
    /// # Errors
    /// [`BackingError`]: full, or failed output. Nothing is kept then.
    fn append(&self, bytes: &[u8]) -> Result<RecordId, BackingError>;

    /// Reads a record, verified, in place of what is in `bytes`.
    ///
    /// # Errors
    /// [`BackingError`]: damaged, or failed input.
    fn read(&self, id: RecordId, bytes: &mut Vec<u8>) -> Result<(), BackingError>;

    /// Bytes of a record.
    ///
    /// # Errors
    /// [`BackingError::UnknownRecord`].
    fn bytes_of(&self, id: RecordId) -> Result<usize, BackingError>;

    /// Forgets a record.
    ///
    /// # Errors
    /// [`BackingError::UnknownRecord`].
    fn free(&self, id: RecordId) -> Result<(), BackingError>;

    /// Bytes in use.
    fn live_bytes(&self) -> u64;
}

impl Records for Backing {
    fn append(&self, bytes: &[u8]) -> Result<RecordId, BackingError> {
        self.append(bytes)
    }

    fn read(&self, id: RecordId, bytes: &mut Vec<u8>) -> Result<(), BackingError> {
        self.read(id, bytes)
    }

    fn bytes_of(&self, id: RecordId) -> Result<usize, BackingError> {
        self.payload_bytes(id)
    }

    fn free(&self, id: RecordId) -> Result<(), BackingError> {
        self.free(id)
    }

    fn live_bytes(&self) -> u64 {
        self.live_bytes()
    }
}
