//! The engine over the memory of applications, and the system calls that carry out what it decides.

mod app;
mod core;
mod files;
mod find;
mod launch;
mod pace;
mod page_cache;
mod processes;
mod reclaim;
mod report;
#[cfg(test)]
mod tests;
mod touches;
mod turn;
mod worth;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use warmswap_page::AppId;
use warmswap_page::PAGE_BYTES;
use warmswap_policy::learned::{LoadError, SaveError, sync};
use warmswap_sys::accessed::Accessed;
use warmswap_sys::{Root, monotonic_ns};

pub use self::pace::AFTER_SWITCH;
pub use self::worth::{Turn, Worth};

use self::app::App;
use self::core::{Core, UNBOUNDED_BYTES, engine};
use self::launch::REMEMBERED_GROWTHS;
use self::pace::{FIND_INTERVAL, LOOK_BEHIND_INTERVAL, LOOK_INTERVAL, WAITING, WATCHFUL};
use self::page_cache::PageCache;
use self::reclaim::{Patience, Rate};
use self::worth::Trial;
use crate::application::{Application, Applications, ProcessId};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::goal::Gauge;
use crate::learned;
use crate::mlock::FileLocker;
use crate::prepage::{Prepagers, thread_cpu_ns};
use crate::status::SwapStatus;
use crate::upkeep::Upkeeper;
use crate::watch::Watched;

/// The least that is kept free for the next launch, in bytes.
const LEAST_HEADROOM_BYTES: u64 = 4 << 20;

/// What a tick did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tick {
    /// Pages that it paged out.
    pub paged_out: u64,
    /// What was missing to the goal before, in bytes.
    pub missing_bytes: u64,
    /// How long the next tick can wait, if nothing happens before.
    pub wait: Duration,
}

/// The kernel host. One thread drives it; it has threads of its own for prepaging only.
///
/// Dropping it ends these threads and changes nothing else: the kernel holds all pages.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    core: Core,
    /// By number. A number that no application has is given to the next one.
    apps: Vec<Option<App>>,
    /// The numbers that are given out, in the order in which the applications were added.
    order: Vec<usize>,
    finder: Applications,
    gauge: Gauge,
    prepagers: Option<Prepagers>,
    file_locker: Option<FileLocker>,
    upkeeper: Option<Upkeeper>,
    upkept_ns: Option<u64>,
    swap: SwapStatus,
    missing_bytes: u64,
    /// Counts launch windows of all applications.
    launches: u64,
    foreground: Option<usize>,
    found_ns: Option<u64>,
    /// When an application came to the foreground last.
    switched_ns: Option<u64>,
    rate: Rate,
    patience: Patience,
    growths: VecDeque<u64>,
    page_cache: PageCache,
    trial: Trial,
}

impl Host {
    /// A host without applications.
    ///
    /// # Errors
    /// [`HostError`] when the scheme is none, the goal's group does not exist, or the machine's pages have
    /// another size. Whether processes may be watched is seen when they are found.
    pub fn new(config: HostConfig, root: &Root) -> Result<Self, HostError> {
        warmswap_sys::check_page_size()?;
        let accessed = match config.accessed_bits {
            true => Accessed::open(root).map_err(|error| error.to_string()),
            false => Err("switched off".to_owned()),
        };
        let engine = engine(&config, accessed.is_ok())?;
        let mut core = Core::new(root, engine, config.prepage_by, config.evidence_launches);
        core.accessed = accessed;
        let gauge = Gauge::new(root, &config.goal)?;
        let prepagers = match config.prepage_threads {
            0 => None,
            threads => Some(Prepagers::start(threads, config.prepage_by)?),
        };
        let file_locker = match config.mlock_files {
            true => Some(FileLocker::start(root)?),
            false => None,
        };
        let upkeeper = match config.upkeep.is_nothing() {
            false => Some(Upkeeper::start(root, config.upkeep)?),
            true => None,
        };
        Ok(Self {
            core,
            apps: Vec::new(),
            order: Vec::new(),
            finder: Applications::new(root),
            gauge,
            prepagers,
            file_locker,
            upkeeper,
            upkept_ns: None,
            swap: SwapStatus::default(),
            missing_bytes: 0,
            launches: 0,
            foreground: None,
            found_ns: None,
            switched_ns: None,
            rate: Rate::new(config.page_out_pages_per_second),
            patience: Patience::default(),
            growths: VecDeque::new(),
            page_cache: PageCache::default(),
            trial: Trial::default(),
            config,
        })
    }

