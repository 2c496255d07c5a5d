//! A line of the command, run without the GIL, until it ends or Ctrl-C ends it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use warmswap_commands::host::OnProgress;
use warmswap_commands::{Host, Line, host};
use warmswap_output::{BadInput, Output, Table, output};
use warmswap_replay::ReclaimFactory;
use warmswap_study::{Progress, StudyError, Subject};
use warmswap_trace::{Stop, TraceReader};

use crate::errors::{failed, misused};
use crate::policy::Policy;
use crate::trace::{Opened, Trace};

/// How long the interpreter waits for the engine before it looks whether the user pressed Ctrl-C.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// A result.
#[pyclass(module = "warmswap_lab._engine", frozen, get_all)]
pub struct Kept {
    /// The name of its schema.
    schema: &'static str,
    /// What `--json` writes.
    json: String,
    /// Its tables as JSON: title, columns, rows, footnotes.
    tables: Vec<String>,
    /// Its tables as the command prints them.
    text: Vec<String>,
}

impl From<output::Kept> for Kept {
    fn from(kept: output::Kept) -> Self {
        let style = warmswap_output::Style::default();
        Self {
            schema: kept.schema,
            json: kept.json,
            tables: kept
                .tables
                .iter()
                .map(|table| table.json().to_string())
                .collect(),
            text: kept
                .tables
                .iter()
                .map(|table: &Table| table.text(style))
                .collect(),
        }
    }
}

/// How far a call is.
#[derive(Default)]
struct Meter {
    done: AtomicU64,
    total: AtomicU64,
}

/// The host of one call.
struct Call {
    output: Output,
    traces: Vec<Arc<Opened>>,
    stop: Stop,
    meter: Arc<Meter>,
    policy: Option<Policy>,
}

impl Call {
    fn opened(&self, path: &Path) -> Option<&Arc<Opened>> {
        self.traces.iter().find(|trace| trace.reader.path() == path)
    }
}

impl Host for Call {
    fn output(&self) -> &Output {
        &self.output
    }

    fn progress(&self, _: &'static str) -> OnProgress {
        let meter = self.meter.clone();
        Box::new(move |Progress { done, total }| {
            meter.total.store(total, Ordering::Relaxed);
            meter.done.fetch_max(done, Ordering::Relaxed);
        })
    }

    fn reader(&self, path: &Path) -> warmswap_trace::Result<TraceReader> {
        let reader = match self.opened(path) {
            Some(opened) => opened.reader.clone(),
            None => TraceReader::open(path)?,
        };
        Ok(reader.with_stop(self.stop.clone()))
    }

    fn reclaim(&self) -> Option<(String, ReclaimFactory)> {
        self.policy.as_ref().map(Policy::factory)
    }

    fn subject(&self, path: &Path, contents: bool) -> Result<Subject, StudyError> {
        match self.opened(path) {
            Some(opened) => opened.subject(contents, &self.stop),
            None => host::subject(self.reader(path)?, contents),
        }
    }
}

/// Runs a line, whose words are `words`, program first. A path that it names is looked for among `traces` first. `progress`
/// is called with steps done and steps in all, now and then; an exception of it ends the work, as Ctrl-C does. `reclaim` is a
/// policy for `replay`, whose first exception is raised.
///
/// The work has threads of its own, which end with it: a child of a fork finds none missing.
#[pyfunction]
#[pyo3(signature = (words, traces, progress=None, threads=None, reclaim=None))]
pub fn run(
    py: Python<'_>,
    words: Vec<OsString>,
    traces: Vec<PyRef<'_, Trace>>,
    progress: Option<Py<PyAny>>,
    threads: Option<usize>,
    reclaim: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<Kept>> {
    let line = Line::try_parse_from(&words).map_err(|error| misused(&error))?;
    let opened = line.output.open().map_err(|error| failed(&error.into()))?;
    if opened.saves() {
        let why = "json and csv are no options here: a result has save(), to_pandas() and more";
        return Err(failed(&BadInput(why.to_owned()).into()));
    }
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    let stop = Stop::default();
    let policy = reclaim.map(|object| Policy::new(&object, &stop));
    let call = Call {
        output: Output::kept(words.collect()),
        traces: traces.iter().map(|trace| trace.0.clone()).collect(),
        stop,
        meter: Arc::default(),
        policy: policy.transpose()?,
    };
    let policy = call.policy.clone();
    let (stop, meter) = (call.stop.clone(), call.meter.clone());
    let work = move || -> anyhow::Result<Vec<output::Kept>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0));
        pool.build()?
            .install(|| warmswap_commands::run(line.command, &call))?;
        Ok(call.output.into_kept())
    };
    let kept = interruptible(py, &stop, work, || match &progress {
        Some(progress) => {
            let [done, total] = [&meter.done, &meter.total].map(|n| n.load(Ordering::Relaxed));
            progress.call1(py, (done, total)).map(drop)
        }
        None => Ok(()),
    })?;
    if let Some(error) = policy.and_then(|policy| policy.take_error()) {
        return Err(error);
    }
    let kept = kept.map_err(|error| failed(&error))?;
    Ok(kept.into_iter().map(Kept::from).collect())
}

/// Whether work has ended.
#[derive(Default)]
struct Ended {
    is_so: Mutex<bool>,
    changed: Condvar,
}

/// Says so when it is dropped, after a panic, too.
struct SaysEnd<'a>(&'a Ended);

impl Drop for SaysEnd<'_> {
    fn drop(&mut self) {
        *self.0.is_so.lock() = true;
        self.0.changed.notify_all();
    }
}

/// Does `work` on another thread while this one waits without the GIL, and looks at signals and calls `tick` now and then. An
/// exception of these ends the work by `stop`; it is given once the work has ended.
fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce() -> T + Send,
    tick: impl Fn() -> PyResult<()>,
) -> PyResult<T> {
    let ended = Ended::default();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _end = SaysEnd(&ended);
            work()
        });
        let wait = || {
            let mut is_so = ended.is_so.lock();
            ended
                .changed
                .wait_while_for(&mut is_so, |is_so| !*is_so, SIGNAL_CHECK);
            *is_so
        };
        let mut interrupted = Ok(());
        while !py.detach(wait) {
            if interrupted.is_ok() {
                interrupted = py.check_signals().and_then(|()| tick());
                if interrupted.is_err() {
                    stop.set();
                }
            }
        }
        let done = worker.join();
        interrupted?;
        match done {
            Ok(done) => Ok(done),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The names of the commands below a command: `["study"]` has those of all studies.
#[pyfunction]
pub fn names(words: Vec<String>) -> PyResult<Vec<String>> {
    let command = command(&words)?;
    let names = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned());
    Ok(names.filter(|name| name != "help").collect())
}

/// What the command says of a command: its options, and examples.
#[pyfunction]
pub fn help(words: Vec<String>) -> PyResult<String> {
    let mut command = command(&words)?;
    Ok(command.render_long_help().to_string())
}

fn command(words: &[String]) -> PyResult<clap::Command> {
    let mut command = Line::command();
    command.build();
    for word in words {
        let Some(below) = command.find_subcommand(word) else {
            let known: Vec<_> = command
                .get_subcommands()
                .map(clap::Command::get_name)
                .collect();
            let known = known.join(", ");
            let why = format!("there is no command '{word}': it is one of {known}");
            return Err(failed(&BadInput(why).into()));
        };
        command = below.clone();
    }
    Ok(command)
}
