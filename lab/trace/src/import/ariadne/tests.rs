use std::fs;

use tempfile::TempDir;

use super::files::{SWAP_IN_LINE, swap_in_fields};
use super::*;
use crate::reader::TraceReader;
use crate::testing::{page, scratch};

/// uid, pfn, sector and number of the content of each swap-out.
const SWAP_OUTS: [(u64, u64, u64, u64); 6] = [
    (10_001, 500, 8, 1),
    (10_002, 600, 16, 2),
    (10_001, 501, 24, 3),
    // The same frame again while sector 8 still holds its page: another page.
    (10_001, 500, 32, 4),
    // Sector 16 again: the page that it held is gone.
    (10_002, 601, 16, 1),
    // The same page to the same sector again.
    (10_001, 501, 24, 5),
];
const WINDOW: [(u64, u64); 3] = [(10_001, 8), (10_001, 24), (10_002, 16)];
const REST: [(u64, u64); 2] = [(10_001, 32), (10_001, 4096)];
const RESIDENT: [(u64, u64); 2] = [(10_001, 700), (10_003, 1)];

fn joined() -> Vec<u8> {
    swap_outs(SWAP_OUTS)
}

fn swap_outs(records: impl IntoIterator<Item = (u64, u64, u64, u64)>) -> Vec<u8> {
    let mut out = Vec::new();
    for (uid, pfn, sector, content) in records {
        let mut header = format!("TEST^^^#{uid},{pfn},{sector}#^^^").into_bytes();
        header.resize(HEADER_BYTES, b' ');
        out.extend_from_slice(&header);
        out.extend_from_slice(&page(content));
    }
    out
}

fn write(dir: &TempDir, name: &str, bytes: impl AsRef<[u8]>) {
    fs::write(dir.path().join(name), bytes).unwrap();
}

fn text_form() -> TempDir {
    let dir = scratch();
    write(&dir, "swapout_trace.txt", joined());
    let line = |(uid, sector): &(u64, u64)| format!("  app-1 [003] swapin: uid={uid},x,{sector}\n");
    write(
        &dir,
        "ttid_swapin_trace.txt",
        WINDOW.iter().map(line).collect::<String>(),
    );
    write(
        &dir,
        "swapin_trace.txt",
        WINDOW.iter().chain(&REST).map(line).collect::<String>(),
    );
    write(
        &dir,
        "lru_list.txt",
        RESIDENT.map(|(uid, pfn)| format!("{uid},{pfn}\n")).concat(),
    );
    dir
}

fn split_form() -> TempDir {
    let dir = scratch();
    let meta = SWAP_OUTS
        .map(|(uid, pfn, sector, _)| format!("{uid},{pfn},{sector}\n"))
        .concat();
    write(&dir, "swapout_trace.txt.meta", meta);
    write(
        &dir,
        "swapout_trace.txt.data",
        SWAP_OUTS.map(|(.., content)| page(content)).concat(),
    );
    let pair = |(uid, sector): &(u64, u64)| [uid.to_le_bytes(), sector.to_le_bytes()].concat();
    write(
        &dir,
        "ttid_swapin_trace.txt.meta",
        WINDOW.iter().flat_map(pair).collect::<Vec<_>>(),
    );
    write(
        &dir,
        "swapin_trace.txt.meta",
        WINDOW
            .iter()
            .chain(&REST)
            .flat_map(pair)
            .collect::<Vec<_>>(),
    );
    write(
        &dir,
        "lru_list.txt",
        RESIDENT.map(|(uid, pfn)| format!("{uid},{pfn}\n")).concat(),
    );
    dir
}

fn expected() -> Vec<(u16, EventKind)> {
    let anon = |number| PageAddr::Anon { number };
    let content = |number, content| EventKind::Content {
        page: anon(number),
        content: ContentId(content),
    };
    let access = |number, content: Option<u32>| EventKind::Access {
        page: anon(number),
        write: false,
        content: content.map(ContentId),
    };
    let second = 500 | 1 << 40;
    vec![
        (0, content(500, 0)),
        (1, content(600, 1)),
        (0, content(501, 2)),
        (0, content(second, 3)),
        (1, content(601, 0)),
        (0, content(501, 4)),
        (0, access(700, None)),
        (2, access(1, None)),
        (0, EventKind::Background),
        (1, EventKind::Background),
        (2, EventKind::Background),
        (0, EventKind::LaunchBegin(LaunchKind::Relaunch)),
        (0, access(500, Some(0))),
        (0, access(501, Some(4))),
        (1, access(601, Some(0))),
        (0, EventKind::LaunchEnd),
        (0, access(second, Some(3))),
    ]
}

