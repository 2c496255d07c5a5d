use proptest::prelude::*;

use super::*;
use crate::event::{Event, EventKind};
use crate::stop::Stop;
use crate::testing::{page, sample_trace, scratch};
use crate::writer::{TraceWriter, WriterOptions};
use warmswap_page::{LaunchKind, PageAddr};

const APPS: u16 = 3;
const FILES: u32 = 2;
const CONTENTS: u32 = 70;

fn any_page() -> impl Strategy<Value = PageAddr> {
    let number = 0..(1u64 << 52) - u64::from(u32::MAX);
    prop_oneof![
        number.clone().prop_map(|number| PageAddr::Anon { number }),
        (0..FILES, number).prop_map(|(file, number)| PageAddr::File {
            file: FileId(file),
            number
        }),
    ]
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    let content = (0..CONTENTS).prop_map(ContentId);
    let access = (any_page(), any::<bool>(), prop::option::of(content.clone()));
    prop_oneof![
        access.prop_map(|(page, write, content)| EventKind::Access {
            page,
            write,
            content
        }),
        (any_page(), content).prop_map(|(page, content)| EventKind::Content { page, content }),
        Just(EventKind::LaunchBegin(LaunchKind::Cold)),
        Just(EventKind::LaunchBegin(LaunchKind::Relaunch)),
        Just(EventKind::LaunchEnd),
        Just(EventKind::Background),
        (any_page(), 1..=u32::MAX).prop_map(|(page, pages)| EventKind::Free { page, pages }),
        Just(EventKind::Exit),
    ]
}

/// Events whose gaps are mostly small and now and then longer than 32 bits of nanoseconds.
fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let gap = prop_oneof![8 => 0u64..5000, 1 => (1u64 << 31)..(1 << 34)];
    prop::collection::vec((gap, 0..APPS, any_kind()), 0..400).prop_map(|parts| {
        let mut time_ns = 0;
        let event = |(gap, app, kind)| {
            time_ns += gap;
            Event {
                time_ns,
                app: AppId(app),
                kind,
            }
        };
        parts.into_iter().map(event).collect()
    })
}

fn write(path: &Path, events: &[Event], block_events: usize) -> Summary {
    let options = WriterOptions {
        block_events,
        ..WriterOptions::default()
    };
    let mut writer = TraceWriter::create_with(path, Description::new("test"), options).unwrap();
    for n in 0..APPS {
        writer.add_app(format!("app{n}"), "").unwrap();
    }
    for n in 0..FILES {
        let info = FileInfo {
            path: format!("/f{n}"),
            device: 1,
            inode: n.into(),
            size_bytes: 1 << 20,
        };
        writer.add_file(info).unwrap();
    }
    for n in 0..CONTENTS {
        writer.content(&page(n.into())).unwrap();
    }
    events.iter().for_each(|e| writer.event(e).unwrap());
    writer.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_read_back(events in any_events(), block_events in 1usize..100) {
        let dir = scratch();
        let path = dir.path().join("t.wst");
        let summary = write(&path, &events, block_events);
        let reader = TraceReader::open(&path).unwrap();

        prop_assert_eq!(reader.summary(), summary);
        let read: Vec<Event> = reader.events().map(Result::unwrap).collect();
        prop_assert_eq!(&read, &events);
        reader.verify(|_, _| {}).unwrap();
        for n in 0..CONTENTS {
            let mut got = [0; PAGE_BYTES];
            reader.content(ContentId(n), &mut got).unwrap();
            prop_assert_eq!(got, page(n.into()));
        }
    }

    #[test]
    fn seeking_equals_skipping(events in any_events(), block_events in 1usize..100, at in 0.0f64..1.1) {
        let dir = scratch();
        let path = dir.path().join("t.wst");
        write(&path, &events, block_events);
        let reader = TraceReader::open(&path).unwrap();

        let n = (events.len() as f64 * at) as usize;
        let read: Vec<Event> = reader.events_from(n as u64).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(&read[..], &events[n.min(events.len())..]);

        let last = events.last().map_or(0, |e| e.time_ns);
        let exact = events.get(n).map_or(last + 1, |e| e.time_ns);
        for time_ns in [exact, exact + 1, (last as f64 * at) as u64] {
            let from = events.partition_point(|e| e.time_ns < time_ns);
            let read: Vec<Event> = reader.events_from_time(time_ns).unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(&read[..], &events[from..]);
        }
    }
}

