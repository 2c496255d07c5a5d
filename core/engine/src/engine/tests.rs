//! What the engine does, told by examples. The random counterpart is `tests/conformance.rs`.

mod accounts;
mod blocks;
mod chunk_numbers;
#[path = "../../tests/common/mod.rs"]
mod common;
mod ezswap;
mod life;
mod pressure;
mod under_way;

use crate::{Action, Engine, Limits};
use warmswap_policy::SchemeSpec;

/// An engine without a host, to be driven call by call.
fn engine(scheme: &str, limits: Limits) -> Engine {
    let spec = SchemeSpec::parse(scheme).unwrap_or_else(|error| panic!("{scheme}: {error}"));
    let scheme = spec.build().unwrap_or_else(|error| panic!("{error}"));
    Engine::new(scheme, limits).unwrap_or_else(|error| panic!("{error}"))
}

/// The kinds of actions, for comparisons that do not care about numbers.
fn kinds(actions: &[Action]) -> Vec<&'static str> {
    actions.iter().map(kind).collect()
}

fn kind(action: &Action) -> &'static str {
    match action {
        Action::Store { .. } => "store",
        Action::StoreRaw { .. } => "store raw",
        Action::WriteBack { .. } => "write back",
        Action::Load { .. } => "load",
        Action::Free { .. } => "free",
        Action::Drop { .. } => "drop",
        Action::Discard { .. } => "discard",
        Action::Forget { .. } => "forget",
        Action::ReadFile { .. } => "read file",
        Action::Kill { .. } => "kill",
    }
}

/// All decisions that the engine makes now, none of them carried out.
fn decisions(engine: &mut Engine) -> Vec<Action> {
    std::iter::from_fn(|| engine.next_decision())
        .map(|decision| decision.action)
        .collect()
}
