//! The store: log and storage together.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::log::{Extent, Head, Log};
use crate::record::{Cipher, TRAILER_BYTES, record_bytes};
use crate::storage::Retrying;
use crate::{BackingConfig, BackingError, BackingStats, FileStorage, Operation, RecordId, Storage};

/// A store of records in a file, for any number of threads.
///
/// See the [crate] documentation for the format and the order of locks.
#[derive(Debug)]
pub struct Backing {
    storage: Box<dyn Storage>,
    cipher: Cipher,
    config: BackingConfig,
    log: Mutex<Log>,
    cleaning: Mutex<()>,
    totals: Totals,
}

/// What [`Backing::clean`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanReport {
    /// Segments emptied.
    pub segments: u64,
    /// Records copied.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// The counters of [`BackingStats`] that only go up, the file's size, and what is asked for all the time.
#[derive(Debug, Default)]
struct Totals {
    /// As the log has it; changed with the log locked.
    live_bytes: AtomicU64,
    file_bytes: AtomicU64,
    written_bytes: AtomicU64,
    read_bytes: AtomicU64,
    cleaned_bytes: AtomicU64,
    cleaned_segments: AtomicU64,
    io_retries: AtomicU64,
    failed_appends: AtomicU64,
    failed_reads: AtomicU64,
    corrupt_reads: AtomicU64,
}

impl Backing {
    /// Creates the file and an empty store in it.
    ///
    /// # Errors
    ///
    /// [`BackingError::Config`], and those of [`FileStorage::create`].
    pub fn create(path: &Path, config: BackingConfig) -> Result<Backing, BackingError> {
        config.segments()?;
        let storage = FileStorage::create(path, config.delete_on_drop)?;
        Backing::on(Box::new(storage), config)
    }

    /// Creates an empty store on a storage that is empty.
    ///
    /// # Errors
    ///
    /// [`BackingError::Config`], [`BackingError::Random`]; [`BackingError::Io`] when the storage cannot be cut to no
    /// bytes.
    pub fn on(storage: Box<dyn Storage>, config: BackingConfig) -> Result<Backing, BackingError> {
        let segments = config.segments()?;
        let backing = Backing {
            log: Mutex::new(Log::new(segments, config.segment_bytes)),
            cleaning: Mutex::new(()),
            totals: Totals::default(),
            cipher: Cipher::new().map_err(BackingError::Random)?,
            storage,
            config,
        };
        let set = backing.storage.set_len(0);
        set.map_err(|error| backing.io().failed(Operation::Resize, 0, 0, error))?;
        Ok(backing)
    }

    /// Appends a record with the payload `bytes`, cleaning segments first when there is no room.
    ///
    /// # Errors
    ///
    /// [`BackingError::RecordSize`], [`BackingError::Full`], [`BackingError::Io`] (a full disk
    /// too); [`BackingError::Corrupt`] when cleaning came upon damage. No record was added then,
    /// and all others are as before.
    pub fn append(&self, bytes: &[u8]) -> Result<RecordId, BackingError> {
        let max_bytes = self.config.max_record_bytes();
        if bytes.is_empty() || bytes.len() > max_bytes {
            return Err(BackingError::RecordSize {
                bytes: bytes.len(),
                max_bytes,
            });
        }
        let (id, extent) = self.reserve(record_bytes(bytes.len() as u32))?;
        match self.write(id, bytes, extent) {
            Ok(()) => {
                let mut log = self.log.lock();
                log.publish(id, extent);
                self.totals.live_bytes.store(log.live_bytes(), Relaxed);
                drop(log);
                self.totals
                    .written_bytes
                    .fetch_add(extent.bytes.into(), Relaxed);
                Ok(id)
            }
            Err(error) => {
                let mut log = self.log.lock();
                log.abandon(extent);
                log.retire_id(id);
                self.totals.failed_appends.fetch_add(1, Relaxed);
                Err(error)
            }
        }
    }

