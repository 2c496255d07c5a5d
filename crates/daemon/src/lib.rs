//! The daemon that steers the kernel's swap for programs as they are.
//!
//! | module | subject |
//! |---|---|
//! | [`config`] | what is configured: files, sections, sizes |
//! | [`control`] | the control socket |
//! | [`devices`] | the swap devices that the daemon makes |
//! | [`event`] | what the daemon's one thread hears from the others |
//! | [`metrics`] | metrics for Prometheus |
//! | [`signals`] | what its user looks at: X11, sway, activity |

#![forbid(unsafe_code)]

pub mod config;
pub mod control;
pub mod devices;
pub mod event;
pub mod metrics;
pub mod signals;
