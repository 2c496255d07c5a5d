//! The engine: page states, budget, and the scheme that decides. Events in, decisions out; no I/O, no clock.
//!
//! A host tells the engine what happens ([`Engine::touch`], [`Engine::launch_begin`], …), takes decisions
//! from it ([`Engine::next_decision`], [`Engine::next_background_decision`]), carries each out, and
//! reports how it went ([`Engine::stored`], [`Engine::loaded`], …). Nothing else goes in: with the same
//! calls, the engine makes the same decisions, so that what a live host did can be replayed.
//!
//! After every event the host takes decisions until there are none; the page that was touched may be
//! used once its `Load` was reported. The engine keeps a reserve of free frames (the `min` watermark)
//! from which a touch is served at once; the decisions that follow fill the reserve again. The host may
//! have several decisions under way at a time; it reports each exactly once, in any order.
//!
//! | module | subject |
//! |---|---|
//! | [`budget`] | frames, pool and backing bytes; watermarks |
//! | [`calls`] | the calls of an engine as values |
//! | [`chunks`] | the chunks of pool and backing file, and which pages they hold |
//! | [`decision`] | what the engine asks a host to do |
//! | [`counters`] | what happened so far |
//! | `loads` | loads that a host was asked for and has not reported |
//! | `engine` | the engine's events, one file for each subject, such as `engine/swap_in.rs` |
//! | [`evidence`] | of these: touches that were seen, and those that are presumed |

// The tests within share the host of those without.
#[cfg(test)]
extern crate self as warmswap_engine;

pub mod budget;
pub mod calls;
pub mod chunks;
pub mod counters;
pub mod decision;
mod engine;
mod loads;

pub use budget::{Limits, Usage, Watermarks};
pub use chunks::Place;
pub use counters::Counters;
pub use decision::{Action, Cause, Decision, Refusal};
pub use engine::{
    ANTICIPATED_PAGES, ConfigError, Engine, MINIMUM_BUDGET_BYTES, Outcome, Touch, evidence,
};
