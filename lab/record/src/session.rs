//! A recording from its beginning to its end.

mod emit;

use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use warmswap_apps::{Request, RunningApp};
use warmswap_page::{AppId, LaunchKind, PageAddr};
use warmswap_sys::perf::Fault;
use warmswap_sys::process::Stat;
use warmswap_sys::tree::Stopped;
use warmswap_sys::undo::{Action, Undo};
use warmswap_sys::{FileError, Root, monotonic_ns};
use warmswap_trace::EventKind;

use crate::cold::Dropper;
use crate::config::RecordConfig;
use crate::error::RecordError;
use crate::faults::FaultLog;
use crate::machine::{Machine, describe};
use crate::progress::Step;
use crate::schedule;
use crate::subject::{MAX_SLICES, Scan, Subject};
use crate::summary::{AppSummary, Summary};
use crate::tape::Tape;

/// Longest wait for the threads of a process to stand still.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// Records the applications of `config` into its output file.
///
/// `undo` keeps track of what is changed on the machine; have it listen to signals
/// ([`Undo::on_signals`]) where an interruption must leave nothing behind. `progress` hears of each step, between
/// measurements.
///
/// # Errors
/// [`RecordError`]; without root, zram or page-fault events it says what is missing. No trace is written
/// then, and the machine is as before.
pub fn record(
    config: &RecordConfig,
    undo: &Undo,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Summary, RecordError> {
    if config.apps.is_empty() {
        return Err(RecordError::NoApps);
    }
    let bad_output = || RecordError::Output {
        path: config.output.clone(),
    };
    let output = warmswap_trace::destination(&config.output).map_err(|_| bad_output())?;
    let name = output.file_name().ok_or_else(bad_output)?;
    let folder = std::path::absolute(&output)
        .ok()
        .and_then(|p| Some(p.parent()?.to_owned()));
    let folder = folder.filter(|f| f.is_dir()).ok_or_else(bad_output)?;

    let (machine, faults) = Machine::set_up(undo)?;
    // The trace grows in a folder that goes with an interruption.
    let work = folder.join(format!(
        "{}recording-{}",
        Action::FOLDER_PREFIX,
        std::process::id()
    ));
    let pending = undo.register(Action::RemoveFolder { path: work.clone() })?;
    std::fs::create_dir(&work).map_err(|e| FileError::new("make", &work, e))?;

    let exact_file_faults = machine.exact_file_faults();
    let description = describe(undo.root(), config, exact_file_faults);
    let tape = Tape::create(&work.join(name), description, monotonic_ns())?;
    let mut dropper = None;
    if config.cold_files {
        dropper
            .insert(Dropper::set_up(undo)?)
            .rehearse(config, undo)?;
    }
    let mut session = Session {
        config,
        root: undo.root().clone(),
        tape,
        faults,
        apps: Vec::new(),
        dropper,
        queue: Vec::new(),
    };
    session.run(undo, progress)?;
    let mut summary = session.finish()?;
    summary.exact_file_faults = exact_file_faults;
    std::fs::rename(work.join(name), &output)
        .map_err(|e| FileError::new("write", &config.output, e))?;
    pending.finish()?;
    machine.tear_down()?;
    progress(Step::Written);
    Ok(summary)
}

struct Session<'a> {
    config: &'a RecordConfig,
    root: Root,
    tape: Tape,
    faults: FaultLog,
    apps: Vec<RecordedApp>,
    /// Dropped after the applications, which are in its group.
    dropper: Option<Dropper>,
    /// What happened since the last sample, in the order in which it became known.
    queue: Vec<TimedEvent>,
}

/// An application under recording.
struct RecordedApp {
    id: AppId,
    running: RunningApp,
    subjects: Vec<Subject>,
    /// Requests made so far; they choose the seed of the next.
    requests: u64,
    /// The open launch window.
    window: Option<Window>,
    /// The pages of the relaunch before.
    last_window: Option<FxHashSet<PageAddr>>,
    summary: AppSummary,
}

/// A launch window whose events are being written.
#[derive(Default)]
struct Window {
    relaunch: bool,
    pages: FxHashSet<PageAddr>,
}

/// Something that happened at a time.
struct TimedEvent {
    time_ns: u64,
    /// Its number in [`Session::apps`].
    app: usize,
    what: What,
}

enum What {
    Mark(EventKind),
    Touch { pid: u32, address: u64 },
}

