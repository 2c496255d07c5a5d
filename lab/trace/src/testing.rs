//! Small traces and pages for tests.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::describe::{Description, FileInfo};
use crate::event::{ContentId, Event, EventKind};
use crate::writer::{TraceWriter, WriterOptions};
use warmswap_page::{LaunchKind, PAGE_BYTES, PageAddr};

pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Page `n` of a made-up memory: no two are equal; even ones compress, odd ones do not.
pub(crate) fn page(n: u64) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let random_bytes = if n.is_multiple_of(2) { 64 } else { PAGE_BYTES };
    for byte in &mut page[..random_bytes] {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
    page[..8].copy_from_slice(&n.to_le_bytes());
    page
}

/// A trace with every kind of event, several blocks of each sort and a few long gaps: its path, its
/// events and the number of its contents, where content `n` is `page(n)`.
pub(crate) fn sample_trace(dir: &Path) -> (PathBuf, Vec<Event>, u64) {
    let path = dir.join("sample.wst");
    let options = WriterOptions {
        block_events: 50,
        ..WriterOptions::default()
    };
    let mut writer = TraceWriter::create_with(&path, Description::new("test"), options).unwrap();
    let apps = [
        writer.add_app("one", "").unwrap(),
        writer.add_app("two", "").unwrap(),
    ];
    let info = FileInfo {
        path: "/lib/x.so".into(),
        device: 1,
        inode: 2,
        size_bytes: 1 << 20,
    };
    let file = writer.add_file(info).unwrap();
    let mut events = Vec::new();
    let mut contents = 0;
    for n in 0..400u64 {
        let anon = PageAddr::Anon {
            number: 0x7f00_0000 + n / 2,
        };
        let mut content = None;
        if matches!(n % 10, 1..=4) && !n.is_multiple_of(3) {
            content = Some(writer.content(&page(contents)).unwrap());
            contents += 1;
        }
        let kind = match n % 10 {
            0 => EventKind::LaunchBegin(if n == 0 {
                LaunchKind::Cold
            } else {
                LaunchKind::Relaunch
            }),
            6 => EventKind::LaunchEnd,
            7 => EventKind::Background,
            8 => EventKind::Content {
                page: anon,
                content: ContentId(contents as u32 - 1),
            },
            9 if n == 399 => EventKind::Exit,
            9 => EventKind::Free {
                page: anon,
                pages: 3,
            },
            5 => EventKind::Access {
                page: PageAddr::File { file, number: n },
                write: false,
                content: None,
            },
            _ => EventKind::Access {
                page: anon,
                write: n.is_multiple_of(2),
                content,
            },
        };
        let gap_ns = if n % 90 == 89 {
            6_000_000_000
        } else {
            n % 7 * 1000
        };
        let time_ns = events.last().map_or(0, |e: &Event| e.time_ns) + gap_ns;
        let event = Event {
            time_ns,
            app: apps[n as usize / 10 % 2],
            kind,
        };
        writer.event(&event).unwrap();
        events.push(event);
    }
    writer.finish().unwrap();
    (path, events, contents)
}
