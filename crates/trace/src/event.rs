//! The vocabulary of a trace: what happened, when, in which application, to which page.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes in one page. warmswap knows one page size; a trace from a machine with another is refused.
pub const PAGE_BYTES: usize = 4096;

/// An application: the unit that a person launches, leaves and returns to.
///
/// Dense and small, so that a host can index a table with it. The trace's header maps it to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AppId(pub u16);

/// A file, identified for the whole trace; the trace's file table gives path, device, inode and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u32);

/// One distinct page content of a trace. Equal contents have equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub u32);

/// Which page: a page of an application's own memory, or a page of a file.
///
/// `number` is the address, or the offset in the file, divided by [`PAGE_BYTES`]; it fits 52 bits.
/// An anonymous page is identified together with the application of its event; a page of a file by
/// itself, since applications share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageAddr {
    /// A page of the application's anonymous memory (heap, stack, private maps).
    Anon {
        /// Virtual address / 4096.
        number: u64,
    },
    /// A page of a file, from the page cache.
    File {
        /// Which file.
        file: FileId,
        /// Offset in the file / 4096.
        number: u64,
    },
}

/// How an application came to the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LaunchKind {
    /// The process was started.
    Cold,
    /// The process was alive in the background (hot launch; ASAP: switch).
    Relaunch,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The application touched a page. `content` is what the page holds from this access on, where it
    /// is known; `None` leaves what was known before.
    Access {
        /// The page.
        page: PageAddr,
        /// True for a write.
        write: bool,
        /// The page's content after the access.
        content: Option<ContentId>,
    },
    /// The page holds this content from now on, learned without an access (a scan of the whole memory).
    Content {
        /// The page.
        page: PageAddr,
        /// Its content.
        content: ContentId,
    },
    /// The application comes to the foreground; its launch window begins.
    LaunchBegin(LaunchKind),
    /// The launch window ends: the application has answered the person.
    LaunchEnd,
    /// The application goes to the background.
    Background,
    /// `pages` pages from `page` on are no longer used (munmap, MADV_DONTNEED, truncation).
    Free {
        /// The first page.
        page: PageAddr,
        /// How many, at least 1.
        pages: u32,
    },
    /// The application ended: all its anonymous pages are gone.
    Exit,
}

/// One event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the trace began; never less than that of the event before.
    pub time_ns: u64,
    /// The application.
    pub app: AppId,
    /// What happened.
    pub kind: EventKind,
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "app {}", self.0)
    }
}

impl fmt::Display for PageAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anon { number } => write!(f, "{:#x}", number * PAGE_BYTES as u64),
            Self::File { file, number } => write!(f, "file {} page {number}", file.0),
        }
    }
}
