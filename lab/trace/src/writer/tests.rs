use super::*;
use crate::event::EventKind;
use crate::reader::TraceReader;
use crate::testing::{page, scratch};
use warmswap_page::{LaunchKind, PageAddr};

fn access(time_ns: u64, app: AppId, number: u64) -> Event {
    let page = PageAddr::Anon { number };
    Event {
        time_ns,
        app,
        kind: EventKind::Access {
            page,
            write: false,
            content: None,
        },
    }
}

fn files_in(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn equal_contents_have_equal_ids_in_order_of_appearance() {
    let dir = scratch();
    let mut writer =
        TraceWriter::create(dir.path().join("t.wst"), Description::new("test")).unwrap();
    let ids: Vec<u32> = [5, 6, 5, 7, 6]
        .map(|n| writer.content(&page(n)).unwrap().0)
        .to_vec();
    assert_eq!(ids, [0, 1, 0, 2, 1]);
    assert_eq!(writer.finish().unwrap().contents, 3);
}

#[test]
fn a_file_is_known_by_device_and_inode() {
    let dir = scratch();
    let mut writer =
        TraceWriter::create(dir.path().join("t.wst"), Description::new("test")).unwrap();
    let info = |path: &str, inode| FileInfo {
        path: path.into(),
        device: 1,
        inode,
        size_bytes: 0,
    };
    let a = writer.add_file(info("/a", 1)).unwrap();
    let b = writer.add_file(info("/b", 2)).unwrap();
    let link = writer.add_file(info("/link-to-a", 1)).unwrap();
    assert_eq!((a, b, link), (FileId(0), FileId(1), FileId(0)));
}

#[test]
fn an_abandoned_writer_leaves_nothing_behind() {
    let dir = scratch();
    let mut writer =
        TraceWriter::create(dir.path().join("t.wst"), Description::new("test")).unwrap();
    let app = writer.add_app("a", "").unwrap();
    writer.event(&access(0, app, 1)).unwrap();
    assert_eq!(files_in(dir.path()), 1);
    drop(writer);
    assert_eq!(files_in(dir.path()), 0);
}

#[test]
fn the_old_trace_stays_until_the_new_one_is_finished() {
    let dir = scratch();
    let path = dir.path().join("t.wst");
    TraceWriter::create(&path, Description::new("old"))
        .unwrap()
        .finish()
        .unwrap();
    let writer = TraceWriter::create(&path, Description::new("new")).unwrap();
    assert_eq!(
        TraceReader::open(&path).unwrap().description().method,
        "old"
    );
    writer.finish().unwrap();
    assert_eq!(
        TraceReader::open(&path).unwrap().description().method,
        "new"
    );
    assert_eq!(files_in(dir.path()), 1);
}

#[test]
fn time_must_not_go_back() {
    let dir = scratch();
    let path = dir.path().join("t.wst");
    let mut writer = TraceWriter::create(&path, Description::new("test")).unwrap();
    let app = writer.add_app("a", "").unwrap();
    writer.event(&access(10, app, 1)).unwrap();
    writer.event(&access(10, app, 2)).unwrap();

    let error = writer.event(&access(9, app, 3)).unwrap_err();

    assert!(
        matches!(
            error,
            TraceError::TimeOrder {
                event: 2,
                found_ns: 9,
                expected_ns: 10,
                ..
            }
        ),
        "{error}"
    );
    writer.event(&access(11, app, 4)).unwrap();
    assert_eq!(writer.finish().unwrap().events, 3);
    let times: Vec<u64> = TraceReader::open(&path)
        .unwrap()
        .events()
        .map(|e| e.unwrap().time_ns)
        .collect();
    assert_eq!(times, [10, 10, 11]);
}

#[test]
fn events_that_no_trace_can_hold_are_refused() {
    let dir = scratch();
    let mut writer =
        TraceWriter::create(dir.path().join("t.wst"), Description::new("test")).unwrap();
    let app = writer.add_app("a", "").unwrap();
    let anon = |number| PageAddr::Anon { number };
    let top = (1 << 52) - 1;
    let file = PageAddr::File {
        file: FileId(0),
        number: 0,
    };
    let bad = [
        (AppId(1), EventKind::LaunchEnd, "application"),
        (
            app,
            EventKind::Access {
                page: anon(top + 1),
                write: true,
                content: None,
            },
            "page number",
        ),
        (
            app,
            EventKind::Access {
                page: file,
                write: true,
                content: None,
            },
            "file",
        ),
        (
            app,
            EventKind::Access {
                page: anon(0),
                write: true,
                content: Some(ContentId(0)),
            },
            "content",
        ),
        (
            app,
            EventKind::Content {
                page: anon(0),
                content: ContentId(9),
            },
            "content",
        ),
        (
            app,
            EventKind::Free {
                page: anon(0),
                pages: 0,
            },
            "pages",
        ),
        (
            app,
            EventKind::Free {
                page: anon(top),
                pages: 2,
            },
            "page number",
        ),
    ];
    for (app, kind, expected) in bad {
        let error = writer
            .event(&Event {
                time_ns: 0,
                app,
                kind,
            })
            .unwrap_err();
        assert!(
            matches!(error, TraceError::InvalidEvent { field, .. } if field == expected),
            "{error}"
        );
    }
    let good = [
        EventKind::Free {
            page: anon(top),
            pages: 1,
        },
        EventKind::Access {
            page: anon(top),
            write: false,
            content: None,
        },
        EventKind::LaunchBegin(LaunchKind::Cold),
    ];
    for kind in good {
        writer
            .event(&Event {
                time_ns: 0,
                app,
                kind,
            })
            .unwrap();
    }
    assert_eq!(writer.finish().unwrap().events, 3);
}

#[test]
fn other_page_sizes_and_senseless_options_are_refused() {
    let dir = scratch();
    let path = dir.path().join("t.wst");
    let big = Description {
        page_bytes: 16384,
        ..Description::new("test")
    };
    let error = TraceWriter::create(&path, big).err().unwrap();
    assert!(
        matches!(
            error,
            TraceError::PageSize {
                found: 16384,
                expected: 4096,
                ..
            }
        ),
        "{error}"
    );
    for (content_level, block_events) in [(0, 1), (20, 1), (1, 0), (1, 65537)] {
        let options = WriterOptions {
            content_level,
            block_events,
        };
        let error = TraceWriter::create_with(&path, Description::new("test"), options)
            .err()
            .unwrap();
        assert!(matches!(error, TraceError::Setting { .. }), "{error}");
    }
    assert_eq!(files_in(dir.path()), 0);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let dir = scratch();
    let path = dir.path().join("none/t.wst");
    let error = TraceWriter::create(&path, Description::new("test"))
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with(&format!("{}: cannot create: ", path.display())),
        "{error}"
    );
}

#[test]
fn equal_input_makes_equal_files() {
    let dir = scratch();
    let first = crate::testing::sample_trace(dir.path()).0;
    let first = std::fs::read(first).unwrap();
    let second = crate::testing::sample_trace(dir.path()).0;
    assert!(first == std::fs::read(second).unwrap());
}
