//! An engine's calls as values: what a live host said to its engine can be kept, and said to a fresh one.

use serde::{Deserialize, Serialize};
use warmswap_page::{AppId, LaunchKind, PageAddr};
use warmswap_policy::reclaim::Arrival;
use warmswap_policy::{ChunkId, PageId};

use crate::{Cause, Decision, Engine, Outcome, Place, Refusal, Touch};

/// What the engine answers to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Done,
    /// Yes or no.
    Said(bool),
    /// What a touch costs.
    Outcome(Outcome),
    /// What is to be done, if anything.
    Decision(Option<Decision>),
}

impl From<()> for Answer {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl From<bool> for Answer {
    fn from(said: bool) -> Self {
        Self::Said(said)
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        Self::Outcome(outcome)
    }
}

impl From<Touch> for Answer {
    fn from(touch: Touch) -> Self {
        Self::Outcome(touch.outcome)
    }
}

impl From<Option<Decision>> for Answer {
    fn from(decision: Option<Decision>) -> Self {
        Self::Decision(decision)
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident($($name:ident: $kind:ty),*) => $method:ident;)+) => {
        /// A call of an engine that may change it, by the name of the method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Call {
            $($(#[$doc])* $call($($kind),*),)+
        }

        impl Call {
            /// Makes the call.
            pub fn make(self, engine: &mut Engine) -> Answer {
                match self {
                    $(Self::$call($($name),*) => engine.$method($($name),*).into(),)+
                }
            }
        }
    };
}

calls! {
    /// [`Engine::launch_begin`].
    LaunchBegin(app: AppId, kind: LaunchKind) => launch_begin;
    /// [`Engine::launch_end`].
    LaunchEnd(app: AppId) => launch_end;
    /// [`Engine::background`].
    Background(app: AppId) => background;
    /// [`Engine::exit`].
    Exit(app: AppId) => exit;
    /// [`Engine::touch`].
    Touch(app: AppId, addr: PageAddr, write: bool) => touch;
    /// [`Engine::served`].
    Served(app: AppId, addr: PageAddr, arrival: Arrival) => served;
    /// [`Engine::send_away`].
    SendAway(app: AppId, addr: PageAddr) => send_away;
    /// [`Engine::free`].
    Free(app: AppId, addr: PageAddr, pages: u32) => free;
    /// [`Engine::set_pool_bytes`].
    SetPoolBytes(bytes: u64) => set_pool_bytes;
    /// [`Engine::set_backing_bytes`].
    SetBackingBytes(bytes: u64) => set_backing_bytes;
    /// [`Engine::set_budget_bytes`].
    SetBudgetBytes(bytes: u64) => set_budget_bytes;
    /// [`Engine::set_pool_limit_bytes`].
    SetPoolLimitBytes(bytes: u64) => set_pool_limit_bytes;
    /// [`Engine::next_decision`].
    NextDecision() => next_decision;
    /// [`Engine::next_background_decision`].
    NextBackgroundDecision() => next_background_decision;
    /// [`Engine::admit`].
    Admit(chunk: ChunkId, estimated_bytes: u32, cause: Cause) => admit;
    /// [`Engine::stored_at`].
    Stored(chunk: ChunkId, place: Place, bytes: u32, pool_page: Option<u32>) => stored_at;
    /// [`Engine::refused`].
    Refused(chunk: ChunkId, refusal: Refusal) => refused;
    /// [`Engine::written_back`].
    WrittenBack(chunk: ChunkId) => written_back;
    /// [`Engine::write_back_failed`].
    WriteBackFailed(chunk: ChunkId) => write_back_failed;
    /// [`Engine::loaded`].
    Loaded(chunk: ChunkId) => loaded;
    /// [`Engine::load_abandoned`].
    LoadAbandoned(chunk: ChunkId) => load_abandoned;
    /// [`Engine::touches_are_unseen`].
    TouchesAreUnseen() => touches_are_unseen;
    /// [`Engine::presume_unseen_touches`].
    PresumeUnseenTouches() => presume_unseen_touches;
    /// [`Engine::came_along`].
    CameAlong(app: AppId, addr: PageAddr) => came_along;
    /// [`Engine::copy_is_stale`].
    CopyIsStale(page: PageId) => copy_is_stale;
    /// [`Engine::kill_refused`].
    KillRefused() => kill_refused;
    /// [`Engine::retire`].
    Retire(app: AppId) => retire;
}
