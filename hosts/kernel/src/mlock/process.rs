//! A process whose major faults are looked at.

use std::time::Duration;

use warmswap_page::{AppId, PAGE_BYTES};
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::{FileError, Root};

use super::areas::{Area, Areas};
use super::locks::GroupId;
use crate::application::ProcessId;

/// A process has begun when it is so old, or a little old if its application came to the foreground again.
const BEGUN: Duration = Duration::from_secs(20);
const LITTLE: Duration = Duration::from_secs(2);

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
    memory: Option<Memory>,
}

impl Faulting {
    pub fn new(app: AppId, id: ProcessId) -> Self {
        Self {
            app,
            id,
            group: None,
            memory: None,
        }
    }

    /// Whether it has begun, so that what it reads it has read before, as a rule; its application came to the foreground so
    /// often.
    pub fn has_begun(&self, switches: u64, since_boot: Duration) -> bool {
        let began = self.id.start_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        let age = since_boot.as_secs_f64() - began;
        age >= BEGUN.as_secs_f64() || switches >= 2 && age >= LITTLE.as_secs_f64()
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
        let start_ticks = 100 * rustix::param::clock_ticks_per_second();
        let process = Faulting::new(
            AppId(0),
            ProcessId {
                pid: 1,
                start_ticks,
            },
        );
        let begun = |switches, second| process.has_begun(switches, Duration::from_secs(second));
        assert!(!begun(1, 119) && begun(1, 120));
        assert!(!begun(0, 119) && begun(0, 120));
        assert!(!begun(2, 101) && begun(2, 102));
    }
}
