//! What Python sees: `warmswap._native`.

use std::os::fd::{AsRawFd as _, RawFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use warmswap_page::PAGE_BYTES;
use warmswap_protocol::Phase;
use warmswap_self_pager::own::{Counters, Own};
use warmswap_self_pager::{OutReport, OutRequest, PagerError, ReturnReport, Settings, Worker};

use crate::keep::{Keep, frames};

/// How long the interpreter waits for a page-out before it looks whether the user pressed Ctrl-C.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// A worker, while there is one, and how the next one works. Locked only while the GIL is held and never across a
/// wait, so that a fork, which needs the GIL, finds it free.
static PAGER: Mutex<Pager> = Mutex::new(Pager {
    worker: None,
    settings: None,
});

struct Pager {
    worker: Option<&'static Worker>,
    settings: Option<Settings>,
}

fn pager() -> MutexGuard<'static, Pager> {
    PAGER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: impl Into<PagerError>) -> PyErr {
    PyOSError::new_err(error.into().to_string())
}

impl Pager {
    /// The worker, started when there is none. A worker is never given back: its thread waits for requests, and a
    /// child of a fork has to forget it without touching it.
    fn worker(&mut self) -> PyResult<&'static Worker> {
        if let Some(worker) = self.worker {
            return Ok(worker);
        }
        let settings = self.settings.clone().unwrap_or_default();
        let worker: &'static Worker = Box::leak(Box::new(Worker::start(settings).map_err(failed)?));
        self.worker = Some(worker);
        Ok(worker)
    }
}

/// Sets how a worker that is started later works.
#[pyfunction]
fn configure(app: Option<String>, socket: Option<PathBuf>, launch_window_s: f64) -> PyResult<()> {
    let mut settings = Settings::default();
    if let Some(app) = app {
        settings.app = Some(app);
    }
    if let Some(socket) = socket {
        settings.socket = socket;
    }
    settings.launch_window = Duration::try_from_secs_f64(launch_window_s)
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    pager().settings = Some(settings);
    Ok(())
}

/// Pages out what `keep` does not hold. Waits for the end if `wait`, and gives the report then; Ctrl-C ends the
/// page-out early.
#[pyfunction]
fn page_out<'py>(
    py: Python<'py>,
    keep: &mut Keep,
    keep_share: f64,
    trim: bool,
    wait: bool,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let worker = pager().worker()?;
    let request = OutRequest {
        keep_share,
        trim,
        ..keep.take()
    };
    let ticket = worker.page_out(request).map_err(failed)?;
    if !wait {
        return Ok(None);
    }
    loop {
        let report = py
            .detach(|| worker.wait(ticket, SIGNAL_CHECK))
            .map_err(failed)?;
        match report {
            Some(Ok(report)) => return Ok(Some(out_report(py, &report)?)),
            Some(Err(why)) => return Err(PyOSError::new_err(why)),
            None => py.check_signals().inspect_err(|_| worker.stop())?,
        }
    }
}

/// The report of the last page-out; `None` while it is under way, or if there was none.
#[pyfunction]
fn last_out(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let Some(worker) = pager().worker else {
        return Ok(None);
    };
    match worker.last_out().map_err(failed)? {
        Some(Ok(report)) => out_report(py, &report).map(Some),
        Some(Err(why)) => Err(PyOSError::new_err(why)),
        None => Ok(None),
    }
}

/// Ends a page-out that is under way.
#[pyfunction]
fn stop() {
    if let Some(worker) = pager().worker {
        worker.stop();
    }
}

/// Whether a thread runs one of these code objects, or something that it called.
#[pyfunction]
fn is_running(py: Python<'_>, codes: &Bound<'_, PyList>) -> PyResult<bool> {
    for mut frame in frames(&py.import("sys")?)? {
        while !frame.is_none() {
            let code = frame.getattr("f_code")?;
            if codes.iter().any(|asked| asked.is(&code)) {
                return Ok(true);
            }
            frame = frame.getattr("f_back")?;
        }
    }
    Ok(false)
}

/// Hears from the daemon when this process's application comes and goes.
#[pyclass(module = "warmswap._native")]
struct Follower(warmswap_protocol::Follower);

#[pymethods]
impl Follower {
    /// Of the daemon with the configured socket, which hears no more of this process than that it pages itself.
    #[new]
    fn new() -> PyResult<Self> {
        let mut pager = pager();
        if pager.worker.is_some() {
            let why = "the daemon is to be followed before the first background()";
            return Err(pyo3::exceptions::PyRuntimeError::new_err(why));
        }
        let settings = pager.settings.get_or_insert_default();
        settings.app = None;
        let follower = warmswap_protocol::Follower::new(&settings.socket);
        let follower = follower.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self(follower))
    }

    /// "foreground" or "background", if that is not what this said last.
    fn look(&mut self) -> Option<&'static str> {
        Some(match self.0.look()? {
            Phase::Background => "background",
            _ => "foreground",
        })
    }

    /// What can be read when there may be something new; `None` while there is no daemon.
    fn fileno(&self) -> Option<RawFd> {
        self.0.watch().map(|watch| watch.as_raw_fd())
    }
}

