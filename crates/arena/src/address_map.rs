//! What is mapped where in the addresses of an arena.

use std::fmt::Debug;

use warmswap_page::AppId;

/// The addresses of an arena: which pages there are, whose they are, and which are a file's. Used under the engine's lock.
pub trait AddressMap: Debug + Send + 'static {
    /// Pages that have words in the directory.
    fn pages(&self) -> impl Iterator<Item = usize> + '_;

    /// Pages whose words take memory, at least those of [`Self::pages`].
    fn mapped_pages(&self) -> usize;

    /// The application that a page belongs to.
    fn owner(&self, page: usize) -> AppId;

    /// Whether a page where a file was mapped is still the file's.
    fn is_file_page(&self, page: usize) -> bool;
}
