//! The word that parent and child of a fork share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use warmswap_sys::fork::SharedWord;

/// How far parent and child are. The value of the word that they share.
mod step {
    /// The child may need pages from the parent.
    pub const NEEDS: u32 = 0;
    /// The child needs the parent no more: its next access to the space is after it has registered its memory.
    pub const CAN_DO: u32 = 1;
    /// The faults of the child were resolved up to then.
    pub const LET_GO: u32 = 2;
}

/// What a child says to its parent, or to the stand-in.
#[derive(Debug, Clone)]
pub struct Link(Arc<SharedWord>);

impl Link {
    /// A new one.
    ///
    /// # Errors
    /// The system's answer: no memory, or too many mappings.
    pub fn new() -> io::Result<Self> {
        SharedWord::new().map(|word| Self(Arc::new(word)))
    }

    /// In the child: it needs the parent no more.
    pub fn can_do(&self) {
        self.0.set(step::CAN_DO);
    }

    /// In the child, after its memory was let go: whether all of its faults were resolved until then. They were not if the
    /// parent was killed.
    pub fn was_let_go(&self) -> bool {
        self.0.load() == step::LET_GO
    }

    /// By the parent or its stand-in: the faults of the child were resolved up to now.
    pub(super) fn let_go(&self) {
        self.0.set(step::LET_GO);
    }

    /// Sleeps while the child may need pages, for so long at most.
    pub(super) fn wait(&self, at_most: Duration) {
        self.0.wait(step::NEEDS, at_most);
    }

    /// Wakes threads and processes in [`Self::wait`].
    pub(super) fn wake(&self) {
        self.0.wake();
    }

    /// Whether the child may need pages.
    pub(super) fn needs(&self) -> bool {
        self.0.load() == step::NEEDS
    }
}
