//! The host: feeds a trace to the engine, carries out its decisions, and accounts for them.

use crate::ahead::Ahead;
use crate::device::DeviceModel;
use crate::error::ReplayError;
use crate::future::Future;
use crate::reclaim_factory::ReclaimFactory;
use crate::result::{AppResult, Latency, Relaunch, ReplayResult, Totals};
use crate::store::Store;
use crate::window::Launches;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_engine::{ANTICIPATED_PAGES, Decision, Engine, Limits, Outcome, Touch};
use warmswap_page::{AppId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_policy::{PageState, SchemeSpec};
use warmswap_trace::{ContentId, Event, EventKind};

/// What makes pages leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pressure {
    /// The budget alone.
    #[default]
    Budget,
    /// Besides, an application that goes to the background gives up all that its scheme lets go, so that
    /// every relaunch begins with its data in the pool: the scenarios AL and EHL of Ariadne section 5.
    Full,
}

/// Which touches the engine hears of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// All that the trace has.
    #[default]
    All,
    /// Those of pages that are not resident, as in live memory: what it knows can be compared with the trace.
    Faults,
}

/// How a trace is replayed.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// The scheme.
    pub scheme: SchemeSpec,
    /// Budget, pool limit and backing file.
    pub limits: Limits,
    /// Costs that are not measured.
    pub device: DeviceModel,
    /// What makes pages leave.
    pub pressure: Pressure,
    /// False: accesses to pages of files are passed over, as in the Ariadne paper.
    pub file_pages: bool,
    /// Which touches the engine hears of.
    pub sight: Sight,
    /// A reclaim policy in place of the scheme's.
    pub reclaim: Option<ReclaimFactory>,
}

/// Watches a replay: for studies.
pub trait Observer {
    /// A decision is about to be carried out.
    fn decision(&mut self, engine: &Engine, decision: Decision) {
        let _ = (engine, decision);
    }

    /// An event of the trace was fed to the engine; `touch` is set for an access that was not passed over.
    fn event(&mut self, engine: &Engine, event: &Event, touch: Option<Touch>) {
        let _ = (engine, event, touch);
    }
}

/// Watches nothing.
#[derive(Debug)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// Events between two looks at the pool's waste.
const TIDY_EVERY_EVENTS: u64 = 65_536;

/// A replay under way.
#[derive(Debug)]
pub struct Replay<S, O> {
    engine: Engine,
    store: S,
    config: ReplayConfig,
    observer: O,
    launches: Launches,
    apps: Vec<ReplayedApp>,
    totals: Totals,
    /// Until when background reclaim is busy, on the trace's clock.
    background_until_ns: u64,
    ahead: Ahead,
    /// The application that was launched last, whose footprint comes back.
    launched: AppId,
    /// When pages are used next, for a scheme that asks.
    future: Option<Future>,
}

#[derive(Debug, Default)]
struct ReplayedApp {
    result: AppResult,
    was_killed: bool,
    /// When its cold launch began, while that goes on.
    cold_launch_began_ns: Option<u64>,
    /// How long its last cold launch took in the recording.
    cold_launch_ns: Option<u64>,
}

impl<S: Store, O: Observer> Replay<S, O> {
    /// A replay that has not begun.
    ///
    /// # Errors
    /// The scheme is none, or the limits make no sense.
    pub fn new(config: ReplayConfig, store: S, observer: O) -> Result<Self, ReplayError> {
        let mut scheme = config.scheme.build()?;
        if let Some(factory) = &config.reclaim {
            scheme.reclaim = factory.make();
        }
        let mut engine = Engine::new(scheme, config.limits)?;
        if config.sight == Sight::Faults {
            engine.touches_are_unseen();
            engine.presume_unseen_touches();
        }
        Ok(Self {
            engine,
            store,
            config,
            observer,
            launches: Launches::default(),
            apps: Vec::new(),
            totals: Totals::default(),
            background_until_ns: 0,
            ahead: Ahead::default(),
            launched: AppId(0),
            future: None,
        })
    }

    /// Whether the scheme asks for the future ([`Self::set_future`]).
    pub fn wants_future(&self) -> bool {
        self.engine.wants_future()
    }

    /// The future of the trace that is about to be fed, from its beginning. Without one, no page is ever used again.
    pub fn set_future(&mut self, future: Future) {
        self.future = Some(future);
    }

    /// Feeds events and carries out what follows from them. They are best given by the thousand: memory is read ahead for
    /// those that come next.
    ///
    /// # Errors
    /// A page came back wrong.
    pub fn feed_all(&mut self, events: &[Event]) -> Result<(), ReplayError> {
        for batch in events.chunks(ANTICIPATED_PAGES) {
            let files_too = self.config.file_pages;
            let accesses = batch.iter().filter_map(|event| match event.kind {
                EventKind::Access { page, .. } => (files_too
                    || matches!(page, PageAddr::Anon { .. }))
                .then_some((event.app, page)),
                _ => None,
            });
            self.engine.anticipate(accesses);
            batch.iter().try_for_each(|event| self.feed(event))?;
        }
        Ok(())
    }