    // ---- applications ----

    /// Watches one more application. Its processes are found at the next tick, or switch to it. What is kept of
    /// it in the folder of learned tables is taught. Its number may be one that an application had that was removed.
    ///
    /// # Errors
    /// [`HostError::NameTaken`], [`HostError::TooManyApps`].
    pub fn add(&mut self, application: Application) -> Result<AppId, HostError> {
        if self.id(&application.name).is_some() {
            return Err(HostError::NameTaken(application.name));
        }
        let free = self.apps.iter().position(Option::is_none);
        let at = free.unwrap_or(self.apps.len());
        let number = u16::try_from(at).ok().filter(|&at| at < u16::MAX);
        let id = AppId(number.ok_or(HostError::TooManyApps)?);
        if at == self.apps.len() {
            self.apps.push(None);
        }
        self.apps[at] = Some(App::new(id, application));
        self.order.push(at);
        self.found_ns = None;
        Ok(id)
    }

    /// Teaches what the folder of learned tables keeps of an application, before its first launch.
    ///
    /// # Errors
    /// [`LoadError`]: a warning, since all that is lost is what was learned.
    pub fn load_learned(&mut self, app: AppId) -> Result<(), LoadError> {
        let (Some(folder), Some(Some(watched))) = (
            &self.config.learned_folder,
            self.apps.get_mut(usize::from(app.0)),
        ) else {
            return Ok(());
        };
        let name = &watched.application.name;
        watched.is_taught |= learned::teach(
            &mut self.core.engine,
            &mut self.core.names,
            folder,
            name,
            app,
        )?;
        Ok(())
    }

    /// Keeps what was learned of all applications since it was kept last, in the folder of learned tables.
    ///
    /// # Errors
    /// The first [`SaveError`]; the others are kept all the same, and this one the next time.
    pub fn save_learned(&mut self) -> Result<(), SaveError> {
        self.save_those(0..self.apps.len())
    }

    /// The same of one application.
    ///
    /// # Errors
    /// [`SaveError`].
    pub fn save_learned_of(&mut self, app: AppId) -> Result<(), SaveError> {
        let at = usize::from(app.0);
        self.save_those(at..at + 1)
    }

    fn save_those(&mut self, numbers: Range<usize>) -> Result<(), SaveError> {
        let Some(folder) = &self.config.learned_folder else {
            return Ok(());
        };
        let mut result = Ok(());
        let mut written = Vec::new();
        for app in numbers {
            let Some(app) = self.apps.get_mut(app).and_then(Option::as_mut) else {
                continue;
            };
            // In an open window, each touch is something new.
            if !app.has_learned && app.window.is_none() {
                continue;
            }
            let name = &app.application.name;
            let learned = match &app.forgotten {
                Some(learned) => learned.clone(),
                // What was taught to an engine that saw no page since is what is kept already.
                None if self.core.stands_aside => continue,
                None => self.core.engine.learned(app.id),
            };
            match learned::keep(learned, &self.core.names, folder, name) {
                Ok(true) => written.push(usize::from(app.id.0)),
                Ok(false) => app.has_learned = false,
                Err(error) => result = result.and(Err(error)),
            }
        }
        if !written.is_empty() {
            let synced = sync(folder);
            for at in written {
                if let Some(app) = &mut self.apps[at] {
                    app.has_learned = synced.is_err();
                }
            }
            result = result.and(synced);
        }
        result
    }

