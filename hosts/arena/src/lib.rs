//! The arena host: live memory of this process, paged by userfaultfd with the engine.
//!
//! ```no_run
//! # use warmswap_arena::{Arena, ArenaConfig};
//! # use warmswap_policy::SchemeSpec;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let arena = Arena::new(ArenaConfig::new(256 << 20, SchemeSpec::named("warmswap")?))?;
//! let app = arena.application("editor")?;
//! let region = app.region(1 << 30)?; // more than the budget
//! let memory = region.as_mut_ptr(); // read and write it as any memory
//! # let _ = memory;
//! app.background(); // leaves when others need room
//! app.foreground(); // its hot set begins to come back
//! app.launch_done();
//! # Ok(())
//! # }
//! ```
//!
//! # The life of a page
//!
//! The *page words*, one atomic word for each page, are the truth; the engine hears of it later. Pages of 2 MiB that were
//! never touched have one word together. A word changes by compare-and-swap to `Busy`, and back by a store of the thread
//! that made it so:
//!
//! | from | to | by |
//! |---|---|---|
//! | `Fresh` | `Resident` | first touch, with a frame of zeros |
//! | `Resident` | `Staged` (frames move) or `Protected` (pages are copied) | pager, for a decision of the engine |
//! | `Staged`, `Protected` | `Resident` | touch: straight back |
//! | `Staged`, `Protected` | `Stored` | pager, once the content is in its chunk |
//! | `Stored` | `Resident` | touch, and with it the chunk's other pages as far as there are frames |
//! | `Stored` | `Staged` | pager, for a prediction |
//! | `InFile` (of a file that is mapped) | `Resident` | touch, and with it those behind it; what is not in a program's file any more is poisoned |
//! | `Staged`, `Protected`, `Stored` | `InFile` | pager: clean pages of files are given up, in frames and in the pool |
//! | any | `Unmapped` | the region ends, or a part of a program's file is given back to the kernel |
//!
//! Why no page is lost or doubled:
//! - Only the holder of a `Busy` word moves the page's content, and the content is in one place before and
//!   after. A staging slot belongs to the word that names it.
//! - Pages leave their place by the pager only. So what the engine does not know yet is always an arrival, and
//!   it never sends away what is not there.
//! - A chunk is freed when the engine knows all its pages to be elsewhere; a thread that reads a chunk holds a page of
//!   it that the engine still takes for stored. A write-back changes the chunk's place first and frees the
//!   pool's copy when no thread reads it any more.
//! - What a store takes is read while the page is held: a single page is encoded so, the pages of a larger chunk
//!   are copied. It gives a frame up only if the word has not changed since; a page that
//!   was touched leaves a hole in the chunk; the engine hears of the hole before it hears of the store.
//! - Writes are not seen. A page that leaves for a kept copy does so only if its 128-bit hash is the copy's.
//! - Arrivals go through a lock-free queue of page numbers. A number that is queued twice finds nothing new; a
//!   full queue reports an overflow, and the pager looks at every word.
//!
//! # What a user must know
//!
//! - With [`FaultMode::Signal`] system calls cannot fault pages in: see [`Arena::touch_for_kernel`]. Nor may
//!   locks that a thread can sleep on, or a memory allocator's own data, lie in a region. A fault runs on
//!   the faulting thread's stack and takes up to 32 KiB of it.
//! - A fault takes a signal, which costs more than all the rest of it. Callers that know their next accesses prefetch them:
//!   [`Region::advise`] with [`Advice::WorkingSet`] brings pages back without one, and for pages that are in their
//!   place it is one look a page.
//! - Pages that the kernel keeps a reference to after a call has returned (`vmsplice`, `MSG_ZEROCOPY`, buffers registered
//!   with io_uring) must stay pinned ([`Region::pin`]) until it has let them go: their frames are used for other pages
//!   otherwise.
//! - A page that cannot be served ends the process with a line on standard error. It never reads as zeros.
//! - Regions are not inherited by `fork`: the child gets a segmentation fault there, and the parent goes on.
//! - `madvise`, `mremap` and `munmap` on a region are not allowed; a page that vanishes ends the process.
//! - When nothing can be given up, faults are served beyond the budget and counted
//!   ([`PagerCounts::overcommits`]): live memory cannot be refused, and no application is killed.
//! - Touches of pages that are in their place are not seen. In a launch window, what comes along with a
//!   touched page counts as touched, and so does what is brought back in bulk: a hot set is complete rather
//!   than exact.

mod address_map;
mod application;
mod arena;
mod arrivals;
#[cfg(test)]
mod arrivals_model;
mod config;
mod content_hash;
mod error;
mod fault;
mod file_region;
mod files;
mod frames;
mod gate;
mod hooks;
mod learned;
mod lock;
pub mod mechanism;
#[cfg(test)]
mod model;
mod page_words;
mod pager;
mod region;
mod regions;
mod restore;
mod shared;
mod stats;
mod sync;
mod tape;
mod threads;

pub use application::Application;
pub use arena::Arena;
pub use config::{ArenaConfig, FaultMode};
pub use error::{ArenaError, say};
pub use file_region::FileRegion;
pub use pager::PagerCounts;
pub use region::{Advice, Pinned, Region};
pub use stats::ArenaStats;
pub use tape::{Replayed, TapeError, replay_tape};
pub use warmswap_page::Mechanism;
