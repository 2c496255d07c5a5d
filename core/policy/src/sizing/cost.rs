//! The cost model of the `measured` sizing.
//!
//! What a chunk of `n` pages with a codec costs, for pages of one hotness class, in expected time for
//! each page that leaves:
//!
//! ```text
//! time   = compress + reuse * (fault + n * (decompress + install) + idle * (evict + displaced)) / served
//! served = 1 + (n - 1) * together        pages of the chunk that one load brings and that are used
//! idle   = n - served                    pages that one load brings for nothing, which leave again
//! ```
//!
//! An idle page takes the frame of another, `displaced`, which has to leave and may be asked for again:
//! `compress + reuse * (fault + decompress + install)` of a page of the same class in a chunk of its own.
//!
//! `compress`, `decompress`, `install` and `evict` are per page, `fault` per load; `reuse` is the
//! probability that a page of the class is asked for again, `together` the probability that a page is
//! used when a neighbour in its chunk is. The page frees `4096 - stored` bytes. The choice for a class is
//! the codec and size with the least `time / (4096 - stored)`: expected nanoseconds for a byte of memory
//! won. It needs no exchange rate between time and memory, and it refuses by itself what does not shrink.

use crate::page::Hotness;
use serde::{Deserialize, Serialize};
use warmswap_page::PAGE_BYTES;
use warmswap_page::{ChunkPlan, Codec};

/// What one codec costs at one chunk size, measured on real pages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecCost {
    /// The codec and the chunk size.
    pub plan: ChunkPlan,
    /// Nanoseconds to compress, for each page.
    pub compress_ns_per_page: f64,
    /// Nanoseconds to decompress a whole chunk, for each page of it.
    pub decompress_ns_per_page: f64,
    /// Bytes that a page needs in the pool, pool overhead included.
    pub stored_bytes_per_page: f64,
}

/// How pages of a class behave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassAssumptions {
    /// Probability that a page that left is asked for again.
    pub reuse: f64,
    /// Probability that a page is used when another page of its chunk is.
    pub together: f64,
}

/// The costs of this machine, for these pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostTable {
    /// Nanoseconds for a load, whatever its size: the fault, its way to the host, the look-up.
    pub fault_ns: f64,
    /// Nanoseconds to put a loaded page in its place.
    pub install_ns_per_page: f64,
    /// Nanoseconds to let a page go that still has its stored copy.
    pub evict_ns_per_page: f64,
    /// How hot, warm and cold pages behave.
    pub classes: [ClassAssumptions; 3],
    /// What was measured.
    pub codecs: Vec<CodecCost>,
}

impl CostTable {
    /// Expected nanoseconds for each byte of memory won; infinite when none is won.
    pub fn price(&self, cost: &CodecCost, hotness: Hotness) -> f64 {
        let class = self.classes[hotness.index()];
        let pages = cost.plan.max_pages() as f64;
        let served = 1.0 + (pages - 1.0) * class.together;
        let page_ns = cost.decompress_ns_per_page + self.install_ns_per_page;
        let displaced = cost.compress_ns_per_page + class.reuse * (self.fault_ns + page_ns);
        let load = self.fault_ns
            + pages * page_ns
            + (pages - served) * (self.evict_ns_per_page + displaced);
        let time = cost.compress_ns_per_page + class.reuse * load / served;
        let won = PAGE_BYTES as f64 - cost.stored_bytes_per_page;
        if won > 0.0 { time / won } else { f64::INFINITY }
    }

    /// The cheapest plan for a class, among those of `only` when it is given. `None` when the table has
    /// no such codec.
    pub fn best(&self, hotness: Hotness, only: Option<Codec>) -> Option<ChunkPlan> {
        self.codecs
            .iter()
            .filter(|cost| only.is_none_or(|codec| codec == cost.plan.codec()))
            .min_by(|a, b| self.price(a, hotness).total_cmp(&self.price(b, hotness)))
            .map(|cost| cost.plan)
    }

