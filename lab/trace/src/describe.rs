//! What a trace says about itself: where it comes from, its applications, its files, its size.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use warmswap_page::PAGE_BYTES;

/// Where a trace comes from. Stored as JSON at the start of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The program that wrote the trace, with its version.
    pub tool: String,
    /// The machine that was recorded: processor, cores, memory.
    #[serde(default)]
    pub machine: String,
    /// The kernel that was recorded.
    #[serde(default)]
    pub kernel: String,
    /// Bytes in a page; only 4096 is read.
    pub page_bytes: u32,
    /// How the events came about: a recording method, an import, a generator.
    #[serde(default)]
    pub method: String,
    /// Anything else worth knowing.
    #[serde(default)]
    pub extra: BTreeMap<String, String>,
}

impl Description {
    /// A description made by this version of warmswap, with the given method and nothing else.
    pub fn new(method: impl Into<String>) -> Self {
        Self {
            tool: concat!("warmswap ", env!("CARGO_PKG_VERSION")).to_owned(),
            machine: String::new(),
            kernel: String::new(),
            page_bytes: PAGE_BYTES as u32,
            method: method.into(),
            extra: BTreeMap::new(),
        }
    }
}

/// One application of a trace. Its place in the table is its [`AppId`](warmswap_page::AppId).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppInfo {
    /// A short name, such as the command.
    pub name: String,
    /// What it was doing; may be empty.
    #[serde(default)]
    pub description: String,
}

/// One file of a trace. Its place in the table is its [`FileId`](warmswap_page::FileId).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileInfo {
    /// The path; bytes that are not UTF-8 are replaced, since device and inode identify the file.
    pub path: String,
    /// The device number (`st_dev`).
    pub device: u64,
    /// The inode number (`st_ino`).
    pub inode: u64,
    /// The size when it was first seen, in bytes.
    pub size_bytes: u64,
}

/// The size of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Events.
    pub events: u64,
    /// Distinct page contents.
    pub contents: u64,
    /// Applications.
    pub apps: u32,
    /// Files that pages belong to.
    pub files: u32,
    /// Time of the first event in ns; 0 without events.
    pub first_ns: u64,
    /// Time of the last event in ns; 0 without events.
    pub last_ns: u64,
    /// Bytes of the trace file.
    pub file_bytes: u64,
}

impl Summary {
    /// From the first event to the last, in ns.
    pub fn duration_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }
}
