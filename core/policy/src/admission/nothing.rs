//! `nothing`: no page enters the pool; all go to the backing file, as in flash swap.

use super::{Admission, Candidate, Verdict};
use crate::entry::{PolicyEntry, no_arguments};

pub(super) const ENTRY: PolicyEntry<dyn Admission> = PolicyEntry {
    name: "nothing",
    summary: "no page is compressed; all go to the backing file as they are",
    source: "the SWAP baseline of Ariadne section 2.3",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Nothing))
    },
};

/// Admits nothing.
#[derive(Debug)]
pub struct Nothing;

impl Admission for Nothing {
    fn verdict(&mut self, _: Candidate) -> Verdict {
        Verdict::Refuse
    }
}
