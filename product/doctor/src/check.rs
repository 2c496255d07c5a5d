//! The form of a check.

use serde::Serialize;

use crate::Machine;

/// A part of warmswap that has needs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// `warmswap daemon`.
    Daemon,
    /// `warmswap run` with the preloaded library: programs as they are.
    Run,
    /// `warmswap run` with the kernel host: any program, in a control group.
    Group,
    /// Programs that link the library.
    Arena,
    /// Steering the kernel's own swap from outside, over a zram device of its own.
    Kernel,
    /// `warmswap-lab record`.
    Record,
    /// `warmswap-lab bench`: ours beside the kernel's.
    Bench,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Daemon,
        Self::Run,
        Self::Group,
        Self::Arena,
        Self::Kernel,
        Self::Record,
        Self::Bench,
    ];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arena => "arena",
            Self::Run => "run",
            Self::Group => "group",
            Self::Daemon => "daemon",
            Self::Kernel => "kernel",
            Self::Record => "record",
            Self::Bench => "bench",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Arena => "programs that link the library",
            Self::Run => "programs as they are, under `warmswap run --host preload`",
            Self::Group => "programs in a group, under `warmswap run --host kernel`",
            Self::Daemon => "a whole machine, under `warmswap daemon`",
            Self::Kernel => {
                "the daemon's work on a zram device of its own, in `warmswap-lab bench`"
            }
            Self::Record => "traces of real programs",
            Self::Bench => "live memory beside the kernel's zram",
        }
    }
}

/// How much a part needs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// It does not work without.
    Must,
    /// It works better with it.
    Better,
}

/// What became of looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is there.
    There,
    /// It is not.
    Lacking,
    /// It cannot be known without changing something.
    Unknown,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is what is needed.
    pub state: State,
    /// What is there, in a few words.
    pub found: String,
    /// What would fix it: a command, or what to do where no command does.
    pub fix: Option<String>,
}

impl Finding {
    /// All is well.
    #[must_use]
    pub fn there(found: impl Into<String>) -> Self {
        Self {
            state: State::There,
            found: found.into(),
            fix: None,
        }
    }

    /// Something is not as it must be.
    #[must_use]
    pub fn lacking(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            state: State::Lacking,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    /// There is no telling.
    #[must_use]
    pub fn unknown(found: impl Into<String>) -> Self {
        Self {
            state: State::Unknown,
            found: found.into(),
            fix: None,
        }
    }
}

/// A row of the table of checks.
#[derive(Debug)]
pub struct Check {
    /// Its name in JSON.
    pub key: &'static str,
    /// What is looked at, for people.
    pub title: &'static str,
    /// What it is needed for.
    pub purpose: &'static str,
    /// Which parts need it. The others do without.
    pub needs: &'static [(Part, Need)],
    /// Looks.
    pub look: fn(&Machine) -> Finding,
}

impl Check {
    /// How much `part` needs it.
    #[must_use]
    pub fn need(&self, part: Part) -> Option<Need> {
        let of_part = self.needs.iter().find(|(needed_by, _)| *needed_by == part);
        of_part.map(|&(_, need)| need)
    }
}
