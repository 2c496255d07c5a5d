//! The carrying out of decisions.

use super::{Observer, Replay};
use crate::error::ReplayError;
use crate::result::Latency;
use crate::store::Store;
use warmswap_codec::ChunkPlan;
use warmswap_engine::{Action, Cause, Decision, Place};
use warmswap_policy::{ChunkId, PageId, PageState};
use warmswap_trace::{AppId, PAGE_BYTES};

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
            let pages = self.execute(decision, None)?;
            self.background_until_ns += pages * BACKGROUND_NS_PER_PAGE;
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
            self.execute(decision, waiting)?;
        }
        Ok(())
    }

    /// Carries out all decisions; `waiting` is the application that waits meanwhile.
    pub(super) fn carry_out(&mut self, waiting: Option<AppId>) -> Result<(), ReplayError> {
        while let Some(decision) = self.engine.next_decision() {
            self.execute(decision, waiting)?;
        }
        Ok(())
    }

    /// Carries out one decision. How many pages it moved.
    fn execute(&mut self, decision: Decision, waiting: Option<AppId>) -> Result<u64, ReplayError> {
        self.observer.decision(&self.engine, decision);
        let Decision { action, cause } = decision;
        // Nobody waits for what is done in the background or ahead of use.
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
                let bytes = self.store.write_back(chunk)?;
                self.engine.written_back(chunk);
                self.write_flash(bytes, waiting);
                1
            }
            Action::Load { chunk, place } => self.load(chunk, place, cause, waiting)?,
            Action::Free { chunk, place } => {
                self.store.free(chunk, place)?;
                0
            }
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
        Ok(pages)
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
            let sample = self.store.sample(first)?;
            if !self.engine.admit(chunk, &sample, cause) {
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
            let bytes = self.store.chunk_bytes(chunk);
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
        if cause == Cause::Prefetch {
            let now_ns = self
                .launches
                .open_window(owner.0.into())
                .map_or(0, |window| window.latency.total_ns());
            self.prefetch_until_ns = self.prefetch_until_ns.max(now_ns) + cpu_ns;
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

    /// A prefetched page was touched: if the worker that decompresses ahead, on another core, has not
    /// come to its end on the window's clock, the application waits for it.
    pub(super) fn wait_for_prefetch(&mut self, app: AppId) {
        let Some(window) = self.launches.open_window(app.0.into()) else {
            return;
        };
        let behind_ns = self
            .prefetch_until_ns
            .saturating_sub(window.latency.total_ns());
        window.latency.measured_ns += behind_ns;
    }
}
