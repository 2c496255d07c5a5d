//! The figures and tables of the papers, computed from traces and replays.
//!
//! Each study is a function from traces ([`Subject`]) to a value that can be stored; the paper's own
//! numbers stand beside ours ([`Published`]). But for measured times, the same traces give the same value.
//!
//! | module | subject |
//! |---|---|
//! | [`mod@compare`] | schemes side by side (Ariadne Figures 2, 10 and 11) |
//! | [`mod@hotness_order`] | how hot what leaves first is (Figure 4) |
//! | [`mod@similarity`] | how alike consecutive relaunches are (Figure 5) |
//! | [`chunk_size`] | ratio and speed of codecs by chunk size (Figure 6) |
//! | [`mod@launches`] | cold launches beside relaunches, and how memory grows (Table 1; ASAP Figure 1, Fleet Figure 2) |
//! | [`mod@locality`] | whether neighbours in the pool come back together (Table 3) |
//! | [`mod@compression`] | times and ratio of compression for each application (Figures 11 to 13) |
//! | [`mod@coverage`] | how well the hot list predicts (Figure 14) |
//! | [`sensitivity`] | unsuitable chunk sizes (Figure 15) |
//! | [`entropy`] | whether entropy tells how a page compresses (ezswap Figures 5 and 6) |
//! | [`mod@ezswap`] | the parts of ezswap (ezswap Figures 8 to 11 and Table 3) |
//! | [`mod@switches`] | how alike the footprints of ten switches are (ASAP Figures 5 to 7) |
//! | [`mod@prepaging`] | how well footprints predict, and how large their tables are (ASAP Figure 12) |
//! | [`statistics`] | whether two sets of samples differ by more than noise |
//! | [`heap_graph`] | sizes, depths and launch sets of objects in heap dumps (Fleet Figures 6b and 7) |
//! | [`mod@parts`] | the parts of the papers, within all of them and each alone |
//! | [`subject`], [`options`], [`run`], [`sample`] | traces, limits, replays and page contents for all of these |

#![forbid(unsafe_code)]

pub mod chunk_size;
mod codec_bench;
pub mod compare;
pub mod compression;
pub mod coverage;
pub mod entropy;
mod error;
pub mod ezswap;
pub mod footprint;
pub mod heap_graph;
pub mod hotness_order;
pub mod launches;
pub mod locality;
mod mean;
pub mod misses;
pub mod options;
pub mod paper;
pub mod parts;
pub mod phases;
pub mod prepaging;
pub mod run;
pub mod sample;
pub mod sensitivity;
pub mod similarity;
pub mod statistics;
pub mod subject;
pub mod swap_order;
pub mod switches;
#[cfg(test)]
mod testing;
pub mod volume;

pub use chunk_size::{ChunkSizes, chunk_sizes};
pub use compare::{Comparison, compare};
pub use compression::{CompressionStudy, compression};
pub use coverage::{CoverageRow, coverage};
pub use entropy::{EntropyStudy, entropy_study};
pub use error::StudyError;
pub use ezswap::{EzswapStudy, ezswap};
pub use footprint::{Footprint, footprint};
pub use heap_graph::{Dumps, HeapStudy, heap_study};
pub use hotness_order::{HotnessOrder, hotness_order};
pub use launches::{LaunchRow, launches};
pub use locality::{Locality, locality};
pub use misses::{MissRow, misses};
pub use options::{Amount, Options};
pub use paper::Published;
pub use parts::{PartsStudy, parts};
pub use prepaging::{PrepagingRow, prepaging};
pub use run::{OnProgress, Progress, Run, replay, replay_all, replay_each};
pub use sample::Sample;
pub use similarity::{Similarity, similarity};
pub use subject::Subject;
pub use switches::{SwitchFootprint, switches};
pub use volume::Volume;
