//! Traces from the data of others.

pub mod ariadne;

mod text;