#[test]
fn both_forms_become_the_same_events_and_contents() {
    for dir in [text_form(), split_form()] {
        let path = dir.path().join("out.wst");
        let (found, summary) = import(dir.path(), &path).unwrap();

        assert_eq!(
            found,
            Imported {
                swap_outs: 6,
                launch_swap_ins: 3,
                execution_swap_ins: 1,
                unknown_swap_ins: 1,
                resident_pages: 2,
                target_uid: Some(10_001),
            }
        );
        assert_eq!(summary.contents, 5);
        let reader = TraceReader::open(&path).unwrap();
        reader.verify(|_, _| {}).unwrap();
        let events: Vec<_> = reader
            .events()
            .map(|e| e.map(|e| (e.app.0, e.kind)).unwrap())
            .collect();
        assert_eq!(events, expected());
        let names: Vec<&str> = reader.apps().iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["uid 10001", "uid 10002", "uid 10003"]);
        let mut got = [0; PAGE_BYTES];
        for (id, content) in [1, 2, 3, 4, 5].into_iter().enumerate() {
            reader.content(ContentId(id as u32), &mut got).unwrap();
            assert_eq!(got, page(content));
        }
    }
}

#[test]
fn swap_outs_alone_are_enough_and_nothing_is_not() {
    let dir = scratch();
    let path = dir.path().join("out.wst");
    let error = import(dir.path(), &path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("swapout_trace.txt: No such file or directory; what can be imported is"),
        "{error}"
    );

    write(&dir, "swapout_trace.txt", joined());
    let (found, _) = import(dir.path(), &path).unwrap();
    assert_eq!((found.swap_outs, found.target_uid), (6, None));
}

