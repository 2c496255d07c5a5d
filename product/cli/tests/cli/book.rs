//! The blocks of the documents that are marked to be run, and the pages of the book that the command writes.

use crate::common::{folder, succeed, text};
use std::fs;
use warmswap_testkit::book::{is_listed, run_marked_blocks};

#[test]
fn marked_blocks_run() {
    let command = env!("CARGO_BIN_EXE_warmswap");
    let ran = run_marked_blocks(command, |block| block.commands("warmswap-lab").is_empty());
    assert!(ran >= 1, "no block is marked");
}

#[test]
fn the_reference_has_all_commands_and_the_configuration() {
    let folder = folder();
    succeed(["man", "--markdown", text(folder.path())]);
    let read = |page: &str| {
        assert!(is_listed(page), "{page}");
        fs::read_to_string(folder.path().join(page)).expect(page)
    };
    let commands = read("warmswap.md");
    for part in [
        "## warmswap run\n",
        "Usage: warmswap run",
        "--budget <SIZE>",
        "[default: 50%]",
        "warmswap doctor run",
        "Exit status",
    ] {
        assert!(commands.contains(part), "{part}: {commands}");
    }
    assert!(!commands.contains("## warmswap man"), "{commands}");
    assert!(read("warmswap.toml.md").contains("#bring-back ="));
}
