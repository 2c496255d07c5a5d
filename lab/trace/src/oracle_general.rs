//! The accesses of a trace in the format `oracleGeneral` of libCacheSim, which has forty cache policies.
//!
//! A record of 24 bytes for each access, little endian, without a header:
//!
//! | bytes | field | here |
//! |---|---|---|
//! | 0 to 3 | `clock_time` | seconds since the first event |
//! | 4 to 11 | `obj_id` | the page, numbered from 1 in the order of first accesses |
//! | 12 to 15 | `obj_size` | 4096 |
//! | 16 to 23 | `next_access_vtime` | the next access to the page, accesses counted from 1; -1 where there is none |
//!
//! A page that is touched after it was freed, or in another life of its application, is another page: its old content is of
//! no more use. Launches, and contents that were recorded without an access, have no record.

use std::io::{BufWriter, Write};
use std::path::Path;

use rustc_hash::FxHashMap;
use warmswap_page::{AppId, PAGE_BYTES, PageAddr};

use crate::error::{Result, TraceError};
use crate::event::{Event, EventKind};
use crate::reader::TraceReader;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;

/// Stands for the next access of a page that is not accessed again.
const NEVER: i64 = -1;

/// One access.
#[derive(Clone, Copy, Debug)]
struct Record {
    seconds: u32,
    page: u64,
    next: i64,
}

impl Record {
    fn bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&self.seconds.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.page.to_le_bytes());
        bytes[12..16].copy_from_slice(&(PAGE_BYTES as u32).to_le_bytes());
        bytes[16..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }
}

/// The accesses so far, and the last one to each page that exists. Applications share the pages of a file.
#[derive(Default)]
struct Accesses {
    records: Vec<Record>,
    last: FxHashMap<(Option<AppId>, PageAddr), usize>,
    pages: u64,
}

impl Accesses {
    fn event(&mut self, event: &Event, seconds: u32) {
        let owner = |page| match page {
            PageAddr::Anon { .. } => Some(event.app),
            PageAddr::File { .. } => None,
        };
        match event.kind {
            EventKind::Access { page, .. } => self.access((owner(page), page), seconds),
            EventKind::Free { page, pages } => self.free(owner(page), page, pages.into()),
            EventKind::Exit => self.last.retain(|&(owner, _), _| owner != Some(event.app)),
            EventKind::Content { .. }
            | EventKind::LaunchBegin(_)
            | EventKind::LaunchEnd
            | EventKind::Background => {}
        }
    }

    fn access(&mut self, key: (Option<AppId>, PageAddr), seconds: u32) {
        let at = self.records.len();
        let page = match self.last.insert(key, at) {
            Some(before) => {
                self.records[before].next = at as i64 + 1;
                self.records[before].page
            }
            None => {
                self.pages += 1;
                self.pages
            }
        };
        self.records.push(Record {
            seconds,
            page,
            next: NEVER,
        });
    }

    fn free(&mut self, owner: Option<AppId>, first: PageAddr, pages: u64) {
        let behind = |page: PageAddr| match (first, page) {
            (PageAddr::Anon { number: from }, PageAddr::Anon { number }) => {
                number.checked_sub(from)
            }
            (
                PageAddr::File { file, number: from },
                PageAddr::File {
                    file: other,
                    number,
                },
            ) => number.checked_sub(from).filter(|_| file == other),
            _ => None,
        };
        let is_freed = |page| behind(page).is_some_and(|distance| distance < pages);
        if pages > self.last.len() as u64 {
            self.last
                .retain(|&(of, page), _| of != owner || !is_freed(page));
            return;
        }
        for offset in 0..pages {
            let page = match first {
                PageAddr::Anon { number } => PageAddr::Anon {
                    number: number.saturating_add(offset),
                },
                PageAddr::File { file, number } => PageAddr::File {
                    file,
                    number: number.saturating_add(offset),
                },
            };
            self.last.remove(&(owner, page));
        }
    }
}

