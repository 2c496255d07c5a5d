//! The daemon's one thread: it takes events, steers the host, and answers.

mod access;
mod apps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use warmswap_kernel::host::AFTER_SWITCH;
use warmswap_kernel::{AppId, HostStatus};
use warmswap_protocol::{
    Answer, AppEvent, DaemonStatus, MemoryStatus, Peer, Refusal, RefusalKind, Reply, Request,
    Switches, WINDOWS_HEARD_FOR, WindowEvent, WindowSystem,
};
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::peer::Owned;
use warmswap_sys::process::Stat;
use warmswap_sys::{Root, monotonic_ns};

use self::apps::Apps;
use crate::activity::Activity;
use crate::config::Config;
use crate::event::{Event, Source};
use crate::host::Host;
use crate::seats::Seats;
use crate::status::{Signals, of_host};

/// Least time between two looks at CPU time, which is counted in steps of 10 ms.
const ACTIVITY: Duration = Duration::from_millis(500);

/// Time between two looks for applications without a configuration.
const DISCOVER: Duration = Duration::from_secs(15);

/// The time after a launch in which the program executes, and its processes are found anew.
const SETTLE: Duration = Duration::from_secs(1);

/// Longest time between two savings of learned tables.
const SAVE: Duration = Duration::from_secs(300);

/// The time after a switch in which learned tables are saved: a launch window is over then.
const SAVE_AFTER_SWITCH: Duration = Duration::from_secs(10);

/// Warnings that are kept; of more, the oldest are dropped.
const MAX_WARNINGS: usize = 20;

/// The daemon, but for the threads that tell it what happens.
#[derive(Debug)]
pub struct Daemon<H> {
    config: Config,
    root: Root,
    host: H,
    apps: Apps,
    heard: Receiver<Event>,
    signals: Signals,
    activity: Activity,
    begun: Instant,
    due: Due,
    /// Devices that are its own, by path.
    own_devices: Vec<String>,
    warnings: Vec<String>,
    /// What the host is hindered by now.
    host_warning: Option<&'static str>,
    /// The window that each user looks at.
    windows: BTreeMap<u32, Window>,
    /// Where programs hear of switches.
    switches: Option<Switches>,
}

/// A window that a user looks at.
#[derive(Clone, Copy, Debug)]
struct Window {
    source: Source,
    pid: u32,
    /// Its application is the one that is switched to. Not so while its process belongs to none, or another user's session is in
    /// front.
    is_followed: bool,
}

/// When something is to be done next.
#[derive(Debug)]
struct Due {
    tick: Instant,
    /// The look at CPU times; it is done at a tick.
    activity: Instant,
    discover: Instant,
    save: Instant,
}

impl<H: Host> Daemon<H> {
    /// A daemon over `host`, with the applications that are configured.
    #[must_use]
    pub fn new(config: Config, root: Root, host: H, heard: Receiver<Event>) -> Self {
        let now = Instant::now();
        let mut daemon = Self {
            apps: Apps::default(),
            signals: Signals::default(),
            activity: Activity::default(),
            begun: now,
            due: Due {
                tick: now,
                activity: now,
                discover: now,
                save: now + SAVE,
            },
            own_devices: Vec::new(),
            warnings: config.warnings.clone(),
            host_warning: None,
            windows: BTreeMap::new(),
            switches: None,
            config,
            root,
            host,
            heard,
        };
        let signals = &mut daemon.signals;
        signals.set_always(Source::Command, "warmswap switch and launch");
        if daemon.config.signals.activity {
            signals.set_always(Source::Activity, "CPU time after rest");
        }
        let configured = daemon
            .apps
            .configure(&daemon.config, &daemon.root, &mut daemon.host);
        configured
            .into_iter()
            .for_each(|warning| daemon.warn(warning));
        daemon
    }

    /// Names the devices that are its own.
    pub fn set_own_devices(&mut self, paths: Vec<String>) {
        self.own_devices = paths;
    }

    /// Tells programs of switches there.
    pub fn set_switches(&mut self, switches: Switches) {
        self.switches = Some(switches);
    }

