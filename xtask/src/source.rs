//! Checks on source files: where `unsafe` stands, and how long files are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::lexer;

/// Where a crate may use `unsafe`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(untagged)]
pub enum UnsafeAllowed {
    /// `true`: in every file; `false`: in none.
    Everywhere(bool),
    /// Only in these files, relative to the package.
    Files(Vec<PathBuf>),
}

impl UnsafeAllowed {
    fn covers(&self, file: &Path) -> bool {
        match self {
            Self::Everywhere(allowed) => *allowed,
            Self::Files(files) => files.iter().any(|allowed| allowed == file),
        }
    }
}

/// One Rust file of a package.
#[derive(Debug)]
pub struct SourceFile {
    /// Relative to the package.
    pub path: PathBuf,
    /// The whole text.
    pub text: String,
}

/// Reads every `.rs` file below `package`, in the order of their paths.
///
/// # Errors
/// When a directory or file cannot be read.
pub fn read_package(package: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut pending = vec![package.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let entries = fs::read_dir(&directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_none_or(|name| name != "target") {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let path = path.strip_prefix(package).unwrap_or(&path).to_path_buf();
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// One line for each use of `unsafe`, and each lifted `unsafe_code` lint, that `allowed` does not
/// cover.
pub fn misplaced_unsafe(
    package: &str,
    files: &[SourceFile],
    allowed: Option<&UnsafeAllowed>,
) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        if allowed.is_some_and(|allowed| allowed.covers(&file.path)) {
            continue;
        }
        let code = lexer::code_only(&file.text);
        let mut previous = "";
        for (line, word) in lexer::words(&code) {
            let what = match (previous, word) {
                (_, "unsafe") => Some("`unsafe`"),
                ("allow" | "expect" | "warn", "unsafe_code") => Some("a lifted `unsafe_code` lint"),
                _ => None,
            };
            if let Some(what) = what {
                found.push(format!(
                    "{package}: {}:{line}: {what}, but layers.toml does not allow it there",
                    file.path.display()
                ));
            }
            previous = word;
        }
    }
    found
}

/// Lines of `file` without its tests: 0 for a test file, else what stands above a trailing
/// `#[cfg(test)] mod tests {`.
pub fn lines_without_tests(file: &SourceFile) -> usize {
    let is_test_file = file
        .path
        .iter()
        .any(|part| part == "tests" || part == "tests.rs");
    if is_test_file {
        return 0;
    }
    let lines: Vec<&str> = file.text.lines().collect();
    lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests {"))
        .unwrap_or(lines.len())
}

#[cfg(test)]
mod tests;
