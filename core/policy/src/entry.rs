//! How a policy makes itself known: a name, what it does, where it comes from, and how it is built.

use thiserror::Error;

/// A policy that can stand in a slot.
#[derive(Debug)]
pub struct PolicyEntry<P: ?Sized + 'static> {
    /// The name on the command line and in the docs.
    pub name: &'static str,
    /// What it does, in one line, with its arguments.
    pub summary: &'static str,
    /// Paper and section, or the kernel file that it follows.
    pub source: &'static str,
    /// Builds it from the text after the colon, empty when there is none.
    pub build: fn(&str) -> Result<Box<P>, String>,
}

/// Why the text of a slot names no policy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PolicyError {
    /// No policy has that name.
    #[error(
        "unknown {slot} policy '{name}': {}it is one of {known}",
        meant(name, known)
    )]
    UnknownPolicy {
        /// The slot.
        slot: &'static str,
        /// What was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The policy does not take those arguments.
    #[error("{slot}={name}: {reason}")]
    BadArguments {
        /// The slot.
        slot: &'static str,
        /// The policy.
        name: &'static str,
        /// What is wrong, and what it takes.
        reason: String,
    },
    /// No slot has that name.
    #[error("unknown slot '{0}': {asked}it is one of {SLOTS}, written SLOT=POLICY", asked = meant(.0, SLOTS))]
    UnknownSlot(String),
    /// A slot is named, and no policy for it.
    #[error("'{0}' is no change: write {0}=POLICY, such as prefetch=none")]
    NoPolicy(String),
    /// No scheme has that name.
    #[error("unknown scheme '{name}': {}it is one of {known}", meant(name, known))]
    UnknownScheme {
        /// What was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The value of a setting that is not a policy.
    #[error("{setting}={value}: {reason}")]
    BadSetting {
        /// The setting.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        reason: String,
    },
}

/// What can be exchanged in a scheme.
pub(crate) const SLOTS: &str =
    "reclaim, sizing, admission, eviction, prefetch, codec, keep-copies, file-pages, layout";

/// From this similarity on (Jaro-Winkler, 0 to 1) a name counts as a misspelt one; as in clap.
const SIMILAR: f64 = 0.8;

/// The one of the `known` names that was probably meant, as a question before the list of them.
fn meant(name: &str, known: &str) -> String {
    let likeness = |known: &str| strsim::jaro_winkler(name, known);
    let similar = known.split(", ").filter(|known| likeness(known) > SIMILAR);
    let nearest = similar.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    nearest.map_or_else(String::new, |known| format!("did you mean {known}? "))
}

/// Builds the policy that `text` (`name` or `name:arguments`) asks for.
///
/// # Errors
/// [`PolicyError::UnknownPolicy`] and [`PolicyError::BadArguments`].
pub fn build<P: ?Sized>(
    slot: &'static str,
    entries: &[PolicyEntry<P>],
    text: &str,
) -> Result<Box<P>, PolicyError> {
    let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
    let Some(entry) = entries.iter().find(|entry| entry.name == name) else {
        let known = entries
            .iter()
            .map(|entry| entry.name)
            .collect::<Vec<_>>()
            .join(", ");
        return Err(PolicyError::UnknownPolicy {
            slot,
            name: name.to_owned(),
            known,
        });
    };
    (entry.build)(arguments).map_err(|reason| PolicyError::BadArguments {
        slot,
        name: entry.name,
        reason,
    })
}

/// For a policy without arguments: refuses any.
///
/// # Errors
/// The reason, when there are some.
pub fn no_arguments(arguments: &str) -> Result<(), String> {
    if arguments.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "it takes no arguments, but '{arguments}' was given"
        ))
    }
}

/// Splits `key=value,flag,…` into pairs; a flag has an empty value.
pub fn arguments(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
}
