//! Finding the program that a command line names.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::exit::BadInput;

/// A program that cannot be run, and why.
pub fn bad(path: &Path, why: impl std::fmt::Display) -> BadInput {
    BadInput(format!("cannot run {}: {why}", path.display()))
}

/// The file that `name` means: a path, or a file in the folders of `search` (`PATH`).
///
/// # Errors
/// [`BadInput`] where there is none.
pub fn find(name: &OsStr, search: Option<OsString>) -> Result<PathBuf, BadInput> {
    let path = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        executable(path).map_err(|why| bad(path, why))?;
        return Ok(path.to_owned());
    }
    let search = search.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let found = std::env::split_paths(&search)
        .map(|folder| folder.join(path))
        .find(|path| executable(path).is_ok());
    found.ok_or_else(|| bad(path, "no such program in PATH"))
}

/// The metadata of a file that may be executed, or why the one at `path` is none.
pub fn executable(path: &Path) -> Result<Metadata, String> {
    let found = path.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no file".to_owned());
    }
    if found.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable".to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let search = || {
            Some(OsString::from(format!(
                "/nonexistent:{}",
                folder.path().display()
            )))
        };
        assert_eq!(find(OsStr::new("program"), search()).unwrap(), path);
        assert_eq!(find(path.as_os_str(), None).unwrap(), path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            find(OsStr::new("program"), search())
                .unwrap_err()
                .0
                .contains("PATH")
        );
        assert!(
            find(OsStr::new("./missing"), None)
                .unwrap_err()
                .0
                .contains("./missing")
        );
    }
}
