//! Traces from streams of Arrow record batches.
#![allow(unsafe_code)] // The C stream interface is a pointer that Python holds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array as _, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use warmswap_output::BadInput;
use warmswap_page::{AppId, FileId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_trace::{ContentId, Description, Event, EventKind, FileInfo, TraceWriter};

use crate::errors::{Error, bad_trace, failed};

/// Reads a stream whose capsule has been handed over.
fn reader(capsule: &Bound<'_, PyCapsule>) -> PyResult<RecordBatchStreamReader> {
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: a capsule of this name holds a pointer to a stream of the C stream interface, which is valid as long as the
    // capsule lives. It is moved out, and an empty one stays, as the interface asks; the GIL keeps other threads away
    // meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr().cast()) };
    RecordBatchStreamReader::try_new(stream).map_err(|error| failed(&error.into()))
}

fn bad(why: String) -> anyhow::Error {
    BadInput(why).into()
}

/// A trace that is being written.
#[pyclass(module = "warmswap_lab._engine")]
pub struct Writer {
    /// `None` once it is finished.
    writer: Option<TraceWriter>,
    /// The numbers that contents got, by the place at which they were added.
    contents: Vec<ContentId>,
}

impl Writer {
    fn open(&mut self) -> PyResult<&mut TraceWriter> {
        let finished = || Error::new_err("the trace is finished");
        self.writer.as_mut().ok_or_else(finished)
    }
}

#[pymethods]
impl Writer {
    #[new]
    fn new(path: PathBuf, method: String, extra: BTreeMap<String, String>) -> PyResult<Self> {
        let description = Description {
            extra,
            ..Description::new(method)
        };
        let writer = TraceWriter::create(path, description).map_err(bad_trace)?;
        Ok(Self {
            writer: Some(writer),
            contents: Vec::new(),
        })
    }

    fn add_app(&mut self, name: String, description: String) -> PyResult<()> {
        let added = self.open()?.add_app(name, description);
        added.map(drop).map_err(bad_trace)
    }

    /// Adds a file; its number.
    fn add_file(
        &mut self,
        path: String,
        device: u64,
        inode: u64,
        size_bytes: u64,
    ) -> PyResult<u32> {
        let info = FileInfo {
            path,
            device,
            inode,
            size_bytes,
        };
        let added = self.open()?.add_file(info);
        added.map(|id| id.0).map_err(bad_trace)
    }

    /// Adds page contents, the column `bytes` of a stream.
    fn add_contents(&mut self, py: Python<'_>, stream: &Bound<'_, PyCapsule>) -> PyResult<()> {
        let (reader, Self { writer, contents }) = (reader(stream)?, self);
        let Some(writer) = writer else {
            return Err(Error::new_err("the trace is finished"));
        };
        let added = py.detach(|| -> anyhow::Result<()> {
            for batch in reader {
                let pages = batch?
                    .column_by_name("bytes")
                    .cloned()
                    .ok_or_else(|| missing("bytes"))?;
                let pages = pages
                    .as_fixed_size_binary_opt()
                    .ok_or_else(|| mistyped("bytes"))?;
                for page in pages.iter().flatten() {
                    let page = page
                        .first_chunk::<PAGE_BYTES>()
                        .filter(|_| page.len() == PAGE_BYTES);
                    let page =
                        page.ok_or_else(|| bad(format!("contents have {PAGE_BYTES} bytes")))?;
                    contents.push(writer.content(page)?);
                }
            }
            Ok(())
        });
        added.map_err(|error| failed(&error))
    }

    /// Adds the events of a stream.
    fn add_events(&mut self, py: Python<'_>, stream: &Bound<'_, PyCapsule>) -> PyResult<()> {
        let (reader, Self { writer, contents }) = (reader(stream)?, self);
        let Some(writer) = writer else {
            return Err(Error::new_err("the trace is finished"));
        };
        let added = py.detach(|| -> anyhow::Result<()> {
            for batch in reader {
                let batch = batch?;
                let columns = Columns::of(&batch)?;
                for row in 0..batch.num_rows() {
                    let event = columns.event(row, contents);
                    let number = writer.events();
                    let event = event.map_err(|why| bad(format!("event {number}: {why}")))?;
                    writer.event(&event)?;
                }
            }
            Ok(())
        });
        added.map_err(|error| failed(&error))
    }

    /// Puts the trace in its place.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let writer = self.writer.take();
        let writer = writer.ok_or_else(|| Error::new_err("the trace is finished"))?;
        py.detach(|| writer.finish()).map(drop).map_err(bad_trace)
    }
}

fn missing(name: &str) -> anyhow::Error {
    bad(format!("there is no column '{name}'"))
}

