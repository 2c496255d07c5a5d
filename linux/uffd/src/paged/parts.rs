//! Ranges that the kernel may take in parts only.

use std::ops::Range;

use super::{Failure, UffdError};
use warmswap_page::PAGE_BYTES;

/// A range of bytes that is worked on by calls that may do a part of it.
///
/// The kernel takes a range only if it lies in one of its mappings, and a program's memory has many, for
/// reasons that cannot be seen from here. So a part that it refuses as a whole is done page by page.
pub(super) struct Parts {
    done: usize,
    len: usize,
    /// Bytes of the next part, at most.
    step: usize,
    /// Times that it is tried again while the kernel has no memory.
    patience: u32,
}

/// A kernel or a control group without memory may have some a moment later, when others have ended or were reclaimed
/// from: for so many times [`SHORTAGE_PAUSE`].
const SHORTAGE_TRIES: u32 = 500;
const SHORTAGE_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

impl Parts {
    pub(super) fn new(len: usize) -> Self {
        Self {
            done: 0,
            len,
            step: len,
            patience: SHORTAGE_TRIES,
        }
    }

    /// The next part; `None` when all is done.
    pub(super) fn next(&self) -> Option<Range<usize>> {
        let end = self.len.min(self.done + self.step);
        (self.done < end).then_some(self.done..end)
    }

    /// Notes what a call did with the next part. Without progress the processor is given up once, since another thread
    /// changes the layout. An error counts what was done before.
    pub(super) fn note(&mut self, result: Result<(), UffdError>) -> Result<(), UffdError> {
        let part = self.len.min(self.done + self.step) - self.done;
        let Err(error) = result else {
            self.done += part;
            self.step = part.saturating_mul(2);
            return Ok(());
        };
        match error.failure {
            Failure::Partially(bytes) => self.done += bytes,
            Failure::Again => std::thread::yield_now(),
            Failure::OutOfMemory if self.patience > 0 => {
                self.patience -= 1;
                std::thread::sleep(SHORTAGE_PAUSE);
            }
            Failure::Unlike | Failure::Missing if part > PAGE_BYTES => self.step = PAGE_BYTES,
            _ if self.done > 0 => {
                return Err(UffdError {
                    failure: Failure::Partially(self.done),
                    ..error
                });
            }
            _ => return Err(error),
        }
        Ok(())
    }
}
