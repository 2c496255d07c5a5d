//! The blocks of the documents that are marked to be run, and the pages of the book that the command writes.

use crate::common::{folder, succeed, text};
use std::fs;
use std::process::Command;
use warmswap_testkit::book::{is_listed, root, run_marked_blocks};

#[test]
fn marked_blocks_run() {
    let command = env!("CARGO_BIN_EXE_warmswap-lab");
    let ran = run_marked_blocks(command, |block| !block.commands("warmswap-lab").is_empty());
    assert!(ran >= 5, "only {ran} blocks are marked");
}

#[test]
fn the_reference_has_all_commands_and_results() {
    let folder = folder();
    succeed(["man", "--markdown", text(folder.path())]);
    let read = |page: &str| {
        assert!(is_listed(page), "{page}");
        fs::read_to_string(folder.path().join(page)).expect(page)
    };
    let commands = read("warmswap-lab.md");
    assert!(
        commands.contains("## warmswap-lab trace info\n"),
        "{commands}"
    );
    let results = read("warmswap-json.md");
    assert!(results.contains("warmswap.compare"));
    // What stands in angle brackets must not be taken for HTML.
    let is_raw = |line: &&str| line.starts_with('<');
    assert_eq!(results.lines().find(is_raw), None);
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
