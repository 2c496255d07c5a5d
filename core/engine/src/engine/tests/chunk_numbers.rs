//! The numbers of chunks against a set of those in use.

use crate::chunks::ChunkTable;
use proptest::prelude::*;
use std::collections::BTreeMap;
use warmswap_policy::{Hotness, PageId};

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_number_is_given_out_twice_and_freed_ones_are_used_again(
        ops in prop::collection::vec((1..33_usize, 0..1000_usize, prop::bool::weighted(0.55)), 1..600),
    ) {
        let mut table = ChunkTable::default();
        let mut in_use = BTreeMap::new();
        let (mut next_page, mut most) = (0, 0);
        for (len, pick, insert) in ops {
            if insert || in_use.is_empty() {
                let pages: Vec<_> = (next_page..next_page + len as u32).map(PageId).collect();
                next_page += len as u32;
                let chunk = table.insert(&pages, Hotness::Warm);
                prop_assert!(in_use.insert(chunk, pages).is_none(), "{chunk:?} is given out twice");
                most = most.max(in_use.len());
                // At most an eighth lies idle before the table grows, and it grows by a cluster of 64.
                prop_assert!(chunk.index() < most * 8 / 7 + 2 * 64, "{chunk:?} of {most}");
            } else {
                let chunk = *in_use.keys().nth(pick % in_use.len()).expect("not empty");
                in_use.remove(&chunk);
                table.remove(chunk);
                prop_assert!(table.get(chunk).is_none());
            }
            prop_assert_eq!(table.len(), in_use.len());
        }
        let listed: Vec<_> = table.iter().map(|(chunk, _)| chunk).collect();
        prop_assert_eq!(listed, in_use.keys().copied().collect::<Vec<_>>());
        for (chunk, pages) in in_use {
            prop_assert_eq!(&*table.pages(chunk), &pages[..]);
        }
    }
}
