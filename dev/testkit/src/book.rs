//! The blocks of the documents that are marked to be run.

use std::env;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::folder;
use crate::shell::{Block, documents};

/// The repository.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

/// Runs the marked blocks that `is_wanted` takes, each in a folder as after a checkout, with the folder of `command`
/// before others in the search path. Gives their number.
///
/// # Panics
/// When one fails.
pub fn run_marked_blocks(command: &str, is_wanted: impl Fn(&Block) -> bool) -> usize {
    let root = root();
    let built = Path::new(command).parent().expect("a folder").to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(std::iter::once(built).chain(env::split_paths(&path)));
    let path = path.expect("a search path");
    let mut ran = 0;
    for document in documents(&root) {
        let blocks = document.blocks();
        for block in blocks.iter().filter(|block| block.runs && is_wanted(block)) {
            let folder = folder();
            for shipped in ["traces", "apps"] {
                symlink(root.join(shipped), folder.path().join(shipped)).expect("a link");
            }
            let output = Command::new("sh")
                .args(["-euc", &block.text])
                .current_dir(folder.path())
                .env("PATH", &path)
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
    ran
}

/// Whether the book's list of chapters names this page of its reference.
///
/// # Panics
/// When the list cannot be read.
#[must_use]
pub fn is_listed(page: &str) -> bool {
    let list = root().join("docs/book/src/SUMMARY.md");
    let list = std::fs::read_to_string(list).expect("a list");
    list.contains(&format!("](reference/{page})"))
}
