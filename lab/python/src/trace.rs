//! A trace that is open, and what replays of it share.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use warmswap_commands::host;
use warmswap_study::{StudyError, Subject};
use warmswap_trace::{Stop, TraceReader};

use crate::batches::{Contents, Edge, Events};
use crate::errors::{bad_trace, failed};

/// An open trace. Its footprint is counted, and its contents are loaded, once.
#[derive(Debug)]
pub struct Opened {
    pub reader: TraceReader,
    /// Without contents, and with them. Locked while that is loaded, so that other threads wait for it.
    subjects: [Mutex<Option<Subject>>; 2],
}

impl Opened {
    /// What is studied of the trace; `stop` ends the loading and all reading of the answer.
    pub fn subject(&self, contents: bool, stop: &Stop) -> Result<Subject, StudyError> {
        let mut kept = self.subjects[usize::from(contents)].lock();
        let subject = match kept.take() {
            Some(subject) => subject,
            None => host::subject(self.reader.with_stop(stop.clone()), contents)?,
        };
        *kept = Some(Subject {
            reader: self.reader.clone(),
            ..subject.clone()
        });
        Ok(Subject {
            reader: self.reader.with_stop(stop.clone()),
            ..subject
        })
    }
}

/// A trace, opened for reading.
#[pyclass(module = "warmswap_lab._engine", frozen)]
pub struct Trace(pub Arc<Opened>);

#[pymethods]
impl Trace {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let reader = py.detach(|| TraceReader::open(path)).map_err(bad_trace)?;
        Ok(Self(Arc::new(Opened {
            reader,
            subjects: Default::default(),
        })))
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.0.reader.path().to_owned()
    }

    /// Description, applications, files and size, as JSON.
    fn about(&self) -> PyResult<String> {
        let reader = &self.0.reader;
        let about = serde_json::json!({
            "description": reader.description(),
            "apps": reader.apps(),
            "files": reader.files(),
            "summary": reader.summary(),
        });
        serde_json::to_string(&about).map_err(|error| failed(&error.into()))
    }

    /// The events `first..end`, by number.
    fn events(&self, first: u64, end: u64) -> Events {
        Events::new(
            self.0.reader.clone(),
            Edge::Number(first),
            Edge::Number(end),
        )
    }

    /// The events from `first_ns` until before `end_ns`.
    fn events_between(&self, first_ns: u64, end_ns: u64) -> Events {
        Events::new(
            self.0.reader.clone(),
            Edge::TimeNs(first_ns),
            Edge::TimeNs(end_ns),
        )
    }

    /// The page contents `first..end`.
    fn contents(&self, first: u32, end: u64) -> Contents {
        Contents::new(self.0.reader.clone(), first, end)
    }
}
