//! Small traces for tests, told as a story.

use std::collections::HashSet;

use tempfile::TempDir;
use warmswap_page::{AppId, FileId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_policy::SchemeSpec;
use warmswap_trace::synth::{SynthConfig, synthesize};
use warmswap_trace::{ContentId, Description, Event, EventKind, TraceReader, TraceWriter};

use crate::subject::Subject;

/// Page `n` of a made-up memory: no two are equal, each compresses to about a third.
pub(crate) fn page(n: u64) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for (at, byte) in page.iter_mut().enumerate() {
        if at % 64 < 16 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        } else {
            *byte = (at / 64) as u8;
        }
    }
    page
}

/// Writes a trace event by event, 1 ms apart. The first touch of a page writes its content.
pub(crate) struct Script {
    dir: TempDir,
    writer: TraceWriter,
    time_ns: u64,
    launched: HashSet<u16>,
    known: HashSet<(u16, u64)>,
}

impl Script {
    pub(crate) fn new(apps: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut writer =
            TraceWriter::create(dir.path().join("script.wst"), Description::new("test")).unwrap();
        for app in 0..apps {
            writer.add_app(format!("app{app}"), "").unwrap();
        }
        Self {
            dir,
            writer,
            time_ns: 0,
            launched: HashSet::new(),
            known: HashSet::new(),
        }
    }

    fn event(&mut self, app: u16, kind: EventKind) -> &mut Self {
        self.time_ns += 1_000_000;
        let event = Event {
            time_ns: self.time_ns,
            app: AppId(app),
            kind,
        };
        self.writer.event(&event).unwrap();
        self
    }

    /// A launch window that touches these pages; the first one of an application is cold.
    pub(crate) fn launch(&mut self, app: u16, pages: &[u64]) -> &mut Self {
        let kind = if self.launched.insert(app) {
            LaunchKind::Cold
        } else {
            LaunchKind::Relaunch
        };
        self.event(app, EventKind::LaunchBegin(kind));
        self.execute(app, pages).event(app, EventKind::LaunchEnd)
    }

    /// Touches of pages.
    pub(crate) fn execute(&mut self, app: u16, pages: &[u64]) -> &mut Self {
        for &number in pages {
            let first = self.known.insert((app, number));
            let content = first.then(|| self.store(&page(u64::from(app) * 100_000 + number)));
            let kind = EventKind::Access {
                page: PageAddr::Anon { number },
                write: first,
                content,
            };
            self.event(app, kind);
        }
        self
    }

    pub(crate) fn background(&mut self, app: u16) -> &mut Self {
        self.event(app, EventKind::Background)
    }

    pub(crate) fn content(&mut self, app: u16, number: u64, page: &[u8; PAGE_BYTES]) -> &mut Self {
        self.known.insert((app, number));
        let content = self.store(page);
        let page = PageAddr::Anon { number };
        self.event(app, EventKind::Content { page, content })
    }

    pub(crate) fn file(&mut self) -> FileId {
        let info = warmswap_trace::FileInfo {
            path: "/lib/x.so".into(),
            device: 1,
            inode: 2,
            size_bytes: 1 << 20,
        };
        self.writer.add_file(info).unwrap()
    }

    pub(crate) fn read_file(&mut self, app: u16, file: FileId, number: u64) -> &mut Self {
        let kind = EventKind::Access {
            page: PageAddr::File { file, number },
            write: false,
            content: None,
        };
        self.event(app, kind)
    }

    fn store(&mut self, page: &[u8; PAGE_BYTES]) -> ContentId {
        self.writer.content(page).unwrap()
    }

    pub(crate) fn subject(self) -> Subject {
        let path = self.dir.path().join("script.wst");
        self.writer.finish().unwrap();
        Subject::open(path, u64::MAX).unwrap()
    }
}

/// A synthetic trace of about `pages` pages over made-up contents.
pub(crate) fn synthetic(pages: u64) -> Subject {
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus.wst");
    let mut writer = TraceWriter::create(&corpus, Description::new("test")).unwrap();
    for n in 0..500 {
        writer.content(&page(n)).unwrap();
    }
    writer.finish().unwrap();
    let path = dir.path().join("synthetic.wst");
    let config = SynthConfig {
        relaunches: 3,
        ..SynthConfig::default().with_pages(pages)
    };
    let corpus = TraceReader::open(corpus).unwrap();
    synthesize(&path, &config, Some(&corpus)).unwrap();
    Subject::open(path, u64::MAX).unwrap()
}

pub(crate) fn schemes<const N: usize>(names: [&str; N]) -> Vec<SchemeSpec> {
    names.map(|name| SchemeSpec::parse(name).unwrap()).into()
}
