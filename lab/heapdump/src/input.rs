//! Bytes of a dump in order, with the offset of each and the end of the record that holds it, if it has records.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use crate::error::{DumpError, Result};
use crate::hprof::IdSize;

/// Read at once; large enough that system calls do not show, small enough for the cache.
const BUFFER_BYTES: usize = 256 << 10;

/// A big-endian byte reader that never reads beyond [`Input::end`].
#[derive(Debug)]
pub(crate) struct Input<R> {
    inner: BufReader<R>,
    offset: u64,
    end: u64,
}

impl<R: Read> Input<R> {
    pub fn new(inner: R) -> Self {
        Self {
            inner: BufReader::with_capacity(BUFFER_BYTES, inner),
            offset: 0,
            end: u64::MAX,
        }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes left before the end of the current record.
    pub fn left(&self) -> u64 {
        self.end - self.offset
    }

    /// Begins a record of `bytes`.
    pub fn enter(&mut self, bytes: u64) {
        self.end = self.offset.saturating_add(bytes);
    }

    /// Leaves the record; what was not read of it is skipped.
    pub fn leave(&mut self) -> Result<()> {
        self.skip(self.left(), "the rest of a record")?;
        self.end = u64::MAX;
        Ok(())
    }

    /// Whether the file ends here.
    pub fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.fill()? == 0)
    }

    /// Bytes in the buffer, which is filled if it is empty; 0 at the end of the file.
    fn fill(&mut self) -> Result<usize> {
        loop {
            match self.inner.fill_buf() {
                Ok(bytes) => return Ok(bytes.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(DumpError::CutOff {
                        offset: self.offset,
                        missing: "the rest of the compressed data",
                    });
                }
                Err(source) => {
                    return Err(DumpError::Io {
                        offset: self.offset,
                        source,
                    });
                }
            }
        }
    }

    /// The next byte, which stays unread; `None` at the end of the file.
    pub fn peek(&mut self) -> Result<Option<u8>> {
        if self.inner.buffer().is_empty() {
            self.fill()?;
        }
        Ok(self.inner.buffer().first().copied())
    }

    /// The bytes that were read ahead.
    pub fn buffered(&self) -> &[u8] {
        self.inner.buffer()
    }

    /// Takes bytes that were read ahead.
    pub fn consume(&mut self, bytes: usize) {
        self.inner.consume(bytes);
        self.offset += bytes as u64;
    }

    fn check(&self, bytes: u64, expected: &'static str) -> Result<()> {
        if bytes > self.left() {
            return Err(DumpError::Overrun {
                offset: self.offset,
                expected,
            });
        }
        Ok(())
    }

    /// Hands `bytes` bytes to `take`, in the pieces in which they are buffered.
    fn pieces(
        &mut self,
        bytes: u64,
        expected: &'static str,
        mut take: impl FnMut(&[u8]),
    ) -> Result<()> {
        self.check(bytes, expected)?;
        let start = self.offset;
        let mut left = bytes;
        while left > 0 {
            let buffered = self.fill()? as u64;
            if buffered == 0 {
                return Err(DumpError::Ended {
                    offset: start,
                    expected,
                });
            }
            let piece = buffered.min(left);
            take(&self.inner.buffer()[..piece as usize]);
            self.inner.consume(piece as usize);
            self.offset += piece;
            left -= piece;
        }
        Ok(())
    }

    /// Skips `bytes` bytes. They are read, so that a file which ends in them is noticed.
    pub fn skip(&mut self, bytes: u64, expected: &'static str) -> Result<()> {
        self.pieces(bytes, expected, |_| {})
    }

    /// Reads the rest of the file, which is nothing but zeros.
    pub fn zeros(&mut self, expected: &'static str) -> Result<()> {
        loop {
            let count = self.fill()?;
            let buffered = &self.inner.buffer()[..count];
            if buffered.iter().any(|byte| *byte != 0) {
                return Err(DumpError::Unexpected {
                    offset: self.offset,
                    found: 0,
                    expected,
                });
            }
            if count == 0 {
                return Ok(());
            }
            self.inner.consume(count);
            self.offset += count as u64;
        }
    }

    /// Appends `bytes` bytes to `out`, which grows as they arrive.
    pub fn read_to(&mut self, bytes: u64, out: &mut Vec<u8>, expected: &'static str) -> Result<()> {
        self.pieces(bytes, expected, |piece| out.extend_from_slice(piece))
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N]> {
        self.check(N as u64, expected)?;
        if let Some(found) = self.inner.buffer().first_chunk::<N>() {
            let found = *found;
            self.inner.consume(N);
            self.offset += N as u64;
            return Ok(found);
        }
        let (mut found, mut filled) = ([0; N], 0);
        self.pieces(N as u64, expected, |piece| {
            found[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        })?;
        Ok(found)
    }

    pub fn u1(&mut self, expected: &'static str) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array(expected)?))
    }

    pub fn u2(&mut self, expected: &'static str) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array(expected)?))
    }

    pub fn u4(&mut self, expected: &'static str) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array(expected)?))
    }

    pub fn id(&mut self, size: IdSize, expected: &'static str) -> Result<u64> {
        Ok(match size {
            IdSize::Four => self.u4(expected)?.into(),
            IdSize::Eight => u64::from_be_bytes(self.array(expected)?),
        })
    }
}
