//! The vocabulary of a trace: what happened, when, in which application, to which page.

use warmswap_page::{AppId, LaunchKind, PageAddr};

/// One distinct page content of a trace. Equal contents have equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub u32);

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
    /// Nanoseconds since the trace began; never less than at the event before.
    pub time_ns: u64,
    /// The application.
    pub app: AppId,
    /// What happened.
    pub kind: EventKind,
}