#[test]
fn blocks_and_single_events_mix() {
    let dir = scratch();
    let (path, events, _) = sample_trace(dir.path());
    let mut stream = TraceReader::open(&path).unwrap().events();

    let mut read: Vec<Event> = stream.by_ref().take(10).map(Result::unwrap).collect();
    let mut block = Vec::new();
    while stream.next_block(&mut block).unwrap() {
        assert!(!block.is_empty());
        read.extend_from_slice(&block);
    }

    assert_eq!(read, events);
    assert!(block.is_empty());
    assert!(stream.next().is_none());
}

#[test]
fn description_and_tables_are_read_back() {
    let dir = scratch();
    let path = dir.path().join("t.wst");
    let mut description = Description::new("by hand");
    description.extra.insert("weather".into(), "fine".into());
    let mut writer = TraceWriter::create(&path, description.clone()).unwrap();
    writer.add_app("editor", "typing").unwrap();
    let info = FileInfo {
        path: "/lib/ü.so".into(),
        device: 7,
        inode: u64::MAX,
        size_bytes: 1,
    };
    writer.add_file(info.clone()).unwrap();
    writer.finish().unwrap();

    let reader = TraceReader::open(&path).unwrap();

    assert_eq!(reader.description(), &description);
    assert_eq!(reader.app(AppId(0)).unwrap().name, "editor");
    assert_eq!(reader.app(AppId(1)), None);
    assert_eq!(reader.files(), [info]);
    assert_eq!(reader.summary().duration_ns(), 0);
    assert!(reader.events().next().is_none());
}

#[test]
fn contents_are_read_by_several_threads_at_once() {
    let dir = scratch();
    let path = dir.path().join("t.wst");
    let contents = 64 * 40u64;
    let mut writer = TraceWriter::create(&path, Description::new("test")).unwrap();
    for n in 0..contents {
        writer.content(&page(n)).unwrap();
    }
    writer.finish().unwrap();
    let reader = TraceReader::open(&path).unwrap();

    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let reader = &reader;
            scope.spawn(move || {
                let mut got = [0; PAGE_BYTES];
                for step in 0..contents {
                    let n = (step * 977 + thread * 311) % contents;
                    reader.content(ContentId(n as u32), &mut got).unwrap();
                    assert_eq!(got, page(n), "content {n}");
                }
            });
        }
    });
}

#[test]
fn a_content_that_is_not_there_is_an_error() {
    let dir = scratch();
    let (path, _, contents) = sample_trace(dir.path());
    let reader = TraceReader::open(&path).unwrap();

    let mut got = [7; PAGE_BYTES];
    let error = reader
        .content(ContentId(contents as u32), &mut got)
        .unwrap_err();

    assert!(matches!(error, TraceError::NoSuchContent { .. }), "{error}");
    assert_eq!(got, [7; PAGE_BYTES]);
}

#[test]
fn foreign_files_are_refused_by_name() {
    let dir = scratch();
    let path = dir.path().join("x.wst");
    let expect = "the magic of a warmswap trace";
    for bytes in [
        &b""[..],
        b"E",
        b"ELF and so on, long enough for a header and a trailer",
    ] {
        std::fs::write(&path, bytes).unwrap();
        let text = TraceReader::open(&path).unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("{}: at byte 0: found ", path.display())),
            "{text}"
        );
        assert!(text.ends_with(expect), "{text}");
    }
    let missing = TraceReader::open(dir.path().join("none.wst")).unwrap_err();
    assert!(matches!(missing, TraceError::Io { .. }), "{missing}");
}

