//! The blocks of the documents that are marked to be run, and the pages of the book that the command writes.

use crate::common::{folder, succeed, text};
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};
use warmswap_testkit::shell::documents;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders to look for programs in, that of the command first.
fn search_path() -> std::ffi::OsString {
    let built = Path::new(env!("CARGO_BIN_EXE_warmswap"));
    let first = built.parent().expect("a folder").to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(std::iter::once(first).chain(env::split_paths(&path))).expect("a search path")
}

#[test]
fn marked_blocks_run() {
    let root = root().canonicalize().expect("the repository");
    let mut ran = 0;
    for document in documents(&root) {
        for block in document.blocks().iter().filter(|block| block.runs) {
            // As after a checkout: what is shipped is there, and all else is new.
            let folder = folder();
            for shipped in ["traces", "apps"] {
                symlink(root.join(shipped), folder.path().join(shipped)).expect("a link");
            }
            let output = Command::new("sh")
                .args(["-euc", &block.text])
                .current_dir(folder.path())
                .env("PATH", search_path())
                .env("HOME", folder.path())
                .output()
                .expect("a shell starts");
            assert!(
                output.status.success(),
                "{}:{}: {}\n{}{}",
                document.path.display(),
                block.line,
                block.text,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            );
            ran += 1;
        }
    }
    assert!(ran >= 5, "only {ran} blocks are marked");
}

/// The pages of the folder `reference` that the book's list of chapters names.
fn listed() -> BTreeSet<String> {
    let summary = fs::read_to_string(root().join("docs/book/src/SUMMARY.md")).expect("a list");
    let links = summary.split("](reference/").skip(1);
    links
        .filter_map(|link| link.split_once(')'))
        .map(|(page, _)| page.to_owned())
        .collect()
}

#[test]
fn the_reference_has_a_page_for_each_command_and_the_book_lists_it() {
    let folder = folder();
    succeed(["man", "--markdown", text(folder.path())]);

    let names = fs::read_dir(folder.path()).expect("a folder");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let written: BTreeSet<String> = names
        .map(|name| name.into_string().expect("UTF-8"))
        .collect();
    assert_eq!(written, listed());

    let read = |page: &str| fs::read_to_string(folder.path().join(page)).expect(page);
    let run = read("run.md");
    for part in [
        "# warmswap run",
        "Usage: warmswap run",
        "`--budget <SIZE>`",
        "Default: `50%`",
        "warmswap doctor run",
        "## Exit status",
    ] {
        assert!(run.contains(part), "{part}: {run}");
    }
    assert!(read("trace.md").contains("## warmswap trace info"));
    assert!(read("warmswap.conf.md").contains("#keep-available ="));
    assert!(read("json.md").contains("warmswap.compare"));
    // What stands in angle brackets must not be taken for HTML.
    let is_raw = |line: &&str| line.starts_with('<');
    assert_eq!(run.lines().find(is_raw), None);
}

/// The first block of a chapter with that word behind its fence.
fn block(chapter: &str, language: &str) -> String {
    let from = chapter
        .split_once(&format!("\n```{language}\n"))
        .unwrap_or_else(|| panic!("no block of {language}"));
    let (text, _) = from.1.split_once("```").expect("the end of the block");
    text.to_owned()
}

#[test]
fn the_program_of_the_book_is_an_application() {
    let chapter = root().join("docs/book/src/tours/own-program.md");
    let chapter = fs::read_to_string(chapter).expect("the chapter");
    let folder = folder();
    let definition = folder.path().join("words.toml");
    fs::write(&definition, block(&chapter, "toml")).expect("a file");
    fs::create_dir(folder.path().join("drivers")).expect("a folder");
    let driver = folder.path().join("drivers/words.pl");
    fs::write(&driver, block(&chapter, "perl")).expect("a file");

    let spec = warmswap_apps::AppSpec::load(&definition).expect("a definition");
    assert_eq!(spec.start.command[1], "{drivers}/words.pl");
    if Command::new("perl").arg("-v").output().is_err() {
        warmswap_testkit::skip!("the_program_of_the_book_is_an_application", "needs perl");
    }
    let requests = folder.path().join("requests");
    fs::write(&requests, "relaunch 1\nrelaunch 1\nuse 2\n").expect("a file");
    let output = Command::new("perl")
        .arg(&driver)
        .arg("2000")
        .stdin(fs::File::open(&requests).expect("the file"))
        .output()
        .expect("perl starts");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "ready"), "{said}");
    // The same history gives the same answer.
    assert_eq!(lines[1], lines[2]);
    assert!(lines[1..].iter().all(|line| line.starts_with("done ")));
}
