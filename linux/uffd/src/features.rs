//! What a userfaultfd can do.

use std::fmt;

/// One feature. The discriminant is its bit in the kernel's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Feature {
    /// Write protection, and faults that say so.
    WriteProtect = 0,
    /// A fork is an event, with a descriptor for the child.
    EventFork = 1,
    /// `mremap` is an event.
    EventRemap = 2,
    /// `madvise(MADV_DONTNEED)` and the like are events.
    EventRemove = 3,
    /// `munmap` is an event.
    EventUnmap = 6,
    /// A fault raises SIGBUS in the thread that makes it, and nothing is read from the descriptor.
    Sigbus = 7,
    /// Faults name their thread.
    ThreadId = 8,
    /// Faults name their exact address instead of their page.
    ExactAddress = 11,
    /// Pages can be poisoned.
    Poison = 14,
    /// Write protection that the kernel lifts by itself.
    WriteProtectAsync = 15,
    /// Frames can be moved (Linux 6.8).
    Move = 16,
}

impl Feature {
    /// All that this crate knows.
    pub const ALL: [Self; 11] = [
        Self::WriteProtect,
        Self::EventFork,
        Self::EventRemap,
        Self::EventRemove,
        Self::EventUnmap,
        Self::Sigbus,
        Self::ThreadId,
        Self::ExactAddress,
        Self::Poison,
        Self::WriteProtectAsync,
        Self::Move,
    ];
}

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// No feature.
    pub const NONE: Self = Self(0);

    /// These features.
    #[must_use]
    pub fn of(features: &[Feature]) -> Self {
        Self(features.iter().fold(0, |bits, &f| bits | 1 << f as u8))
    }

    /// Whether the feature is among them.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.0 & 1 << feature as u8 != 0
    }

    /// Those that are not in `others`.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Display for Features {
    /// The names of the features, separated by commas; those that have none as a number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut separator = "";
        for feature in Feature::ALL.into_iter().filter(|&known| self.has(known)) {
            write!(f, "{separator}{feature:?}")?;
            separator = ", ";
            rest &= !(1 << feature as u8);
        }
        if rest != 0 {
            write!(f, "{separator}{rest:#x}")?;
        }
        Ok(())
    }
}
