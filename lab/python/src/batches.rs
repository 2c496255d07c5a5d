//! Events and page contents of a trace as streams of Arrow record batches.
//!
//! Columns are filled once, by the consumer's pull, and handed over by the C stream interface without a copy. A name that
//! repeats (an application's, a kind) is stored once and shared by all batches.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{ArrowPrimitiveType, Int8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeBinaryArray, RecordBatch, RecordBatchReader, StringArray,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use warmswap_page::{LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_trace::{ContentId, Event, EventKind, TraceReader, events};

use crate::errors::{bad_trace, failed};

/// Kinds of events.
pub const KINDS: [&str; 8] = [
    "access",
    "content",
    "launch",
    "relaunch",
    "launch_end",
    "background",
    "free",
    "exit",
];

/// What a page is a page of.
pub const SPACES: [&str; 2] = ["anon", "file"];

/// Page contents in a batch: 1 MiB.
const CONTENTS_PER_BATCH: u64 = 256;

/// An end of a range of events.
#[derive(Clone, Copy, Debug)]
pub enum Edge {
    Number(u64),
    TimeNs(u64),
}

/// A range of events, which any number of streams read.
#[pyclass(module = "warmswap_lab._engine", frozen)]
pub struct Events {
    reader: TraceReader,
    first: Edge,
    end: Edge,
    schema: SchemaRef,
}

impl Events {
    pub fn new(reader: TraceReader, first: Edge, end: Edge) -> Self {
        let schema = Arc::new(event_schema());
        Self {
            reader,
            first,
            end,
            schema,
        }
    }

    fn stream(&self) -> warmswap_trace::Result<EventStream> {
        let (events, number) = match self.first {
            Edge::Number(first) => (self.reader.events_from(first)?, first),
            Edge::TimeNs(first) => (self.reader.events_from_time(first)?, 0),
        };
        let names = self.reader.apps().iter().map(|app| Some(app.name.as_str()));
        Ok(EventStream {
            events,
            number,
            end: self.end,
            block: Vec::new(),
            names: Arc::new(StringArray::from_iter(names)),
            kinds: Arc::new(StringArray::from_iter_values(KINDS)),
            spaces: Arc::new(StringArray::from_iter_values(SPACES)),
            schema: self.schema.clone(),
        })
    }
}

#[pymethods]
impl Events {
    /// How many events there are. One pass over them where the range is one of times.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        if let (Edge::Number(first), Edge::Number(end)) = (self.first, self.end) {
            return Ok(end.min(self.reader.summary().events).saturating_sub(first));
        }
        let counted = py.detach(|| {
            let mut stream = self.stream()?;
            let mut count = 0;
            while stream.next_block()? {
                count += stream.block.len() as u64;
            }
            Ok(count)
        });
        counted.map_err(bad_trace)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // A producer may give its own schema; the consumer converts.
        let stream = self.stream().map_err(bad_trace)?;
        stream_capsule(py, Box::new(stream))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}

fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| failed(&error.into()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn names_of(keys: DataType) -> DataType {
    DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8))
}

fn event_schema() -> Schema {
    let column = |name, kind| Field::new(name, kind, false);
    let optional = |name, kind| Field::new(name, kind, true);
    Schema::new(vec![
        column("time_ns", DataType::UInt64),
        column("app", DataType::UInt16),
        column("app_name", names_of(DataType::UInt16)),
        column("kind", names_of(DataType::Int8)),
        optional("space", names_of(DataType::Int8)),
        optional("file", DataType::UInt32),
        optional("page", DataType::UInt64),
        optional("write", DataType::Boolean),
        optional("content", DataType::UInt32),
        optional("pages", DataType::UInt32),
    ])
}

/// Events, a block of the trace for each batch.
struct EventStream {
    events: events::Events,
    /// The number of the next event, where the end is one.
    number: u64,
    end: Edge,
    block: Vec<Event>,
    names: ArrayRef,
    kinds: ArrayRef,
    spaces: ArrayRef,
    schema: SchemaRef,
}

impl EventStream {
    /// Reads the next block, as far as it is in the range; false at its end.
    fn next_block(&mut self) -> warmswap_trace::Result<bool> {
        self.events.next_block(&mut self.block)?;
        let wanted = match self.end {
            Edge::Number(end) => {
                let left = end.saturating_sub(self.number);
                usize::try_from(left).unwrap_or(usize::MAX)
            }
            Edge::TimeNs(end) => self.block.partition_point(|event| event.time_ns < end),
        };
        self.block.truncate(wanted);
        self.number += self.block.len() as u64;
        Ok(!self.block.is_empty())
    }

    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let events = &self.block;
        let mut columns = Columns::of(events.len());
        events.iter().for_each(|event| columns.push(event.kind));
        let apps: Vec<u16> = events.iter().map(|event| event.app.0).collect();
        let apps = UInt16Array::from(apps);
        let kinds = columns.kinds.finish();
        let spaces = columns.spaces.finish();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(
                events.iter().map(|event| event.time_ns),
            )),
            Arc::new(apps.clone()),
            Arc::new(DictionaryArray::<UInt16Type>::try_new(
                apps,
                self.names.clone(),
            )?),
            Arc::new(DictionaryArray::<Int8Type>::try_new(
                kinds,
                self.kinds.clone(),
            )?),
            Arc::new(DictionaryArray::<Int8Type>::try_new(
                spaces,
                self.spaces.clone(),
            )?),
            Arc::new(columns.files.finish()),
            Arc::new(columns.pages.finish()),
            Arc::new(columns.writes.finish()),
            Arc::new(columns.contents.finish()),
            Arc::new(columns.counts.finish()),
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}

