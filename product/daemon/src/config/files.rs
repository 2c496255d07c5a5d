//! Which files count, and in which order: as systemd does it.
//!
//! Of the main file the first one counts that is found in [`FOLDERS`]. Files of the drop-in folders come after
//! it, sorted by name; of those with one name only the first folder's counts, so that an empty file, or a
//! link to `/dev/null`, in `/etc` switches one of `/usr/lib` off.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use warmswap_sys::{FileError, Root};

/// Where files are looked for; the first one is the administrator's.
pub const FOLDERS: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];

/// Name of the main file.
pub const FILE: &str = "warmswap.toml";

/// Name of the folders of drop-ins.
pub const DROP_INS: &str = "warmswap.d";

/// Names of the main file and of drop-in folders before the configuration was TOML.
const OLD: [&str; 2] = ["warmswap.conf", "warmswap.conf.d"];

/// A line for each file and folder of the old form, which is not read.
pub fn old(root: &Root) -> Vec<String> {
    let paths = FOLDERS
        .iter()
        .flat_map(|folder| OLD.map(|name| root.path(folder).join(name)));
    let is_old = |path: &PathBuf| match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.is_file(),
    };
    let line = |path: PathBuf| {
        format!(
            "{} is not read: write it as /etc/{FILE}, with text in quotes, lists in brackets, true and false, and \
             [app.NAME] (`warmswap config --example`), and remove it",
            path.display()
        )
    };
    paths.filter(is_old).map(line).collect()
}

/// The files that count, the most important one last. None is an ordinary answer.
///
/// # Errors
/// [`FileError`] when a folder is there and cannot be listed.
pub fn files(root: &Root) -> Result<Vec<PathBuf>, FileError> {
    let place = |folder: &&str, name| root.path(folder).join(name);
    let main = FOLDERS
        .iter()
        .map(|folder| place(folder, FILE))
        .find(|path| path.exists());
    let mut drop_ins: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for folder in FOLDERS.iter().map(|folder| place(folder, DROP_INS)) {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(FileError::new("list", &folder, error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| FileError::new("list", &folder, error))?;
            let path = entry.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                drop_ins.entry(entry.file_name()).or_insert(path);
            }
        }
    }
    Ok(main.into_iter().chain(drop_ins.into_values()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_administrators_files_come_first_and_mask_others() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        let root = Root::at(place.path());
        assert_eq!(files(&root).unwrap(), Vec::<PathBuf>::new());

        write("usr/lib/warmswap.toml");
        write("usr/lib/warmswap.d/50-b.toml");
        write("usr/lib/warmswap.d/60-c.toml");
        write("run/warmswap.toml");
        write("run/warmswap.d/50-b.toml");
        write("etc/warmswap.d/10-a.toml");
        write("etc/warmswap.d/readme.txt");

        let found: Vec<_> = files(&root)
            .unwrap()
            .iter()
            .map(|path| {
                path.strip_prefix(place.path())
                    .unwrap()
                    .display()
                    .to_string()
            })
            .collect();
        assert_eq!(
            found,
            [
                "run/warmswap.toml",
                "etc/warmswap.d/10-a.toml",
                "run/warmswap.d/50-b.toml",
                "usr/lib/warmswap.d/60-c.toml",
            ]
        );
    }

    #[test]
    fn files_of_the_old_form_are_named_and_not_read() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::at(place.path());
        assert_eq!(old(&root), [""; 0]);
        std::fs::create_dir_all(place.path().join("etc/warmswap.conf.d")).unwrap();
        assert_eq!(old(&root), [""; 0], "an empty folder");
        std::fs::write(place.path().join("etc/warmswap.conf"), "[host]\n").unwrap();
        let [line] = &old(&root)[..] else {
            panic!("one line");
        };
        assert!(line.contains("etc/warmswap.conf is not read"), "{line}");
        assert!(line.contains("/etc/warmswap.toml"), "{line}");
        assert_eq!(files(&root).unwrap(), Vec::<PathBuf>::new());
    }
}
