//! Files that programs map to read them.

use std::path::Path;
use std::process::Command;

use warmswap_protocol::FileStats;
use warmswap_testkit::skip;

use crate::common::{Budget, Case, program, run};

/// A quarter of the file that the program maps.
const QUARTER: Budget = Budget { mib: 8 };
/// Pages of it.
const PAGES: u64 = 8000;

#[test]
fn a_file_that_is_read_through_a_map() {
    for (mechanism, scheme) in [
        ("move", "ezswap"),
        ("copy", "ezswap"),
        ("move", "asap"),
        ("copy", "warmswap+file-pages=on"),
    ] {
        let case = Case {
            mechanism,
            scheme,
            files: true,
            ..Case::new(QUARTER)
        };
        let Some(stats) = program("files", &case) else {
            continue;
        };
        let files = &stats.files;
        assert!(stats.managed, "{mechanism}, {scheme}: it was never paged");
        assert!(
            files.mapped_peak_bytes >= PAGES << 12 && files.read_pages > 2 * PAGES,
            "{mechanism}, {scheme}: {stats:?}"
        );
        let is_pooled = scheme != "asap";
        assert_eq!(
            files.pooled_pages > PAGES,
            is_pooled,
            "{mechanism}, {scheme}: {stats:?}"
        );
        assert!(is_pooled || files.discarded_pages > PAGES, "{stats:?}");
        assert!(
            stats.resident_peak_bytes <= stats.budget_bytes,
            "{mechanism}, {scheme}: {stats:?}"
        );
    }
}

#[test]
fn a_file_is_the_kernels_when_it_is_not_asked_for() {
    let Some(stats) = program("files", &Case::new(QUARTER)) else {
        return;
    };
    assert_eq!(stats.files, FileStats::default());
}

/// Runs git in a folder; false where it is not installed.
fn git(folder: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder);
    command.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
    match command.args(arguments).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "git {arguments:?}: {errors}");
            true
        }
        Err(_) => false,
    }
}

#[test]
fn git_with_a_pack_larger_than_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    if !git(folder, &["init", "--quiet"]) {
        skip!("git_with_a_pack", "it is not installed");
    }
    // What does not compress makes the pack large, and the rest is found by differences.
    let mut state = 1u64;
    for version in 0..3 {
        for name in 0..16 {
            let mut bytes = vec![0; 400_000];
            for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let own = state ^ state >> 29;
                *word = if version > 0 && i % 7 != 0 {
                    i as u64
                } else {
                    own
                }
                .to_le_bytes();
            }
            std::fs::write(folder.join(format!("{name}")), bytes).expect("written");
        }
        git(folder, &["add", "--all"]);
        git(folder, &["commit", "--quiet", "--message", "more"]);
    }
    git(folder, &["repack", "-a", "-d", "--quiet"]);
    let place = folder.to_str().expect("text");
    for (scheme, command) in [
        ("ezswap", &["fsck", "--full"][..]),
        ("asap", &["log", "--patch", "--binary", "--no-color"]),
        (
            "warmswap+file-pages=on",
            &["cat-file", "--batch-all-objects", "--batch"],
        ),
    ] {
        let case = Case {
            scheme,
            files: true,
            ..Case::new(Budget { mib: 8 })
        };
        let command = [&["git", "-C", place], command].concat();
        let Some((plain, paged)) = run(&case, &command) else {
            return;
        };
        assert!(plain.answer == paged.answer, "{command:?}: other answers");
        let stats = paged.stats.expect("a report");
        assert!(
            stats.managed
                && stats.files.mapped_peak_bytes > 6 << 20
                && stats.files.read_pages > 500,
            "{command:?}: {stats:?}"
        );
    }
}

#[test]
fn what_is_shared_stays_the_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("data");
    let database = database.to_str().expect("text");
    let fill = "create table t(a integer primary key, b text); \
        with recursive n(i) as (select 1 union all select i+1 from n where i<40000) \
        insert into t select i, hex(randomblob(150)) from n;";
    match Command::new("sqlite3").args([database, fill]).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => skip!("what_is_shared", "sqlite3 is not installed"),
    }
    let script = "pragma mmap_size=1000000000; select count(*), sum(length(b)), min(b), max(b) from t; \
        update t set b = a where a % 3 = 0; select sum(length(b)), max(b) from t; rollback;";
    let script = format!("begin; {script}");
    let case = Case {
        files: true,
        ..Case::new(Budget { mib: 8 })
    };
    let Some((plain, paged)) = run(&case, &["sqlite3", database, &script]) else {
        return;
    };
    assert_eq!(plain.answer, paged.answer);
    let stats = paged.stats.expect("a report");
    assert_eq!(stats.files, FileStats::default(), "{stats:?}");
}
