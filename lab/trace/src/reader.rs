//! Reading a trace.

use std::path::Path;
use std::sync::Arc;

use crate::columns::Limits;
use crate::contents::{self, Contents};
use crate::describe::{AppInfo, Description, FileInfo, Summary};
use crate::error::{Result, Section, TraceError};
use crate::event::ContentId;
use crate::events::Events;
use crate::format::{
    CONTENT_ENTRY_BYTES, CONTENTS_PER_BLOCK, ContentEntry, Cursor, END_MAGIC, EVENT_BYTES,
    EVENT_ENTRY_BYTES, EventEntry, HEADER_BYTES, Head, LAYOUT, MAGIC, MAX_JSON_BYTES,
    TRAILER_BYTES, Tables, Trailer, VERSION, header_crc,
};
use crate::source::Source;
use crate::stop::Stop;
use warmswap_page::{AppId, FileId, PAGE_BYTES};

/// A finished trace, opened for reading.
///
/// Opening reads the description and the tables and checks how the file is laid out; events and
/// contents are read and checked on demand. Cloning is cheap, and every method can be called from
/// several threads at once.
///
/// Memory: the tables, one block of events per [`Events`], and a cache of at most 4 MB of contents.
#[derive(Clone)]
pub struct TraceReader {
    pub(crate) inner: Arc<Inner>,
    stop: Stop,
}

pub(crate) struct Inner {
    pub(crate) source: Source,
    pub(crate) trailer: Trailer,
    pub(crate) data_offset: u64,
    pub(crate) contents: Contents,
    description: Description,
    tables: Tables,
}

impl TraceReader {
    /// Opens a trace.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no trace, was written by a newer version, was never finished, or is
    /// damaged in what is read here. Blocks are checked when they are used, all of them by
    /// [`verify`](Self::verify).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let source = Source::open(path.as_ref())?;
        let (header, json_bytes, json_crc) = read_header(&source)?;
        let trailer = read_trailer(&source)?;
        source.checksum(0, Section::Header, header_crc(&header), trailer.header_crc)?;
        let data_offset = HEADER_BYTES as u64 + u64::from(json_bytes);
        check_layout(&source, &trailer, data_offset)?;

        let json = Json {
            offset: HEADER_BYTES as u64,
            bytes: json_bytes.into(),
            crc: json_crc,
        };
        let head: Head = json.read(&source, Section::Description)?;
        if head.description.page_bytes as usize != PAGE_BYTES {
            let (found, expected) = (head.description.page_bytes, PAGE_BYTES as u32);
            return Err(TraceError::PageSize {
                path: source.path,
                found,
                expected,
            });
        }
        let at = json.offset;
        let section = Section::Description;
        source.same(
            at,
            section,
            "record layout",
            (head.record_layout.as_str(), LAYOUT),
        )?;
        source.same(
            at,
            section,
            "record bytes",
            (head.record_bytes as usize, EVENT_BYTES),
        )?;
        source.same(
            at,
            section,
            "contents per block",
            (head.contents_per_block as usize, CONTENTS_PER_BLOCK),
        )?;

