//! What a replay has in place of a backing file.

use std::sync::{Mutex, MutexGuard, PoisonError};
use warmswap_backing::{BackingError, RecordId};
use warmswap_store::Records;

/// Records in memory.
#[derive(Debug, Default)]
pub struct MemoryRecords(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the number in their id.
    records: Vec<Option<Box<[u8]>>>,
    free: Vec<usize>,
    bytes: u64,
}

impl MemoryRecords {
    fn lock(&self) -> MutexGuard<'_, State> {
        // It is consistent at all times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn record(&self, id: RecordId) -> Result<&[u8], BackingError> {
        let record = self.records.get(id.to_bits() as usize);
        let record = record.and_then(Option::as_deref);
        record.ok_or(BackingError::UnknownRecord(id))
    }
}

impl Records for MemoryRecords {
    fn append(&self, bytes: &[u8]) -> Result<RecordId, BackingError> {
        let mut state = self.lock();
        let at = state.free.pop().unwrap_or(state.records.len());
        if at == state.records.len() {
            state.records.push(None);
        }
        state.records[at] = Some(bytes.into());
        state.bytes += bytes.len() as u64;
        Ok(RecordId::from_bits(at as u64))
    }

    fn read(&self, id: RecordId, bytes: &mut Vec<u8>) -> Result<(), BackingError> {
        let state = self.lock();
        bytes.clear();
        bytes.extend_from_slice(state.record(id)?);
        Ok(())
    }

    fn bytes_of(&self, id: RecordId) -> Result<usize, BackingError> {
        Ok(self.lock().record(id)?.len())
    }

    fn free(&self, id: RecordId) -> Result<(), BackingError> {
        let mut state = self.lock();
        let bytes = state.record(id)?.len();
        let at = id.to_bits() as usize;
        state.records[at] = None;
        state.free.push(at);
        state.bytes -= bytes as u64;
        Ok(())
    }

    fn live_bytes(&self) -> u64 {
        self.lock().bytes
    }
}
