//! A process whose major faults are looked at.

use std::time::Duration;

use warmswap_page::{AppId, PAGE_BYTES};
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::{FileError, Root};

use super::areas::{Area, Areas};
use super::locks::GroupId;
use crate::application::ProcessId;

/// A process has begun when it is known for so long, or for a moment if its application came to the foreground again.
const BEGUN: Duration = Duration::from_secs(20);
const MOMENT: Duration = Duration::from_secs(2);

/// Mappings are read again after so long at the earliest.
const REREAD: Duration = Duration::from_secs(1);

/// The page table and the mappings of a process.
#[derive(Debug)]
struct Memory {
    table: Pagemap,
    areas: Areas,
    read_ns: u64,
}

/// A process of an application.
#[derive(Debug)]
pub(super) struct Faulting {
    pub app: AppId,
    pub id: ProcessId,
    /// The control group that bounds it, if any does; none before it was asked for.
    pub group: Option<Option<GroupId>>,
    since_ns: u64,
    memory: Option<Memory>,
}

impl Faulting {
    pub fn new(app: AppId, id: ProcessId, now_ns: u64) -> Self {
        Self {
            app,
            id,
            group: None,
            since_ns: now_ns,
            memory: None,
        }
    }

    /// Whether it has begun, so that what it reads it has read before, as a rule; its application came to the foreground so
    /// often.
    pub fn has_begun(&self, switches: u64, now_ns: u64) -> bool {
        let known = Duration::from_nanos(now_ns.saturating_sub(self.since_ns));
        known >= BEGUN || switches >= 2 && known >= MOMENT
    }

    /// Gives up what is known of its memory.
    pub fn look_away(&mut self) {
        self.memory = None;
        self.group = None;
    }

    /// The mapping that holds an address, read anew where it is none that is known.
    pub fn area(
        &mut self,
        root: &Root,
        address: u64,
        now_ns: u64,
    ) -> Result<Option<Area>, FileError> {
        if let Some(memory) = &self.memory {
            let area = memory.areas.find(address);
            let is_fresh = now_ns.saturating_sub(memory.read_ns) < REREAD.as_nanos() as u64;
            if area.is_some() || is_fresh {
                return Ok(area);
            }
        }
        let areas = Areas::read(root, self.id.pid)?;
        let area = areas.find(address);
        self.memory = Some(Memory {
            table: Pagemap::open(root, self.id.pid)?,
            areas,
            read_ns: now_ns,
        });
        Ok(area)
    }

    /// Whether there is a page of a file at an address; what the process has written to is its own.
    pub fn is_of_file(&self, address: u64) -> bool {
        let page = PAGE_BYTES as u64;
        let mut is_of_file = false;
        if let Some(memory) = &self.memory {
            let start = address / page * page;
            let seen = memory.table.scan(start, start + page, |_, entry| {
                is_of_file = entry.present() && entry.file();
            });
            is_of_file &= seen.is_ok();
        }
        is_of_file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_while_a_process_begins_does_not_count() {
        let id = ProcessId {
            pid: 1,
            start_ticks: 2,
        };
        let process = Faulting::new(AppId(0), id, 1_000_000_000);
        let begun = |switches, second: u64| process.has_begun(switches, second * 1_000_000_000);
        assert!(!begun(1, 20) && begun(1, 21));
        assert!(!begun(0, 20) && begun(0, 21));
        assert!(!begun(2, 2) && begun(2, 3));
    }
}
