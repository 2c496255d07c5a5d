//! A process that pages itself out and back through the kernel's swap, and learns which pages a return touches.
//!
//! The pager owns one worker thread ([`Worker`]). Requests go in ([`Worker::page_out`], [`Worker::bring_back`],
//! [`Worker::launch_done`]), reports come out. The worker owns all state, so there is no lock around it; what other
//! threads share with it is the queue, the reports and one flag that stops a page-out early.
//!
//! | module | subject |
//! |---|---|
//! | [`pages`] | sets of page numbers |
//! | [`learned`] | scores of pages that earlier returns touched |
//! | [`own`] | this process's mappings, page table, counters and thread stacks |
//! | [`advise`] | `process_madvise` on this process, `madvise` where that is refused |
//! | [`plan`] | which resident pages stay |
//! | [`session`] | one background and one return, in order |
//! | [`tell`] | telling the daemon, never waiting for it for long |
//!
//! Paging out is transparent to the program: any page that is asked for comes back by a fault. So a wrong decision
//! here costs time and nothing else.

pub mod advise;
pub mod learned;
pub mod own;
pub mod pages;
pub mod plan;
pub mod session;
pub mod tell;
mod worker;

pub use session::{OutReport, OutRequest, ReturnReport, Settings};
pub use worker::{Worker, WorkerError};

/// This process cannot be paged by itself.
#[derive(Debug, thiserror::Error)]
pub enum PagerError {
    /// `/proc` is not mounted, or hides this process.
    #[error(transparent)]
    File(#[from] warmswap_sys::FileError),
    /// The machine's pages are not of 4096 bytes.
    #[error(transparent)]
    PageSize(#[from] warmswap_sys::WrongPageSize),
    /// The worker thread cannot be started.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}