/// Begins to bring back what earlier returns needed, on another thread.
#[pyfunction]
fn bring_back() -> PyResult<()> {
    let worker = pager().worker()?;
    worker.bring_back().map_err(failed)
}

/// The launch is complete: what it touched is learned, on another thread.
#[pyfunction]
fn launch_done() -> PyResult<()> {
    match pager().worker {
        Some(worker) => worker.launch_done().map_err(failed),
        None => Ok(()),
    }
}

/// Waits until all that was asked for is done, at most `seconds`; whether it is.
#[pyfunction]
fn settle(py: Python<'_>, seconds: f64) -> bool {
    let Some(worker) = pager().worker else {
        return true;
    };
    let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    py.detach(|| worker.settle(patience))
}

/// The last return, as far as it is known.
#[pyfunction]
fn last_return(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let report = pager().worker.and_then(Worker::last_return);
    report.map(|report| return_report(py, &report)).transpose()
}

/// What the kernel counts for this process, in bytes: resident anonymous memory, resident files, in swap.
#[pyfunction]
fn counters() -> PyResult<(u64, u64, u64)> {
    let Counters {
        anon_bytes,
        file_bytes,
        swapped_bytes,
    } = Own::open().map_err(failed)?.counters().map_err(failed)?;
    Ok((anon_bytes, file_bytes, swapped_bytes))
}

/// For the child of a fork: its worker's thread is the parent's, and is forgotten.
#[pyfunction]
fn after_fork() {
    let mut pager = pager();
    pager.worker = None;
    // The name holds the parent's number. A child that follows nothing is announced.
    if let Some(settings) = &mut pager.settings {
        settings.app = Settings::default().app;
    }
}

fn bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES as u64
}

fn out_report<'py>(py: Python<'py>, report: &OutReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("anon_before_bytes", report.before.anon_bytes)?;
    dict.set_item("swapped_before_bytes", report.before.swapped_bytes)?;
    dict.set_item("anon_after_bytes", report.after.anon_bytes)?;
    dict.set_item("file_bytes", report.after.file_bytes)?;
    dict.set_item("swapped_bytes", report.after.swapped_bytes)?;
    dict.set_item("asked_bytes", bytes(report.asked_pages))?;
    dict.set_item("paged_out_bytes", bytes(report.left_pages))?;
    dict.set_item("freed_bytes", report.freed_bytes)?;
    dict.set_item("kept_stacks_bytes", bytes(report.kept.stack_pages))?;
    dict.set_item("kept_learned_bytes", bytes(report.kept.learned_pages))?;
    dict.set_item("kept_young_bytes", bytes(report.kept.young_pages))?;
    dict.set_item("kept_near_bytes", bytes(report.kept.near_pages))?;
    dict.set_item("kept_data_bytes", bytes(report.kept.data_pages))?;
    dict.set_item("over_budget_bytes", bytes(report.kept.over_budget_pages))?;
    dict.set_item("refused_ranges", report.refused_ranges)?;
    dict.set_item("swap_total_bytes", report.swap.total_bytes)?;
    dict.set_item("swap_free_bytes", report.swap.free_bytes)?;
    dict.set_item("was_stopped", report.was_stopped)?;
    dict.set_item("page_out_s", report.took.as_secs_f64())?;
    dict.set_item("returns", report.returns)?;
    dict.set_item("fallback", &report.fallback)?;
    dict.set_item("problem", &report.problem)?;
    dict.set_item("daemon", report.told.to_string())?;
    Ok(dict)
}

fn return_report<'py>(py: Python<'py>, report: &ReturnReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("out_bytes", bytes(report.out_pages))?;
    dict.set_item("ahead_bytes", bytes(report.ahead_pages))?;
    dict.set_item("ahead_s", report.ahead_took.as_secs_f64())?;
    dict.set_item("touched_bytes", report.touched_pages.map(bytes))?;
    dict.set_item("daemon", report.told.to_string())?;
    Ok(dict)
}

/// The native half of `warmswap`. Use the package, which is documented.
#[pymodule(name = "_native")]
mod native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::{Follower, Keep};
    #[pymodule_export]
    use super::{
        after_fork, bring_back, configure, counters, is_running, last_out, last_return,
        launch_done, page_out, settle, stop,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::claim(module.py())
    }
}