/// Writes the accesses of `trace` to `path`, those to pages of files only if `file_pages` says so, and returns how many there
/// are.
///
/// Memory: 24 bytes an access, and some 60 a page.
///
/// # Errors
///
/// The trace cannot be read, or the file cannot be written; none is left behind then.
pub fn export(trace: &TraceReader, path: &Path, file_pages: bool) -> Result<u64> {
    let begin_ns = trace.summary().first_ns;
    let mut accesses = Accesses::default();
    let mut events = trace.events();
    let mut block: Vec<Event> = Vec::new();
    while events.next_block(&mut block)? {
        for event in &block {
            let is_of_file = matches!(
                event.kind,
                EventKind::Access {
                    page: PageAddr::File { .. },
                    ..
                }
            );
            if file_pages || !is_of_file {
                let seconds = (event.time_ns - begin_ns) / 1_000_000_000;
                accesses.event(event, u32::try_from(seconds).unwrap_or(u32::MAX));
            }
        }
    }
    let io = |action| {
        move |source| TraceError::Io {
            path: path.to_owned(),
            action,
            source,
        }
    };
    crate::replace_file(path, |file| {
        let mut out = BufWriter::new(file);
        for record in &accesses.records {
            out.write_all(&record.bytes()).map_err(io("write"))?;
        }
        out.flush().map_err(io("write"))
    })?;
    Ok(accesses.records.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::Description;
    use crate::testing::{sample_trace, scratch};
    use crate::writer::TraceWriter;
    use warmswap_page::FileId;

    /// The records of a file: seconds, page, bytes, next access.
    fn read(path: &Path) -> Vec<(u32, u64, u32, i64)> {
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len() % RECORD_BYTES, 0);
        let record = |bytes: &[u8]| {
            let number = |range: std::ops::Range<usize>| {
                let bytes = bytes[range].iter().rev();
                bytes.fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
            };
            let next = number(16..24) as i64;
            (
                number(0..4) as u32,
                number(4..12),
                number(12..16) as u32,
                next,
            )
        };
        bytes.chunks(RECORD_BYTES).map(record).collect()
    }

    /// Whether the event ends the page that an access touched.
    fn ends(event: &Event, app: AppId, page: PageAddr) -> bool {
        let is_own = event.app == app;
        match (event.kind, page) {
            (EventKind::Exit, PageAddr::Anon { .. }) => is_own,
            (
                EventKind::Free {
                    page: PageAddr::Anon { number: first },
                    pages,
                },
                PageAddr::Anon { number },
            ) => is_own && (first..first + u64::from(pages)).contains(&number),
            (
                EventKind::Free {
                    page:
                        PageAddr::File {
                            file,
                            number: first,
                        },
                    pages,
                },
                PageAddr::File {
                    file: other,
                    number,
                },
            ) => file == other && (first..first + u64::from(pages)).contains(&number),
            _ => false,
        }
    }

    /// What must be written, by a search through all later events for each access.
    fn expected(events: &[Event], file_pages: bool) -> Vec<(u32, u64, u32, i64)> {
        let touched = |event: &Event| match event.kind {
            EventKind::Access { page, .. } => match page {
                PageAddr::Anon { .. } => Some((event.app, page)),
                PageAddr::File { .. } => file_pages.then_some((AppId(0), page)),
            },
            _ => None,
        };
        let accesses: Vec<usize> = (0..events.len())
            .filter(|&at| touched(&events[at]).is_some())
            .collect();
        let mut records: Vec<(u32, u64, u32, i64)> = Vec::new();
        let mut pages = 0;
        for (number, &at) in accesses.iter().enumerate() {
            let own = touched(&events[at]);
            let (app, page) = (events[at].app, own.expect("an access").1);
            let later = accesses[number + 1..]
                .iter()
                .find(|&&later| touched(&events[later]) == own);
            let lives =
                |&&later: &&usize| !events[at..later].iter().any(|event| ends(event, app, page));
            let next = later.filter(lives).map_or(-1, |later| {
                accesses.binary_search(later).expect("it is one") as i64 + 1
            });
            let before = records.iter().find(|record| record.3 == number as i64 + 1);
            let object = before.map_or_else(
                || {
                    pages += 1;
                    pages
                },
                |before| before.1,
            );
            let seconds = (events[at].time_ns - events[0].time_ns) / 1_000_000_000;
            records.push((seconds as u32, object, 4096, next));
        }
        records
    }

    #[test]
    fn records_are_those_of_a_search_through_all_events() {
        let dir = scratch();
        let (path, events, _) = sample_trace(dir.path());
        let trace = TraceReader::open(path).unwrap();
        for file_pages in [false, true] {
            let out = dir.path().join("accesses.bin");
            let written = export(&trace, &out, file_pages).unwrap();
            let records = read(&out);
            assert_eq!(records.len() as u64, written);
            assert_eq!(records, expected(&events, file_pages));
            assert!(records.iter().any(|record| record.3 > 0));
            assert!(records.last().is_some_and(|record| record.0 > 5));
        }
    }

    #[test]
    fn a_page_that_was_freed_or_whose_application_ended_is_another_one() {
        let dir = scratch();
        let path = dir.path().join("lives.wst");
        let mut writer = TraceWriter::create(&path, Description::new("test")).unwrap();
        let apps = ["one", "two"].map(|name| writer.add_app(name, "").unwrap());
        let anon = PageAddr::Anon { number: 7 };
        let touch = |app: usize, page| {
            (
                app,
                EventKind::Access {
                    page,
                    write: false,
                    content: None,
                },
            )
        };
        let free = |pages| {
            (
                0,
                EventKind::Free {
                    page: PageAddr::Anon { number: 4 },
                    pages,
                },
            )
        };
        let steps = [
            touch(0, anon),
            touch(1, anon),
            touch(0, anon),
            free(3),
            touch(0, anon),
            free(4),
            touch(0, anon),
            free(u32::MAX),
            touch(0, anon),
            (0, EventKind::Exit),
            touch(0, anon),
            touch(1, anon),
        ];
        let mut events = Vec::new();
        for (time_ns, (app, kind)) in (0..).zip(steps) {
            let event = Event {
                time_ns,
                app: apps[app],
                kind,
            };
            writer.event(&event).unwrap();
            events.push(event);
        }
        writer.finish().unwrap();
        let out = dir.path().join("accesses.bin");
        export(&TraceReader::open(&path).unwrap(), &out, false).unwrap();
        let records = read(&out);
        assert_eq!(records, expected(&events, false));
        let pages: Vec<_> = records.iter().map(|record| (record.1, record.3)).collect();
        let by_hand = [
            (1, 3),
            (2, 8),
            (1, 4),
            (1, -1),
            (3, -1),
            (4, -1),
            (5, -1),
            (2, -1),
        ];
        assert_eq!(pages, by_hand);
        let mut accesses = Accesses::default();
        let of_file = |number| PageAddr::File {
            file: FileId(3),
            number,
        };
        accesses.access((None, of_file(9)), 0);
        accesses.free(None, of_file(8), 2);
        assert!(accesses.last.is_empty());
    }
}
