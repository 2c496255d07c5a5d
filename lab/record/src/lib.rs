//! Records what real programs touch, on kernel zram, into a trace.
//!
//! # Method
//!
//! [`record`] starts applications, switches between them and uses them. All pages of an application are
//! paged out (`MADV_PAGEOUT`) into a zram swap device of our own whenever a *period* begins: before a
//! relaunch, after it, and every [`RecordConfig::repage_interval_ms`] of use. So every first touch of a
//! page in a period raises a page fault, and perf events tell its address, process and time. At the end
//! of a period the application is stopped for a moment (SIGSTOP), and its page tables
//! (`/proc/PID/pagemap`) say which pages are there again: only these can have been touched, so only
//! their contents (`/proc/PID/mem`) are read. A page that is still swapped out was not touched and
//! cannot have changed.
//!
//! # What the events mean
//!
//! - One `Access` for the first touch of a page in a period, at the time of its fault; later touches in
//!   the same period cannot be seen.
//! - `write` is true when the content at the end of the period differs from the one before. A write of
//!   the same bytes, or one undone within the period, counts as a read. For a page that is new it is true
//!   when it is not all zeros.
//! - The `content` of an access is that at the end of its period; it is given when it changed.
//! - A page that is there again without a fault event was touched by the kernel on behalf of the process
//!   (`futex`, direct I/O): an `Access` at the end of the launch window or period, counted in
//!   [`AppSummary::accesses_without_fault`].
//! - Anonymous pages of process `k` of an application have the numbers `k << 36 | address / 4096`
//!   ([`SLICE_BITS`]). `k` counts from 0 in the order in which processes were first seen.
//!
//! # Limits
//!
//! - A page that several processes map cannot be paged out by advice. It stays, its touches are not
//!   seen, and its changes appear as `Content`. [`AppSummary::pages_not_paged_out`] counts such pages:
//!   mostly the C library and memory shared between processes. With [`RecordConfig::cold_files`] clean pages of files
//!   leave all the same before each relaunch, but for those that programs outside of the recording brought into memory.
//! - Memory that processes share and that is no file of a disk (memfd, `/dev/shm`) is left out: it is neither one
//!   application's nor can it be dropped and read again.
//! - Files that are read by system calls are not seen: only what is mapped raises faults.
//! - A file's page that is in the page cache is mapped by a fault on one of its 15 neighbours
//!   (fault-around). Where debugfs allows it, fault-around is switched off meanwhile; elsewhere one access
//!   to a file may stand for up to 16 pages, counted in [`AppSummary::pages_mapped_around`].
//! - Paging out and stopping disturb the program: latencies are not those of an undisturbed one.
//! - Memory without any access right (`PROT_NONE`) is not looked at.
//! - Transparent huge pages and swap read-ahead are switched off meanwhile, since both would bring
//!   neighbours along.
//!
//! A trace holds the memory of the programs. They run with a scrubbed environment in an empty folder, and
//! it is their own data and the files they were pointed to that the pages show.

mod cold;
mod config;
mod error;
mod faults;
mod machine;
mod progress;
mod schedule;
mod session;
mod subject;
mod summary;
mod tape;

pub use config::RecordConfig;
pub use error::RecordError;
pub use progress::Step;
pub use session::record;
pub use subject::SLICE_BITS;
pub use summary::{AppSummary, ColdFiles, RelaunchSummary, Summary};
