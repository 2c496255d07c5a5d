//! What is mapped where in the addresses of an arena.

use std::fmt::Debug;
use std::ops::Range;

use warmswap_page::AppId;

/// The addresses of an arena: which pages there are, whose they are, and which are a file's. Used under the engine's lock.
pub trait AddressMap: Debug + Send + 'static {
    /// Ranges of pages that have words.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_;

    /// How many pages these are, and what is taken along with them.
    fn mapped_pages(&self) -> usize;

    /// The application that a page belongs to.
    fn owner(&self, page: usize) -> AppId;

    /// Whether a page where a file was mapped is still the file's.
    fn is_file_page(&self, page: usize) -> bool;
}
