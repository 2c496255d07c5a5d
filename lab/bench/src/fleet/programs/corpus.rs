//! Texts that programs hold: documentation and standard libraries of this machine.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::program::ProgramError;
use super::common::hash_of;
use super::{html, made_up, words};

/// Files with these endings are read, and files without one.
const ENDINGS: [&str; 13] = [
    "txt", "md", "rst", "html", "htm", "pod", "pm", "py", "tex", "texi", "adoc", "news", "rs",
];

/// Larger files are data, not texts: the largest manual on a Debian has 1 MB.
const MOST_FILE_BYTES: u64 = 2 << 20;

/// Shorter texts say nothing.
const LEAST_DOCUMENT_BYTES: usize = 200;

/// A longer text is split into several documents, as a manual into its sections.
const MOST_DOCUMENT_BYTES: usize = 16 << 10;

/// Folders deeper than this are not entered.
const MOST_DEPTH: usize = 16;

/// One document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The file's path, with the number of the part if it has several.
    pub title: String,
    /// The text.
    pub text: String,
}

/// Documents, the same ones in the same order whenever they are loaded from the same files.
///
/// They are ordered by the hash of their path, so that a small corpus is a sample of all folders. A corpus lies outside
/// the heaps; programs share it, as applications share a server that they load from.
#[derive(Debug)]
pub struct Corpus {
    documents: Vec<Document>,
    bytes: usize,
}

impl Corpus {
    /// The folders below `/usr` in which a Debian has documentation and standard libraries, those that exist.
    #[must_use]
    pub fn default_folders() -> Vec<PathBuf> {
        let parents = [
            ("/usr/share", ["doc", "perl", "vim", "cmake"].as_slice()),
            ("/usr/lib", ["python3"].as_slice()),
        ];
        let mut folders = Vec::new();
        for (parent, names) in parents {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if entry.file_type().is_ok_and(|kind| kind.is_dir())
                    && names.iter().any(|start| is_version_of(&name, start))
                {
                    folders.push(entry.path());
                }
            }
        }
        folders.sort();
        folders
    }

    /// Reads texts from folders, at most `max_bytes` of them. Files that are not UTF-8 are left out, as are repetitions
    /// and what cannot be read. Takes about a second for 50 MB.
    ///
    /// # Errors
    /// [`ProgramError::Data`]: the folders have less than half as much, so that a program would be far smaller than it
    /// is said to be.
    pub fn load(folders: &[PathBuf], max_bytes: usize) -> Result<Self, ProgramError> {
        let min_bytes = max_bytes / 2;
        let mut files = Vec::new();
        for folder in folders {
            find_files(folder, 0, &mut files);
        }
        files.sort_by_cached_key(|path| {
            (hash_of(path.as_os_str().as_encoded_bytes()), path.clone())
        });
        files.dedup();
        let mut corpus = Self {
            documents: Vec::new(),
            bytes: 0,
        };
        let mut seen = HashSet::new();
        for path in files {
            if corpus.bytes >= max_bytes {
                break;
            }
            let Some(text) = read_text(&path) else {
                continue;
            };
            if seen.insert(hash_of(text.as_bytes())) {
                corpus.add(&path, &text, max_bytes);
            }
        }
        if corpus.bytes < min_bytes {
            return Err(too_little(folders, corpus.bytes, min_bytes));
        }
        Ok(corpus)
    }

    /// Made-up texts of about so many bytes.
    #[must_use]
    pub fn made_up(bytes: usize, seed: u64) -> Self {
        let documents = made_up::documents(bytes, seed);
        let bytes = documents.iter().map(|document| document.text.len()).sum();
        Self { documents, bytes }
    }

    /// The documents.
    #[must_use]
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn add(&mut self, path: &Path, text: &str, max_bytes: usize) {
        let title = path.to_string_lossy();
        for (number, part) in words::parts(text, MOST_DOCUMENT_BYTES).enumerate() {
            if part.len() < LEAST_DOCUMENT_BYTES || self.bytes + part.len() > max_bytes {
                continue;
            }
            let title = match number {
                0 => title.to_string(),
                _ => format!("{title} ({})", number + 1),
            };
            self.bytes += part.len();
            self.documents.push(Document {
                title,
                text: part.to_owned(),
            });
        }
    }
}

fn too_little(folders: &[PathBuf], bytes: usize, min_bytes: usize) -> ProgramError {
    let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
    ProgramError::Data(format!(
        "found {bytes} bytes of text in [{}], and {min_bytes} are needed: name other folders, or install some, as by \
         `apt-get install python3-doc perl-doc vim-runtime cmake-data`",
        folders.join(", ")
    ))
}

/// Whether a folder is `start`, or that with a version, as `perl5` or `cmake-3.25`.
fn is_version_of(name: &str, start: &str) -> bool {
    name.strip_prefix(start).is_some_and(|rest| {
        rest.bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-'))
    })
}

fn find_files(folder: &Path, depth: usize, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = entry.path();
        if kind.is_dir() && depth < MOST_DEPTH {
            find_files(&path, depth + 1, into);
        } else if kind.is_file() && has_text_name(&path) {
            into.push(path);
        }
    }
}

fn has_text_name(path: &Path) -> bool {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some(ending) => ENDINGS.contains(&ending.to_ascii_lowercase().as_str()),
        None => path.extension().is_none(),
    }
}

fn read_text(path: &Path) -> Option<String> {
    if fs::metadata(path).ok()?.len() > MOST_FILE_BYTES {
        return None;
    }
    let text = String::from_utf8(fs::read(path).ok()?).ok()?;
    if text.contains('\0') {
        return None;
    }
    let ending = path.extension().and_then(|ending| ending.to_str());
    Some(match ending {
        Some("html" | "htm") => html::text_of(&text),
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_folders_are_known() {
        assert!(is_version_of("perl5", "perl"));
        assert!(is_version_of("python3.11", "python3"));
        assert!(is_version_of("cmake-3.25", "cmake"));
        assert!(!is_version_of("docker", "doc"));
    }

    #[test]
    fn too_little_text_names_packages() {
        let error = Corpus::load(&["/nonexistent".into()], 2000).unwrap_err();
        assert!(error.to_string().contains("apt-get install"), "{error}");
    }
}
