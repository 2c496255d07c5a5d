//! The events of a trace as a Parquet table, for analysis with other tools.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::basic::ZstdLevel;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::error::{Result, TraceError};
use crate::event::{Event, EventKind};
use crate::reader::TraceReader;
use warmswap_page::{LaunchKind, PageAddr};

/// The columns. A field that an event does not have is null.
pub const SCHEMA: &str = "message events {
    required int64 time_ns (integer(64, false));
    required int32 app (integer(16, false));
    required binary app_name (string);
    required binary kind (string);
    optional binary space (string);
    optional int64 file (integer(64, false));
    optional int64 page (integer(64, false));
    optional boolean write;
    optional int64 content (integer(64, false));
    optional int64 pages (integer(64, false));
}";

/// Events in a row group; as many are in memory at once.
const GROUP_ROWS: usize = 1 << 18;

/// Writes all events of `trace` to a Parquet file at `path`, and returns how many there are. Page
/// contents are not exported, only their ids.
///
/// Memory: one row group of 262144 events, some 60 MB.
///
/// # Errors
///
/// The trace cannot be read, or the file cannot be written; none is left behind then.
pub fn to_parquet(trace: &TraceReader, path: &Path) -> Result<u64> {
    let parquet = |e: ParquetError| TraceError::Parquet {
        path: path.to_owned(),
        source: Box::new(e),
    };
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(parquet)?);
    let level = ZstdLevel::try_new(3).map_err(parquet)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .build();
    let names: Vec<ByteArray> = trace
        .apps()
        .iter()
        .map(|app| app.name.as_str().into())
        .collect();
    crate::replace_file(path, |file| {
        let out = file.try_clone().map_err(|source| TraceError::Io {
            path: path.to_owned(),
            action: "create",
            source,
        })?;
        let mut writer =
            SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(parquet)?;
        let mut events = trace.events();
        let mut block: Vec<Event> = Vec::new();
        let mut rows = Rows::default();
        let mut count = 0;
        while events.next_block(&mut block)? {
            for event in &block {
                rows.push(event, &names);
            }
            count += block.len() as u64;
            if rows.times.len() >= GROUP_ROWS {
                rows.flush(&mut writer).map_err(parquet)?;
            }
        }
        rows.flush(&mut writer).map_err(parquet)?;
        writer.close().map_err(parquet)?;
        Ok(count)
    })
}

/// Columns of one row group.
#[derive(Default)]
struct Rows {
    times: Vec<i64>,
    apps: Vec<i32>,
    app_names: Vec<ByteArray>,
    kinds: Vec<ByteArray>,
    spaces: Optional<ByteArray>,
    files: Optional<i64>,
    pages: Optional<i64>,
    writes: Optional<bool>,
    contents: Optional<i64>,
    counts: Optional<i64>,
}

/// A column with nulls: the values that are there, and for each row whether there is one.
struct Optional<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            levels: Vec::new(),
        }
    }
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(value.is_some().into());
        self.values.extend(value);
    }
}

impl Rows {
    fn push(&mut self, event: &Event, names: &[ByteArray]) {
        let (mut page, mut write, mut content, mut count) = (None, None, None, None);
        let kind = match event.kind {
            EventKind::Access {
                page: p,
                write: w,
                content: c,
            } => {
                (page, write, content) = (Some(p), Some(w), c);
                "access"
            }
            EventKind::Content {
                page: p,
                content: c,
            } => {
                (page, content) = (Some(p), Some(c));
                "content"
            }
            EventKind::LaunchBegin(LaunchKind::Cold) => "launch",
            EventKind::LaunchBegin(LaunchKind::Relaunch) => "relaunch",
            EventKind::LaunchEnd => "launch_end",
            EventKind::Background => "background",
            EventKind::Free { page: p, pages } => {
                (page, count) = (Some(p), Some(i64::from(pages)));
                "free"
            }
            EventKind::Exit => "exit",
        };
        let (space, file, number) = match page {
            None => (None, None, None),
            Some(PageAddr::Anon { number }) => (Some("anon"), None, Some(number as i64)),
            Some(PageAddr::File { file, number }) => {
                (Some("file"), Some(i64::from(file.0)), Some(number as i64))
            }
        };
        self.times.push(event.time_ns as i64);
        self.apps.push(event.app.0.into());
        self.app_names.push(names[usize::from(event.app.0)].clone());
        self.kinds.push(kind.into());
        self.spaces.push(space.map(ByteArray::from));
        self.files.push(file);
        self.pages.push(number);
        self.writes.push(write);
        self.contents.push(content.map(|c| i64::from(c.0)));
        self.counts.push(count);
    }