    /// Feeds one event and carries out what follows from it.
    ///
    /// # Errors
    /// A page came back wrong.
    pub fn feed(&mut self, event: &Event) -> Result<(), ReplayError> {
        self.totals.events += 1;
        self.work_in_background(event.time_ns)?;
        let touch = match event.kind {
            EventKind::Access {
                page,
                write,
                content,
            } => self.access(event.app, page, write, content)?,
            EventKind::Content { page, content } => self.content(event.app, page, content)?,
            other => {
                self.lifecycle(event, other)?;
                None
            }
        };
        self.observer.event(&self.engine, event, touch);
        if self.totals.events.is_multiple_of(TIDY_EVERY_EVENTS) {
            self.store.tidy();
            self.report_usage();
        }
        Ok(())
    }

    /// The engine, for a look.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The result, and the observer. `names` are the applications' names. Without contents, codec and pool were assumed.
    pub fn finish(
        mut self,
        names: impl IntoIterator<Item = String>,
        with_contents: bool,
    ) -> (ReplayResult, O) {
        for index in 0..self.apps.len() {
            self.keep(index);
        }
        self.totals.evicted_pool_pages = self.engine.evicted_pool_pages().unwrap_or_default();
        self.totals.engine_state_bytes = self.engine.state_bytes() as u64;
        let mut apps: Vec<_> = self.apps.into_iter().map(|app| app.result).collect();
        if !with_contents {
            apps.iter_mut().for_each(AppResult::nothing_was_measured);
        }
        for (index, name) in names.into_iter().enumerate() {
            if apps.len() <= index {
                apps.push(AppResult::default());
            }
            apps[index].name = name;
        }
        let result = ReplayResult {
            scheme: self.config.scheme.name,
            limits: self.config.limits,
            device: self.config.device.name,
            with_contents,
            apps,
            totals: self.totals,
            ruling: self.engine.ruling(),
            counters: self.engine.counters(),
        };
        (result, self.observer)
    }

    // ---- events ----

    /// An application accesses a page. `None` for a page of a file where those are passed over.
    fn access(
        &mut self,
        app: AppId,
        addr: PageAddr,
        write: bool,
        content: Option<ContentId>,
    ) -> Result<Option<Touch>, ReplayError> {
        let is_file = matches!(addr, PageAddr::File { .. });
        if is_file && !self.config.file_pages {
            return Ok(None);
        }
        if let Some(future) = &self.future {
            let next = future.after(self.totals.events - 1);
            let page = self.engine.page(app, addr);
            self.engine.foresee(page, next);
        }
        let changes = content.is_some_and(|content| {
            let page = self.engine.page(app, addr);
            !self.store.holds(page, content)
        });
        if changes && is_file && !write {
            self.file_content(app, addr, content)?;
        }
        // A change of anonymous memory that the trace calls a read is a write.
        let touch = self.touch(app, addr, write || changes && !is_file);
        self.account(app, &touch, is_file);
        self.bring_back(touch.page, Some(app))?;
        if matches!(
            touch.outcome,
            Outcome::BufferHit | Outcome::Prepaged | Outcome::InFlight
        ) {
            self.wait_for_worker(app, touch.page);
        }
        if let Some(content) = content {
            self.store.set_content(touch.page, content);
        }
        self.carry_out(Some(app))?;
        Ok(Some(touch))
    }

    /// Accounts for a touch: what it costs, and what its launch window counts.
    fn account(&mut self, app: AppId, touch: &Touch, is_file: bool) {
        if touch.outcome == Outcome::FileRead {
            self.totals.flash_read_bytes += PAGE_BYTES as u64;
        }
        let modelled_ns = self.config.device.touch_ns(touch.outcome);
        match self.launches.open_window(app.0.into()) {
            Some(window) => {
                // The recorded cold launch that a relaunch after a kill costs has its first touches and reads of files in it.
                let is_in_it = matches!(touch.outcome, Outcome::FirstTouch | Outcome::FileRead);
                if !(is_in_it && window.cold_launch_ns > 0) {
                    window.latency.modelled_ns += modelled_ns;
                }
                window.count(touch.outcome, is_file);
            }
            None => self.app(app).result.execution.modelled_ns += modelled_ns,
        }
        if !is_file {
            let existed = touch.outcome != Outcome::FirstTouch;
            self.launches.touched(app.0.into(), touch.page, existed);
        }
    }

    /// The engine hears of a touch, if it may.
    fn touch(&mut self, app: AppId, addr: PageAddr, write: bool) -> Touch {
        if self.config.sight == Sight::All {
            return self.engine.touch(app, addr, write);
        }
        let page = self.engine.page(app, addr);
        if self.engine.page_state(page) != PageState::Resident {
            return self.engine.touch(app, addr, write);
        }
        if write {
            // A live host finds that out when the page leaves.
            return self.engine.changed(app, addr);
        }
        let outcome = Outcome::Hit;
        Touch { page, outcome }
    }

