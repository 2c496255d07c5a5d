//! Events and page contents of running programs: the trace format, its reader, writer and importers.

pub mod event;

pub use event::{AppId, ContentId, Event, EventKind, FileId, LaunchKind, PAGE_BYTES, PageAddr};
