//! Our side: a region of an arena that has room for all of it.

use std::time::Duration;

use warmswap_arena::{Advice, Application, Arena, ArenaConfig, FaultMode, Region};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::SchemeSpec;

use crate::clock::{Cpu, cpu_of};
use crate::memory::Touch;
use crate::{BenchError, Pages};

/// How long the measuring thread sleeps between looks at what the pager has done.
const LOOK: Duration = Duration::from_millis(2);

/// An arena with one region.
#[derive(Debug)]
pub struct ArenaSide {
    pub region: Region,
    _app: Application,
    arena: Arena,
}

impl ArenaSide {
    /// An arena with memory for four times the pages; checksums on, as by default.
    pub fn new(scheme: &str, fault_mode: FaultMode, pages: usize) -> Result<Self, BenchError> {
        let bytes = pages * PAGE_BYTES;
        let arena = Arena::new(ArenaConfig {
            fault_mode,
            address_space_bytes: 4 * bytes + (64 << 20),
            ..ArenaConfig::new(4 * bytes as u64 + (16 << 20), SchemeSpec::parse(scheme)?)
        })?;
        let app = arena.application("bench")?;
        Ok(Self {
            region: app.region(bytes)?,
            _app: app,
            arena,
        })
    }

    /// Writes all pages.
    pub fn write(&self, pages: &Pages) {
        for (page, content) in pages.iter().enumerate() {
            self.region.write(page, content);
        }
    }

    /// Sends everything away and waits until it is; CPU nanoseconds a page, of all threads.
    pub fn page_out(&self) -> Result<f64, BenchError> {
        let all = 0..self.region.len();
        let before = self.region.resident_pages(all.clone())?;
        let (ns, result) = cpu_of(Cpu::Process, || -> Result<(), BenchError> {
            self.region.advise(all.clone(), Advice::Cold)?;
            std::thread::sleep(LOOK);
            while self.region.resident_pages(all.clone())? > 0 {
                std::thread::sleep(LOOK);
                // Advice passes over what a prediction was bringing back at that moment.
                self.region.advise(all.clone(), Advice::Cold)?;
            }
            // The pager keeps its lock until it is done.
            let _ = self.arena.stats();
            Ok(())
        });
        result?;
        Ok(ns as f64 / before.max(1) as f64)
    }

    /// Asks for one page, which comes back in this thread.
    pub fn ask(&self, page: usize) -> Result<(), BenchError> {
        let bytes = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
        Ok(self.region.advise(bytes, Advice::WorkingSet)?)
    }

    /// Brings everything back in this thread.
    pub fn restore(&self) -> Result<(), BenchError> {
        Ok(self
            .region
            .advise(0..self.region.len(), Advice::WorkingSet)?)
    }
}
