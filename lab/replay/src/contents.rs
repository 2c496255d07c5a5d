//! What the pages of a trace hold, for any number of replays at once.

use crate::error::ReplayError;
use crate::store::encodings::Encodings;
use warmswap_page::PAGE_BYTES;
use warmswap_trace::{ContentId, Stop, TraceReader};

/// A page full of zeros: what a page holds where the trace does not say.
pub const ZERO_PAGE: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// The contents of a trace, in memory where they fit, else read when they are asked for.
#[derive(Debug)]
pub struct Contents {
    reader: Option<TraceReaderDebug>,
    pages: Vec<[u8; PAGE_BYTES]>,
    /// What chunks of them were encoded to.
    pub(crate) encodings: Encodings,
}

/// The reader has no `Debug` of its own.
struct TraceReaderDebug(TraceReader);

impl std::fmt::Debug for TraceReaderDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.path().display())
    }
}

impl Contents {
    /// The contents of `reader`; up to `memory_bytes` of them are read now and stay in memory. What ends the reader ends
    /// this, and no later reads: several replays have the same contents.
    ///
    /// # Errors
    /// The trace is damaged or cannot be read.
    pub fn of(reader: &TraceReader, memory_bytes: u64) -> Result<Self, ReplayError> {
        let count = reader.summary().contents;
        let fit = memory_bytes / PAGE_BYTES as u64;
        let mut pages = Vec::new();
        if count <= fit {
            pages.resize(count as usize, ZERO_PAGE);
            for (id, page) in (0..).zip(&mut pages) {
                reader.content(ContentId(id), page)?;
            }
        }
        Ok(Self {
            reader: Some(TraceReaderDebug(reader.with_stop(Stop::default()))),
            pages,
            encodings: Encodings::default(),
        })
    }

    /// These contents; the index is the id.
    pub fn from_pages(pages: Vec<[u8; PAGE_BYTES]>) -> Self {
        Self {
            reader: None,
            pages,
            encodings: Encodings::default(),
        }
    }

    /// Copies a content to `page`.
    ///
    /// # Errors
    /// The trace is damaged or cannot be read, or has no such content.
    pub fn read(&self, id: ContentId, page: &mut [u8; PAGE_BYTES]) -> Result<(), ReplayError> {
        match (self.pages.get(id.0 as usize), &self.reader) {
            (Some(content), _) => *page = *content,
            (None, Some(reader)) => reader.0.content(id, page)?,
            (None, None) => *page = ZERO_PAGE,
        }
        Ok(())
    }
}
