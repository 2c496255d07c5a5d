//! Which pages hold young objects and objects near roots.
//!
//! Objects of the program are asked for and let go of within one call, in which no code of Python runs and no other thread
//! does: a tuple that another thread builds may have one reference, an array that it resizes too. No list that Python sees
//! ever holds a frame, which would keep all that its function names.
//!
//! An object's address is its identity in CPython, and its type says how long its fixed part is. Buffers that
//! containers hold elsewhere (a list's items, a dictionary's table, an array's data) are out of sight; what of them
//! a return needs is learned.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBytes, PyDict, PyFrozenSet, PyList, PyModule, PySet, PyString, PyTuple, PyType,
};
use rustc_hash::{FxHashMap, FxHashSet};
use warmswap_page::PAGE_BYTES;
use warmswap_self_pager::OutRequest;
use warmswap_self_pager::pages::PageSet;

/// What the garbage collector holds before an object's address, at most.
const HEADER_BYTES: u64 = 32;

/// Of a longer object only so much is noted. What lies behind is learned if it is needed.
const MAX_OBJECT_BYTES: u64 = 16 << 10;

/// Containers with more items are not looked into: each of their items would be touched.
const MAX_ITEMS: usize = 10_000;

/// Objects whose referents are asked for by one call.
const BATCH: usize = 64;

/// Pages to keep, as noted so far.
#[pyclass(module = "warmswap._native")]
#[derive(Default)]
pub struct Keep {
    young: Vec<u64>,
    near: Vec<u64>,
    data: PageSet,
    objects: FxHashSet<usize>,
    sizes: FxHashMap<usize, u64>,
    skipped: u64,
}

/// Which of the two kinds.
#[derive(Clone, Copy)]
enum Kind {
    Young,
    Near,
}

#[pymethods]
impl Keep {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Notes the objects of these generations of the collector, and what they refer to. Returns how many were noted.
    fn add_young(
        &mut self,
        py: Python<'_>,
        generations: Vec<usize>,
        max_objects: usize,
    ) -> PyResult<usize> {
        let asking = Asking::new(py)?;
        let mut noted = 0;
        for generation in generations {
            let objects = asking.objects(generation)?;
            noted += self.walk(&asking, objects, 1, max_objects, Kind::Young)?;
        }
        Ok(noted)
    }

    /// Notes what lies within `depth` references of modules and of the frames of all threads. Returns how many objects were
    /// noted.
    fn add_near_roots(
        &mut self,
        py: Python<'_>,
        depth: usize,
        max_objects: usize,
    ) -> PyResult<usize> {
        let asking = Asking::new(py)?;
        let roots = asking.roots()?;
        self.walk(&asking, roots, depth, max_objects, Kind::Near)
    }

    /// Notes what lies within `depth` references of `roots`. Returns how many objects were noted.
    fn add_near(
        &mut self,
        roots: &Bound<'_, PyList>,
        depth: usize,
        max_objects: usize,
    ) -> PyResult<usize> {
        let asking = Asking::new(roots.py())?;
        self.walk(
            &asking,
            roots.iter().collect(),
            depth,
            max_objects,
            Kind::Near,
        )
    }

    /// Notes data that was used shortly before, by address and length in bytes.
    fn add_data(&mut self, ranges: Vec<(u64, u64)>) {
        let page_bytes = PAGE_BYTES as u64;
        let filled = ranges.into_iter().filter(|(_, bytes)| *bytes > 0);
        let mut runs: Vec<_> = filled
            .map(|(address, bytes)| {
                let end = address.saturating_add(bytes).div_ceil(page_bytes);
                address / page_bytes..end
            })
            .collect();
        runs.sort_unstable_by_key(|run| run.start);
        let mut data = PageSet::default();
        runs.into_iter().for_each(|run| data.push(run));
        self.data = self.data.or(&data);
    }

    /// Containers that were too long to be looked into.
    #[getter]
    fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// Asks the interpreter for objects. Its collector is off meanwhile: finalizers are code of the program.
struct Asking<'py> {
    gc: Bound<'py, PyModule>,
    sys: Bound<'py, PyModule>,
    referents: Bound<'py, PyAny>,
    /// `type.__basicsize__` itself.
    base_size: Bound<'py, PyAny>,
    was_enabled: bool,
}

impl<'py> Asking<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        let gc = py.import("gc")?;
        let asking = Self {
            sys: py.import("sys")?,
            referents: gc.getattr("get_referents")?,
            base_size: py
                .get_type::<PyType>()
                .getattr("__dict__")?
                .get_item("__basicsize__")?
                .getattr("__get__")?,
            was_enabled: gc.call_method0("isenabled")?.is_truthy()?,
            gc,
        };
        asking.gc.call_method0("disable")?;
        Ok(asking)
    }

    /// The objects of a generation.
    fn objects(&self, generation: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let all = self.gc.call_method1("get_objects", (generation,))?;
        Ok(all.cast::<PyList>()?.iter().collect())
    }

    /// Modules, and the frames of all threads.
    fn roots(&self) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let modules = self.sys.getattr("modules")?;
        let mut roots: Vec<_> = modules.cast::<PyDict>()?.values().iter().collect();
        for mut frame in frames(&self.sys)? {
            while !frame.is_none() {
                let back = frame.getattr("f_back")?;
                roots.push(frame);
                frame = back;
            }
        }
        Ok(roots)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.was_enabled {
            // It fails for no collector that could be switched off.
            let _ = self.gc.call_method0("enable");
        }
    }
}

