//! The kernel host: gives programs back what memory pressure took from them, before they are used again.
//!
//! The kernel chooses well which pages leave, and brings back nothing by itself: after a build or a large program has ended,
//! memory is free, and each program pays for every page at its next use. [`Host`] watches *programs* (a process tree, a control
//! group, or all processes of an executable), is told which of them comes to the foreground ([`Host::switch_to`],
//! [`Host::launch_done`], [`Host::background`]), and is given a moment now and then ([`Host::tick`]).
//!
//! # What it does
//!
//! - *In idle time*: when memory is free again, pages come back at low priority, mapped in place: of the program in the foreground,
//!   then of the others by how lately they were used; first what launches touch. It takes free memory only, keeps a reserve, and
//!   stops at the first sign of pressure. After them pages of files are read that programs open again and again, or hold.
//! - *At a switch*: what the program is going to use is read in bulk beside it, where memory is free; where it is short, only from
//!   disks.
//! - It learns: what launches touch is hot; what two sessions in a row leave alone, away or brought back in vain, is cold, and stays
//!   away. Where zram has a disk behind it, cold pages go there.
//!
//! It pages nothing out of programs, and changes no setting of the kernel. Whatever the kernel refuses is counted by its reason
//! ([`Counters`]) and left alone; nothing is fatal. Dropping the host, or killing its process, leaves nothing behind: the kernel
//! holds all pages.
//!
//! | module | subject |
//! |---|---|
//! | [`see`] | programs, free memory, pages that are away |
//! | [`decide`] | one controller with three states, and what follows from them: no I/O |
//! | [`act`] | the threads that bring back, read ahead, write back and look at page tables |
//! | [`learn`] | what launches and sessions touch, and what they leave alone |
//! | `files` | pages of files that are in no page table |
//! | [`host`] | the face of it all |
//! | [`program`] | one program in a control group of its own, without switches |
//! | [`recompress`] | idle pages in zram are compressed anew |
//! | [`status`], [`counters`] | what happened |

#![forbid(unsafe_code)]

pub mod act;
pub mod config;
pub mod counters;
pub mod decide;
mod error;
pub(crate) mod files;
pub mod host;
pub mod learn;
pub mod program;
pub mod recompress;
pub mod see;
pub mod status;
#[cfg(test)]
mod testing;

pub use config::HostConfig;
pub use counters::Counters;
pub use decide::State;
pub use error::HostError;
pub use host::Host;
pub use see::application::{self, Application, Members};
pub use status::{AppStatus, GivenBack, HostStatus, Relaunch, SwapStatus};
pub use warmswap_page::AppId;
