//! What the host does: bring pages back in idle time, read in bulk at a switch, write cold pages back, and look at page tables.
//!
//! All of it takes locks of other processes' address spaces, which they may hold for long. So it is done by two threads
//! ([`worker`]): one of low priority that brings back and writes back, and one of normal priority that looks and reads ahead when
//! programs come and go. A process for which one of them waits too long is left alone from then on, and the thread is replaced.
//!
//! | module | subject |
//! |---|---|
//! | [`worker`] | the threads, and what becomes of one that is stuck |
//! | [`queue`] | the jobs that wait for them |
//! | [`job`] | what they are to do, and what they tell |
//! | [`bring`] | pages of one process come back |
//! | [`ahead`] | pages of one process are asked for at a switch |
//! | [`write_back`] | cold pages of one process go from compressed memory to a disk |
//! | [`brake`] | when to stop |
//! | [`pace`] | what all threads of the host go by |
//! | [`look`] | what launches and sessions touched |

pub mod ahead;
pub mod brake;
pub mod bring;
pub mod job;
pub mod look;
pub mod pace;
pub mod queue;
pub mod worker;
pub mod write_back;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::decide::switch::Cost;
use crate::learn::ProcessMemory;
use crate::see::application::ProcessId;

/// A process on which something is done.
#[derive(Debug, Clone)]
pub struct Target {
    /// The program that it belongs to.
    pub app: usize,
    /// Which process.
    pub id: ProcessId,
    /// The user that began it; none where that is not known.
    pub user: Option<u32>,
    /// What is known of it. Never held over a call into the kernel.
    pub memory: Arc<Mutex<ProcessMemory>>,
    /// The group that had no room for its pages when they were to come back last.
    pub held_by: Option<PathBuf>,
}

/// What was done, as counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Pages of the processes' own memory that came back.
    pub private_pages: u64,
    /// Pages of shared memory.
    pub shared_pages: u64,
    /// Pages of files.
    pub file_pages: u64,
    /// Pages that were asked for and could not be had.
    pub refused_pages: u64,
    /// Mappings that were left alone.
    pub skipped_regions: u64,
    /// Pages that stayed away because sessions did not use them.
    pub cold_pages: u64,
}

impl Done {
    /// All pages that came back.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.private_pages + self.shared_pages + self.file_pages
    }
}

/// What pages cost, by what swap is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// In compressed memory.
    pub memory: Cost,
    /// On a disk.
    pub disk: Cost,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            memory: Cost::MEMORY,
            disk: Cost::DISK,
        }
    }
}
