//! The face of the host: programs and their switches, one step at a time.

mod app;
mod find;
mod launch;
mod learned;
mod report;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use warmswap_page::AppId;
use warmswap_sys::{Root, monotonic_ns, probe};

use self::app::App;
use crate::act::Costs;
use crate::act::pace::Pace;
use crate::act::worker::{Priority, Worker};
use crate::config::HostConfig;
use crate::counters::Counters;
use crate::decide::Controller;
use crate::error::HostError;
use crate::files::Files;
use crate::recompress::Recompressor;
use crate::see::application::{Application, ProcessId};
use crate::status::{GivenBack, SwapStatus};

pub use self::step::AFTER_SWITCH;

/// What a tick asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tick {
    /// How long the next tick can wait, if nothing happens before.
    pub wait: Duration,
    /// What is wrong now, for people.
    pub warning: Option<&'static str>,
}

/// The kernel host. One thread drives it, and never waits for another process: what may wait is done by threads of its own.
///
/// Dropping it ends these threads and changes nothing else: the kernel holds all pages.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    root: Root,
    /// By number. A number that no program has is given to the next one.
    apps: Vec<Option<App>>,
    /// The numbers that are given out, in the order in which the programs were added.
    order: Vec<usize>,
    foreground: Option<usize>,
    found_ns: Option<u64>,
    machine: Controller,
    /// Brings back in idle time.
    bringer: Worker,
    /// Looks at page tables, and reads ahead.
    looker: Worker,
    pace: Arc<Pace>,
    turn: step::Turn,
    costs: Costs,
    /// Processes that did not answer, with the names of their programs.
    unanswering: FxHashMap<ProcessId, String>,
    /// Processes that page themselves out.
    self_paging: Found,
    swap: SwapStatus,
    files: Option<Files>,
    openings_unseen: Option<String>,
    recompressor: Option<Recompressor>,
    recompressed_ns: Option<u64>,
    /// A device has a disk for cold pages.
    writes_back: bool,
    written_back_ns: Option<u64>,
    switched_ns: Option<u64>,
    /// Programs whose session ended, and was not looked at yet.
    ended: Vec<usize>,
    accesses_unseen: Option<String>,
    read_ahead_refused: Option<String>,
    counters: Counters,
    given_back: GivenBack,
}

impl Host {
    /// A host without programs.
    ///
    /// # Errors
    /// [`HostError`] when the machine's pages have another size, or a thread cannot be started. Whether processes may be watched
    /// is seen when they are found.
    pub fn new(config: HostConfig, root: &Root) -> Result<Self, HostError> {
        warmswap_sys::check_page_size()?;
        let pace = Arc::default();
        let (files, openings_unseen) = match config.bring_back {
            true => match Files::start(root, &pace)? {
                Ok(files) => (Some(files), None),
                Err(why) => (None, Some(why)),
            },
            false => (None, None),
        };
        let after_s = config.recompress_after_s;
        let recompressor = after_s.map(|after_s| Recompressor::start(root, after_s));
        Ok(Self {
            root: root.clone(),
            apps: Vec::new(),
            order: Vec::new(),
            foreground: None,
            found_ns: None,
            machine: Controller::default(),
            bringer: Worker::start(root, Priority::Low, &pace)?,
            looker: Worker::start(root, Priority::Normal, &pace)?,
            pace,
            turn: step::Turn::default(),
            costs: Costs::default(),
            unanswering: FxHashMap::default(),
            self_paging: Found::default(),
            swap: SwapStatus::default(),
            files,
            openings_unseen,
            recompressor: recompressor.transpose()?,
            recompressed_ns: None,
            writes_back: false,
            written_back_ns: None,
            switched_ns: None,
            ended: Vec::new(),
            accesses_unseen: None,
            read_ahead_refused: read_ahead_refused(),
            counters: Counters::default(),
            given_back: GivenBack::default(),
            config,
        })
    }

    // ---- programs ----