/// The scans of one sample, by process number.
type Scans = FxHashMap<u32, Scan>;

impl Session<'_> {
    fn run(&mut self, undo: &Undo, progress: &mut dyn FnMut(Step<'_>)) -> Result<(), RecordError> {
        for place in 0..self.config.apps.len() {
            self.cold_launch(place, undo)?;
            let app = &self.apps[place];
            let pages = app.subjects.iter().map(Subject::anonymous_pages).sum();
            progress(Step::Started {
                app: &app.summary.name,
                pages,
            });
            self.foreground_use(place)?;
            self.background(place)?;
        }
        for round in 0..self.config.relaunches {
            let apps = self.apps.len();
            for place in schedule::round(apps, self.config.seed, round) {
                self.relaunch(place)?;
                let app = &self.apps[place];
                let (name, of) = (&app.summary.name, self.config.relaunches);
                if let Some(last) = app.summary.relaunches.last() {
                    let (latency_ns, pages) = (last.latency_ns, last.pages);
                    progress(Step::Relaunched {
                        app: name,
                        relaunch: round + 1,
                        of,
                        latency_ns,
                        pages,
                    });
                }
                self.foreground_use(place)?;
                self.background(place)?;
            }
        }
        for place in 0..self.apps.len() {
            self.sample(place)?;
            self.mark(place, EventKind::Exit);
        }
        self.write_queue(usize::MAX, &mut Scans::default())
    }

    /// Ends the applications and completes the trace.
    fn finish(self) -> Result<Summary, RecordError> {
        let mut summary = Summary {
            losses: self.faults.losses(),
            cold_files: self.dropper.as_ref().map(|dropper| dropper.summary),
            ..Summary::default()
        };
        for mut app in self.apps {
            app.summary.anonymous_pages = app.subjects.iter().map(Subject::anonymous_pages).sum();
            app.summary.pages_not_paged_out =
                app.subjects.iter().map(Subject::resident_pages).sum();
            app.running.stop()?;
            summary.apps.push(app.summary);
        }
        summary.trace = self.tape.finish()?;
        Ok(summary)
    }

    fn cold_launch(&mut self, place: usize, undo: &Undo) -> Result<(), RecordError> {
        let config = self.config;
        let spec = &config.apps[place];
        let begin = monotonic_ns();
        let running = match &self.dropper {
            Some(dropper) => dropper.start(spec, config, undo)?,
            None => RunningApp::start(spec, config.size, &config.directories, undo)?,
        };
        let end = monotonic_ns();
        let summary = AppSummary {
            name: spec.name.clone(),
            ..AppSummary::default()
        };
        let id = self.tape.add_app(&spec.name, &spec.summary)?;
        self.apps.push(RecordedApp {
            id,
            running,
            subjects: Vec::new(),
            requests: 0,
            window: None,
            last_window: None,
            summary,
        });
        self.queue.push(TimedEvent {
            time_ns: begin,
            app: place,
            what: What::Mark(EventKind::LaunchBegin(LaunchKind::Cold)),
        });
        self.queue.push(TimedEvent {
            time_ns: end,
            app: place,
            what: What::Mark(EventKind::LaunchEnd),
        });
        self.sample(place)
    }

    fn relaunch(&mut self, place: usize) -> Result<(), RecordError> {
        // What the application touched in the background goes out again, so that the window sees all.
        self.end_period(place, true)?;
        self.mark(place, EventKind::LaunchBegin(LaunchKind::Relaunch));
        let latency_ns = self.request(place, Request::Relaunch)?;
        self.mark(place, EventKind::LaunchEnd);
        self.sample(place)?;
        if let Some(last) = self.apps[place].summary.relaunches.last_mut() {
            last.latency_ns = latency_ns;
        }
        Ok(())
    }

    /// One request in each period, as long as the configuration says.
    fn foreground_use(&mut self, place: usize) -> Result<(), RecordError> {
        let end = monotonic_ns() + self.config.foreground_ms * 1_000_000;
        loop {
            let begin = monotonic_ns();
            if begin >= end {
                return Ok(());
            }
            self.request(place, Request::Use)?;
            let period_end = end.min(begin + self.config.repage_interval_ms * 1_000_000);
            let pause = Duration::from_nanos(period_end.saturating_sub(monotonic_ns()));
            std::thread::sleep(pause);
            self.sample(place)?;
        }
    }

    fn background(&mut self, place: usize) -> Result<(), RecordError> {
        self.mark(place, EventKind::Background);
        self.sample(place)
    }

    fn request(&mut self, place: usize, request: Request) -> Result<u64, RecordError> {
        let app = &mut self.apps[place];
        let seed = schedule::request_seed(self.config.seed, place, app.requests);
        app.requests += 1;
        Ok(app.running.request(request, seed)?.latency_ns)
    }

    fn mark(&mut self, app: usize, kind: EventKind) {
        self.queue.push(TimedEvent {
            time_ns: monotonic_ns(),
            app,
            what: What::Mark(kind),
        });
    }

    /// Ends a period of the application: writes down what happened, reads what changed, and pages
    /// everything out again.
    fn sample(&mut self, place: usize) -> Result<(), RecordError> {
        self.end_period(place, false)
    }

    /// The same. Where pages of files are to be dropped at all, `drops_files` has it done while the application stands
    /// still.
    fn end_period(&mut self, place: usize, drops_files: bool) -> Result<(), RecordError> {
        self.refresh(place)?;
        let app = &self.apps[place];
        let processes: Vec<_> = app.subjects.iter().map(|s| s.process.clone()).collect();
        let stopped = Stopped::stop(&self.root, &processes, STOP_LIMIT)?;
        self.collect_faults();
        let mut scans = Scans::default();
        let app = &mut self.apps[place];
        for subject in &mut app.subjects {
            let scan = subject.scan(&self.root, app.id, self.config.files, &mut self.tape)?;
            scans.insert(subject.process.pid(), scan);
        }
        self.write_queue(place, &mut scans)?;
        // Advice drops the pages that one process alone has mapped.
        if let Some(dropper) = self.dropper.as_mut().filter(|_| drops_files) {
            dropper.take_stock(self.tape.files());
        }
        for subject in &mut self.apps[place].subjects {
            if let Some(scan) = scans.get(&subject.process.pid()) {
                subject.page_out(scan)?;
            }
        }
        if let Some(dropper) = self.dropper.as_mut().filter(|_| drops_files) {
            dropper.drop_pages(self.tape.files())?;
        }
        drop(stopped);
        Ok(())
    }

    /// Finds the application's new processes, and frees the pages of those that ended.
    fn refresh(&mut self, place: usize) -> Result<(), RecordError> {
        let app = &mut self.apps[place];
        let now = app.running.pids()?;
        let (alive, ended) = app
            .subjects
            .drain(..)
            .partition(|s: &Subject| now.contains(&s.process.pid()));
        app.subjects = alive;
        for pid in now {
            let known = app.subjects.iter().any(|s| s.process.pid() == pid);
            let slice = u64::from(app.summary.processes);
            if known || slice >= MAX_SLICES {
                continue;
            }
            // One that ends just now is passed over.
            match Subject::open(&self.root, pid, slice) {
                Ok(subject) => app.subjects.push(subject),
                Err(_) if Stat::read(&self.root, pid).map_or(true, |s| s.state == 'Z') => continue,
                Err(e) => return Err(e),
            }
            app.summary.processes += 1;
        }
        for subject in ended {
            for range in subject.all_anonymous() {
                self.write_free(place, monotonic_ns(), range)?;
            }
        }
        Ok(())
    }

    fn collect_faults(&mut self) {
        let mut owner = FxHashMap::default();
        for (place, app) in self.apps.iter().enumerate() {
            owner.extend(app.subjects.iter().map(|s| (s.process.pid(), place)));
        }
        if let Some(dropper) = &mut self.dropper {
            let major = dropper.major_faults.take(|pid| owner.contains_key(&pid));
            let is_of_file = |fault: &&Fault| {
                let subjects = &self.apps[owner[&fault.pid]].subjects;
                let subject = subjects.iter().find(|s| s.process.pid() == fault.pid);
                subject.is_some_and(|s| s.is_of_file(fault.address))
            };
            dropper.summary.major_faults += major.iter().filter(is_of_file).count() as u64;
        }
        let faults = self.faults.take(|pid| owner.contains_key(&pid));
        self.queue.extend(faults.into_iter().map(|f| TimedEvent {
            time_ns: f.time_ns,
            app: owner[&f.pid],
            what: What::Touch {
                pid: f.pid,
                address: f.address,
            },
        }));
    }
}
