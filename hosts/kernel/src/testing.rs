//! What unit tests share: a made-up machine, and what processes of it have.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use warmswap_sys::Root;
use warmswap_sys::advise::PageRange;
use warmswap_sys::maps::{Mapping, Maps};
use warmswap_sys::memcg::Group;
use warmswap_sys::smaps::MemoryArea;

use crate::act::Target;
use crate::see::application::ProcessId;

/// A folder in the place of `/`, with files as the kernel's.
#[derive(Debug)]
pub(crate) struct Machine(TempDir);

impl Machine {
    /// One without any file.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One with control groups of version 2 below `cg`.
    pub fn with_groups() -> Self {
        let machine = Self::new();
        machine.write("proc/self/mounts", "none /cg cgroup2 rw 0 0\n");
        machine.write("cg/cgroup.controllers", "memory\n");
        machine
    }

    pub fn root(&self) -> Root {
        Root::at(self.0.path())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Has 4 GiB, of which so much is free, and so many pages were reclaimed while programs waited.
    pub fn set_memory(&self, free_mib: u64, reclaimed: u64) {
        let free_kib = free_mib << 10;
        let memory = format!("MemTotal: 4194304 kB\nMemFree: {free_kib} kB\n");
        self.write("proc/meminfo", memory);
        self.write("proc/vmstat", format!("pgsteal_direct {reclaimed}\n"));
    }

    /// A group uses so much, and met its limit so often.
    pub fn set_group(&self, name: &str, used_mib: u64, hits: u64) {
        let used = (used_mib << 20).to_string();
        self.write(&format!("cg/{name}/memory.current"), used);
        let events = format!("max {hits}\n");
        self.write(&format!("cg/{name}/memory.events"), events);
    }

    pub fn group(&self, name: &str) -> Group {
        Group::open(&self.root(), name.as_ref()).unwrap()
    }

    /// A process that sleeps and runs this program, with a page table that holds nothing.
    pub fn add_process(&self, id: ProcessId, parent: u32, executable: &str) {
        let ProcessId { pid, start_ticks } = id;
        let rest = format!("1 5 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {start_ticks} 0 0");
        let stat = format!("{pid} (p) S {parent} {rest}");
        self.write(&format!("proc/{pid}/stat"), stat);
        self.write(&format!("proc/{pid}/pagemap"), "");
        let link = self.path(&format!("proc/{pid}/exe"));
        std::os::unix::fs::symlink(executable, link).unwrap();
    }
}

/// A process of the first program.
pub(crate) fn target(pid: u32, start_ticks: u64) -> Target {
    Target {
        app: 0,
        id: ProcessId { pid, start_ticks },
        user: None,
        memory: Arc::default(),
        held_by: None,
    }
}

pub(crate) fn range(first: u64, count: u64) -> PageRange {
    PageRange { first, count }
}

/// What a line of `/proc/PID/maps` tells.
pub(crate) fn mapping(line: &str) -> Mapping {
    Maps::parse(line).unwrap().as_slice()[0].clone()
}

/// The same as a mapping of which nothing is in swap.
pub(crate) fn area(line: &str) -> MemoryArea {
    MemoryArea {
        mapping: mapping(line),
        swapped_bytes: 0,
        referenced_bytes: 0,
        flags: Vec::new(),
    }
}
