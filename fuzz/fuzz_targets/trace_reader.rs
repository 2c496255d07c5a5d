//! Opens and reads files that are no traces, or traces with bytes exchanged, in every way there is.
//!
//! The first byte of the input decides: the rest is a whole file, or edits of a good trace, each of three
//! bytes of place and one byte of value.
#![no_main]

use std::io::Write;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use warmswap_page::{LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_trace::{
    ContentId, Description, Event, EventKind, FileInfo, TraceReader, TraceWriter,
};

fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("good.wst");
        let options = warmswap_trace::WriterOptions {
            block_events: 8,
            ..Default::default()
        };
        let mut writer =
            TraceWriter::create_with(&path, Description::new("fuzz"), options).expect("create");
        let app = writer.add_app("a", "").expect("application");
        let info = FileInfo {
            path: "/f".into(),
            device: 1,
            inode: 2,
            size_bytes: 3,
        };
        let file = writer.add_file(info).expect("file");
        for n in 0..80u64 {
            let mut page = [n as u8; PAGE_BYTES];
            page[n as usize] = 1;
            let content = writer.content(&page).expect("content");
            let anon = PageAddr::Anon { number: n };
            let kind = match n % 6 {
                0 => EventKind::LaunchBegin(LaunchKind::Relaunch),
                1 => EventKind::Access {
                    page: anon,
                    write: true,
                    content: Some(content),
                },
                2 => EventKind::Access {
                    page: PageAddr::File { file, number: n },
                    write: false,
                    content: None,
                },
                3 => EventKind::LaunchEnd,
                4 => EventKind::Content {
                    page: anon,
                    content,
                },
                _ => EventKind::Free {
                    page: anon,
                    pages: 2,
                },
            };
            writer
                .event(&Event {
                    time_ns: n * 1000,
                    app,
                    kind,
                })
                .expect("event");
        }
        writer.finish().expect("finish");
        std::fs::read(path).expect("read")
    })
}

fn read(reader: &TraceReader) {
    let summary = reader.summary();
    let _ = summary.duration_ns();
    let _ = reader.verify(|_, _| {});
    let starts = [
        Ok(reader.events()),
        reader.events_from(summary.events / 2),
        reader.events_from_time(summary.last_ns),
    ];
    for events in starts.into_iter().flatten() {
        for event in events.map_while(Result::ok) {
            assert!(usize::from(event.app.0) < reader.apps().len());
        }
    }
    let _ = warmswap_trace::stats::stats(reader);
    let mut page = [0; PAGE_BYTES];
    for n in (0..summary.contents.min(100)).chain([summary.contents]) {
        let _ = reader.content(ContentId(n as u32), &mut page);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else {
        return;
    };
    let bytes = if mode % 4 == 0 {
        rest.to_vec()
    } else {
        let mut bytes = good().to_vec();
        for edit in rest.as_chunks::<4>().0 {
            // Places count from the end in one mode: the trailer and the indexes stand there.
            let place = u32::from_le_bytes([edit[0], edit[1], edit[2], 0]) as usize % bytes.len();
            let place = if mode % 4 == 1 {
                bytes.len() - 1 - place
            } else {
                place
            };
            bytes[place] = edit[3];
        }
        bytes
    };
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&bytes).expect("write");
    if let Ok(reader) = TraceReader::open(file.path()) {
        read(&reader);
    }
});