    /// Goes on with the applications whose launch an earlier daemon noted at `path`, and notes them there.
    pub fn resume_launched(&mut self, path: std::path::PathBuf) {
        let warnings = self.apps.resume(path, &self.root, &mut self.host);
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    /// Works until it is told to stop, then keeps what was learned.
    ///
    /// # Errors
    /// What could not be kept, for people.
    pub fn run(&mut self) -> Result<(), String> {
        loop {
            let wait = self.next_due().saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(wait) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.work();
        }
        self.host.save()
    }

    fn next_due(&self) -> Instant {
        self.due.tick.min(self.due.discover).min(self.due.save)
    }

    /// Does what is due.
    fn work(&mut self) {
        let now = Instant::now();
        if now >= self.due.discover {
            self.due.discover = now + DISCOVER;
            self.discover();
        }
        if now >= self.due.tick {
            self.tick();
        }
        if now >= self.due.save {
            self.due.save = now + SAVE;
            if let Err(error) = self.host.save() {
                self.warn(error);
            }
        }
        self.tell_switches();
    }

    /// Tells programs that follow it where they stand, once anything was switched to.
    fn tell_switches(&mut self) {
        let Some(switches) = &mut self.switches else {
            return;
        };
        let standings = self.apps.standings(&self.host);
        let told = standings.map_or(Ok(()), |standings| switches.tell(&standings));
        self.note(told.map_err(|error| format!("programs do not hear of switches: {error}")));
    }

    fn tick(&mut self) {
        let tick = self.host.tick();
        let now = Instant::now();
        self.due.tick = now + tick.wait;
        self.note_host(tick.warning);
        let seats = Seats::read(&self.root);
        self.forget_unheard(now);
        self.follow_windows(&seats);
        let has_windows = self.signals.followed(now).any(|user| !seats.is_away(user));
        if self.config.signals.activity && !has_windows && now >= self.due.activity {
            self.due.activity = now + ACTIVITY;
            self.look_for_activity();
        }
    }

    fn look_for_activity(&mut self) {
        for app in self.apps.take_removed() {
            self.activity.forget(app);
        }
        let root = &self.root;
        let host = &self.host;
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1) as f64;
        let cpu = self.apps.ids().map(|app| {
            let processes = host.processes(app).unwrap_or_default();
            let stats = processes
                .iter()
                .filter_map(|id| Stat::read(root, id.pid).ok());
            let ticks: u64 = stats.map(|stat| stat.cpu_ticks).sum();
            (
                app,
                Duration::from_secs_f64(ticks as f64 / ticks_per_second),
            )
        });
        let began = self.activity.look(self.begun.elapsed(), cpu);
        if let Some(app) = began.filter(|&app| self.apps.foreground() != Some(app)) {
            self.switch_to(app, Source::Activity);
        }
    }

