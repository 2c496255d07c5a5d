//! Sizing: how are the leaving pages cut into chunks, and by which codec?

mod adaptive;
mod page;

pub use adaptive::Adaptive;
pub use page::PageSized;

use crate::entry::PolicyEntry;
use crate::page::Hotness;
use warmswap_page::{ChunkPlan, Codec};

/// The sizing policies. All take `codec=lz4|lzo|zstd|bdi`.
pub const ENTRIES: &[PolicyEntry<dyn Sizing>] = &[page::ENTRY, adaptive::ENTRY];

/// Chooses the chunk of a leaving page by its hotness.
pub trait Sizing: Send + std::fmt::Debug {
    /// Codec and chunk size for pages of that class. A chunk smaller than a page cuts each page into
    /// pieces; a larger one joins pages that leave together. Constant time.
    fn plan(&self, hotness: Hotness) -> ChunkPlan;
}

/// Parses `codec=NAME`.
fn parse_codec(name: &str) -> Result<Codec, String> {
    name.parse().map_err(|_| {
        let known = Codec::ALL.map(Codec::name).join(", ");
        format!("codec={name}: the codec is one of {known}")
    })
}

/// Parses a chunk size such as `512`, `1k`, `16K`: a power of two from 128 B to 128 KiB.
fn parse_chunk_bytes(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix('k') {
        Some(digits) => (digits, 1024),
        None => (lower.as_str(), 1),
    };
    digits
        .parse::<u32>()
        .ok()
        .and_then(|n| n.checked_mul(unit))
        .filter(|bytes| bytes.is_power_of_two() && (128..=131_072).contains(bytes))
        .ok_or_else(|| format!("chunk size '{text}' is not a power of two from 128 to 128k"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_are_read_as_the_paper_writes_them() {
        assert_eq!(parse_chunk_bytes("256"), Ok(256));
        assert_eq!(parse_chunk_bytes("1k"), Ok(1024));
        assert_eq!(parse_chunk_bytes("16K"), Ok(16384));
        for bad in ["", "k", "3k", "64", "256k", "-1", "99999999999k"] {
            assert!(parse_chunk_bytes(bad).is_err(), "{bad}");
        }
    }
}