    /// Reads the payload of a record into `payload`, whose content is replaced.
    ///
    /// Costs one read of the file. A `payload` that is reused, and large enough, is not
    /// reallocated.
    ///
    /// # Errors
    ///
    /// [`BackingError::UnknownRecord`], [`BackingError::Io`], [`BackingError::Corrupt`]; `payload`
    /// is then empty.
    pub fn read(&self, id: RecordId, payload: &mut Vec<u8>) -> Result<(), BackingError> {
        let result = self.read_record(id, payload);
        match &result {
            Ok(extent) => {
                self.totals
                    .read_bytes
                    .fetch_add(extent.bytes.into(), Relaxed);
            }
            Err(error) => {
                payload.clear();
                if matches!(error, BackingError::Io { .. }) {
                    self.totals.failed_reads.fetch_add(1, Relaxed);
                }
            }
        }
        result.map(drop)
    }

    /// Bytes of the payload of a record, without reading it.
    ///
    /// # Errors
    ///
    /// [`BackingError::UnknownRecord`].
    pub fn payload_bytes(&self, id: RecordId) -> Result<usize, BackingError> {
        let extent = self.log.lock().lookup(id);
        let extent = extent.ok_or(BackingError::UnknownRecord(id))?;
        Ok(extent.bytes as usize - TRAILER_BYTES)
    }

    /// Frees a record.
    ///
    /// # Errors
    ///
    /// [`BackingError::UnknownRecord`].
    pub fn free(&self, id: RecordId) -> Result<(), BackingError> {
        let mut log = self.log.lock();
        if !log.free(id) {
            return Err(BackingError::UnknownRecord(id));
        }
        self.totals.live_bytes.store(log.live_bytes(), Relaxed);
        Ok(())
    }

    /// Bytes of the records that can be read ([`BackingStats::live_bytes`]). Takes no lock.
    pub fn live_bytes(&self) -> u64 {
        self.totals.live_bytes.load(Relaxed)
    }

    /// Cleans up to `max_segments` segments, as long as that is worthwhile: a tenth of a segment
    /// must have been freed.
    ///
    /// Appends, reads and frees go on meanwhile. Ids stay valid.
    ///
    /// # Errors
    ///
    /// [`BackingError::Io`] or [`BackingError::Corrupt`] when a live record cannot be copied: it
    /// stays where it is, and a segment that cannot be read is left alone from then on.
    pub fn clean(&self, max_segments: u64) -> Result<CleanReport, BackingError> {
        let _cleaning = self.cleaning.lock();
        let mut report = CleanReport::default();
        while report.segments < max_segments && self.clean_one(&mut report)? {}
        Ok(report)
    }

    /// Ends the segments that are written to: what is written from here on goes to segments in which no record is. No other
    /// thread appends meanwhile. What was left of them comes back by cleaning.
    pub fn close_segments(&self) {
        self.log.lock().close_open();
    }

