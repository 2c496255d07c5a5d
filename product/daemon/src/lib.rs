//! The daemon that brings programs, as they are, back from the kernel's swap.
//!
//! One thread owns the host and does everything; the others tell it what happened ([`event`]): the control
//! socket's, one that follows the machine's swap, and one that waits for signals. Window systems are read by agents in the
//! sessions of users, which speak over the control socket. At rest all of them sleep, and the daemon's own looks at its
//! applications every 2 s.
//!
//! What it changes on the machine, its swap devices, goes through the undo registry of the system layer, so that it is
//! taken back on every way out. A daemon that is killed leaves its devices, which hold pages of programs; the next one takes
//! them over.
//!
//! | module | subject |
//! |---|---|
//! | [`activity`] | an application that begins to work after it rested |
//! | [`config`] | what is configured: files, sections, sizes |
//! | [`control`] | the control socket |
//! | [`daemon`] | the daemon's one thread: it takes events, steers the host, and answers |
//! | [`devices`] | the swap devices that the daemon makes |
//! | [`discover`] | applications without a configuration |
//! | [`event`] | what other threads tell the daemon's one thread |
//! | [`mod@host`] | what it needs of a host |
//! | [`metrics`] | the status as OpenMetrics text |
//! | [`mod@run`] | the daemon from its start to its end |
//! | [`seats`] | which users sit in front of the machine |
//! | [`status`] | what it reports |
//! | [`swap_list`] | devices of its own while swap of the machine comes and goes |

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod activity;
pub mod config;
pub mod control;
pub mod daemon;
pub mod devices;
pub mod discover;
pub mod event;
pub mod host;
pub mod metrics;
pub mod run;
pub mod seats;
pub mod status;
pub mod swap_list;

pub use daemon::Daemon;
pub use run::{DaemonError, run};
