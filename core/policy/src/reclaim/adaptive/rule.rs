//! The rules among which the reclaim chooses.

/// What decides which page leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The last touch.
    Lru,
    /// The last touch but one, which of a page that was touched once was some time before.
    Lru2,
    /// The arrival; what was touched since it was looked at last stays.
    Sieve,
    /// Expected use by expected wait.
    History,
    /// The same, and launch windows count most; but recency counts more than expected use outside of them.
    Windows,
}

impl Rule {
    /// All of them; the first is what nothing may be worse than.
    pub const ALL: [Self; 5] = [
        Self::Lru,
        Self::Lru2,
        Self::Sieve,
        Self::History,
        Self::Windows,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Lru2 => "lru-2",
            Self::Sieve => "sieve",
            Self::History => "history",
            Self::Windows => "windows",
        }
    }

    /// Whether it knows classes of pages.
    pub fn is_by_class(self) -> bool {
        !matches!(self, Self::Lru | Self::Lru2 | Self::Sieve)
    }

    /// What a touch in a launch window is worth by another, and what recency is worth by expected use, for a page whose
    /// last touch is as long ago as there are touches from launch to launch. By trial on recordings; results change little
    /// within a factor of two.
    pub fn weights(self) -> (f32, f32) {
        match self {
            Self::Windows => (50.0, 5.0),
            _ => (4.0, 0.1),
        }
    }
}