#[test]
fn a_newer_version_is_refused_as_such() {
    let dir = scratch();
    let (path, ..) = sample_trace(dir.path());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 2;
    let crc = crc32fast::hash(&bytes[..20]);
    bytes[20..24].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();

    let error = TraceReader::open(&path).unwrap_err();

    assert!(
        matches!(
            error,
            TraceError::NewerVersion {
                found: 2,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_damaged_block_is_named_by_place_and_checksums() {
    let dir = scratch();
    let (path, ..) = sample_trace(dir.path());
    let reader = TraceReader::open(&path).unwrap();
    let offset = reader.events().peek_extent().unwrap().unwrap().0;
    drop(reader);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[offset as usize + 60] ^= 1;
    std::fs::write(&path, &bytes).unwrap();

    let mut events = TraceReader::open(&path).unwrap().events();
    let error = events.next().unwrap().unwrap_err();

    let TraceError::Checksum {
        found, expected, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        error.to_string(),
        format!(
            "{}: at byte {offset}: event block checksum is {found:08x}, expected {expected:08x} (the file is damaged)",
            path.display()
        )
    );
    assert!(events.next().is_none());
}

/// Writes a trailer with `change` made to it and a right checksum.
fn forge_trailer(path: &Path, change: impl FnOnce(&mut Trailer)) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.len() - TRAILER_BYTES;
    let (mut trailer, ..) = Trailer::decode(bytes[at..].try_into().unwrap());
    change(&mut trailer);
    bytes.splice(at.., trailer.encode());
    std::fs::write(path, &bytes).unwrap();
}

#[test]
fn absurd_counts_with_right_checksums_are_refused_without_allocation() {
    let changes: [fn(&mut Trailer); 8] = [
        |t| t.event_blocks = u64::MAX / 40,
        |t| t.content_blocks = u64::MAX,
        |t| t.tables_bytes = u64::MAX,
        |t| t.tables_offset = u64::MAX,
        |t| t.event_index_offset = 0,
        |t| t.contents = u64::MAX,
        |t| t.events = 0,
        |t| t.first_ns = u64::MAX,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let dir = scratch();
        let (path, ..) = sample_trace(dir.path());
        forge_trailer(&path, change);
        let error = TraceReader::open(&path).unwrap_err();
        assert!(
            matches!(
                error,
                TraceError::Damaged {
                    section: Section::Trailer,
                    ..
                }
            ),
            "{n}: {error}"
        );
    }
}

#[test]
fn the_number_of_events_must_be_that_of_the_blocks() {
    let dir = scratch();
    let (path, ..) = sample_trace(dir.path());
    forge_trailer(&path, |t| t.events += 1);

    let reader = TraceReader::open(&path).unwrap();

    assert!(reader.verify(|_, _| {}).is_err());
    assert!(reader.events().any(|e| e.is_err()));
}

#[test]
fn a_stop_ends_all_reading_of_the_readers_that_look_at_it() {
    let dir = scratch();
    let (path, events, _) = sample_trace(dir.path());
    let trace = TraceReader::open(path).unwrap();
    let stop = Stop::default();
    let stoppable = trace.with_stop(stop.clone());
    let mut reading = stoppable.events();
    assert_eq!(reading.next().unwrap().unwrap(), events[0]);
    stop.set();
    let rest: Vec<_> = reading.collect();
    let is_stopped = |error: &TraceError| matches!(error, TraceError::Stopped { .. });
    let (last, before) = rest.split_last().unwrap();
    assert!(is_stopped(last.as_ref().unwrap_err()));
    assert!(before.len() < events.len() / 2 && before.iter().all(Result::is_ok));
    let mut page = [0; PAGE_BYTES];
    assert!(is_stopped(
        &stoppable.content(ContentId(0), &mut page).unwrap_err()
    ));
    assert!(is_stopped(&stoppable.verify(|_, _| ()).unwrap_err()));
    assert_eq!(trace.events().filter(Result::is_ok).count(), events.len());
}
