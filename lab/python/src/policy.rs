//! A reclaim policy that is written in Python.
//!
//! Each call takes the GIL, and what it answers is checked: a policy that raises, or gives a page that is not in memory, ends the
//! replay. Until it has ended, exact LRU takes the policy's place.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use warmswap_page::{AppId, LaunchKind};
use warmswap_policy::reclaim::{Arrival, Lru, Reclaim, Urgency, take_all_of};
use warmswap_policy::{Hotness, PageId, PageTable};
use warmswap_replay::ReclaimFactory;
use warmswap_trace::Stop;

/// What a policy must have.
const NEEDED: [&str; 4] = ["insert", "touch", "remove", "victims"];

/// A policy, and the first error of it.
#[derive(Clone, Debug)]
pub struct Policy {
    object: Arc<Py<PyAny>>,
    name: String,
    has_hotness: bool,
    hears_of_launches: bool,
    error: Arc<Mutex<Option<PyErr>>>,
    stop: Stop,
}

impl Policy {
    /// Of an object with the methods of `warmswap_lab.Reclaim`. An error of it ends by `stop` what reads the trace.
    pub fn new(object: &Bound<'_, PyAny>, stop: &Stop) -> PyResult<Self> {
        let name = object.get_type().name()?.to_string();
        let has = |method: &str| -> PyResult<bool> {
            let method = object.getattr_opt(method)?;
            Ok(method.is_some_and(|method| method.is_callable()))
        };
        for method in NEEDED {
            if !has(method)? {
                let why = format!("{name} is no reclaim policy: it has no method {method}()");
                return Err(PyTypeError::new_err(why));
            }
        }
        Ok(Self {
            has_hotness: has("hotness")?,
            hears_of_launches: has("launch_begin")?,
            object: Arc::new(object.clone().unbind()),
            name,
            error: Arc::default(),
            stop: stop.clone(),
        })
    }

    /// Its name, and what makes the engine's side of it.
    pub fn factory(&self) -> (String, ReclaimFactory) {
        let policy = self.clone();
        let make = move || Box::new(PythonReclaim::new(policy.clone())) as Box<dyn Reclaim>;
        (self.name.clone(), ReclaimFactory::new(make))
    }

    /// The first error, if there was one.
    pub fn take_error(&self) -> Option<PyErr> {
        self.error.lock().take()
    }

    /// Calls the policy; nothing once it has failed.
    fn ask<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        if self.stop.is_set() {
            return None;
        }
        Python::attach(|py| match call(self.object.bind(py)) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.error.lock().get_or_insert(error);
                self.stop.set();
                None
            }
        })
    }
}

/// The engine's side of a policy.
#[derive(Debug)]
struct PythonReclaim {
    policy: Policy,
    /// The same pages in the order of their last touch.
    lru: Lru,
    /// By page, whether the policy has it.
    held: Vec<bool>,
}

impl PythonReclaim {
    fn new(policy: Policy) -> Self {
        Self {
            policy,
            lru: Lru::default(),
            held: Vec::new(),
        }
    }

    fn hold(&mut self, page: PageId, is_held: bool) {
        let index = page.index();
        if self.held.len() <= index {
            self.held.resize(index + 1, false);
        }
        self.held[index] = is_held;
    }

    /// Asks for victims, and takes them off the lists. False where the policy failed.
    fn ask_for_victims(
        &mut self,
        table: &mut PageTable,
        (want, urgency): (usize, Urgency),
        out: &mut Vec<PageId>,
    ) -> bool {
        let (policy, held) = (&self.policy, &mut self.held);
        let name = &policy.name;
        let mut given = Vec::new();
        let is_urgent = urgency == Urgency::Direct;
        let asked = policy.ask(|object| {
            let answer = object.call_method1("victims", (want, is_urgent))?;
            for page in answer.try_iter()? {
                let page: u32 = page?.extract()?;
                if given.len() == want {
                    let why =
                        format!("{name}.victims({want}, ...) gave more than {want} pages");
                    return Err(PyValueError::new_err(why));
                }
                let is_held = held.get_mut(page as usize).map(std::mem::take);
                if is_held != Some(true) {
                    let why = format!(
                        "{name}.victims() gave page {page}, which is not in memory, or gave it before"
                    );
                    return Err(PyValueError::new_err(why));
                }
                given.push(PageId(page));
            }
            Ok(())
        });
        for &page in &given {
            self.lru.remove(table, page);
        }
        out.extend(given);
        asked.is_some()
    }
}

impl Reclaim for PythonReclaim {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        self.lru.insert(table, page, arrival);
        self.hold(page, true);
        let (app, is_touched) = (table.owner(page).0, arrival == Arrival::Touched);
        let call = |object: &Bound<'_, PyAny>| {
            object
                .call_method1("insert", (page.0, app, is_touched))
                .map(drop)
        };
        self.policy.ask(call);
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        self.lru.touch(table, page);
        self.policy
            .ask(|object| object.call_method1("touch", (page.0,)).map(drop));
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.lru.remove(table, page);
        self.hold(page, false);
        self.policy
            .ask(|object| object.call_method1("remove", (page.0,)).map(drop));
    }

    fn victims(
        &mut self,
        table: &mut PageTable,
        want: usize,
        urgency: Urgency,
        out: &mut Vec<PageId>,
    ) {
        let first = out.len();
        if !self.ask_for_victims(table, (want, urgency), out) {
            let left = want.saturating_sub(out.len() - first);
            self.lru.victims(table, left, urgency, out);
        }
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        take_all_of(self, table, app, out);
    }

    fn hotness(&self, _: &PageTable, page: PageId) -> Hotness {
        if !self.policy.has_hotness {
            return Hotness::Cold;
        }
        let found = self.policy.ask(|object| {
            let answer = object.call_method1("hotness", (page.0,))?;
            match answer.extract::<String>()?.as_str() {
                "hot" => Ok(Hotness::Hot),
                "warm" => Ok(Hotness::Warm),
                "cold" => Ok(Hotness::Cold),
                other => {
                    let name = &self.policy.name;
                    let why =
                        format!("{name}.hotness() gave '{other}': it is one of hot, warm, cold");
                    Err(PyValueError::new_err(why))
                }
            }
        });
        found.unwrap_or(Hotness::Cold)
    }

    fn launch_begin(&mut self, _: &mut PageTable, app: AppId, kind: LaunchKind) {
        if self.policy.hears_of_launches {
            let is_relaunch = kind == LaunchKind::Relaunch;
            self.policy.ask(|object| {
                object
                    .call_method1("launch_begin", (app.0, is_relaunch))
                    .map(drop)
            });
        }
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        self.lru.dump(table)
    }
}
