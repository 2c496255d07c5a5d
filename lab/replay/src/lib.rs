//! The replay host: a recorded trace, with real page contents and real compressors, under any scheme.
//!
//! Compression and decompression are executed on the recorded contents and their time is measured; what
//! a page fault, a frame and flash cost comes from a [`DeviceModel`]. Every latency is kept in these two
//! parts ([`Latency`]). Decisions depend on the trace, the scheme and the limits alone, never on measured
//! time, so that a replay is deterministic but for the measured nanoseconds.
//!
//! Every page that a scheme brings back is compared with what the trace says that it held.
//!
//! | module | subject |
//! |---|---|
//! | [`device`] | what faults, frames and flash cost |
//! | `ahead` | when a page that is brought back ahead of use is ready |
//! | `future` | when pages are used next, for a clairvoyant reclaim |
//! | [`contents`] | what the pages hold |
//! | [`store`] | pool and backing file: chunks really compressed, or of assumed size |
//! | [`host`] | carries out the engine's decisions and accounts for them |
//! | [`window`] | one launch: its latency, its pages, what was predicted of them |
//! | `reclaim_factory` | a reclaim policy that is none of the named ones |
//! | [`result`] | what comes out |

mod ahead;
pub mod contents;
pub mod device;
mod error;
mod future;
pub mod host;
mod reclaim_factory;
pub mod result;
pub mod store;
pub mod window;

pub use contents::Contents;
pub use device::DeviceModel;
pub use error::ReplayError;
pub use future::Future;
pub use host::{NoObserver, Observer, Pressure, Replay, ReplayConfig, Sight};
pub use reclaim_factory::ReclaimFactory;
pub use result::{AppResult, CpuTime, Latency, Relaunch, ReplayResult, Totals};
pub use store::{AssumedStore, CompressedStore, Store};
