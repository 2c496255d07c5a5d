//! A trace that is studied, with what all replays of it share.

use std::path::Path;
use std::sync::Arc;

use warmswap_replay::Contents;
use warmswap_trace::TraceReader;

use crate::error::StudyError;
use crate::footprint::{Footprint, footprint};

/// A trace that is studied: opened once, its footprint counted once, its contents unpacked once.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What results call it: the file's name without extension.
    pub name: String,
    /// The trace.
    pub reader: TraceReader,
    /// How many pages it has.
    pub footprint: Footprint,
    /// What its pages hold; `None` when the trace has no contents or they were left out.
    pub contents: Option<Arc<Contents>>,
}

impl Subject {
    /// Opens a trace, with its contents. Those are kept in memory if they take at most
    /// `contents_memory_bytes`, else read when they are needed. One pass over the events.
    ///
    /// # Errors
    /// The trace cannot be read or is damaged.
    pub fn open(path: impl AsRef<Path>, contents_memory_bytes: u64) -> Result<Self, StudyError> {
        Ok(Self::without_contents(path)?.with_contents(contents_memory_bytes))
    }

    /// Opens a trace without its contents: sizes and codec times of its pages are assumed. One pass over
    /// the events.
    ///
    /// # Errors
    /// The trace cannot be read or is damaged.
    pub fn without_contents(path: impl AsRef<Path>) -> Result<Self, StudyError> {
        Self::of(TraceReader::open(path)?)
    }

    /// A trace that is open, without its contents. One pass over the events.
    ///
    /// # Errors
    /// The trace cannot be read or is damaged.
    pub fn of(reader: TraceReader) -> Result<Self, StudyError> {
        let stem = reader.path().file_stem().unwrap_or_default();
        Ok(Self {
            name: stem.to_string_lossy().into_owned(),
            footprint: footprint(&reader)?,
            reader,
            contents: None,
        })
    }

    /// With its contents, where the trace has some. None is read yet.
    #[must_use]
    pub fn with_contents(mut self, contents_memory_bytes: u64) -> Self {
        if self.reader.summary().contents > 0 {
            let contents = Contents::of(&self.reader, contents_memory_bytes);
            self.contents = Some(Arc::new(contents));
        }
        self
    }

    /// The contents.
    ///
    /// # Errors
    /// [`StudyError::NoContents`].
    pub fn contents(&self) -> Result<&Arc<Contents>, StudyError> {
        self.contents
            .as_ref()
            .ok_or_else(|| StudyError::NoContents {
                path: self.reader.path().to_owned(),
            })
    }

    /// What share of a recording's pages it has, for a trace that was made by `warmswap-lab trace sample`.
    pub fn sample_share(&self) -> Option<f64> {
        let share = self.reader.description().extra.get("sample.share")?;
        share.parse().ok()
    }

    /// Whether pages of files left memory before each relaunch of the recording (`warmswap-lab record --cold-files`).
    pub fn has_cold_files(&self) -> bool {
        let extra = &self.reader.description().extra;
        extra.get("cold_files").is_some_and(|value| value == "true")
    }

    /// The names of its applications; the place is the [`AppId`](warmswap_page::AppId).
    pub fn app_names(&self) -> Vec<String> {
        let apps = self.reader.apps().iter();
        apps.map(|app| app.name.clone()).collect()
    }
}
