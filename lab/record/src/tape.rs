//! The trace being written, and what its reader knows so far.

use std::path::Path;

use rustc_hash::FxHashMap;
use warmswap_page::{AppId, FileId, PAGE_BYTES, PageAddr};
use warmswap_sys::maps::FileIdentity;
use warmswap_trace::{ContentId, Description, Event, EventKind, FileInfo, TraceError, TraceWriter};

/// Whose page: anonymous pages belong to an application, pages of files to none.
type Key = (Option<AppId>, PageAddr);

/// A trace under way. Times are those of the machine's monotonic clock; in the trace they count from the
/// tape's beginning.
pub(crate) struct Tape {
    writer: TraceWriter,
    origin_ns: u64,
    last_ns: u64,
    files: FxHashMap<FileIdentity, FileId>,
    /// The latest content of every page that the trace has told.
    contents: FxHashMap<Key, ContentId>,
    zero: ContentId,
}

/// Whether a page's content differs from what was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is the same.
    Same,
    /// It is another, or new and written to.
    Written(ContentId),
    /// It was not known: a new page of zeros, or a page of a file seen for the first time.
    Learned(ContentId),
}

impl Change {
    /// The content to tell.
    pub(crate) fn content(self) -> Option<ContentId> {
        match self {
            Self::Same => None,
            Self::Written(id) | Self::Learned(id) => Some(id),
        }
    }
}

impl Tape {
    pub(crate) fn create(
        path: &Path,
        description: Description,
        origin_ns: u64,
    ) -> Result<Self, TraceError> {
        let mut writer = TraceWriter::create(path, description)?;
        let zero = writer.content(&[0; PAGE_BYTES])?;
        let (files, contents) = (FxHashMap::default(), FxHashMap::default());
        Ok(Self {
            writer,
            origin_ns,
            last_ns: 0,
            files,
            contents,
            zero,
        })
    }

    pub(crate) fn add_app(&mut self, name: &str, description: &str) -> Result<AppId, TraceError> {
        self.writer.add_app(name, description)
    }

    /// The file's number, given at its first appearance.
    pub(crate) fn file(
        &mut self,
        identity: &FileIdentity,
        least_bytes: u64,
    ) -> Result<FileId, TraceError> {
        if let Some(&id) = self.files.get(identity) {
            return Ok(id);
        }
        let size_bytes = std::fs::metadata(&identity.path).map_or(least_bytes, |m| m.len());
        let id = self.writer.add_file(FileInfo {
            path: identity.path.to_string_lossy().into_owned(),
            device: device_number(&identity.device),
            inode: identity.inode,
            size_bytes,
        })?;
        self.files.insert(identity.clone(), id);
        Ok(id)
    }

    /// All files that have a number.
    pub(crate) fn files(&self) -> &FxHashMap<FileIdentity, FileId> {
        &self.files
    }

    /// Takes note that `page` of `app` holds `bytes` now.
    pub(crate) fn learn(
        &mut self,
        app: AppId,
        page: PageAddr,
        bytes: &[u8; PAGE_BYTES],
    ) -> Result<Change, TraceError> {
        let id = self.writer.content(bytes)?;
        Ok(match self.contents.insert(key(app, page), id) {
            Some(before) if before == id => Change::Same,
            Some(_) => Change::Written(id),
            None if matches!(page, PageAddr::Anon { .. }) && id != self.zero => Change::Written(id),
            None => Change::Learned(id),
        })
    }

    /// Forgets an anonymous page that was given back: its next content belongs to a new page.
    pub(crate) fn forget(&mut self, app: AppId, page: PageAddr) {
        self.contents.remove(&key(app, page));
    }

    /// Writes an event. A time before the latest event's, which reading the CPUs' buffers one after
    /// the other can bring (microseconds), is taken as that one.
    pub(crate) fn event(
        &mut self,
        time_ns: u64,
        app: AppId,
        kind: EventKind,
    ) -> Result<(), TraceError> {
        self.last_ns = self.last_ns.max(time_ns.saturating_sub(self.origin_ns));
        self.writer.event(&Event {
            time_ns: self.last_ns,
            app,
            kind,
        })
    }

    pub(crate) fn finish(self) -> Result<warmswap_trace::Summary, TraceError> {
        self.writer.finish()
    }
}

fn key(app: AppId, page: PageAddr) -> Key {
    (matches!(page, PageAddr::Anon { .. }).then_some(app), page)
}

/// `st_dev` from the kernel's `major:minor` in hexadecimal.
fn device_number(text: &str) -> u64 {
    let (major, minor) = text.split_once(':').unwrap_or(("0", "0"));
    let number = |t: &str| u64::from_str_radix(t, 16).unwrap_or(0);
    let (major, minor) = (number(major), number(minor));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(dir: &Path) -> (Tape, AppId) {
        let mut tape = Tape::create(&dir.join("t.wst"), Description::new("test"), 100).unwrap();
        let app = tape.add_app("a", "").unwrap();
        (tape, app)
    }

    #[test]
    fn a_change_is_told_once_and_a_page_given_back_is_new_again() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tape, app) = tape(dir.path());
        let page = PageAddr::Anon { number: 5 };
        let (zeros, ones) = ([0; PAGE_BYTES], [1; PAGE_BYTES]);

        assert!(matches!(
            tape.learn(app, page, &zeros).unwrap(),
            Change::Learned(_)
        ));
        assert!(matches!(
            tape.learn(app, page, &ones).unwrap(),
            Change::Written(_)
        ));
        assert_eq!(tape.learn(app, page, &ones).unwrap(), Change::Same);
        tape.forget(app, page);
        assert!(matches!(
            tape.learn(app, page, &ones).unwrap(),
            Change::Written(_)
        ));
    }

    #[test]
    fn a_page_of_a_file_is_the_same_for_all_and_reading_it_is_no_write() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tape, first) = tape(dir.path());
        let second = tape.add_app("b", "").unwrap();
        let identity = FileIdentity {
            device: "fe:01".to_owned(),
            inode: 7,
            path: "/no/file".into(),
        };
        let file = tape.file(&identity, 4096).unwrap();
        assert_eq!(tape.file(&identity, 4096).unwrap(), file);
        let page = PageAddr::File { file, number: 0 };

        assert!(matches!(
            tape.learn(first, page, &[3; PAGE_BYTES]).unwrap(),
            Change::Learned(_)
        ));
        assert_eq!(
            tape.learn(second, page, &[3; PAGE_BYTES]).unwrap(),
            Change::Same
        );
        assert!(matches!(
            tape.learn(second, page, &[4; PAGE_BYTES]).unwrap(),
            Change::Written(_)
        ));
    }

    #[test]
    fn times_never_go_back() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tape, app) = tape(dir.path());

        for time in [90, 150, 140, 160] {
            tape.event(time, app, EventKind::Background).unwrap();
        }
        tape.finish().unwrap();

        let reader = warmswap_trace::TraceReader::open(dir.path().join("t.wst")).unwrap();
        let times: Vec<u64> = reader.events().map(|e| e.unwrap().time_ns).collect();
        assert_eq!(times, [0, 50, 50, 60]);
    }

    #[test]
    fn device_numbers_are_those_of_stat() {
        assert_eq!(device_number("fe:01"), 0xfe01);
        assert_eq!(device_number("00:123"), 0x10_0023);
    }
}
