//! The kernel's side: plain memory on a zram device of our own.

use warmswap_page::PAGE_BYTES;
use warmswap_sys::Root;
use warmswap_sys::cpus;
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramSwap};

use crate::clock::{Cpu, cpu_of};
use crate::memory::{Plain, Touch};
use crate::{BenchError, Pages};

/// Calls of MADV_PAGEOUT until all pages are out: some wait in a batch of another processor.
const TRIES: usize = 20;

/// Slots that a processor keeps of the area that it swapped to last, whatever has a higher priority since
/// (`SWAPFILE_CLUSTER`, Linux 6.14 on).
const CLUSTER_PAGES: usize = 512;

/// Rounds on a processor until what it has of other areas is used up. It keeps one cluster for single pages, so that the
/// second round comes to the device as a rule; the others make up for pages that went out on another processor.
const ROUNDS: usize = 4;

/// Pages memory out on each processor until all of it comes to a device: what the processor has of other areas is used up
/// then.
fn use_up_clusters(zram: &ZramSwap) -> Result<(), BenchError> {
    let memory = Plain::new(CLUSTER_PAGES)?;
    let use_up = || {
        for _ in 0..ROUNDS {
            for page in 0..CLUSTER_PAGES {
                let mut content = [0; PAGE_BYTES];
                content[..size_of::<usize>()].copy_from_slice(&(page + 1).to_le_bytes());
                memory.write(page, &content);
            }
            memory.page_out()?;
            if zram.stats()?.original_bytes >= (CLUSTER_PAGES * PAGE_BYTES / 100 * 95) as u64 {
                break;
            }
        }
        Ok(())
    };
    let mut result = Ok(());
    cpus::on_each(|| {
        if result.is_ok() {
            result = use_up();
        }
    })
    .map_err(BenchError::Processors)?;
    result
}

/// Plain memory, and the only swap device that the kernel prefers.
#[derive(Debug)]
pub struct KernelSide {
    pub memory: Plain,
    pagemap: Pagemap,
    // Removed last: that brings all pages back.
    zram: ZramSwap,
}

impl KernelSide {
    /// Sets the device up; `undo` takes it back on every way out.
    pub fn new(undo: &Undo, pages: usize) -> Result<Self, BenchError> {
        let zram = ZramSwap::create(
            undo,
            &ZramConfig {
                disk_bytes: (2 * pages * PAGE_BYTES) as u64 + (1 << 20),
                algorithm: "lz4".to_owned(),
                second_algorithm: None,
                memory_limit_bytes: None,
                priority: 32767,
            },
        )?;
        use_up_clusters(&zram)?;
        Ok(Self {
            memory: Plain::new(pages)?,
            pagemap: Pagemap::open(&Root::machine(), std::process::id())?,
            zram,
        })
    }

    /// Writes all pages, so that no copy of them in the swap is valid any more.
    pub fn write(&self, pages: &Pages) {
        for (page, content) in pages.iter().enumerate() {
            self.memory.write(page, content);
        }
    }

    fn swapped(&self) -> Result<usize, BenchError> {
        let (start, mut swapped) = (self.memory.start().addr() as u64, 0);
        let end = start + (self.memory.pages() * PAGE_BYTES) as u64;
        self.pagemap.scan(start, end, |_, entry| {
            swapped += usize::from(entry.swapped())
        })?;
        Ok(swapped)
    }

    /// Pages everything out; CPU nanoseconds a page of the first call, by the pages that it brought out.
    ///
    /// # Errors
    /// [`BenchError::OtherSwap`] when the pages are not on our device.
    pub fn page_out(&self) -> Result<f64, BenchError> {
        let before = self.swapped()?;
        let (ns, result) = cpu_of(Cpu::Thread, || self.memory.page_out());
        result?;
        let cost = ns as f64 / (self.swapped()? - before).max(1) as f64;
        for _ in 0..TRIES {
            if self.swapped()? == self.memory.pages() {
                break;
            }
            std::thread::yield_now();
            self.memory.page_out()?;
        }
        let stats = self.zram.stats()?;
        let stored_pages = stats.original_bytes / PAGE_BYTES as u64 + stats.same_filled_pages;
        if stored_pages * 100 < 95 * self.memory.pages() as u64 {
            return Err(BenchError::OtherSwap {
                stored_pages,
                pages: self.memory.pages(),
            });
        }
        Ok(cost)
    }

    /// Switches the device off and removes it.
    pub fn remove(self) -> Result<(), BenchError> {
        drop(self.memory);
        Ok(self.zram.remove()?)
    }
}
