//! Storage in memory that injects faults.
//!
//! Part of the crate only with the feature `testing`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::Storage;

/// How likely each fault is, in percent of the operations; 0 everywhere by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Reads and writes that do only a part.
    pub short: u8,
    /// Reads and writes that a signal interrupts (EINTR).
    pub interrupted: u8,
    /// Reads and writes that fail with EIO once.
    pub transient_eio: u8,
    /// Writes that fail with EIO, however often they are tried.
    pub permanent_write_eio: u8,
    /// Reads that fail with EIO, however often they are tried.
    pub permanent_read_eio: u8,
    /// Writes that find the disk full.
    pub no_space: u8,
    /// Writes that report success but store only a part.
    pub torn: u8,
    /// Writes that report success but store one bit wrong.
    pub flipped: u8,
    /// Calls of `sync` that fail with EIO.
    pub sync_eio: u8,
}

/// A file in memory with faults. Clones share it, so that a test keeps one and gives one away.
#[derive(Clone, Debug)]
pub struct FaultyStorage {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    faults: Faults,
    random: u64,
    /// The offset of the operation that is failing for good, while its retries go on.
    failing: Option<u64>,
    /// Writes that were stored wrongly so far.
    damaged_writes: u64,
}

impl FaultyStorage {
    /// An empty file without faults; the same `seed` gives the same faults.
    pub fn new(seed: u64) -> FaultyStorage {
        let state = State {
            bytes: Vec::new(),
            faults: Faults::default(),
            random: seed | 1,
            failing: None,
            damaged_writes: 0,
        };
        FaultyStorage {
            shared: Arc::new(Mutex::new(state)),
        }
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.shared.lock();
        state.faults = faults;
        state.failing = None;
    }

    /// Changes one bit of the file; whether it is inside the file.
    pub fn flip_bit(&self, bit: u64) -> bool {
        let mut state = self.shared.lock();
        match state.bytes.get_mut((bit / 8) as usize) {
            Some(byte) => {
                *byte ^= 1 << (bit % 8);
                true
            }
            None => false,
        }
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.shared.lock().bytes.len() as u64
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes so far that were stored torn or with a flipped bit.
    pub fn damaged_writes(&self) -> u64 {
        self.shared.lock().damaged_writes
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn happens(&mut self, percent: u8) -> bool {
        self.next() % 100 < u64::from(percent)
    }

    /// The faults that reads and writes share; otherwise how many of `len` bytes to do.
    fn start(&mut self, len: usize, offset: u64, permanent_eio: u8) -> io::Result<usize> {
        if self.happens(self.faults.interrupted) {
            return Err(Errno::INTR.into());
        }
        if self.failing == Some(offset) || self.happens(permanent_eio) {
            self.failing = Some(offset);
            return Err(Errno::IO.into());
        }
        if self.happens(self.faults.transient_eio) {
            return Err(Errno::IO.into());
        }
        if len > 1 && self.happens(self.faults.short) {
            return Ok(1 + self.next() as usize % (len - 1));
        }
        Ok(len)
    }
}

impl Storage for FaultyStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.shared.lock();
        let permanent = state.faults.permanent_read_eio;
        let len = state.start(buf.len(), offset, permanent)?;
        let tail = state.bytes.get(offset as usize..).unwrap_or_default();
        let len = len.min(tail.len());
        buf[..len].copy_from_slice(&tail[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        if state.happens(state.faults.no_space) {
            return Err(Errno::NOSPC.into());
        }
        let permanent = state.faults.permanent_write_eio;
        let len = state.start(buf.len(), offset, permanent)?;
        let (start, end) = (offset as usize, offset as usize + len);
        if state.bytes.len() < end {
            state.bytes.resize(end, 0);
        }
        let torn = state.happens(state.faults.torn);
        let stored = if torn {
            state.next() as usize % len
        } else {
            len
        };
        state.bytes[start..start + stored].copy_from_slice(&buf[..stored]);
        let changed = state.bytes[start..end] != buf[..len];
        let flipped = state.happens(state.faults.flipped);
        if flipped {
            let bit = state.next() as usize % (len * 8);
            state.bytes[start + bit / 8] ^= 1 << (bit % 8);
        }
        state.damaged_writes += u64::from(flipped || changed);
        Ok(len)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.shared.lock().bytes.resize(bytes as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        if state.happens(state.faults.sync_eio) {
            return Err(Errno::IO.into());
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("memory")
    }
}
