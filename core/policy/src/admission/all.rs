//! `all`: every page enters the pool, as in zram and zswap.

use super::{Admission, Candidate, Verdict};
use crate::entry::{PolicyEntry, no_arguments};

pub(super) const ENTRY: PolicyEntry<dyn Admission> = PolicyEntry {
    name: "all",
    summary: "every page is compressed into the pool",
    source: "the kernel's zram and zswap",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(All))
    },
};

/// Admits everything.
#[derive(Debug)]
pub struct All;

impl Admission for All {
    fn verdict(&mut self, _: Candidate) -> Verdict {
        Verdict::Admit
    }
}
