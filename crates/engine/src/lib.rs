//! The engine: page states, budget, and the scheme that decides. Events in, decisions out; no I/O, no clock.
