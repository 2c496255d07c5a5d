//! Slow models of the list-based policies, made of plain vectors.

pub mod hotness;
pub mod literature;
pub mod lottery;
pub mod lru;
pub mod simple;

use warmswap_page::LaunchKind;
use warmswap_policy::reclaim::Urgency;
use warmswap_policy::{Hotness, PageId};

/// A model of a reclaim policy; pages are known by their number in the table.
pub trait Model {
    /// A touch of a page that is not in a frame (`resident` false), or of one that is.
    fn touch(&mut self, page: PageId, owner: u16, is_file: bool, resident: bool);
    fn arrive(&mut self, page: PageId, owner: u16, is_file: bool);
    fn launch_begin(&mut self, app: u16, kind: LaunchKind);
    fn launch_end(&mut self, app: u16);
    fn victims(&mut self, want: usize, urgency: Urgency) -> Vec<PageId>;
    fn victims_of(&mut self, app: u16) -> Vec<PageId>;
    fn free(&mut self, page: PageId);
    fn hotness(&self, page: PageId) -> Hotness;
    fn hot_pages(&self, app: u16) -> Option<u64>;
}