    /// Writes the rows as one group, if there are any, and empties them.
    fn flush(
        &mut self,
        writer: &mut SerializedFileWriter<File>,
    ) -> std::result::Result<(), ParquetError> {
        let rows = std::mem::take(self);
        if rows.times.is_empty() {
            return Ok(());
        }
        let mut group = writer.next_row_group()?;
        column::<Int64Type>(&mut group, &rows.times, None)?;
        column::<Int32Type>(&mut group, &rows.apps, None)?;
        column::<ByteArrayType>(&mut group, &rows.app_names, None)?;
        column::<ByteArrayType>(&mut group, &rows.kinds, None)?;
        column::<ByteArrayType>(&mut group, &rows.spaces.values, Some(&rows.spaces.levels))?;
        column::<Int64Type>(&mut group, &rows.files.values, Some(&rows.files.levels))?;
        column::<Int64Type>(&mut group, &rows.pages.values, Some(&rows.pages.levels))?;
        column::<BoolType>(&mut group, &rows.writes.values, Some(&rows.writes.levels))?;
        column::<Int64Type>(
            &mut group,
            &rows.contents.values,
            Some(&rows.contents.levels),
        )?;
        column::<Int64Type>(&mut group, &rows.counts.values, Some(&rows.counts.levels))?;
        group.close()?;
        Ok(())
    }
}

/// Writes the next column of a row group.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> std::result::Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General(
            "more columns than the schema has".to_owned(),
        ));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::testing::{sample_trace, scratch};

    #[test]
    fn every_event_is_a_row_with_its_fields() {
        let dir = scratch();
        let (path, events, _) = sample_trace(dir.path());
        let trace = TraceReader::open(path).unwrap();
        let out = dir.path().join("events.parquet");

        assert_eq!(to_parquet(&trace, &out).unwrap(), events.len() as u64);

        let reader = SerializedFileReader::new(File::open(&out).unwrap()).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                row.unwrap()
                    .get_column_iter()
                    .map(|(_, field)| field.clone())
                    .collect()
            })
            .collect();
        assert_eq!(rows.len(), events.len());
        let text = |s: &str| Field::Str(s.to_owned());
        for (row, event) in rows.iter().zip(&events) {
            assert_eq!(row[0], Field::ULong(event.time_ns));
            assert_eq!(row[1], Field::UShort(event.app.0));
            assert_eq!(row[2], text(["one", "two"][usize::from(event.app.0)]));
            let page = match event.kind {
                EventKind::Access { page, .. } | EventKind::Content { page, .. } => page,
                EventKind::Free { page, .. } => page,
                _ => {
                    assert!(row[4..].iter().all(|field| *field == Field::Null));
                    continue;
                }
            };
            let place = match page {
                PageAddr::Anon { number } => [text("anon"), Field::Null, Field::ULong(number)],
                PageAddr::File { file, number } => [
                    text("file"),
                    Field::ULong(file.0.into()),
                    Field::ULong(number),
                ],
            };
            assert_eq!(row[4..7], place);
            let expected = match event.kind {
                EventKind::Access { write, content, .. } => {
                    let content = content.map_or(Field::Null, |c| Field::ULong(c.0.into()));
                    ("access", [Field::Bool(write), content, Field::Null])
                }
                EventKind::Content { content, .. } => (
                    "content",
                    [Field::Null, Field::ULong(content.0.into()), Field::Null],
                ),
                EventKind::Free { pages, .. } => (
                    "free",
                    [Field::Null, Field::Null, Field::ULong(pages.into())],
                ),
                _ => unreachable!("such events have no page"),
            };
            assert_eq!(row[3], text(expected.0));
            assert_eq!(row[7..], expected.1);
        }
    }

    #[test]
    fn a_damaged_trace_leaves_no_file() {
        let dir = scratch();
        let (path, ..) = sample_trace(dir.path());
        let reader = TraceReader::open(&path).unwrap();
        let at = reader.events().peek_extent().unwrap().unwrap().0 as usize;
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at + 9] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let out = dir.path().join("events.parquet");
        assert!(to_parquet(&TraceReader::open(&path).unwrap(), &out).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