    /// Watches one more program. Its processes are found at the next tick, or switch to it. Its number may be one that a program had
    /// that was removed.
    ///
    /// # Errors
    /// [`HostError::NameTaken`], [`HostError::TooManyApps`].
    pub fn add(&mut self, application: Application) -> Result<AppId, HostError> {
        let is_taken = |app: &App| app.application.name == application.name;
        if self.in_order().any(is_taken) {
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

    /// Watches a program no more. Its pages stay where they are; what was learned of it is kept only if it was saved before
    /// ([`Self::save_learned_of`]).
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn remove(&mut self, app: AppId) -> Result<(), HostError> {
        let at = self.known(app)?;
        if self.foreground == Some(at) {
            self.foreground = None;
        }
        self.apps[at] = None;
        self.turn.waiting.retain(|target| target.app != at);
        self.ended.retain(|&other| other != at);
        self.order.retain(|&other| other != at);
        Ok(())
    }

    /// All programs under watch, in the order in which they were added: a process belongs to the first that fits.
    fn in_order(&self) -> impl Iterator<Item = &App> {
        self.order.iter().filter_map(|&at| self.apps[at].as_ref())
    }

    /// A program's processes as they were last found.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn processes(&self, app: AppId) -> Result<Vec<ProcessId>, HostError> {
        let at = self.known(app)?;
        let processes = self.apps[at].iter().flat_map(|app| app.processes.keys());
        let mut processes: Vec<ProcessId> = processes.copied().collect();
        processes.sort_unstable();
        Ok(processes)
    }

    /// The process pages itself out, and brings back what it needs: its pages are left to it for as long as it lives.
    pub fn leave_to_itself(&mut self, id: ProcessId) {
        self.self_paging.insert(id);
        for app in self.apps.iter_mut().flatten() {
            if let Some(watched) = app.processes.get_mut(&id) {
                watched.pages_itself = true;
            }
        }
        self.turn.waiting.retain(|target| target.id != id);
    }

    fn known(&self, app: AppId) -> Result<usize, HostError> {
        let at = usize::from(app.0);
        match self.apps.get(at) {
            Some(Some(_)) => Ok(at),
            _ => Err(HostError::NoSuchApp(format!("number {}", app.0))),
        }
    }

    // ---- events ----

    /// The program comes to the foreground: what it is going to use is read ahead, and its launch window is open until
    /// [`Self::launch_done`]. The one that was in the foreground goes to the background. Costs some 200 µs.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn switch_to(&mut self, app: AppId) -> Result<(), HostError> {
        let at = self.known(app)?;
        self.timed(|host| {
            if let Some(last) = host.foreground.filter(|&last| last != at) {
                host.send_to_background(last);
            }
            host.close_window(at, false);
            host.begin_session(at, monotonic_ns());
        });
        Ok(())
    }

    /// The program has answered: what it touched since the switch is learned. Does nothing if no launch window of it is open.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn launch_done(&mut self, app: AppId) -> Result<(), HostError> {
        let at = self.known(app)?;
        self.timed(|host| host.close_window(at, true));
        Ok(())
    }

    /// The program goes to the background.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    pub fn background(&mut self, app: AppId) -> Result<(), HostError> {
        let at = self.known(app)?;
        self.timed(|host| host.send_to_background(at));
        Ok(())
    }

    /// One step: takes in what the threads did, looks at what is free, and has pages come back when it is time. Costs about 200 µs,
    /// and now and then 20 µs for each process of the machine.
    pub fn tick(&mut self) -> Tick {
        self.timed(Self::step)
    }

    /// Runs an event, after which the threads know whether a program is waited for, and counts what it costs.
    fn timed<R>(&mut self, event: impl FnOnce(&mut Self) -> R) -> R {
        let begin = thread_cpu_ns();
        let result = event(self);
        self.expect_answer();
        self.counters.host_cpu_ns += thread_cpu_ns() - begin;
        result
    }
}

/// Why the kernel takes no request to read ahead for another program; none where it does.
fn read_ahead_refused() -> Option<String> {
    let error = probe::read_ahead().err()?;
    Some(match error.kind() {
        std::io::ErrorKind::InvalidInput => "Linux does that from 5.15 on".to_owned(),
        _ => error.to_string(),
    })
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Whether an interval is over that began at a time; what never began is due.
fn is_due(begin_ns: Option<u64>, interval: Duration, now_ns: u64) -> bool {
    begin_ns.is_none_or(|at| Duration::from_nanos(now_ns.saturating_sub(at)) >= interval)
}

/// The living processes of a program.
type Found = FxHashSet<ProcessId>;