impl Iterator for EventStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_block() {
            Ok(true) => Some(self.batch()),
            Ok(false) => None,
            Err(error) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
        }
    }
}

impl RecordBatchReader for EventStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// What depends on the kind of an event.
struct Columns {
    kinds: PrimitiveBuilder<Int8Type>,
    spaces: PrimitiveBuilder<Int8Type>,
    files: PrimitiveBuilder<UInt32Type>,
    pages: PrimitiveBuilder<UInt64Type>,
    writes: BooleanBuilder,
    contents: PrimitiveBuilder<UInt32Type>,
    counts: PrimitiveBuilder<UInt32Type>,
}

impl Columns {
    fn of(events: usize) -> Self {
        fn column<T: ArrowPrimitiveType>(events: usize) -> PrimitiveBuilder<T> {
            PrimitiveBuilder::with_capacity(events)
        }
        Self {
            kinds: column(events),
            spaces: column(events),
            files: column(events),
            pages: column(events),
            writes: BooleanBuilder::with_capacity(events),
            contents: column(events),
            counts: column(events),
        }
    }

    fn push(&mut self, kind: EventKind) {
        let (mut page, mut write, mut content, mut count) = (None, None, None, None);
        let name = match kind {
            EventKind::Access {
                page: at,
                write: is_write,
                content: held,
            } => {
                (page, write, content) = (Some(at), Some(is_write), held);
                0
            }
            EventKind::Content {
                page: at,
                content: held,
            } => {
                (page, content) = (Some(at), Some(held));
                1
            }
            EventKind::LaunchBegin(LaunchKind::Cold) => 2,
            EventKind::LaunchBegin(LaunchKind::Relaunch) => 3,
            EventKind::LaunchEnd => 4,
            EventKind::Background => 5,
            EventKind::Free { page: at, pages } => {
                (page, count) = (Some(at), Some(pages));
                6
            }
            EventKind::Exit => 7,
        };
        let (space, file, number) = match page {
            None => (None, None, None),
            Some(PageAddr::Anon { number }) => (Some(0), None, Some(number)),
            Some(PageAddr::File { file, number }) => (Some(1), Some(file.0), Some(number)),
        };
        self.kinds.append_value(name);
        self.spaces.append_option(space);
        self.files.append_option(file);
        self.pages.append_option(number);
        self.writes.append_option(write);
        self.contents.append_option(content.map(|id| id.0));
        self.counts.append_option(count);
    }
}

/// A range of page contents, which any number of streams read.
#[pyclass(module = "warmswap_lab._engine", frozen)]
pub struct Contents {
    reader: TraceReader,
    first: u32,
    end: u64,
    schema: SchemaRef,
}

impl Contents {
    pub fn new(reader: TraceReader, first: u32, end: u64) -> Self {
        let page = DataType::FixedSizeBinary(PAGE_BYTES as i32);
        let schema = Schema::new(vec![
            Field::new("content", DataType::UInt32, false),
            Field::new("bytes", page, false),
        ]);
        Self {
            end: end.min(reader.summary().contents),
            reader,
            first,
            schema: Arc::new(schema),
        }
    }
}

#[pymethods]
impl Contents {
    /// How many there are.
    fn count(&self) -> u64 {
        self.end.saturating_sub(self.first.into())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let stream = ContentStream {
            reader: self.reader.clone(),
            next: self.first.into(),
            end: self.end,
            schema: self.schema.clone(),
        };
        stream_capsule(py, Box::new(stream))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}

/// Page contents, in the order of their numbers.
struct ContentStream {
    reader: TraceReader,
    next: u64,
    end: u64,
    schema: SchemaRef,
}

impl ContentStream {
    fn batch(&self, ids: std::ops::Range<u64>) -> Result<RecordBatch, ArrowError> {
        let count = (ids.end - ids.start) as usize;
        let mut bytes = vec![0; count * PAGE_BYTES];
        let (pages, _) = bytes.as_chunks_mut::<PAGE_BYTES>();
        for (id, page) in ids.clone().zip(pages) {
            let read = self.reader.content(ContentId(id as u32), page);
            read.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        }
        let pages = FixedSizeBinaryArray::try_new(PAGE_BYTES as i32, Buffer::from(bytes), None)?;
        let ids = UInt32Array::from_iter_values(ids.map(|id| id as u32));
        RecordBatch::try_new(self.schema.clone(), vec![Arc::new(ids), Arc::new(pages)])
    }
}

impl Iterator for ContentStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let ids = self.next..self.end.min(self.next + CONTENTS_PER_BATCH);
        if ids.is_empty() {
            return None;
        }
        self.next = ids.end;
        Some(self.batch(ids))
    }
}

impl RecordBatchReader for ContentStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
