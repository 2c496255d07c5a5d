//! The carrying out of decisions, and what they cost.

use super::{Observer, Replay};
use crate::ahead::Worker;
use crate::error::ReplayError;
use crate::result::Latency;
use crate::store::Store;
use crate::store::compressed::{elapsed_ns, thread_ns};
use warmswap_codec::ChunkPlan;
use warmswap_engine::{Action, Cause, Decision, Place};
use warmswap_page::{AppId, FileId, PAGE_BYTES, PageAddr};
use warmswap_policy::admission::estimate_for;
use warmswap_policy::{ChunkId, PageId, PageState};

/// Nanoseconds that background reclaim is taken to need for a page, when its place in time is decided:
/// a constant, so that decisions do not depend on measured time.
const BACKGROUND_NS_PER_PAGE: u64 = 6_000;

impl<S: Store, O: Observer> Replay<S, O> {
    /// Lets background reclaim work up to `time_ns` on the trace's clock.
    pub(super) fn work_in_background(&mut self, time_ns: u64) -> Result<(), ReplayError> {
        self.background_until_ns = self
            .background_until_ns
            .max(time_ns.saturating_sub(1_000_000_000));
        while self.background_until_ns < time_ns {
            let Some(decision) = self.engine.next_background_decision() else {
                self.background_until_ns = time_ns;
                return Ok(());
            };
            self.background_until_ns += self.execute(decision, None)?;
        }
        Ok(())
    }

    /// Carries out decisions until the page is in its frame: what it was stored with must be known until
    /// then.
    pub(super) fn bring_back(
        &mut self,
        page: PageId,
        waiting: Option<AppId>,
    ) -> Result<(), ReplayError> {
        while self.engine.page_state(page) == PageState::Loading {
            let Some(decision) = self.engine.next_decision() else {
                break;
            };
            self.execute_now(decision, waiting)?;
        }
        Ok(())
    }

    /// Carries out all decisions; `waiting` is the application that waits meanwhile.
    pub(super) fn carry_out(&mut self, waiting: Option<AppId>) -> Result<(), ReplayError> {
        while let Some(decision) = self.engine.next_decision() {
            self.execute_now(decision, waiting)?;
        }
        Ok(())
    }

    /// Carries out one decision in the middle of an event. What belongs to a footprint takes its worker's
    /// time all the same.
    fn execute_now(
        &mut self,
        decision: Decision,
        waiting: Option<AppId>,
    ) -> Result<(), ReplayError> {
        let worker_ns = self.execute(decision, waiting)?;
        if decision.cause == Cause::Prepage {
            self.background_until_ns += worker_ns;
        }
        Ok(())
    }

    /// Carries out one decision. How long that is taken to occupy a worker in the background, in
    /// nanoseconds.
    fn execute(&mut self, decision: Decision, waiting: Option<AppId>) -> Result<u64, ReplayError> {
        self.observer.decision(&self.engine, decision);
        let Decision { action, cause } = decision;
        // No thread waits for what is done in the background or ahead of use.
        let waiting = waiting.filter(|_| matches!(cause, Cause::Fault | Cause::DirectReclaim));
        let page_bytes = PAGE_BYTES as u64;
        let pages = match action {
            Action::Store { chunk, plan } => self.store(chunk, plan, cause, waiting)?,
            Action::StoreRaw { chunk } => {
                self.store.store_raw(&self.engine, chunk);
                self.engine.stored(chunk, Place::Backing, PAGE_BYTES as u32);
                self.write_flash(page_bytes, waiting);
                1
            }
            Action::WriteBack { chunk } => {
                let bytes = self.store.write_back(&self.engine, chunk)?;
                self.engine.written_back(chunk);
                self.write_flash(bytes, waiting);
                1
            }
            Action::Load { chunk, place } => self.load(chunk, place, cause, waiting)?,
            Action::Free {
                chunk,
                place,
                bytes,
            } => {
                self.store.free(chunk, place, bytes)?;
                0
            }
            // The engine is asked where a page is, each time.
            Action::Forget { .. } => 0,
            Action::Drop { .. } => {
                let modelled_ns = self.config.device.remove_ns;
                self.charge_if(
                    waiting,
                    Latency {
                        measured_ns: 0,
                        modelled_ns,
                    },
                );
                1
            }
            Action::Discard { dirty, .. } => {
                if dirty {
                    self.write_flash(page_bytes, waiting);
                }
                1
            }
            Action::ReadFile {
                file, first, pages, ..
            } => {
                let worker_ns = self.read_file(file, first, pages);
                self.report_usage();
                return Ok(worker_ns);
            }
            Action::Kill { app } => {
                self.totals.kills += 1;
                let killed = self.app(app);
                killed.result.kills += 1;
                killed.was_killed = true;
                self.engine.exit(app);
                0
            }
        };
        self.report_usage();
        Ok(pages * BACKGROUND_NS_PER_PAGE)
    }

