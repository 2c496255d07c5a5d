//! Definitions of real applications: how to start, relaunch and use them.
//!
//! A definition is a TOML file ([`AppSpec`]); the ones that are shipped stand in the folder `apps` with
//! their driver programs. [`RunningApp`] starts one in a session of its own, with a scrubbed environment,
//! asks it for what a person asks of an application ([`Request`]), and ends all its processes when it is
//! dropped, at a signal, or at the next run after a SIGKILL.
//!
//! A driver speaks a line protocol on its standard input and output: it prints `ready` once; then it
//! answers each line `relaunch SEED` or `use SEED` by `done DIGEST` or `error TEXT`. The digest is the
//! same for the same history of requests, so that two runs can be compared. 70 % of what a relaunch
//! does is the same every time, the rest follows the seed.

mod check;
mod error;
mod furnish;
mod pipe;
mod running;
mod spec;

pub use check::{Missing, check};
pub use error::{AppError, bad_toml};
pub use running::{Directories, Request, Response, RunningApp};
pub use spec::{
    Amount, AppSpec, BySize, Folders, Measured, Needs, Requests, Set, Size, Start, load_all,
};
