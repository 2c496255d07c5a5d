//! What the host looks at: programs and their processes, the memory of the machine and of groups, pages that are away.
//!
//! Nothing here changes anything. What takes the lock of another process's address space ([`areas`], [`pages`], [`held`]) may wait
//! for long, and runs on threads of their own ([`act`](crate::act)); the rest answers at once.
//!
//! | module | subject |
//! |---|---|
//! | [`application`] | which processes make up a program |
//! | [`bounds`] | free memory, reclaim and stalls: of the machine and of groups |
//! | [`swap`] | swap areas, and what is stored in compressed memory |
//! | [`areas`] | the mappings of a process that may be read |
//! | [`pages`] | which of their pages are away |
//! | [`held`] | the files that a process has mapped or open |

pub mod application;
pub mod areas;
pub mod bounds;
pub mod held;
pub mod pages;
pub mod swap;