    /// The trace learned what a page holds, without an access.
    fn content(
        &mut self,
        app: AppId,
        addr: PageAddr,
        content: ContentId,
    ) -> Result<Option<Touch>, ReplayError> {
        if matches!(addr, PageAddr::File { .. }) {
            if self.config.file_pages {
                self.file_content(app, addr, Some(content))?;
            }
            return Ok(None);
        }
        let page = self.engine.page(app, addr);
        let exists = self.engine.page_state(page) != PageState::Absent;
        if exists && self.store.holds(page, content) {
            return Ok(None);
        }
        let touch = self.engine.changed(app, addr);
        self.bring_back(page, None)?;
        self.store.set_content(page, content);
        self.carry_out(None)?;
        Ok(Some(touch))
    }

    /// A page of a file holds something else than was known, without an access: it was written in its
    /// file.
    fn file_content(
        &mut self,
        app: AppId,
        addr: PageAddr,
        content: Option<ContentId>,
    ) -> Result<(), ReplayError> {
        let page = self.engine.page(app, addr);
        if let Some(content) = content.filter(|&content| !self.store.holds(page, content)) {
            self.engine.file_written(app, addr);
            self.carry_out(None)?;
            self.store.set_content(page, content);
        }
        Ok(())
    }

    fn lifecycle(&mut self, event: &Event, kind: EventKind) -> Result<(), ReplayError> {
        let (app, index) = (event.app, usize::from(event.app.0));
        match kind {
            EventKind::LaunchBegin(kind) => self.launch(app, kind, event.time_ns),
            EventKind::LaunchEnd => {
                let of_app = self.app(app);
                if let Some(began_ns) = of_app.cold_launch_began_ns.take() {
                    of_app.cold_launch_ns = Some(event.time_ns.saturating_sub(began_ns));
                }
                self.engine.launch_end(app);
                self.launches.end(index);
            }
            EventKind::Background => {
                self.launches.end(index);
                self.engine.background(app);
                self.totals.background_pool_pages += self.store.pool_load().0;
                self.totals.background_pool_bytes += self.store.pool_bytes();
                if self.config.pressure == Pressure::Full {
                    self.engine.shrink(app);
                }
            }
            EventKind::Free { page, pages } => {
                if self.config.file_pages || matches!(page, PageAddr::Anon { .. }) {
                    self.engine.free(app, page, pages);
                }
            }
            EventKind::Exit => self.engine.exit(app),
            EventKind::Access { .. } | EventKind::Content { .. } => {}
        }
        self.carry_out(None)
    }

    fn launch(&mut self, app: AppId, kind: LaunchKind, time_ns: u64) {
        let index = usize::from(app.0);
        self.keep(index);
        let of_app = self.app(app);
        let was_killed = std::mem::take(&mut of_app.was_killed);
        of_app.cold_launch_began_ns = (kind == LaunchKind::Cold).then_some(time_ns);
        let cold_launch_ns = of_app.cold_launch_ns.filter(|_| was_killed);
        let cold_launch_ns = cold_launch_ns.unwrap_or_default();
        let relaunch = Relaunch {
            time_ns,
            was_killed,
            cold_launch_ns,
            latency: Latency {
                measured_ns: 0,
                modelled_ns: cold_launch_ns,
            },
            ..Relaunch::default()
        };
        let relaunch = (kind == LaunchKind::Relaunch).then_some(relaunch);
        self.launches
            .begin(index, relaunch, self.engine.hot_set(app));
        let kind = if was_killed { LaunchKind::Cold } else { kind };
        self.engine.launch_begin(app, kind);
        self.ahead.launch();
        self.launched = app;
    }

    /// Keeps the result of an application's last launch, which nothing can change any more.
    fn keep(&mut self, index: usize) {
        if let Some(relaunch) = self.launches.finish(index) {
            self.app(AppId(index as u16))
                .result
                .relaunches
                .push(relaunch);
        }
    }

    // ---- accounts ----

    fn app(&mut self, app: AppId) -> &mut ReplayedApp {
        let index = usize::from(app.0);
        if self.apps.len() <= index {
            self.apps.resize_with(index + 1, ReplayedApp::default);
        }
        &mut self.apps[index]
    }

    fn charge_if(&mut self, waiting: Option<AppId>, latency: Latency) {
        if let Some(app) = waiting {
            self.charge(app, latency);
        }
    }

    fn charge(&mut self, app: AppId, latency: Latency) {
        match self.launches.open_window(app.0.into()) {
            Some(window) => window.latency += latency,
            None => self.app(app).result.execution += latency,
        }
    }

    fn report_usage(&mut self) {
        self.engine.set_pool_bytes(self.store.pool_bytes());
        self.engine.set_backing_bytes(self.store.backing_bytes());
        let usage = self.engine.usage();
        let used = usage.frames * PAGE_BYTES as u64 + usage.pool_bytes;
        self.totals.peak_bytes = self.totals.peak_bytes.max(used);
        if usage.pool_bytes > self.totals.pool_peak_bytes {
            self.totals.pool_peak_bytes = usage.pool_bytes;
            self.totals.pool_peak_original_bytes = self.store.pool_load().0 * PAGE_BYTES as u64;
        }
    }
}

mod decisions;
#[cfg(test)]
mod tests;
