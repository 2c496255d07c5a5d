//! The collector: a thread of each heap that finds and frees garbage while mutators go on.
//!
//! One collection, whatever its [`Kind`]:
//!
//! 1. **Flip**, all mutators stopped for a moment: which regions are collected is settled ([`plan`]), their state set,
//!    the dirty cards of the others taken. The read barrier is on from here.
//! 2. **Trace** ([`trace`]), while mutators run: from roots and dirty cards, every object found in an evacuated region
//!    is copied, every one in a region in place is marked, and their references are followed. A mutator that loads a
//!    reference first does the same for that object, so that it never holds a reference into an evacuated region.
//! 3. **Remark**, stopped: nothing is left to follow, else step 2 goes on.
//! 4. **Clear** ([`weak`]): weak references to objects that were not found become empty.
//! 5. **End**, stopped: evacuated regions are free; the barrier is off.
//!
//! What is stopped for takes time by the number of regions and cards, not of objects.

pub mod collection;
mod control;
mod grouping;
pub mod plan;
mod report;
mod session;
mod trace;
mod weak;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use crate::heap::Inner;

pub use control::Control;
pub use report::CollectionReport;
pub use trace::SharedCopies;

use collection::Collections;
use session::Session;

/// Which part of a heap is collected, and to what end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Regions allocated since the last collection. What survives is old.
    Minor,
    /// The whole heap.
    Major,
    /// Background objects (BGC, section 5.2): all but the foreground regions, which are not read. Without foreground
    /// regions the same as [`Self::Major`] without objects in place.
    Background,
    /// The whole heap, grouped by what the next launch needs (RGS, section 5.3.1). All objects are foreground objects
    /// afterwards.
    Grouping,
    /// A minor collection, after which all objects are foreground objects where they are: what background collections
    /// need when objects are not grouped.
    Separating,
}

/// Why a collection began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The heap had grown to its limit, or mutators found no room.
    Limit,
    /// The application had been in the background for long enough.
    Timer,
    /// The program asked for it.
    Request,
    /// A background collection left the heap nearly full.
    LastResort,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Minor,
        Self::Major,
        Self::Background,
        Self::Grouping,
        Self::Separating,
    ];
}

/// Starts the thread of a heap.
pub fn start(heap: Arc<Inner>) -> io::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name("warmswap gc".into());
    builder.spawn(move || {
        let _abort = AbortOnPanic;
        let mut session = Session::new(Collections::new(Arc::clone(&heap)));
        session.run();
    })
}

/// A collector that stops half-way leaves mutators with a heap that cannot be used.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("warmswap: the garbage collector failed; the process ends");
            std::process::abort();
        }
    }
}