    fn store(
        &mut self,
        chunk: ChunkId,
        plan: ChunkPlan,
        cause: Cause,
        waiting: Option<AppId>,
    ) -> Result<u64, ReplayError> {
        let first = self.engine.chunk_pages(chunk)[0];
        let pages = self.engine.chunk_pages(chunk).len() as u64;
        if self.engine.wants_sample(chunk) {
            let estimated_bytes = self.estimate(chunk, first, waiting)?;
            if !self.engine.admit(chunk, estimated_bytes, cause) {
                return Ok(0);
            }
        }
        let owner = self.engine.locate(first).0;
        match self.store.store(&self.engine, chunk, plan)? {
            Ok(stored) => {
                self.engine
                    .stored_at(chunk, Place::Pool, stored.bytes, stored.pool_page);
                self.totals.original_bytes += pages * PAGE_BYTES as u64;
                self.totals.compressed_bytes += u64::from(stored.bytes);
                self.totals.cpu.add_compression(cause, stored.cpu_ns);
                let cpu = &mut self.app(owner).result.cpu;
                cpu.add_compression(cause, stored.cpu_ns);
                let latency = Latency {
                    measured_ns: stored.cpu_ns,
                    modelled_ns: pages * self.config.device.remove_ns,
                };
                self.charge_if(waiting, latency);
            }
            Err(refusal) => self.engine.refused(chunk, refusal),
        }
        Ok(pages)
    }

    /// How far the page is estimated to shrink, in bytes. The estimate is really made, and takes the time of the application that
    /// waits.
    fn estimate(
        &mut self,
        chunk: ChunkId,
        page: PageId,
        waiting: Option<AppId>,
    ) -> Result<u32, ReplayError> {
        let sample = self.store.sample(page)?;
        let suffices = |bytes| self.engine.would_admit(chunk, bytes);
        if !self.store.has_contents() {
            return Ok(estimate_for(&sample, suffices));
        }
        let begin_ns = thread_ns();
        let estimated_bytes = estimate_for(&sample, suffices);
        let measured_ns = elapsed_ns(begin_ns);
        let owner = self.engine.locate(page).0;
        self.totals.cpu.estimate_ns += measured_ns;
        self.app(owner).result.cpu.estimate_ns += measured_ns;
        let latency = Latency {
            measured_ns,
            modelled_ns: 0,
        };
        self.charge_if(waiting, latency);
        Ok(estimated_bytes)
    }

