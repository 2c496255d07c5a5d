//! The rules among which the reclaim chooses.

/// What decides which page leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The last touch.
    Lru,
    /// The last touch but one.
    Lru2,
    /// What the last launch of its application touched stays; of the rest the last touch.
    Hotness,
    /// Expected use by expected wait.
    History,
    /// The same, and little else than launch windows counts.
    Windows,
}

impl Rule {
    /// All of them; the first is what nothing may be worse than.
    pub const ALL: [Self; 5] = [
        Self::Lru,
        Self::Lru2,
        Self::Hotness,
        Self::History,
        Self::Windows,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Lru2 => "lru-2",
            Self::Hotness => "hotness",
            Self::History => "history",
            Self::Windows => "windows",
        }
    }

    /// Whether it knows classes of pages.
    pub fn is_by_class(self) -> bool {
        !matches!(self, Self::Lru | Self::Lru2)
    }

    /// What a touch in a launch window is worth by another, and what recency is worth by expected use: that of a page whose
    /// last touch is as long ago as there are touches from launch to launch. By trial on recordings; results change little
    /// within a factor of two.
    pub fn weights(self) -> (f32, f32) {
        match self {
            Self::Windows => (20.0, 0.05),
            _ => (4.0, 0.1),
        }
    }
}
