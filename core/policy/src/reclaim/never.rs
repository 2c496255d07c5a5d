//! `never`: nothing leaves; memory without pressure, the DRAM baseline of all four papers.

use super::{Arrival, Reclaim, Urgency};
use crate::entry::{PolicyEntry, no_arguments};
use crate::page::{Hotness, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "never",
    summary: "no page leaves; the budget does not apply",
    source: "the DRAM baseline of Ariadne section 2.3",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Never))
    },
};

/// Keeps every page.
#[derive(Debug)]
pub struct Never;

impl Reclaim for Never {
    fn insert(&mut self, _: &mut PageTable, _: PageId, _: Arrival) {}
    fn touch(&mut self, _: &mut PageTable, _: PageId) {}
    fn remove(&mut self, _: &mut PageTable, _: PageId) {}
    fn victims(&mut self, _: &mut PageTable, _: usize, _: Urgency, _: &mut Vec<PageId>) {}
    fn victims_of(&mut self, _: &mut PageTable, _: AppId, _: &mut Vec<PageId>) {}
    fn knows_hot_pages(&self) -> bool {
        false
    }
    fn hotness(&self, _: &PageTable, _: PageId) -> Hotness {
        Hotness::Warm
    }
    fn is_unlimited(&self) -> bool {
        true
    }
    fn dump(&self, _: &PageTable) -> Vec<PageId> {
        Vec::new()
    }
}