    fn load(
        &mut self,
        chunk: ChunkId,
        place: Place,
        cause: Cause,
        waiting: Option<AppId>,
    ) -> Result<u64, ReplayError> {
        let pages = self.engine.chunk_pages(chunk);
        let owner = self.engine.locate(pages[0]).0;
        let loading = pages
            .iter()
            .filter(|&&page| self.engine.is_loading(chunk, page))
            .count() as u64;
        let cpu_ns = self.store.load(&self.engine, chunk, place)?;
        let mut modelled_ns = loading * self.config.device.install_ns;
        if place == Place::Backing {
            let bytes = self.store.chunk_bytes(&self.engine, chunk);
            self.totals.flash_read_bytes += bytes;
            modelled_ns += self.config.device.flash_read(bytes);
        }
        self.totals.cpu.add_decompression(cause, cpu_ns);
        self.app(owner).result.cpu.add_decompression(cause, cpu_ns);
        self.charge_if(
            waiting,
            Latency {
                measured_ns: cpu_ns,
                modelled_ns,
            },
        );
        if matches!(cause, Cause::Prefetch | Cause::Prepage) {
            self.decompressed_ahead(chunk, cause, (cpu_ns, modelled_ns));
        }
        self.engine.loaded(chunk);
        Ok(loading)
    }

    fn write_flash(&mut self, bytes: u64, waiting: Option<AppId>) {
        self.totals.flash_written_bytes += bytes;
        let modelled_ns = self.config.device.flash_write(bytes);
        self.charge_if(
            waiting,
            Latency {
                measured_ns: 0,
                modelled_ns,
            },
        );
    }

    /// A worker brought the pages of a chunk back. Those of a footprint it puts in their place; others wait
    /// in the prefetch buffer.
    fn decompressed_ahead(
        &mut self,
        chunk: ChunkId,
        cause: Cause,
        (cpu_ns, modelled_ns): (u64, u64),
    ) {
        let pages = self.engine.chunk_pages(chunk);
        let pages = pages
            .iter()
            .filter(|&&page| self.engine.is_loading(chunk, page));
        let pages: Vec<_> = pages.copied().collect();
        let Some(&first) = pages.first() else {
            return;
        };
        let (owner, addr) = self.engine.locate(first);
        let is_footprint = cause == Cause::Prepage;
        let app = if is_footprint { self.launched } else { owner };
        let Some(window) = self.launches.open_window(app.0.into()) else {
            return;
        };
        let now_ns = window.latency.total_ns();
        let mut cost_ns = cpu_ns;
        if is_footprint {
            cost_ns += modelled_ns;
            match addr {
                PageAddr::Anon { .. } => window.prepaged_pages += pages.len() as u64,
                PageAddr::File { .. } => window.prepaged_file_pages += pages.len() as u64,
            }
        }
        let alone_ns = self.config.device.fault_ns + cpu_ns + modelled_ns;
        let times = (now_ns, cost_ns, alone_ns);
        self.ahead.work(Worker::Chunks, times, pages.into_iter());
    }

    /// Pages of a file are read ahead, at once. How long that takes.
    fn read_file(&mut self, file: FileId, first: u64, pages: u32) -> u64 {
        let bytes = u64::from(pages) * PAGE_BYTES as u64;
        self.totals.flash_read_bytes += bytes;
        let device = &self.config.device;
        let read_ns = device.flash_read(bytes);
        let alone_ns = device.flash_read(PAGE_BYTES as u64);
        let app = self.launched;
        if let Some(window) = self.launches.open_window(app.0.into()) {
            window.prepaged_file_pages += u64::from(pages);
            let times = (window.latency.total_ns(), read_ns, alone_ns);
            let numbers = first..first + u64::from(pages);
            let engine = &mut self.engine;
            let pages = numbers.map(|number| engine.page(app, PageAddr::File { file, number }));
            self.ahead.work(Worker::Files, times, pages);
        }
        read_ns
    }

    /// A page that a worker brings back was touched: if it is not ready on the window's clock, the
    /// application waits for it, or brings it back by itself.
    pub(super) fn wait_for_worker(&mut self, app: AppId, page: PageId) {
        let Some(window) = self.launches.open_window(app.0.into()) else {
            return;
        };
        // How far the worker is depends on what was measured, and so does the wait.
        window.latency.measured_ns += self.ahead.wait(page, window.latency.total_ns());
    }
}
