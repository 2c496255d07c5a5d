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
//! | `engine` | the engine's events |
//! | `swap_out`, `swap_in` | the way of a page out of its frame, and back |
//! | [`evidence`] | touches that were seen, and those that are presumed |
//! | `file_pages` | pages of files in the pool: all-page accommodation (ezswap section III-A) |
//! | `learn` | what survives a restart |
//! | `prepage` | the footprint of a launch, brought back ahead of use: the prepaging manager (ASAP section 5) |

// The tests within share the host of those without.
#[cfg(test)]
extern crate self as warmswap_engine;

pub mod budget;
pub mod calls;
mod check;
pub mod chunks;
pub mod counters;
pub mod decision;
mod engine;
mod evict;
pub mod evidence;
mod file_pages;
mod learn;
mod loads;
mod prepage;
mod swap_in;
mod swap_out;

pub use budget::{Limits, Usage, Watermarks};
pub use chunks::Place;
pub use counters::Counters;
pub use decision::{Action, Cause, Decision, Refusal};
pub use engine::{ANTICIPATED_PAGES, ConfigError, Engine, MINIMUM_BUDGET_BYTES, Outcome, Touch};