    fn discover(&mut self) {
        if let Err(warning) = self.apps.forget_ended(&self.root, &mut self.host) {
            self.warn(warning);
        }
        if !self.config.discover.enable {
            return;
        }
        let found = self
            .apps
            .discover(&self.config.discover, &self.root, &mut self.host);
        found.into_iter().for_each(|warning| self.warn(warning));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request {
                peer,
                request,
                answer,
            } => {
                let reply = self.carry_out(peer, request);
                // The client may have gone.
                let _ = answer.send(reply);
            }
            Event::Swap {
                own_devices,
                notices,
            } => {
                self.own_devices = own_devices;
                notices.into_iter().for_each(|notice| self.warn(notice));
            }
            Event::Stop => {}
        }
    }

    fn carry_out(&mut self, peer: Peer, request: Request) -> Reply {
        match request {
            Request::Daemon => Ok(Answer::Daemon(Box::new(self.status_for(peer)))),
            Request::App { name, event } => self.told(peer, &name, event),
            Request::Window { system, event } => self.heard_windows(peer, system, event),
            Request::PagesItself { pid } => {
                let id = self.check_process(peer, pid)?;
                self.host.leave_to_itself(id);
                Ok(Answer::Done)
            }
            _ => Err(Refusal::new(
                RefusalKind::Unknown,
                "the daemon answers `daemon`, `app`, `pages_itself` and `window`; the others are for paged programs",
            )),
        }
    }

    /// `warmswap switch` and `warmswap launch`.
    fn told(&mut self, peer: Peer, name: &str, event: AppEvent) -> Reply {
        let refused = |kind, what: &str| Refusal::new(kind, what);
        let name =
            crate::config::app_name(name).map_err(|why| refused(RefusalKind::Malformed, why))?;
        if let AppEvent::Launch { pid } = event {
            let process = Owned::read(&self.root, pid)
                .map_err(|error| refused(RefusalKind::Failed, &error.to_string()))?;
            self.check_launch(peer, name, &process)?;
            let app = self
                .apps
                .launch(name, &process.stat, &mut self.host)
                .map_err(|why| refused(RefusalKind::Failed, &why))?;
            self.switch_to(app, Source::Command);
            self.due.discover = Instant::now() + SETTLE;
            return Ok(Answer::Done);
        }
        let Some(app) = self.apps.by_name(name) else {
            let known = self.names_for(peer).join(", ");
            let what = format!("there is no application {name:?}; there are: {known}");
            return Err(refused(RefusalKind::Failed, &what));
        };
        self.check_steer(peer, name, app)?;
        match event {
            AppEvent::Switch => self.switch_to(app, Source::Command),
            AppEvent::Background => self.send_away(app),
            AppEvent::LaunchDone => {
                let done = self.host.launch_done(app);
                self.note(done.map_err(|error| error.to_string()));
            }
            _ => return Err(refused(RefusalKind::Unknown, "no such event")),
        }
        Ok(Answer::Done)
    }

    /// An agent of this user tells of a window system.
    fn heard_windows(&mut self, peer: Peer, system: WindowSystem, event: WindowEvent) -> Reply {
        let source = Source::Windows(system, peer.user);
        match event {
            WindowEvent::Live { place } => {
                let until = Instant::now() + WINDOWS_HEARD_FOR;
                self.signals.set(source, &place, Some(until));
            }
            WindowEvent::Absent { why } => {
                self.signals.set(source, &why, None);
                self.windows.retain(|_, window| window.source != source);
            }
            WindowEvent::Focus { pid } => {
                self.check_window(peer, pid)?;
                self.signals
                    .hear(source, Instant::now() + WINDOWS_HEARD_FOR);
                let is_followed = false;
                let window = Window {
                    source,
                    pid,
                    is_followed,
                };
                self.windows.insert(peer.user, window);
                let seats = Seats::read(&self.root);
                self.follow_windows(&seats);
                // It may be one that was just started, and will be found.
                let is_unknown = self.windows.get(&peer.user).is_some_and(|w| !w.is_followed);
                if is_unknown && !seats.is_away(peer.user) {
                    self.look_away(peer);
                }
            }
            WindowEvent::Elsewhere => {
                self.windows.remove(&peer.user);
                if !Seats::read(&self.root).is_away(peer.user) {
                    self.look_away(peer);
                }
            }
            _ => return Err(Refusal::new(RefusalKind::Unknown, "no such event")),
        }
        Ok(Answer::Done)
    }

    /// The user looks at no application that is known: the one in front goes to the background, if it is the user's.
    fn look_away(&mut self, peer: Peer) {
        let front = self.apps.foreground();
        if let Some(app) = front.filter(|&app| self.may_steer(peer, app)) {
            self.send_away(app);
        }
    }

    /// Forgets the windows of agents that ended without a word.
    fn forget_unheard(&mut self, now: Instant) {
        let signals = &self.signals;
        self.windows
            .retain(|_, window| signals.is_live(window.source, now));
    }

    /// Switches to the applications of windows that are not followed yet, of users whose session is in front.
    fn follow_windows(&mut self, seats: &Seats) {
        for (user, mut window) in self.windows.clone() {
            let is_in_front = !seats.is_away(user);
            if is_in_front && !window.is_followed {
                let app = self.apps.owner(&self.host, window.pid);
                let app = app.filter(|&app| self.may_steer(Peer { user }, app));
                if let Some(app) = app.filter(|&app| self.apps.foreground() != Some(app)) {
                    self.switch_to(app, window.source);
                }
                window.is_followed = app.is_some();
            } else {
                window.is_followed = is_in_front;
            }
            self.windows.insert(user, window);
        }
    }

    fn switch_to(&mut self, app: AppId, source: Source) {
        self.signals.count(source);
        let switched = self.host.switch_to(app);
        if switched.is_ok() {
            self.apps.enter(app);
            let now = Instant::now();
            self.due.tick = self.due.tick.min(now + AFTER_SWITCH);
            self.due.save = self.due.save.min(now + SAVE_AFTER_SWITCH);
        }
        self.note(switched.map_err(|error| error.to_string()));
    }

    /// It goes to the background.
    fn send_away(&mut self, app: AppId) {
        self.apps.leave(app);
        let sent = self.host.background(app);
        self.note(sent.map_err(|error| error.to_string()));
    }

    fn note(&mut self, result: Result<(), String>) {
        if let Err(error) = result {
            self.warn(error);
        }
    }

    /// A warning of the host's holds until the host withdraws it.
    fn note_host(&mut self, warning: Option<&'static str>) {
        if self.host_warning == warning {
            return;
        }
        match (warning, self.host_warning) {
            (Some(warning), _) => warmswap_sys::tell!("warmswap daemon: {warning}"),
            (None, Some(last)) => warmswap_sys::tell!("warmswap daemon: no more: {last}"),
            (None, None) => {}
        }
        self.host_warning = warning;
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.contains(&warning) {
            return;
        }
        warmswap_sys::tell!("warmswap daemon: {warning}");
        if self.warnings.len() == MAX_WARNINGS {
            self.warnings.remove(0);
        }
        self.warnings.push(warning);
    }

    /// All that it knows.
    #[must_use]
    pub fn status(&self) -> DaemonStatus {
        self.status_for(Peer::ROOT)
    }

    fn status_of(&self, host: HostStatus, peer: Peer) -> DaemonStatus {
        let mut status = of_host(host, |name| self.apps.is_discovered(name), monotonic_ns());
        status.pid = std::process::id();
        status.version = env!("CARGO_PKG_VERSION").to_owned();
        status.uptime_seconds = self.begun.elapsed().as_secs_f64();
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1) as f64;
        let own = Stat::read(&Root::machine(), status.pid);
        status.cpu_seconds = own.map_or(0.0, |stat| stat.cpu_ticks as f64 / ticks_per_second);
        if let Ok(memory) = Meminfo::read(&self.root) {
            status.memory = MemoryStatus {
                total_bytes: self.config.facts.ram_bytes,
                available_bytes: memory.available_bytes,
            };
        }
        status.swap.own_devices.clone_from(&self.own_devices);
        status.signals = self.signals.list(peer, Instant::now());
        status.warnings.clone_from(&self.warnings);
        status.warnings.extend(self.host_warning.map(str::to_owned));
        status
    }
}
