//! The files of a folder: one for each application, replaced as a whole.

use super::format::{FormatError, decode, encode};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use thiserror::Error;
use warmswap_policy::Learned;
use xxhash_rust::xxh3::xxh3_64;

/// Larger files are not read.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Longer names of applications are cut, and told apart by a hash.
const MAX_NAME_BYTES: usize = 200;

/// Why tables were not saved. Those saved before are still there.
#[derive(Debug, Error)]
#[error("cannot save learned tables to {path}: {source}")]
pub struct SaveError {
    /// The file or folder that it is about.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Why a file that exists was not used: a warning, since all that is lost is what was learned.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("learned tables in {path} are not used: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is larger than any that is written.
    #[error("learned tables in {path} are not used: they have more than {MAX_FILE_BYTES} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is damaged, or of another version.
    #[error("learned tables in {path} are not used: {source}")]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
}

/// The file of an application: its name with `%` and two digits for each byte that is neither a letter, a
/// digit, nor one of `._-` behind the first, and `.learned`.
pub fn path_of(folder: &Path, app: &str) -> PathBuf {
    let mut name = String::new();
    for (at, byte) in app.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => name.push(byte.into()),
            b'.' | b'_' | b'-' if at > 0 => name.push(byte.into()),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.len() > MAX_NAME_BYTES {
        name.truncate(MAX_NAME_BYTES);
        name.push_str(&format!("%-{:016x}", xxh3_64(app.as_bytes())));
    }
    folder.join(name + ".learned")
}

/// Writes the tables of an application to its file in `folder`, which is made if there is none, both for their owner
/// alone. The file is replaced as a whole: after a crash either the old one or the new one is there.
///
/// # Errors
/// [`SaveError`].
pub fn save(folder: &Path, app: &str, learned: &Learned<String>) -> Result<(), SaveError> {
    replace(folder, app, learned)?;
    sync(folder)
}

/// The same, but that after a crash the old file may be there until [`sync`] of the folder: for several files, one call
/// of that is enough.
///
/// # Errors
/// [`SaveError`].
pub fn replace(folder: &Path, app: &str, learned: &Learned<String>) -> Result<(), SaveError> {
    let path = path_of(folder, app);
    // Which programs a user runs, and when, is private.
    let mut maker = fs::DirBuilder::new();
    maker.recursive(true).mode(0o700);
    maker.create(folder).map_err(failed(folder))?;
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let written = write(&temporary, &encode(learned)).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        // It may never have come into being.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(failed(&path))
}

/// Makes what was replaced in a folder outlast a crash.
///
/// # Errors
/// [`SaveError`].
pub fn sync(folder: &Path) -> Result<(), SaveError> {
    let file = File::open(folder).map_err(failed(folder))?;
    file.sync_all().map_err(failed(folder))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SaveError {
    let path = path.to_owned();
    move |source| SaveError { path, source }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The tables of an application; `None` if none were saved.
///
/// # Errors
/// [`LoadError`]: to be shown as a warning, and to go on without.
pub fn load(folder: &Path, app: &str) -> Result<Option<Learned<String>>, LoadError> {
    let path = path_of(folder, app);
    let mut bytes = Vec::new();
    let read =
        File::open(&path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > MAX_FILE_BYTES => Err(LoadError::TooLarge { path }),
        Ok(_) => match decode(&bytes) {
            Ok(learned) => Ok(Some(learned)),
            Err(source) => Err(LoadError::Bad { path, source }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Unreadable { path, source }),
    }
}