    /// Watches an application no more. Its pages stay where they are; what was learned of it is kept only if it was
    /// saved before ([`Self::save_learned_of`]).
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn remove(&mut self, app: AppId) -> Result<(), HostError> {
        let at = self.known(app)?;
        if self.foreground == Some(at) {
            self.foreground = None;
        }
        let removed = self.apps[at].take();
        self.order.retain(|&other| other != at);
        if let (
            Some(App {
                window: Some(_), ..
            }),
            Some(prepagers),
        ) = (removed, &self.prepagers)
        {
            prepagers.only(u64::MAX);
        }
        if let Some(locker) = &self.file_locker {
            locker.removed(app);
        }
        self.core.engine.set_budget_bytes(UNBOUNDED_BYTES);
        self.core.engine.retire(app);
        self.core.drain();
        Ok(())
    }

    /// The number of the application of that name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<AppId> {
        let app = self.apps.iter().flatten();
        app.filter(|app| app.application.name == name)
            .map(|app| app.id)
            .next()
    }

    /// All applications under watch, in the order in which they were added: a process belongs to the first that fits.
    pub fn applications(&self) -> impl Iterator<Item = (AppId, &Application)> {
        self.in_order().map(|a| (a.id, &a.application))
    }

    fn in_order(&self) -> impl Iterator<Item = &App> + Clone {
        self.order.iter().filter_map(|&at| self.apps[at].as_ref())
    }

    /// The application in the foreground.
    #[must_use]
    pub fn foreground(&self) -> Option<AppId> {
        self.foreground.map(|at| AppId(at as u16))
    }

    /// Its processes as they were last found.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn processes(&self, app: AppId) -> Result<Vec<ProcessId>, HostError> {
        let at = self.known(app)?;
        let processes = self.apps[at].iter().flat_map(|app| app.processes.iter());
        Ok(processes.map(Watched::id).collect())
    }

    fn known(&self, app: AppId) -> Result<usize, HostError> {
        let at = usize::from(app.0);
        match self.apps.get(at) {
            Some(Some(_)) => Ok(at),
            _ => Err(HostError::NoSuchApp(format!("number {}", app.0))),
        }
    }

    // ---- events ----

    /// The application comes to the foreground: its footprint begins to come back, and its launch window is
    /// open until [`Self::launch_done`]. The one that was in the foreground goes to the background. Costs
    /// about 1 µs for each page of the footprint that is in swap.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn switch_to(&mut self, app: AppId) -> Result<(), HostError> {
        let at = self.known(app)?;
        self.event(|host| {
            let last = host.foreground.filter(|&last| last != at);
            if let Some(last) = last {
                host.send_to_background(last);
            }
            host.close_window(at, false);
            let now_ns = monotonic_ns();
            if let Some(locker) = &host.file_locker {
                locker.used(app);
            }
            host.weigh_switch(now_ns);
            host.foreground = Some(at);
            host.switched_ns = Some(now_ns);
            host.open_window(at);
            // After it, since nothing waits for this.
            if let Some(last) = last {
                host.clear_accessed(last);
            }
        });
        Ok(())
    }

    /// The application has answered: what it touched since the switch is learned. Does nothing if no launch
    /// window of it is open.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn launch_done(&mut self, app: AppId) -> Result<(), HostError> {
        let at = self.known(app)?;
        self.event(|host| {
            host.close_window(at, true);
        });
        Ok(())
    }

    /// The application goes to the background.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn background(&mut self, app: AppId) -> Result<(), HostError> {
        let at = self.known(app)?;
        self.event(|host| {
            host.send_to_background(at);
            host.clear_accessed(at);
        });
        Ok(())
    }

    fn clear_accessed(&mut self, at: usize) {
        if let Some(app) = &mut self.apps[at] {
            self.core.clear_accessed(app);
        }
    }

    fn send_to_background(&mut self, at: usize) {
        let was_looked_at = self.close_window(at, false);
        if self.foreground == Some(at) {
            self.foreground = None;
        }
        let stands_aside = self.core.stands_aside;
        let Some(app) = &mut self.apps[at] else {
            return;
        };
        if !was_looked_at && !stands_aside {
            self.core.look(app);
        }
        if !stands_aside {
            self.core.note_use_touches(app);
        }
        if app.is_foreground {
            let seen = (!stands_aside).then(|| app.file_pages(&self.core.root));
            app.used_file_pages = seen;
        }
        self.core.engine.background(app.id);
        self.core.drain();
        if std::mem::take(&mut app.is_foreground) && !stands_aside {
            if self.growths.len() == REMEMBERED_GROWTHS {
                self.growths.pop_front();
            }
            self.growths.push_back(app.grown_bytes);
        }
    }

    /// One step: pages out one round if something is missing to the goal, and closes launch windows whose applications rest,
    /// or that have been open for long.
    /// Now and then it looks at what stirred, and for new processes. Costs about 100 µs when nothing is missing;
    /// looking costs 10 µs a process where nothing happened.
    pub fn tick(&mut self) -> Tick {
        self.timed(Self::step)
    }

    fn step(&mut self) -> Tick {
        let now_ns = monotonic_ns();
        if is_due(self.found_ns, FIND_INTERVAL, now_ns) {
            self.found_ns = Some(now_ns);
            self.await_switches(now_ns);
            self.find_processes(now_ns);
            self.gauge.find_devices();
            self.read_swap();
            self.lock_files();
            self.keep_up(now_ns);
            if self.core.names.is_full() {
                self.forget_file_names();
            }
        }
        let overdue = Duration::from_millis(self.config.launch_window_ms);
        for at in 0..self.apps.len() {
            let Some(app) = &mut self.apps[at] else {
                continue;
            };
            if let Some(window) = &app.window {
                // What happens in a window is looked at when it closes.
                let is_overdue = is_due(Some(window.begin_ns), overdue, now_ns);
                let jobs = self.prepagers.as_ref().map_or(0, Prepagers::jobs);
                if is_overdue || app.has_answered(&self.core.root, now_ns, jobs) {
                    self.close_window(at, false);
                    // Its pages may leave now.
                    self.patience = Patience::default();
                }
                continue;
            }
            if self.core.stands_aside {
                continue;
            }
            let interval = if app.is_foreground {
                LOOK_INTERVAL
            } else {
                LOOK_BEHIND_INTERVAL
            };
            // Since memory is short, whoever pages out has to know what is there.
            let is_overdue = app.looked_ns < self.core.short_since_ns;
            if is_overdue || is_due(app.looked_ns, interval, now_ns) {
                app.looked_ns = Some(now_ns);
                self.core.look(app);
                self.core.note_touches_meanwhile(app, now_ns);
            }
        }
        let is_waiting = self.note_wait(now_ns);
        let mut tick = match self.core.stands_aside {
            true => self.stand_aside(is_waiting),
            false => self.reclaim(now_ns),
        };
        if self.trial.counts() {
            let since = now_ns.saturating_sub(self.switched_ns.unwrap_or(now_ns));
            let left = WAITING.saturating_sub(Duration::from_nanos(since));
            tick.wait = tick.wait.min(left.max(AFTER_SWITCH));
        }
        let windows = self
            .apps
            .iter()
            .flatten()
            .filter_map(|app| app.window.as_ref());
        for window in windows {
            let open = Duration::from_nanos(now_ns.saturating_sub(window.begin_ns));
            tick.wait = tick.wait.min(overdue.saturating_sub(open));
            if window.rest.is_some() {
                tick.wait = tick.wait.min(AFTER_SWITCH);
            }
        }
        tick
    }

    fn read_swap(&mut self) {
        if let Ok(swap) = self.gauge.swap() {
            self.swap = swap;
            self.core.engine.set_pool_bytes(swap.pool_bytes);
            let stored_pages = swap.stored_bytes / PAGE_BYTES as u64;
            if let Some(mean) = swap.pool_bytes.checked_div(stored_pages) {
                self.core.mean_page_bytes = mean.clamp(1, PAGE_BYTES as u64) as u32;
            }
        }
    }

    fn reclaim(&mut self, now_ns: u64) -> Tick {
        self.read_swap();
        let resident = self.resident_bytes();
        let (pool, counted) = (self.swap.pool_bytes, self.page_cache.counted());
        let headroom = self.headroom_bytes();
        let room = self.gauge.room(pool, resident, headroom, counted);
        // Where the machine cannot be read, nothing is risked.
        let room = room.unwrap_or_default();
        self.missing_bytes = room.missing_bytes;
        self.core.set_ample(room.is_ample, now_ns);
        let mut tick = Tick {
            missing_bytes: self.missing_bytes,
            ..Tick::default()
        };
        let is_busy = self.page_out(now_ns, room.is_urgent, &mut tick);
        let is_watchful = !is_due(self.switched_ns, WATCHFUL, now_ns);
        tick.wait = pace::wait(&tick, is_busy, room.is_ample, is_watchful);
        tick
    }

    /// Anonymous memory of all applications, as it was last looked at. In a launch the engine holds pages of files, too, those
    /// that are missing included.
    fn resident_bytes(&self) -> u64 {
        let windows = self.apps.iter().flatten();
        let windows = windows.filter_map(|app| app.window.as_ref());
        let files: u64 = windows.map(|window| window.files.pages()).sum();
        self.core.engine.usage().frames.saturating_sub(files) * PAGE_BYTES as u64
    }

    /// One round towards what is missing. Whether there is more to do at once.
    fn page_out(&mut self, now_ns: u64, urgent: bool, tick: &mut Tick) -> bool {
        if self.missing_bytes == 0 || self.patience.pauses() {
            return false;
        }
        // What leaves takes memory in the pool: to gain n bytes, more must leave.
        let gain =
            PAGE_BYTES as u64 - u64::from(self.core.mean_page_bytes).min(3 * PAGE_BYTES as u64 / 4);
        let want = self.missing_bytes.div_ceil(gain);
        let swap_room = self
            .swap
            .free_bytes
            .saturating_sub(self.config.swap_reserve_bytes)
            / PAGE_BYTES as u64;
        let allowed = self.rate.available(now_ns);
        let counters = &mut self.core.counters;
        counters.put_off_no_swap += u64::from(swap_room == 0);
        counters.put_off_rate += u64::from(allowed == 0);
        let pages = want.min(swap_room).min(allowed);
        if pages == 0 {
            return false;
        }
        let round = self.core.page_out(&mut self.apps, pages, urgent);
        tick.paged_out = round.out;
        self.rate.spend(round.out);
        self.patience.ended(round.asked > 0);
        round.asked > 0 && want > round.out
    }

    /// What is kept free for the next launch: what the largest of the last ones needed, and a quarter more; but
    /// little of the whole, since what is free holds nothing.
    fn headroom_bytes(&self) -> u64 {
        let largest = self.growths.iter().copied().max().unwrap_or(0);
        let most = self
            .config
            .goal
            .budget_bytes
            .map_or(u64::MAX, |bytes| bytes / 32);
        (largest + largest / 4).min(most).max(LEAST_HEADROOM_BYTES)
    }

    /// Runs an event of an application. Others can leave than before: a round is not in vain for what the last ones were.
    fn event(&mut self, event: impl FnOnce(&mut Self)) {
        self.timed(|host| {
            event(host);
            host.patience = Patience::default();
        });
    }

    /// Runs an event, and counts what it costs.
    fn timed<R>(&mut self, event: impl FnOnce(&mut Self) -> R) -> R {
        let begin = thread_cpu_ns();
        let result = event(self);
        self.core.counters.host_cpu_ns += thread_cpu_ns() - begin;
        result
    }
}

/// Whether an interval is over that began at a time; what never began is due.
fn is_due(begin_ns: Option<u64>, interval: Duration, now_ns: u64) -> bool {
    begin_ns.is_none_or(|at| Duration::from_nanos(now_ns.saturating_sub(at)) >= interval)
}