/// The frames in which threads are, innermost ones.
pub fn frames<'py>(sys: &Bound<'py, PyModule>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let frames = sys.call_method0("_current_frames")?;
    Ok(frames.cast::<PyDict>()?.values().iter().collect())
}

impl Keep {
    /// The pages, as a request without a budget.
    pub fn take(&mut self) -> OutRequest {
        OutRequest {
            young: PageSet::of_numbers(std::mem::take(&mut self.young)),
            near: PageSet::of_numbers(std::mem::take(&mut self.near)),
            data: std::mem::take(&mut self.data),
            ..OutRequest::default()
        }
    }

    /// Notes objects by distance from `roots`, nearest first, until `max_objects` are noted.
    fn walk<'py>(
        &mut self,
        asking: &Asking<'py>,
        roots: Vec<Bound<'py, PyAny>>,
        depth: usize,
        max_objects: usize,
        kind: Kind,
    ) -> PyResult<usize> {
        let py = asking.gc.py();
        let Asking {
            referents,
            base_size,
            ..
        } = asking;
        let mut noted = 0;
        // Objects noted are held until the walk ends, so that no address is another object's meanwhile.
        let mut levels: Vec<Vec<Bound<'_, PyAny>>> = vec![Vec::new()];
        for object in roots {
            if noted == max_objects {
                return Ok(noted);
            }
            noted += usize::from(self.note(&object, kind, base_size)?);
            levels[0].push(object);
        }
        for _ in 0..depth {
            let mut next = Vec::new();
            let frontier = &levels[levels.len() - 1];
            for batch in frontier.chunks(BATCH) {
                let mut asked = Vec::new();
                let mut found = Vec::new();
                for object in batch.iter().filter(|o| self.is_walkable(o)) {
                    // A module of C may show the collector objects of its free lists, which must not be referred to
                    // (`_asyncio` of Python 3.12.1 loops for ever afterwards). Its names are what counts.
                    match object.cast::<PyModule>() {
                        Ok(module) => found.push(module.dict().into_any()),
                        Err(_) => asked.push(object),
                    }
                }
                let referents = referents.call1(PyTuple::new(py, asked)?)?;
                let referents = referents
                    .cast::<PyList>()
                    .map_err(|_| PyValueError::new_err("gc.get_referents gives no list"))?;
                found.extend(referents.iter());
                for object in found {
                    if !self.note(&object, kind, base_size)? {
                        continue;
                    }
                    noted += 1;
                    next.push(object);
                    if noted == max_objects {
                        return Ok(noted);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            levels.push(next);
        }
        Ok(noted)
    }

    /// Notes one object; false if it was noted before.
    fn note(
        &mut self,
        object: &Bound<'_, PyAny>,
        kind: Kind,
        base_size: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let address = object.as_ptr() as usize;
        if !self.objects.insert(address) {
            return Ok(false);
        }
        let bytes = (self.size_of_type(&object.get_type(), base_size)? + variable_bytes(object))
            .min(MAX_OBJECT_BYTES);
        let page = |address: u64| address / PAGE_BYTES as u64;
        let address = address as u64;
        let pages = page(address.saturating_sub(HEADER_BYTES))..=page(address + bytes.max(1) - 1);
        match kind {
            Kind::Young => self.young.extend(pages),
            Kind::Near => self.near.extend(pages),
        }
        Ok(true)
    }

    /// The size of the fixed part of a type's objects, asked once of `type.__basicsize__` itself, so that no code
    /// of a metaclass runs.
    fn size_of_type(
        &mut self,
        kind: &Bound<'_, PyType>,
        base_size: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let key = kind.as_ptr() as usize;
        if let Some(size) = self.sizes.get(&key) {
            return Ok(*size);
        }
        let size: u64 = base_size.call1((kind,))?.extract()?;
        self.sizes.insert(key, size);
        Ok(size)
    }

    /// Whether the object may be looked into. No length is asked of code of the program.
    fn is_walkable(&mut self, object: &Bound<'_, PyAny>) -> bool {
        let items = if let Ok(list) = object.cast::<PyList>() {
            list.len()
        } else if let Ok(dict) = object.cast::<PyDict>() {
            dict.len()
        } else if let Ok(tuple) = object.cast::<PyTuple>() {
            tuple.len()
        } else if let Ok(set) = object.cast_exact::<PySet>() {
            set.len()
        } else if let Ok(set) = object.cast_exact::<PyFrozenSet>() {
            set.len()
        } else {
            0
        };
        let is_short = items <= MAX_ITEMS;
        self.skipped += u64::from(!is_short);
        is_short
    }
}

/// Bytes of items that lie behind the fixed part.
fn variable_bytes(object: &Bound<'_, PyAny>) -> u64 {
    if let Ok(tuple) = object.cast::<PyTuple>() {
        tuple.len() as u64 * 8
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        bytes.as_bytes().len() as u64
    } else if let Ok(text) = object.cast::<PyString>() {
        // One byte a character is the least, and what nearly all names and keys take.
        text.len().unwrap_or(0) as u64
    } else {
        0
    }
}
