//! Writing a trace.

mod blocks;
mod spool;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::xxh3_128;

use crate::columns::{self, Columns, Limits};
use crate::describe::{AppInfo, Description, FileInfo, Summary};
use crate::error::{Result, TraceError};
use crate::event::{ContentId, Event};
use crate::format::{
    CONTENTS_PER_BLOCK, Head, MAX_BLOCK_EVENTS, MAX_JSON_BYTES, Tables, Trailer,
    content_block_bytes, encode_header, header_crc,
};
use crate::writer::spool::Spool;
use warmswap_page::{AppId, FileId, PAGE_BYTES};

/// How a trace is packed.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// Zstandard level of page contents, 1 to 19. 1 keeps up with a recording; 9 and more suit a trace
    /// that is made once and shipped.
    pub content_level: i32,
    /// Events in a block, 1 to 65536. More pack better; fewer make a seek cheaper.
    pub block_events: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            content_level: 1,
            block_events: 16384,
        }
    }
}

/// Writes one trace, event by event and content by content.
///
/// The bytes go to a temporary file beside the target, readable by its owner alone, since a trace holds
/// the memory of programs. [`finish`](Self::finish) puts it in place of the target; a writer that is
/// dropped before leaves nothing behind.
///
/// Memory: some 2 MB for the blocks under way, the tables of applications and files, and 24 to 48
/// bytes per distinct content for finding equal ones.
pub struct TraceWriter {
    path: PathBuf,
    file: NamedTempFile,
    offset: u64,
    header_crc: u32,
    options: WriterOptions,
    tables: Tables,
    file_ids: FxHashMap<(u64, u64), FileId>,
    columns: Columns,
    events: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    event_index: Spool,
    content_ids: FxHashMap<[u64; 2], u32>,
    pages: Vec<u8>,
    content_index: Spool,
    compressor: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
    packed: Vec<u8>,
    failed: bool,
}

impl TraceWriter {
    /// Begins a trace that will stand at `path`, with the default [`WriterOptions`].
    ///
    /// # Errors
    ///
    /// The directory is not writable, or `description.page_bytes` is not 4096.
    pub fn create(path: impl AsRef<Path>, description: Description) -> Result<Self> {
        Self::create_with(path, description, WriterOptions::default())
    }

    /// Begins a trace with explicit options.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), and options out of their range.
    pub fn create_with(
        path: impl AsRef<Path>,
        description: Description,
        options: WriterOptions,
    ) -> Result<Self> {
        let path = crate::destination(path.as_ref())?;
        if description.page_bytes as usize != PAGE_BYTES {
            return Err(TraceError::PageSize {
                path,
                found: description.page_bytes,
                expected: PAGE_BYTES as u32,
            });
        }
        if !(1..=19).contains(&options.content_level) {
            return Err(setting(
                "content_level",
                options.content_level.to_string(),
                "1 to 19",
            ));
        }
        if !(1..=MAX_BLOCK_EVENTS).contains(&options.block_events) {
            return Err(setting(
                "block_events",
                options.block_events.to_string(),
                "1 to 65536",
            ));
        }
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut prefix = path.file_name().unwrap_or_default().to_owned();
        prefix.push(".");
        let begin = || -> io::Result<_> {
            let file = tempfile::Builder::new()
                .permissions(crate::new_file())
                .prefix(&prefix)
                .suffix(".tmp")
                .tempfile_in(&dir)?;
            let spools = (Spool::new(&dir)?, Spool::new(&dir)?);
            Ok((
                file,
                spools,
                zstd::bulk::Compressor::new(options.content_level)?,
            ))
        };
        let (file, (event_index, content_index), compressor) =
            begin().map_err(|source| TraceError::Io {
                path: path.clone(),
                action: "create",
                source,
            })?;
        let mut writer = Self {
            path,
            file,
            offset: 0,
            header_crc: 0,
            options,
            tables: Tables::default(),
            file_ids: FxHashMap::default(),
            columns: Columns::default(),
            events: 0,
            first_ns: None,
            last_ns: 0,
            event_index,
            content_ids: FxHashMap::default(),
            pages: Vec::with_capacity(content_block_bytes(CONTENTS_PER_BLOCK)),
            content_index,
            compressor,
            raw: Vec::new(),
            packed: Vec::new(),
            failed: false,
        };
        let json = writer.json(&Head::new(description))?;
        let header = encode_header(&json);
        writer.header_crc = header_crc(&header);
        writer.append(&[&header, &json])?;
        Ok(writer)
    }

