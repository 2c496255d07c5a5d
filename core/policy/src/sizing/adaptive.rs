//! `adaptive`: AdaptiveComp, a chunk size for each hotness class (Ariadne section 4.3, Table 5).

use super::{Sizing, parse_chunk_bytes, parse_codec};
use crate::entry::{PolicyEntry, arguments};
use crate::page::Hotness;
use warmswap_page::{ChunkPlan, Codec};

pub(super) const ENTRY: PolicyEntry<dyn Sizing> = PolicyEntry {
    name: "adaptive",
    summary: "small, medium and large chunks for hot, warm and cold pages; adaptive:1k-2k-16k,codec=NAME (lz4)",
    source: "Ariadne section 4.3 (AdaptiveComp), Table 5",
    build: |text| {
        let (mut codec, mut chunk_bytes) = (Codec::Lz4, [1024, 2048, 16384]);
        for (key, value) in arguments(text) {
            if key == "codec" {
                codec = parse_codec(value)?;
                continue;
            }
            let sizes = key
                .split('-')
                .map(parse_chunk_bytes)
                .collect::<Result<Vec<_>, _>>()?;
            chunk_bytes = sizes
                .try_into()
                .map_err(|_| format!("'{key}' is not SMALL-MEDIUM-LARGE, for example 1k-2k-16k"))?;
        }
        let plan = |bytes| ChunkPlan::new(codec, bytes).map_err(|error| error.to_string());
        let [small, medium, large] = chunk_bytes;
        Ok(Box::new(Adaptive {
            plans: [plan(small)?, plan(medium)?, plan(large)?],
        }))
    },
};

/// SmallSize, MediumSize and LargeSize of Table 5.
#[derive(Debug)]
pub struct Adaptive {
    /// For hot, warm and cold pages.
    pub plans: [ChunkPlan; 3],
}

impl Sizing for Adaptive {
    fn plan(&self, hotness: Hotness) -> ChunkPlan {
        self.plans[hotness.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_paper_s_notation_and_refuses_others() {
        let policy = (ENTRY.build)("256-2k-32k,codec=lzo").unwrap();
        assert_eq!(
            policy.plan(Hotness::Hot),
            ChunkPlan::new(Codec::Lzo, 256).unwrap()
        );
        assert_eq!(
            policy.plan(Hotness::Cold),
            ChunkPlan::new(Codec::Lzo, 32768).unwrap()
        );
        assert!((ENTRY.build)("1k-2k").is_err());
        assert!((ENTRY.build)("1k-2k-3k").is_err());
        assert!((ENTRY.build)("codec=gzip").is_err());
    }
}
