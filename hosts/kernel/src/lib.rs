//! The kernel host: an engine over the memory of unmodified programs, with the kernel's own swap as its pool.
//!
//! [`Host`] watches *applications* (a process tree, a control group, or all processes of an executable). It
//! hears who comes to the foreground ([`Host::switch_to`], [`Host::launch_done`], [`Host::background`]) and is
//! given a moment now and then ([`Host::tick`]). It sees which pages come and go, tells its engine, and carries
//! out what the engine decides by system calls that any stock kernel has.
//!
//! # How an access is seen
//!
//! A page that was in swap and is in memory again was accessed ([`watch`]). One that stayed in memory has its accessed bit
//! set in the page table, which the host reads where the kernel lets it ([`warmswap_sys::accessed`]). Where it does not, or
//! while memory is ample, so that no bits were cleared, a page that stayed is taken for accessed in a launch as long as
//! there is evidence for it ([`pages`]): ten launches after it was seen to be accessed once, and twice as many each time
//! that it was again, up to [`HostConfig::evidence_launches`]. After that it may leave like others, and comes back as a
//! fault if it is still needed. Pages that are prepaged by `MADV_WILLNEED` wait in the swap cache: their page table entries
//! change at the first real access only, so that hits and misses are told apart exactly.
//!
//! Of files, what is mapped is looked at when a launch window opens and when it closes, where memory is short and the
//! scheme's footprints have files ([`files`]): a page that is mapped and was not before was accessed, or is next to one
//! that was, since the kernel maps up to 16 neighbours that are cached.
//!
//! # What it does
//!
//! - *Page-out* ([`reclaim`](host)): under pressure or towards a stated goal only ([`Goal`]), coldest first
//!   across applications, the one in its launch window spared, so many pages a second, never more than the swap
//!   has room for.
//! - *Prepaging*: at a switch, the footprint of earlier launches comes back on idle-priority threads. Its pages of
//!   files are read ahead by a thread of normal priority; what it reads is charged to the memory group of this process.
//!   Anonymous pages that came in vain leave the swap cache again when the window closes, if memory is short: the swap
//!   has their content still, so that this costs next to nothing. With zram they are the only clean pages there, since
//!   a fault takes its page out of the swap cache at once.
//! - *Locking pages of files* (`mlock`): what programs had to read again, because the kernel had dropped it, stays in
//!   memory, also while the host stands aside.
//! - Whatever the kernel refuses is counted by its reason ([`Counters`]) and left alone; nothing is fatal.
//!
//! The kernel goes on reclaiming by itself when memory runs out before the host acts; the host sees that as
//! pages that left, and nothing is lost.
//!
//! # When it stands aside
//!
//! Where memory nearly suffices the kernel drops pages of files that nobody uses, programs hardly wait, and a host costs CPU time
//! for nothing. So it leaves all to the kernel at first, and takes part where programs wait for memory after switches (by
//! the kernel's pressure stall information), wait less with it, and that is worth its CPU time; the other way is tried again now and
//! then, ever more seldom ([`host::Worth`]). While it stands aside it pages out nothing, brings nothing back, and knows
//! no pages; what learned tables hold stays. Where a goal is the host's own to hold ([`HostConfig::may_stand_aside`]) it always takes part.
//!
//! | module | subject |
//! |---|---|
//! | [`application`] | which processes make up an application |
//! | [`pages`] | a table of pages: which came and went, and which are needed |
//! | [`watch`] | one process and its table |
//! | [`files`] | pages of files that processes have mapped |
//! | [`goal`] | how much memory is to be had, and how much is missing |
//! | [`host`] | the engine over it all |
//! | [`prepage`] | the threads that bring pages back |
//! | `mlock` | the thread that locks pages of files |
//! | [`program`] | one program in a control group of its own, without switches |
//! | [`upkeep`] | recompression and write-back of idle pages in zram |
//! | [`status`], [`counters`] | what happened |

#![forbid(unsafe_code)]

pub mod application;
pub mod config;
pub mod counters;
mod error;
pub mod files;
pub mod goal;
pub mod host;
mod learned;
mod mlock;
pub mod pages;
pub mod prepage;
pub mod program;
mod rest;
pub mod status;
pub mod upkeep;
pub mod watch;

pub use application::{Application, Applications, Members};
pub use config::{HostConfig, PrepageBy};
pub use counters::Counters;
pub use error::HostError;
pub use goal::Goal;
pub use host::Host;
pub use status::{AppStatus, HostStatus, Relaunch, SwapStatus};
pub use upkeep::Upkeep;
pub use warmswap_page::AppId;