    /// Adds an application.
    ///
    /// # Errors
    ///
    /// There are already 65536.
    pub fn add_app(
        &mut self,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<AppId> {
        let id = u16::try_from(self.tables.apps.len())
            .map_err(|_| self.too_many("applications", 1 << 16))?;
        self.tables.apps.push(AppInfo {
            name: name.into(),
            description: description.into(),
        });
        Ok(AppId(id))
    }

    /// Adds a file, or finds the one with the same device and inode.
    ///
    /// # Errors
    ///
    /// There are already 2^32.
    pub fn add_file(&mut self, info: FileInfo) -> Result<FileId> {
        let key = (info.device, info.inode);
        if let Some(&id) = self.file_ids.get(&key) {
            return Ok(id);
        }
        let id = self.push_file(info)?;
        self.file_ids.insert(key, id);
        Ok(id)
    }

    /// Adds a file without a look for an equal one, so that a copied table keeps its ids.
    pub(crate) fn push_file(&mut self, info: FileInfo) -> Result<FileId> {
        let id =
            u32::try_from(self.tables.files.len()).map_err(|_| self.too_many("files", 1 << 32))?;
        self.tables.files.push(info);
        Ok(FileId(id))
    }

    /// The id of a page content, which is stored if it is new. Equal contents (by the 128-bit XXH3) get
    /// equal ids; ids count up from 0 in order of first appearance.
    ///
    /// Cost: a hash, about 0.2 µs, and for a new content its compression.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or there are already 2^32 contents.
    pub fn content(&mut self, page: &[u8; PAGE_BYTES]) -> Result<ContentId> {
        let hash = xxh3_128(page);
        let key = [hash as u64, (hash >> 64) as u64];
        if let Some(&id) = self.content_ids.get(&key) {
            return Ok(ContentId(id));
        }
        let id = u32::try_from(self.content_ids.len())
            .map_err(|_| self.too_many("contents", 1 << 32))?;
        if self.pages.len() == content_block_bytes(CONTENTS_PER_BLOCK) {
            self.flush_contents()?;
        }
        self.pages.extend_from_slice(page);
        self.content_ids.insert(key, id);
        Ok(ContentId(id))
    }

    /// Appends an event.
    ///
    /// # Errors
    ///
    /// The event is earlier than the one before, names an application, file or content that was not
    /// added, or a page number of more than 52 bits; it is then not written, and the writer can go on.
    /// Or the file cannot be written; then every later call fails too.
    pub fn event(&mut self, event: &Event) -> Result<()> {
        if event.time_ns < self.last_ns {
            return Err(TraceError::TimeOrder {
                path: self.path.clone(),
                event: self.events,
                found_ns: event.time_ns,
                expected_ns: self.last_ns,
            });
        }
        let limits = Limits {
            apps: self.tables.apps.len() as u32,
            files: self.tables.files.len() as u32,
            contents: self.content_ids.len() as u64,
        };
        columns::check(event, limits).map_err(|bad| TraceError::InvalidEvent {
            path: self.path.clone(),
            event: self.events,
            field: bad.field,
            found: bad.found,
            expected: bad.expected,
        })?;
        if self.columns.len() == self.options.block_events {
            self.flush_events()?;
        }
        if !self.columns.push(event) {
            self.flush_events()?;
            let accepted = self.columns.push(event);
            debug_assert!(accepted, "an empty block takes any event");
        }
        self.first_ns.get_or_insert(event.time_ns);
        self.last_ns = event.time_ns;
        self.events += 1;
        Ok(())
    }

    /// Events written so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Distinct contents written so far.
    pub fn contents(&self) -> u64 {
        self.content_ids.len() as u64
    }

    /// Bytes written to the file so far; up to two blocks are still in memory.
    pub fn written_bytes(&self) -> u64 {
        self.offset
    }

    /// Completes the trace, makes it durable and puts it at its path, in place of what was there.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or an earlier write failed. Nothing is left behind then.
    pub fn finish(mut self) -> Result<Summary> {
        self.flush_contents()?;
        self.flush_events()?;
        let mut trailer = Trailer {
            events: self.events,
            contents: self.contents(),
            first_ns: self.first_ns.unwrap_or(0),
            last_ns: self.last_ns,
            header_crc: self.header_crc,
            ..Trailer::default()
        };
        trailer.event_index_offset = self.offset;
        trailer.event_blocks = self.event_index.entries;
        trailer.event_index_crc = self.append_index(|w| &mut w.event_index)?;
        trailer.content_index_offset = self.offset;
        trailer.content_blocks = self.content_index.entries;
        trailer.content_index_crc = self.append_index(|w| &mut w.content_index)?;
        let tables = std::mem::take(&mut self.tables);
        let json = self.json(&tables)?;
        trailer.tables_offset = self.offset;
        trailer.tables_bytes = json.len() as u64;
        trailer.tables_crc = crc32fast::hash(&json);
        self.append(&[&json, &trailer.encode()])?;

        let io = |action| {
            let path = self.path.clone();
            move |source| TraceError::Io {
                path,
                action,
                source,
            }
        };
        self.file.as_file().sync_all().map_err(io("flush"))?;
        self.file
            .persist(&self.path)
            .map_err(|e| io("rename the finished file to this name")(e.error))?;
        let dir = self
            .path
            .parent()
            .filter(|d| !d.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        File::open(dir)
            .and_then(|d| d.sync_all())
            .map_err(io("flush the directory of"))?;
        Ok(Summary {
            events: trailer.events,
            contents: trailer.contents,
            apps: tables.apps.len() as u32,
            files: tables.files.len() as u32,
            first_ns: trailer.first_ns,
            last_ns: trailer.last_ns,
            file_bytes: self.offset,
        })
    }

    /// Runs a file operation; after one has failed the file's state is unknown, so all later ones fail.
    fn guarded(
        &mut self,
        action: &'static str,
        run: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> Result<()> {
        let result = if self.failed {
            Err(io::Error::other("an earlier write failed"))
        } else {
            run(self)
        };
        result.map_err(|source| {
            self.failed = true;
            TraceError::Io {
                path: self.path.clone(),
                action,
                source,
            }
        })
    }

    fn json(&self, value: &impl serde::Serialize) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(value).map_err(|e| TraceError::Io {
            path: self.path.clone(),
            action: "encode the tables of",
            source: e.into(),
        })?;
        if json.len() as u64 > MAX_JSON_BYTES {
            return Err(self.too_many("bytes of description or tables", MAX_JSON_BYTES));
        }
        Ok(json)
    }

    fn too_many(&self, what: &'static str, limit: u64) -> TraceError {
        TraceError::TooMany {
            path: self.path.clone(),
            what,
            limit,
        }
    }
}

fn setting(name: &'static str, found: String, expected: &'static str) -> TraceError {
    TraceError::Setting {
        name,
        found,
        expected,
    }
}

#[cfg(test)]
mod tests;