    /// Makes all records durable, as far as the kernel and the device go.
    ///
    /// # Errors
    ///
    /// [`BackingError::Io`]; records written since the last success may be lost then, and reading
    /// them tells.
    pub fn sync(&self) -> Result<(), BackingError> {
        self.io().sync()
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> BackingStats {
        let total = |counter: &AtomicU64| counter.load(Relaxed);
        let totals = &self.totals;
        let segment_bytes = u64::from(self.config.segment_bytes);
        let log = self.log.lock();
        BackingStats {
            live_records: log.live_records(),
            live_bytes: log.live_bytes(),
            dead_bytes: log.dead_bytes(),
            free_segments: log.free_segments(),
            file_bytes: total(&totals.file_bytes),
            capacity_bytes: self.config.capacity_bytes / segment_bytes * segment_bytes,
            written_bytes: total(&totals.written_bytes),
            read_bytes: total(&totals.read_bytes),
            cleaned_bytes: total(&totals.cleaned_bytes),
            cleaned_segments: total(&totals.cleaned_segments),
            io_retries: total(&totals.io_retries),
            failed_appends: total(&totals.failed_appends),
            failed_reads: total(&totals.failed_reads),
            corrupt_reads: total(&totals.corrupt_reads),
        }
    }

    /// Takes room and an id for a record of `bytes` bytes.
    fn reserve(&self, bytes: u32) -> Result<(RecordId, Extent), BackingError> {
        loop {
            {
                let mut log = self.log.lock();
                if let Some(extent) = log.reserve(Head::Caller, bytes) {
                    if let Some(id) = log.new_id() {
                        return Ok((id, extent));
                    }
                    // All 2^32 - 1 numbers are in use.
                    log.abandon(extent);
                    return Err(self.full(&log));
                }
            }
            // A thread that waited here finds the room that the cleaning before made, if it did.
            let _cleaning = self.cleaning.lock();
            let has_room = self.log.lock().has_room(Head::Caller, bytes);
            if !has_room && !self.clean_one(&mut CleanReport::default())? {
                return Err(self.full(&self.log.lock()));
            }
        }
    }

    fn full(&self, log: &Log) -> BackingError {
        BackingError::Full {
            live_bytes: log.live_bytes(),
            capacity_bytes: self.config.capacity_bytes,
        }
    }

    /// Empties the segment that gains most; whether there was one. `cleaning` is locked.
    fn clean_one(&self, report: &mut CleanReport) -> Result<bool, BackingError> {
        let (victim, records) = {
            let log = self.log.lock();
            let Some(victim) = log.victim() else {
                return Ok(false);
            };
            (victim, log.records_of(victim))
        };
        let mut record = Vec::new();
        for (id, from) in records {
            match self.read_record(id, &mut record) {
                Ok(extent) if extent == from => {}
                // Freed, meanwhile; only this thread moves records.
                Ok(_) | Err(BackingError::UnknownRecord(_)) => continue,
                Err(error) => {
                    self.log.lock().set_damaged(victim);
                    return Err(error);
                }
            }
            let Some(to) = self.log.lock().reserve(Head::Cleaner, from.bytes) else {
                return Ok(false);
            };
            if let Err(error) = self.write(id, &record, to) {
                self.log.lock().abandon(to);
                return Err(error);
            }
            if self.log.lock().relocate(id, from, to) {
                report.records += 1;
                report.bytes += u64::from(from.bytes);
                self.totals
                    .cleaned_bytes
                    .fetch_add(from.bytes.into(), Relaxed);
            }
        }
        report.segments += 1;
        self.totals.cleaned_segments.fetch_add(1, Relaxed);
        Ok(true)
    }

    /// Reads the payload of a record, checks it, and says where it was.
    fn read_record(&self, id: RecordId, record: &mut Vec<u8>) -> Result<Extent, BackingError> {
        let unknown = BackingError::UnknownRecord(id);
        let mut extent = self.log.lock().lookup(id).ok_or(unknown)?;
        loop {
            record.resize(extent.bytes as usize, 0);
            let offset = self.offset(extent);
            let result = self.io().read(record, offset).and_then(|retries| {
                self.totals.io_retries.fetch_add(retries.into(), Relaxed);
                self.cipher
                    .decode(id, record)
                    .map_err(|damage| BackingError::Corrupt {
                        record: id,
                        path: self.storage.path().to_owned(),
                        offset,
                        damage,
                    })
            });
            let Err(error) = result else {
                return Ok(extent);
            };
            // It may have been moved, and its old place used again, since it was looked up.
            let now = self.log.lock().lookup(id);
            match now {
                None => return Err(BackingError::UnknownRecord(id)),
                Some(now) if now != extent => extent = now,
                Some(_) => {
                    if matches!(error, BackingError::Corrupt { .. }) {
                        self.totals.corrupt_reads.fetch_add(1, Relaxed);
                    }
                    return Err(error);
                }
            }
        }
    }

    fn write(&self, id: RecordId, payload: &[u8], extent: Extent) -> Result<(), BackingError> {
        let record = self
            .cipher
            .encode(id, payload)
            .map_err(BackingError::Random)?;
        let offset = self.offset(extent);
        let retries = self.io().write(&record, offset)?;
        let end = offset + record.len() as u64;
        self.totals.file_bytes.fetch_max(end, Relaxed);
        self.totals.io_retries.fetch_add(retries.into(), Relaxed);
        Ok(())
    }

    fn offset(&self, extent: Extent) -> u64 {
        u64::from(extent.segment) * u64::from(self.config.segment_bytes) + u64::from(extent.offset)
    }

    fn io(&self) -> Retrying<'_> {
        Retrying {
            storage: &*self.storage,
            retries: self.config.io_retries,
        }
    }
}

#[cfg(test)]
mod tests;
