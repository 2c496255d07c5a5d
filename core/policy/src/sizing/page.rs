//! `page`: every page is a chunk of its own, as in zram and zswap.

use super::{Sizing, parse_codec};
use crate::entry::{PolicyEntry, arguments};
use crate::page::Hotness;
use warmswap_page::{ChunkPlan, Codec};

pub(super) const ENTRY: PolicyEntry<dyn Sizing> = PolicyEntry {
    name: "page",
    summary: "4 KiB chunks; page:codec=NAME (lz4)",
    source: "the kernel's zram and zswap",
    build: |text| {
        let mut codec = Codec::Lz4;
        for (key, value) in arguments(text) {
            match key {
                "codec" => codec = parse_codec(value)?,
                _ => return Err(format!("'{key}' is not codec=NAME")),
            }
        }
        Ok(Box::new(PageSized { codec }))
    },
};

/// One page, one chunk.
#[derive(Debug)]
pub struct PageSized {
    /// The codec of all chunks.
    pub codec: Codec,
}

impl Sizing for PageSized {
    fn plan(&self, _: Hotness) -> ChunkPlan {
        ChunkPlan::page(self.codec)
    }
}
