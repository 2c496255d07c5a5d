//! Whose pages leave first, by class.

use crate::page::Hotness;

/// Applications whose pages take a turn at leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Everybodys,
    Foreground,
    Others,
}

/// The application and class that give pages, one turn after the other.
pub(super) type Order = [(Hotness, Whose)];

/// As in the paper: cold pages leave first, of whichever application.
pub(super) const BY_CLASS: [(Hotness, Whose); 3] = [
    (Hotness::Cold, Whose::Everybodys),
    (Hotness::Warm, Whose::Everybodys),
    (Hotness::Hot, Whose::Everybodys),
];

/// The application that was launched last keeps what it uses, until the others have only hot pages left: its cold
/// pages are those that no launch touched, not those that no program uses.
pub(super) const FOREGROUND_LAST: [(Hotness, Whose); 5] = [
    (Hotness::Cold, Whose::Others),
    (Hotness::Warm, Whose::Others),
    (Hotness::Cold, Whose::Foreground),
    (Hotness::Warm, Whose::Foreground),
    (Hotness::Hot, Whose::Everybodys),
];

/// The same while its launch window is open: what it touches is about to be seen, and others' hot pages give way to it.
pub(super) const LAUNCHING_LAST: [(Hotness, Whose); 6] = [
    (Hotness::Cold, Whose::Others),
    (Hotness::Warm, Whose::Others),
    (Hotness::Hot, Whose::Others),
    (Hotness::Cold, Whose::Foreground),
    (Hotness::Warm, Whose::Foreground),
    (Hotness::Hot, Whose::Foreground),
];