    /// Why the table cannot be used, if so: numbers that are negative or not finite, probabilities
    /// outside 0 to 1, no codec.
    pub fn problem(&self) -> Option<String> {
        let bad_number = |n: f64| !n.is_finite() || n < 0.0;
        if [
            self.fault_ns,
            self.install_ns_per_page,
            self.evict_ns_per_page,
        ]
        .into_iter()
        .any(bad_number)
        {
            return Some("a cost is negative or not a number".to_owned());
        }
        if self
            .classes
            .iter()
            .flat_map(|c| [c.reuse, c.together])
            .any(|p| bad_number(p) || p > 1.0)
        {
            return Some("reuse and together are probabilities, from 0 to 1".to_owned());
        }
        if self.codecs.is_empty() {
            return Some("no codec was measured".to_owned());
        }
        self.codecs.iter().find_map(|c| {
            let costs = [
                c.compress_ns_per_page,
                c.decompress_ns_per_page,
                c.stored_bytes_per_page,
            ];
            (costs.into_iter().any(bad_number))
                .then(|| format!("a cost of {} is negative or not a number", c.plan))
        })
    }

    /// The assumptions about the classes where no trace says better: those of the built-in table.
    pub const CLASSES: [ClassAssumptions; 3] = [
        ClassAssumptions {
            reuse: 0.48,
            together: 0.5,
        },
        ClassAssumptions {
            reuse: 0.19,
            together: 0.4,
        },
        ClassAssumptions {
            reuse: 0.16,
            together: 0.3,
        },
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(chunk_bytes: u32, stored: f64) -> CodecCost {
        CodecCost {
            plan: ChunkPlan::new(Codec::Lz4, chunk_bytes).unwrap(),
            compress_ns_per_page: 5000.0,
            decompress_ns_per_page: 1500.0,
            stored_bytes_per_page: stored,
        }
    }

    fn table(codecs: Vec<CodecCost>) -> CostTable {
        CostTable {
            fault_ns: 4000.0,
            install_ns_per_page: 500.0,
            evict_ns_per_page: 200.0,
            classes: [
                ClassAssumptions {
                    reuse: 0.98,
                    together: 0.9,
                },
                ClassAssumptions {
                    reuse: 0.25,
                    together: 0.4,
                },
                ClassAssumptions {
                    reuse: 0.05,
                    together: 0.1,
                },
            ],
            codecs,
        }
    }

    #[test]
    fn the_formula_is_the_documented_one() {
        let t = table(vec![cost(16384, 1096.0)]);
        let served = 1.0 + 3.0 * 0.9;
        let displaced = 5000.0 + 0.98 * 6000.0;
        let idle = (4.0 - served) * (200.0 + displaced);
        let time = 5000.0 + 0.98 * (4000.0 + 4.0 * 2000.0 + idle) / served;
        assert!((t.price(&t.codecs[0], Hotness::Hot) - time / 3000.0).abs() < 1e-9);
    }

    #[test]
    fn hot_pages_that_come_back_together_share_a_chunk_and_what_does_not_shrink_is_refused() {
        let t = table(vec![cost(4096, 1200.0), cost(65536, 1200.0)]);
        assert_eq!(t.best(Hotness::Hot, None).unwrap().chunk_bytes(), 65536);
        let mut lonely = t.clone();
        lonely.classes[0].together = 0.0;
        assert_eq!(lonely.best(Hotness::Hot, None).unwrap().chunk_bytes(), 4096);
        let t = table(vec![cost(4096, 5000.0), cost(8192, 4000.0)]);
        assert_eq!(t.best(Hotness::Cold, None).unwrap().chunk_bytes(), 8192);
        assert_eq!(t.best(Hotness::Cold, Some(Codec::Zstd)), None);
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!(table(vec![cost(4096, 1.0)]).problem(), None);
        assert!(table(vec![]).problem().is_some());
        assert!(table(vec![cost(4096, -1.0)]).problem().is_some());
        let mut t = table(vec![cost(4096, 1.0)]);
        t.classes[1].reuse = 1.5;
        assert!(t.problem().is_some());
        t.classes[1].reuse = f64::NAN;
        assert!(t.problem().is_some());
    }
}
