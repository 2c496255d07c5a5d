//! The five policy slots of a scheme: reclaim, sizing, admission, eviction, prefetch.
//!
//! A scheme is one policy in each slot. Every policy is one file below the folder of its slot and one
//! line in that folder's `ENTRIES`; names, the command line, the table in the docs and the conformance
//! tests follow from that line.
//!
//! | slot | question that it answers |
//! |---|---|
//! | [`reclaim`] | which resident pages leave, in which order, and how hot are they? |
//! | [`sizing`] | how are the leaving pages cut into chunks, and by which codec? |
//! | [`admission`] | does this page enter the compressed pool at all? |
//! | [`eviction`] | when the pool is full, what leaves it? |
//! | [`prefetch`] | what comes back before it is asked for? |
//!
//! # Where the papers are
//!
//! Ariadne (HPCA 2025), ASAP (USENIX ATC 2021), ezswap (IEEE Access 2019), Fleet (ASPLOS 2024). Paths are relative to the
//! repository.
//!
//! | section | subject | file |
//! |---|---|---|
//! | Ariadne 2.2, 2.3 | the baselines: DRAM, flash swap, zram, zswap | `core/policy/src/scheme.rs` |
//! | Ariadne 3 | hotness of what leaves, similarity of relaunches, chunk sizes, locality | `lab/study/src/hotness_order.rs`, `lab/study/src/similarity.rs`, `lab/study/src/chunk_size.rs`, `lab/study/src/locality.rs` |
//! | Ariadne 4.1 | write-back of cold compressed chunks | `core/policy/src/eviction/coldest.rs`, `core/engine/src/engine/evict.rs`; over zram `hosts/kernel/src/act/write_back.rs` |
//! | Ariadne 4.2 | HotnessOrg | `core/policy/src/reclaim/hotness.rs` |
//! | Ariadne 4.3 | AdaptiveComp | `core/policy/src/sizing/adaptive.rs` |
//! | Ariadne 4.4 | PreDecomp | `core/policy/src/prefetch/next.rs` |
//! | Ariadne 4.5 | other codecs and reclaim policies, by name | `core/policy/src/entry.rs` |
//! | Ariadne 5 | replay of traces; the authors' own | `lab/replay/src/host.rs`, `lab/trace/src/import/ariadne.rs` |
//! | Ariadne 6.1, 6.2 | relaunch latency and CPU time; compression; coverage and accuracy | `lab/study/src/compare.rs`, `lab/study/src/compression.rs`, `lab/study/src/coverage.rs` |
//! | Ariadne 6.3 | sensitivity to chunk sizes | `lab/study/src/sensitivity.rs` |
//! | ASAP 4.1 | how alike the footprints of switches are | `lab/study/src/switches.rs` |
//! | ASAP 4.2 | estimator for pages of files | `core/policy/src/prefetch/footprint/file.rs`, `core/policy/src/prefetch/footprint/profile.rs` |
//! | ASAP 4.3 | estimator for anonymous pages | `core/policy/src/prefetch/footprint/anon.rs` |
//! | ASAP 5 | prepaging manager | `core/engine/src/engine/prepage.rs` |
//! | ASAP 5.1, 5.2 | its batches: anonymous pages; extents and metadata of files | `core/policy/src/prefetch/footprint/plan.rs` |
//! | ASAP 6.3, 6.6 | precision and recall of the estimators, size of their tables | `lab/study/src/prepaging.rs` |
//! | ezswap II-C | zswap over z3fold | `core/policy/src/eviction/lru_pages.rs`, `memory/pool/src/folds.rs` |
//! | ezswap III-A | all-page accommodation | `core/engine/src/engine/file_pages.rs` |
//! | ezswap III-B | selective admission, and its entropy estimate | `core/policy/src/admission/selective.rs`, `core/policy/src/admission/entropy.rs` |
//! | ezswap III-C | compressibility-aware replacement: a lottery | `core/policy/src/eviction/lottery.rs` |
//! | ezswap IV | its parts, one by one; whether entropy tells ratios | `lab/study/src/ezswap.rs`, `lab/study/src/entropy.rs` |
//! | Fleet 4 | objects in heap dumps and in launches | `lab/study/src/heap_graph.rs` |
//! | Fleet 5.1 | phases of an application | `heap/src/launch.rs` |
//! | Fleet 5.2 | background-object collection | `heap/src/collector/session.rs` |
//! | Fleet 5.3 | runtime-guided swap: grouping | `heap/src/collector/grouping.rs` |
//! | Fleet 7.1, 7.2 | cached applications, hot launches | `lab/bench/src/fleet/capacity.rs`, `lab/bench/src/fleet/launches.rs` |
//!
//! # What a policy sees
//!
//! Policies hold no page contents, do no I/O and know no clock. What they know of a page stands in the
//! [`PageTable`], which the engine owns and lends to them.

pub mod admission;
pub mod entry;
pub mod eviction;
pub mod learned;
pub mod list;
pub mod page;
pub mod prefetch;
pub mod reclaim;
pub mod room;
pub mod scheme;
pub mod sizing;
pub mod stored;

pub use entry::{PolicyEntry, PolicyError};
pub use learned::Learned;
pub use page::{AppIndex, ChunkId, Hotness, Page, PageId, PageState, PageTable};
pub use scheme::{Scheme, SchemeSpec};
pub use stored::StoredChunk;
pub use warmswap_page::Layout;