#[test]
fn files_without_a_page_are_refused_and_leave_no_trace() {
    for (name, others) in [
        ("swapout_trace.txt", &[][..]),
        (
            "swapout_trace.txt.meta",
            &["swapout_trace.txt.data", "lru_list.txt"],
        ),
    ] {
        let dir = scratch();
        write(&dir, name, "");
        others.iter().for_each(|other| write(&dir, other, ""));
        // It says which application was launched, and nothing about its pages.
        write(&dir, "ttid_swapin_trace.txt", "uid=10001,x,8\n");
        let path = dir.path().join("out.wst");
        let error = import(dir.path(), &path).unwrap_err().to_string();
        assert!(error.contains("name no page"), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn a_byte_order_mark_before_text_is_passed_over() {
    let (plain, marked) = (split_form(), split_form());
    for name in ["swapout_trace.txt.meta", "lru_list.txt"] {
        let text = fs::read(marked.path().join(name)).unwrap();
        write(&marked, name, [b"\xef\xbb\xbf", &text[..]].concat());
    }
    let [plain, marked] = [plain, marked].map(|dir| {
        let path = dir.path().join("out.wst");
        import(dir.path(), &path).unwrap().0
    });
    assert_eq!(plain, marked);
    let twice = split_form();
    let text = b"\xef\xbb\xbf\xef\xbb\xbf1,2\n";
    let expected = "at line 1: found \"\\xef\\xbb\\xbf1,2\", expected uid,pfn";
    refuses(&twice, "lru_list.txt", text, expected);
}

#[test]
fn more_pages_of_a_frame_than_have_numbers_are_refused_unless_the_oldest_are_gone() {
    let dir = scratch();
    let path = dir.path().join("out.wst");
    let each_to_its_own = (0..=GENERATIONS).map(|at| (1, 500, at * SECTORS_PER_PAGE, 1));
    write(&dir, "swapout_trace.txt", swap_outs(each_to_its_own));
    let error = import(dir.path(), &path).unwrap_err().to_string();
    assert!(error.contains("uid 1: more than 4096 pages"), "{error}");

    // Another page takes the first sector before.
    let last = GENERATIONS - 1;
    let records = (0..=last).map(|at| (1, 500, at * SECTORS_PER_PAGE, 1));
    let (other, again) = ((2, 7, 0, 1), (1, 500, GENERATIONS * SECTORS_PER_PAGE, 1));
    write(
        &dir,
        "swapout_trace.txt",
        swap_outs(records.chain([other, again])),
    );
    let (found, _) = import(dir.path(), &path).unwrap();
    assert_eq!(found.swap_outs, GENERATIONS + 2);
}

#[test]
fn a_trace_takes_the_place_of_a_file_behind_a_link_and_of_nothing_else() {
    let dir = text_form();
    let [file, link, folder] = ["out.wst", "link.wst", "folder"].map(|name| dir.path().join(name));
    write(&dir, "out.wst", "old");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    import(dir.path(), &link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(TraceReader::open(&file).is_ok());

    fs::create_dir(&folder).unwrap();
    let error = import(dir.path(), &folder).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
    let device = std::path::Path::new("/dev/null");
    assert!(!crate::destination(device).unwrap_err().is_failed_write());

    // A pipe that only a link leads to, as /dev/stdout may be, and a file that is not there yet.
    let (_read, pipe) = std::io::pipe().unwrap();
    let to_pipe = dir.path().join("to_pipe");
    let number = std::os::fd::AsRawFd::as_raw_fd(&pipe);
    std::os::unix::fs::symlink(format!("/proc/self/fd/{number}"), &to_pipe).unwrap();
    assert!(import(dir.path(), &to_pipe).is_err());
    assert!(to_pipe.is_symlink());
    let to_new = dir.path().join("to_new");
    std::os::unix::fs::symlink("new.wst", &to_new).unwrap();
    import(dir.path(), &to_new).unwrap();
    assert!(to_new.is_symlink() && TraceReader::open(dir.path().join("new.wst")).is_ok());
}

/// Imports `dir` after `name` was replaced and expects an error that ends in `text`.
fn refuses(dir: &TempDir, name: &str, bytes: impl AsRef<[u8]>, text: &str) {
    write(dir, name, bytes);
    let out = dir.path().join("out.wst");
    let error = import(dir.path(), &out).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{}: {text}", dir.path().join(name).display())
    );
    let left = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "wst" || e == "tmp"));
    assert_eq!(left.count(), 0);
}

#[test]
fn damaged_swap_outs_are_named_by_byte() {
    let record = HEADER_BYTES + PAGE_BYTES;
    let mut cut = joined();
    cut.truncate(record * 2 + 99);
    refuses(
        &text_form(),
        "swapout_trace.txt",
        &cut,
        "at byte 8292: found 99 bytes, expected a record of 4146 bytes",
    );
    let damage: [(&[u8], &str); 4] = [
        (b"TEXT^^^#1,2,8#^^^ ", "expected TEST^^^#uid,pfn,sector#^^^"),
        (b"TEST^^^#1,2#^^^   ", "expected TEST^^^#uid,pfn,sector#^^^"),
        (
            b"TEST^^^#1,2,9#^^^ ",
            "found sector 9, expected a multiple of 8",
        ),
        (
            b"TEST^^^#1,9999999999999,8#^^^ ",
            "found pfn 9999999999999, expected a pfn of at most 40 bits",
        ),
    ];
    for (header, expected) in damage {
        let dir = text_form();
        let mut bytes = joined();
        bytes[record..][..header.len()].copy_from_slice(header);
        write(&dir, "swapout_trace.txt", bytes);
        let error = import(dir.path(), &dir.path().join("out.wst"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("at byte 4146: found ") && error.ends_with(expected),
            "{error}"
        );
    }
}

#[test]
fn damaged_lines_are_named_by_number() {
    let name = "swapout_trace.txt.meta";
    refuses(
        &split_form(),
        name,
        "1,2,8\n1,2\n",
        "at line 2: found \"1,2\", expected uid,pfn,sector",
    );
    refuses(
        &split_form(),
        name,
        "1,2,8\n1,2,7\n",
        "at line 2: found sector 7, expected a multiple of 8",
    );
    refuses(
        &split_form(),
        name,
        b"\xff\x00",
        "at line 1: found \"\\xff\\x00\", expected uid,pfn,sector",
    );
    let long = vec![b'1'; 5000];
    refuses(
        &split_form(),
        name,
        long,
        "at line 1: found a longer line, expected a line of at most 4096 bytes",
    );
    refuses(
        &text_form(),
        "lru_list.txt",
        "1,2\n\n1,+2\n",
        "at line 3: found \"1,+2\", expected uid,pfn",
    );
    let found = |line: &str| format!("at line 1: found \"{line}\", expected {SWAP_IN_LINE}");
    for uid in ["x", "-1", "- 1", "0x2711", "1.5", "com.app3", "+7", ""] {
        let line = format!("uid={uid},x,8");
        let (window, expected) = ("ttid_swapin_trace.txt", found(&line));
        refuses(&text_form(), window, &line, &expected);
    }
    for line in ["5", "5,x,"] {
        refuses(&text_form(), "swapin_trace.txt", line, &found(line));
    }
    refuses(
        &text_form(),
        "ttid_swapin_trace.txt",
        "1,8\r2,8\r",
        "at line 1: found line ends of carriage returns alone, expected line feeds",
    );
}

#[test]
fn a_uid_of_more_than_32_bits_is_none_in_any_form() {
    let wide = 1_u64 << 32;
    let found = |place: &str, uid: &str| {
        format!("at {place}: found uid {uid}, expected a uid of at most 32 bits")
    };
    let line = format!("{wide},8\n");
    let expected = found("line 1", "4294967296");
    refuses(&text_form(), "lru_list.txt", &line, &expected);
    refuses(&text_form(), "ttid_swapin_trace.txt", &line, &expected);
    let line = format!("{wide},2,8\n");
    refuses(&split_form(), "swapout_trace.txt.meta", line, &expected);
    for (uid, shown) in [(wide, "4294967296"), (u64::MAX, "-1")] {
        let pair = [uid.to_le_bytes(), 8_u64.to_le_bytes()].concat();
        let dir = text_form();
        fs::remove_file(dir.path().join("ttid_swapin_trace.txt")).unwrap();
        let name = "ttid_swapin_trace.txt.meta";
        refuses(&dir, name, pair, &found("byte 0", shown));
    }
}

#[test]
fn two_forms_of_the_same_are_refused_and_a_missing_part_is_named() {
    for (name, other) in [
        ("swapout_trace.txt", "swapout_trace.txt.meta"),
        ("swapout_trace.txt", "swapout_trace.txt.data"),
        ("ttid_swapin_trace.txt", "ttid_swapin_trace.txt.meta"),
        ("swapin_trace.txt", "swapin_trace.txt.meta"),
    ] {
        let dir = text_form();
        write(&dir, other, "");
        let error = import(dir.path(), &dir.path().join("out.wst"));
        let expected =
            format!("{name}: {other} beside it is another form of the same: keep one of them");
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with(&expected), "{error}");
    }
    let dir = split_form();
    fs::remove_file(dir.path().join("swapout_trace.txt.data")).unwrap();
    let error = import(dir.path(), &dir.path().join("out.wst")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("swapout_trace.txt.data: No such file"),
        "{error}"
    );
}

#[test]
fn a_uid_may_stand_behind_a_word_a_colon_or_nothing() {
    for line in [
        "uid=10001,x,8",
        " app-1 [003] swapin: 10001,8",
        "uid:10001,x,8",
        "10001,8",
    ] {
        assert_eq!(swap_in_fields(line.as_bytes()), Some((10_001, 8)), "{line}");
    }
}

#[test]
fn pages_and_lines_must_be_of_equal_number() {
    let data = "swapout_trace.txt.data";
    refuses(
        &split_form(),
        data,
        page(1),
        "at byte 4096: found the end, expected a page for each line of the .meta file",
    );
    refuses(
        &split_form(),
        data,
        vec![0; 4096 * 7],
        "at byte 24576: found a page, expected the end, as in the .meta file",
    );
    refuses(
        &split_form(),
        data,
        vec![0; 5000],
        "at byte 4096: found 904 bytes, expected a page of 4096 bytes",
    );
    let pairs = "swapin_trace.txt.meta";
    refuses(
        &split_form(),
        pairs,
        [0; 17],
        "at byte 16: found 1 bytes, expected a pair of uid and sector of 16 bytes",
    );
}
