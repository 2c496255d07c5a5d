//! Settings of the kernel that are changed for a while: sysctls and other one-value files.

use std::path::{Path, PathBuf};

use crate::undo::{Action, Pending, Undo, UndoError};
use crate::{FileError, Root, file};

/// A setting could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum TunableError {
    /// The control file failed; the error names it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change could not be registered.
    #[error(transparent)]
    Undo(#[from] UndoError),
}

/// A setting that goes back to its old value when this is dropped.
#[derive(Debug)]
pub struct Tunable {
    _pending: Pending,
}

impl Tunable {
    /// Writes `value` into the control file at `path`.
    ///
    /// # Errors
    /// [`TunableError`]; the setting is then as before.
    pub fn set(undo: &Undo, path: &Path, value: &str) -> Result<Self, TunableError> {
        let pending = undo.register(Action::Restore {
            path: path.to_owned(),
            value: chosen(&file::read(path)?).to_owned(),
        })?;
        pending.change(|| file::write(path, value))??;
        Ok(Self { _pending: pending })
    }

    /// Writes `value` into the sysctl `name` ("vm.page-cluster").
    ///
    /// # Errors
    /// [`TunableError`]; the setting is then as before.
    pub fn sysctl(undo: &Undo, name: &str, value: &str) -> Result<Self, TunableError> {
        Self::set(undo, &sysctl_path(undo.root(), name), value)
    }
}

/// The file of the sysctl `name` ("vm.page-cluster").
#[must_use]
pub fn sysctl_path(root: &Root, name: &str) -> PathBuf {
    root.path(Path::new("/proc/sys").join(name.replace('.', "/")))
}

/// The value in the text of a control file; of a list of choices, the one in brackets.
fn chosen(text: &str) -> &str {
    let text = text.trim();
    text.split_ascii_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sysctl_is_set_by_its_dotted_name_and_restored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("proc/sys/vm/page-cluster");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "3\n").unwrap();
        let undo = Undo::open(&Root::at(dir.path()), &dir.path().join("state")).unwrap();

        let tunable = Tunable::sysctl(&undo, "vm.page-cluster", "0").unwrap();

        assert!(std::fs::read_to_string(&path).unwrap().starts_with('0'));
        drop(tunable);
        assert!(std::fs::read_to_string(&path).unwrap().starts_with('3'));
    }

    #[test]
    fn of_a_list_of_choices_the_one_in_brackets_is_restored() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("100\t200\n"), "100\t200");
    }

    #[test]
    fn a_setting_that_does_not_exist_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Root::at(dir.path()), &dir.path().join("state")).unwrap();

        let error = Tunable::sysctl(&undo, "vm.no-such", "0").unwrap_err();

        assert!(error.to_string().contains("proc/sys/vm/no-such"), "{error}");
    }
}
