//! What `scripts/install` copies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::book;

/// All files below a folder, relative to it.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found
}

/// Installs parts of what is in the folder `release` of `built` to `prefix` below `root`.
///
/// # Panics
/// When no shell starts.
pub fn install(
    parts: &str,
    built: &Path,
    (root, prefix): (&Path, &str),
    arguments: &[&str],
) -> Output {
    let script = book::root().join("scripts/install");
    Command::new("sh")
        .arg(script)
        .args(arguments)
        .env("PARTS", parts)
        .env("CARGO_TARGET_DIR", built)
        .env("DESTDIR", root)
        .env("PREFIX", prefix)
        .output()
        .unwrap()
}