        let json = Json {
            offset: trailer.tables_offset,
            bytes: trailer.tables_bytes,
            crc: trailer.tables_crc,
        };
        let tables: Tables = json.read(&source, Section::Tables)?;
        if tables.apps.len() > 1 << 16 {
            let found = format!("{} applications", tables.apps.len());
            return Err(source.damaged(json.offset, Section::Tables, found, "at most 65536"));
        }
        let description = head.description;
        let contents = Contents::new();
        Ok(Self {
            inner: Arc::new(Inner {
                source,
                trailer,
                data_offset,
                contents,
                description,
                tables,
            }),
            stop: Stop::default(),
        })
    }

    /// The same trace, whose reading `stop` ends.
    #[must_use]
    pub fn with_stop(&self, stop: Stop) -> Self {
        Self {
            inner: self.inner.clone(),
            stop,
        }
    }

    /// For work between reads, which is to end as well.
    ///
    /// # Errors
    ///
    /// [`TraceError::Stopped`] once reading was ended.
    pub fn check_stop(&self) -> Result<()> {
        self.inner.check(&self.stop)
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        &self.inner.source.path
    }

    /// Where the trace comes from.
    pub fn description(&self) -> &Description {
        &self.inner.description
    }

    /// The applications; the place is the [`AppId`].
    pub fn apps(&self) -> &[AppInfo] {
        &self.inner.tables.apps
    }

    /// One application; `None` for an id that the trace does not have.
    pub fn app(&self, id: AppId) -> Option<&AppInfo> {
        self.inner.tables.apps.get(usize::from(id.0))
    }

    /// The files; the place is the [`FileId`].
    pub fn files(&self) -> &[FileInfo] {
        &self.inner.tables.files
    }

    /// One file; `None` for an id that the trace does not have.
    pub fn file(&self, id: FileId) -> Option<&FileInfo> {
        self.inner.tables.files.get(id.0 as usize)
    }

    /// The size of the trace.
    pub fn summary(&self) -> Summary {
        let trailer = &self.inner.trailer;
        Summary {
            events: trailer.events,
            contents: trailer.contents,
            apps: self.inner.tables.apps.len() as u32,
            files: self.inner.tables.files.len() as u32,
            first_ns: trailer.first_ns,
            last_ns: trailer.last_ns,
            file_bytes: self.inner.source.len,
        }
    }

    /// All events from the first.
    pub fn events(&self) -> Events {
        Events::new(self.inner.clone(), self.stop.clone(), 0)
    }

    /// The events from number `n` on, counted from 0; none when `n` is beyond the last.
    ///
    /// Cost: one read of 40 bytes per halving of the number of blocks, and the decoding of one block.
    ///
    /// # Errors
    ///
    /// The index is damaged or cannot be read.
    pub fn events_from(&self, n: u64) -> Result<Events> {
        let after = self.inner.partition(|entry| entry.first_event <= n)?;
        let mut events = Events::new(
            self.inner.clone(),
            self.stop.clone(),
            after.saturating_sub(1),
        );
        events.skip_to_event(n);
        Ok(events)
    }

    /// The events at `time_ns` and later. Cost and errors as of [`events_from`](Self::events_from).
    ///
    /// # Errors
    ///
    /// The index is damaged or cannot be read.
    pub fn events_from_time(&self, time_ns: u64) -> Result<Events> {
        let after = self.inner.partition(|entry| entry.first_ns < time_ns)?;
        let mut events = Events::new(
            self.inner.clone(),
            self.stop.clone(),
            after.saturating_sub(1),
        );
        events.skip_to_time(time_ns);
        Ok(events)
    }

    /// Copies a page content to `page`. Contents that are near each other by id are cheap together: they
    /// share a compressed block, and the last few blocks stay unpacked.
    ///
    /// # Errors
    ///
    /// The trace has no such content, or the block is damaged or cannot be read; `page` is then
    /// unchanged.
    pub fn content(&self, id: ContentId, page: &mut [u8; PAGE_BYTES]) -> Result<()> {
        self.check_stop()?;
        self.inner.contents.copy(&self.inner, id, page)
    }

    /// The contents of one block, one after the other: [`CONTENTS_PER_BLOCK`] of them, fewer in the last block. Block `n`
    /// begins with content `n * CONTENTS_PER_BLOCK`.
    ///
    /// # Errors
    ///
    /// The trace has no such block, or it is damaged or cannot be read.
    pub fn content_block(&self, block: u64) -> Result<Vec<u8>> {
        self.check_stop()?;
        self.inner
            .check_content(block.saturating_mul(CONTENTS_PER_BLOCK as u64))?;
        contents::unpack(&self.inner, block)
    }
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader")
            .field("path", &self.inner.source.path)
            .finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            apps: self.tables.apps.len() as u32,
            files: self.tables.files.len() as u32,
            contents: self.trailer.contents,
        }
    }

    pub(crate) fn check(&self, stop: &Stop) -> Result<()> {
        if stop.is_set() {
            let path = self.source.path.clone();
            return Err(TraceError::Stopped { path });
        }
        Ok(())
    }

    /// Checks that the trace has this content.
    pub(crate) fn check_content(&self, id: u64) -> Result<()> {
        let count = self.trailer.contents;
        if id < count {
            return Ok(());
        }
        let path = self.source.path.clone();
        Err(TraceError::NoSuchContent { path, id, count })
    }

    /// The number of event blocks for which `before` holds; it holds for a prefix of them.
    fn partition(&self, before: impl Fn(&EventEntry) -> bool) -> Result<u64> {
        let (mut low, mut high) = (0, self.trailer.event_blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(&self.event_entry(middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn event_entry(&self, place: u64) -> Result<EventEntry> {
        let mut bytes = [0; EVENT_ENTRY_BYTES];
        let offset = self.event_entry_offset(place);
        self.source.read(offset, &mut bytes, Section::EventIndex)?;
        self.decode_event_entry(&bytes, place)
    }

    pub(crate) fn event_entry_offset(&self, place: u64) -> u64 {
        self.trailer.event_index_offset + place * EVENT_ENTRY_BYTES as u64
    }

    pub(crate) fn decode_event_entry(
        &self,
        bytes: &[u8; EVENT_ENTRY_BYTES],
        place: u64,
    ) -> Result<EventEntry> {
        let (entry, found, expected) = EventEntry::decode(bytes, place);
        let offset = self.event_entry_offset(place);
        self.source
            .checksum(offset, Section::EventIndex, found, expected)?;
        Ok(entry)
    }

    pub(crate) fn content_entry(&self, place: u64) -> Result<ContentEntry> {
        let mut bytes = [0; CONTENT_ENTRY_BYTES];
        let offset = self.trailer.content_index_offset + place * CONTENT_ENTRY_BYTES as u64;
        self.source
            .read(offset, &mut bytes, Section::ContentIndex)?;
        let (entry, found, expected) = ContentEntry::decode(&bytes, place);
        self.source
            .checksum(offset, Section::ContentIndex, found, expected)?;
        Ok(entry)
    }
}

/// Where JSON stands in the file.
struct Json {
    offset: u64,
    bytes: u64,
    crc: u32,
}

impl Json {
    fn read<T: serde::de::DeserializeOwned>(&self, source: &Source, section: Section) -> Result<T> {
        if self.bytes > MAX_JSON_BYTES {
            let found = format!("{} bytes", self.bytes);
            return Err(source.damaged(
                self.offset,
                section,
                found,
                format!("at most {MAX_JSON_BYTES}"),
            ));
        }
        if self
            .offset
            .checked_add(self.bytes)
            .is_none_or(|end| end > source.len)
        {
            return Err(source.truncated(source.len, format!("{} bytes of {section}", self.bytes)));
        }
        let mut json = vec![0; self.bytes as usize];
        source.read(self.offset, &mut json, section)?;
        source.checksum(self.offset, section, crc32fast::hash(&json), self.crc)?;
        serde_json::from_slice(&json)
            .map_err(|e| source.damaged(self.offset, section, e, "its JSON fields"))
    }
}

/// The header's bytes, the length of the JSON and its CRC.
fn read_header(source: &Source) -> Result<([u8; HEADER_BYTES], u32, u32)> {
    let mut magic = [0; MAGIC.len()];
    let there = magic.len().min(source.len as usize);
    source.read(0, &mut magic[..there], Section::Header)?;
    if magic[..there] != MAGIC[..there] || there == 0 {
        let found = match there {
            0 => "an empty file".to_owned(),
            _ => magic[..there].iter().map(|b| format!("{b:02x}")).collect(),
        };
        return Err(TraceError::NotATrace {
            path: source.path.clone(),
            found,
        });
    }
    let mut bytes = [0; HEADER_BYTES];
    source.read(0, &mut bytes, Section::Header)?;
    let mut cursor = Cursor(&bytes[MAGIC.len()..]);
    let (version, json_bytes, json_crc, crc) =
        (cursor.u32(), cursor.u32(), cursor.u32(), cursor.u32());
    source.checksum(0, Section::Header, header_crc(&bytes), crc)?;
    if version > VERSION {
        let (offset, path) = (MAGIC.len() as u64, source.path.clone());
        return Err(TraceError::NewerVersion {
            path,
            offset,
            found: version,
            supported: VERSION,
        });
    }
    source.same(
        MAGIC.len() as u64,
        Section::Header,
        "version",
        (version, VERSION),
    )?;
    Ok((bytes, json_bytes, json_crc))
}

fn read_trailer(source: &Source) -> Result<Trailer> {
    let Some(offset) = source
        .len
        .checked_sub(TRAILER_BYTES as u64)
        .filter(|&at| at >= HEADER_BYTES as u64)
    else {
        return Err(source.truncated(source.len, format!("a trailer of {TRAILER_BYTES} bytes")));
    };
    let mut bytes = [0; TRAILER_BYTES];
    source.read(offset, &mut bytes, Section::Trailer)?;
    let (trailer, magic, found, expected) = Trailer::decode(&bytes);
    if magic != END_MAGIC {
        return Err(source.truncated(source.len, "the end mark of a finished trace".to_owned()));
    }
    source.checksum(offset, Section::Trailer, found, expected)?;
    Ok(trailer)
}

/// The sections stand one after the other and fill the file; counts and block counts agree.
fn check_layout(source: &Source, trailer: &Trailer, data_offset: u64) -> Result<()> {
    let at = source.len - TRAILER_BYTES as u64;
    let same = |what, pair| source.same(at, Section::Trailer, what, pair);
    let end = |start: u64, entries: u64, bytes: usize| {
        entries
            .checked_mul(bytes as u64)
            .and_then(|b| b.checked_add(start))
            .unwrap_or(u64::MAX)
    };
    let events_end = end(
        trailer.event_index_offset,
        trailer.event_blocks,
        EVENT_ENTRY_BYTES,
    );
    let contents_end = end(
        trailer.content_index_offset,
        trailer.content_blocks,
        CONTENT_ENTRY_BYTES,
    );
    if trailer.event_index_offset < data_offset {
        let found = format!("event index at byte {}", trailer.event_index_offset);
        return Err(source.damaged(
            at,
            Section::Trailer,
            found,
            format!("at least {data_offset}"),
        ));
    }
    same(
        "content index offset",
        (trailer.content_index_offset, events_end),
    )?;
    same("tables offset", (trailer.tables_offset, contents_end))?;
    same(
        "trailer offset",
        (end(trailer.tables_offset, trailer.tables_bytes, 1), at),
    )?;
    same(
        "content blocks",
        (
            trailer.content_blocks,
            trailer.contents.div_ceil(CONTENTS_PER_BLOCK as u64),
        ),
    )?;
    if trailer.contents > 1 << 32
        || trailer.events < trailer.event_blocks
        || trailer.first_ns > trailer.last_ns
    {
        let found = format!("{} contents, {} events", trailer.contents, trailer.events);
        return Err(source.damaged(
            at,
            Section::Trailer,
            found,
            "counts and times that fit each other",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;
