//! The words that all of warmswap shares: what a page is, whose, and where.

#![forbid(unsafe_code)]

mod chunk;
mod in_words;
pub mod latency;
pub mod quantile;

use serde::{Deserialize, Serialize};
use std::fmt;

pub use in_words::mib;

pub use chunk::{
    ChunkPlan, Codec, InvalidChunkSize, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, UnknownCodec,
};

/// Bytes in one page. warmswap knows one page size; a machine with another is refused, and so is a trace from there.
pub const PAGE_BYTES: usize = 4096;

/// An application: the unit that a person launches, leaves and returns to.
///
/// Dense and small, so that a host can index a table with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AppId(pub u16);

/// A file, identified for the whole run or trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u32);

/// Which page: a page of an application's own memory, or a page of a file.
///
/// `number` is the address, or the offset in the file, divided by [`PAGE_BYTES`]; it fits 52 bits.
/// An anonymous page is identified together with its application; a page of a file by
/// itself, since applications share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageAddr {
    /// A page of the application's anonymous memory (heap, stack, private maps).
    Anon {
        /// Virtual address / 4096.
        number: u64,
    },
    /// A page of a file, from the page cache.
    File {
        /// Which file.
        file: FileId,
        /// Offset in the file / 4096.
        number: u64,
    },
}

/// How an application came to the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LaunchKind {
    /// The process was started.
    Cold,
    /// The process was alive in the background (hot launch; ASAP: switch).
    Relaunch,
}

/// How page frames come and go where a process pages its own memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// Frames are moved where the kernel can (Linux 6.8), else pages are copied.
    #[default]
    Auto,
    /// Frames are moved.
    Move,
    /// Pages are copied (Linux 5.11).
    Copy,
}

/// How the objects of a pool are laid out in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Size classes with compaction, as the kernel's zsmalloc: the densest.
    #[default]
    SizeClasses,
    /// Two objects a page, as the kernel's zbud. Objects of more than 4,032 bytes are refused.
    Zbud,
    /// Three objects a page, as z3fold, which Linux had up to 6.14. Objects of more than 4,032 bytes
    /// are refused.
    Z3fold,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Layout; 3] = [Layout::SizeClasses, Layout::Zbud, Layout::Z3fold];

    /// The name on the command line and in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::SizeClasses => "size-classes",
            Layout::Zbud => "zbud",
            Layout::Z3fold => "z3fold",
        }
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "app {}", self.0)
    }
}

impl fmt::Display for PageAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anon { number } => write!(f, "{:#x}", number * PAGE_BYTES as u64),
            Self::File { file, number } => write!(f, "file {} page {number}", file.0),
        }
    }
}
