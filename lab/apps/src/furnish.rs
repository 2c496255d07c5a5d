//! The folder that an application runs in, with copies of what it needs.
//!
//! An application sees its own folder only, not the places from which its drivers and files came: its
//! memory is recorded, and the paths in it would tell about the machine and its user.

use std::path::Path;

use warmswap_sys::FileError;

use crate::spec::{AppSpec, Folders, Size};

/// Copies the drivers, and the needed files of `cache`, into `home`.
pub(crate) fn furnish(spec: &AppSpec, cache: &Path, home: &Path) -> Result<Folders, FileError> {
    let folders = Folders {
        drivers: home.join("drivers"),
        cache: home.join("cache"),
    };
    if spec.drivers().is_dir() {
        copy_folder(&spec.drivers(), &folders.drivers)?;
    }
    let from = Folders {
        drivers: spec.drivers(),
        cache: cache.to_owned(),
    };
    for file in spec
        .needs
        .files
        .iter()
        .filter(|f| f.starts_with("{cache}/"))
    {
        let place = |folders| spec.fill_in(file, Size::Small, folders);
        copy(Path::new(&place(&from)), Path::new(&place(&folders)))?;
    }
    Ok(folders)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), FileError> {
    let entries = std::fs::read_dir(from).map_err(|e| FileError::new("list", from, e))?;
    for entry in entries.flatten() {
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), FileError> {
    if from.is_dir() {
        copy_folder(from, to)
    } else {
        copy_file(from, to)
    }
}

fn copy_file(from: &Path, to: &Path) -> Result<(), FileError> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|e| FileError::new("make", folder, e))?;
    }
    std::fs::copy(from, to).map_err(|e| FileError::new("copy", from, e))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load_all;

    #[test]
    fn drivers_and_needed_files_are_copied_and_the_command_names_only_copies() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        let spec = load_all(&shipped)
            .unwrap()
            .into_iter()
            .find(|s| s.name == "h2")
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (cache, home) = (dir.path().join("installed"), dir.path().join("home"));
        std::fs::create_dir_all(cache.join("h2")).unwrap();
        for name in ["h2.jar", "H2App.class", "unrelated"] {
            std::fs::write(cache.join("h2").join(name), name).unwrap();
        }

        let folders = furnish(&spec, &cache, &home).unwrap();

        assert_eq!(
            std::fs::read_to_string(folders.cache.join("h2/h2.jar")).unwrap(),
            "h2.jar"
        );
        assert!(folders.cache.join("h2/H2App.class").exists());
        assert!(!folders.cache.join("h2/unrelated").exists());
        assert!(folders.drivers.join("driver.py").exists());
        let command = spec.command(Size::Small, &folders).join(" ");
        let elsewhere = shipped.to_string_lossy().into_owned();
        assert!(
            !command.contains(&elsewhere) && !command.contains("installed"),
            "{command}"
        );
    }
}