fn mistyped(name: &str) -> anyhow::Error {
    bad(format!("column '{name}' has another type than events have"))
}

/// The columns of a batch of events.
struct Columns {
    times: PrimitiveArray<UInt64Type>,
    apps: PrimitiveArray<UInt16Type>,
    kinds: StringArray,
    files: Option<PrimitiveArray<UInt32Type>>,
    pages: Option<PrimitiveArray<UInt64Type>>,
    writes: Option<BooleanArray>,
    contents: Option<PrimitiveArray<UInt32Type>>,
    counts: Option<PrimitiveArray<UInt32Type>>,
}

impl Columns {
    fn of(batch: &RecordBatch) -> anyhow::Result<Self> {
        fn numbers<T: ArrowPrimitiveType>(
            batch: &RecordBatch,
            name: &str,
        ) -> anyhow::Result<Option<PrimitiveArray<T>>> {
            let found = batch.column_by_name(name);
            let typed = found.map(|found| found.as_primitive_opt::<T>().cloned());
            typed
                .map(|typed| typed.ok_or_else(|| mistyped(name)))
                .transpose()
        }
        let kinds = batch
            .column_by_name("kind")
            .ok_or_else(|| missing("kind"))?;
        let writes = batch.column_by_name("write");
        let writes = writes.map(|writes| {
            writes
                .as_boolean_opt()
                .cloned()
                .ok_or_else(|| mistyped("write"))
        });
        Ok(Self {
            times: numbers(batch, "time_ns")?.ok_or_else(|| missing("time_ns"))?,
            apps: numbers(batch, "app")?.ok_or_else(|| missing("app"))?,
            kinds: kinds
                .as_string_opt()
                .cloned()
                .ok_or_else(|| mistyped("kind"))?,
            files: numbers(batch, "file")?,
            pages: numbers(batch, "page")?,
            writes: writes.transpose()?,
            contents: numbers(batch, "content")?,
            counts: numbers(batch, "pages")?,
        })
    }

    /// The event of a row, or what is wrong with it.
    fn event(&self, row: usize, contents: &[ContentId]) -> Result<Event, String> {
        let page = || self.page(row).ok_or_else(|| "it has no page".to_owned());
        let content = self.content(row, contents)?;
        let kind = match self.kinds.value(row) {
            _ if self.kinds.is_null(row) => return Err("it has no kind".to_owned()),
            "access" => EventKind::Access {
                page: page()?,
                write: value_of(self.writes.as_ref(), row, BooleanArray::value).unwrap_or(false),
                content,
            },
            "content" => EventKind::Content {
                page: page()?,
                content: content.ok_or("it has no content")?,
            },
            "launch" => EventKind::LaunchBegin(LaunchKind::Cold),
            "relaunch" => EventKind::LaunchBegin(LaunchKind::Relaunch),
            "launch_end" => EventKind::LaunchEnd,
            "background" => EventKind::Background,
            "free" => EventKind::Free {
                page: page()?,
                pages: number(self.counts.as_ref(), row).ok_or("it has no number of pages")?,
            },
            "exit" => EventKind::Exit,
            other => {
                let known = crate::batches::KINDS.join(", ");
                return Err(format!("kind '{other}' is none of {known}"));
            }
        };
        if self.times.is_null(row) || self.apps.is_null(row) {
            return Err("it has no time, or no application".to_owned());
        }
        Ok(Event {
            time_ns: self.times.value(row),
            app: AppId(self.apps.value(row)),
            kind,
        })
    }

    fn page(&self, row: usize) -> Option<PageAddr> {
        let page = number(self.pages.as_ref(), row)?;
        Some(match number(self.files.as_ref(), row) {
            Some(file) => PageAddr::File {
                file: FileId(file),
                number: page,
            },
            None => PageAddr::Anon { number: page },
        })
    }

    fn content(&self, row: usize, contents: &[ContentId]) -> Result<Option<ContentId>, String> {
        let Some(place) = number(self.contents.as_ref(), row) else {
            return Ok(None);
        };
        let found = contents.get(place as usize).copied();
        let has = contents.len();
        found
            .map(Some)
            .ok_or_else(|| format!("content {place} is none of {has} that were added"))
    }
}

fn value_of<A: arrow_array::Array, T>(
    column: Option<&A>,
    row: usize,
    value: impl Fn(&A, usize) -> T,
) -> Option<T> {
    column
        .filter(|column| column.is_valid(row))
        .map(|column| value(column, row))
}

fn number<T: ArrowPrimitiveType>(
    column: Option<&PrimitiveArray<T>>,
    row: usize,
) -> Option<T::Native> {
    value_of(column, row, PrimitiveArray::value)
}
