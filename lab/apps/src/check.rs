//! Is everything there that an application needs?

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::spec::{AppSpec, Folders, Size};

/// Where programs are looked for first, and the `PATH` of every application.
pub(crate) const FIXED_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What is missing, and the commands that install it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Programs that are not found.
    pub programs: Vec<String>,
    /// Files that do not exist.
    pub files: Vec<PathBuf>,
    /// Commands that bring what is missing.
    pub commands: Vec<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.iter().map(|p| p.display().to_string());
        let things: Vec<String> = self.programs.iter().cloned().chain(files).collect();
        write!(
            f,
            "missing: {}; run: {}",
            things.join(", "),
            self.commands.join(" && ")
        )
    }
}

/// Looks for everything that `spec` needs; `None` when all is there. `cache` is the folder of installed
/// files, see [`crate::Directories`].
#[must_use]
pub fn check(spec: &AppSpec, cache: &Path) -> Option<Missing> {
    let programs: Vec<String> = spec
        .needs
        .programs
        .iter()
        .filter(|p| find_program(p).is_none())
        .cloned()
        .collect();
    let folders = Folders {
        drivers: spec.drivers(),
        cache: cache.to_owned(),
    };
    let files: Vec<PathBuf> = spec
        .needs
        .files
        .iter()
        .map(|f| PathBuf::from(spec.fill_in(f, Size::Small, &folders)))
        .filter(|f| !f.exists())
        .collect();
    if programs.is_empty() && files.is_empty() {
        return None;
    }
    let mut commands = Vec::new();
    if !programs.is_empty() && !spec.needs.debian.is_empty() {
        commands.push(format!(
            "sudo apt-get install --no-install-recommends {}",
            spec.needs.debian.join(" ")
        ));
    }
    if !files.is_empty() || commands.is_empty() {
        // The files come from other registries and a compiler; the script knows the steps.
        let script = spec.path.with_file_name("install");
        commands.push(format!("{} {}", script.display(), spec.name));
    }
    Some(Missing {
        programs,
        files,
        commands,
    })
}

/// The full path of a program: on the fixed path, else on the caller's `PATH`. A name with a slash is
/// taken as it is.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|p| is_program(p));
    }
    let callers = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(OsStr::new(FIXED_PATH))
        .chain(std::env::split_paths(&callers))
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load_all;

    #[test]
    fn what_is_missing_comes_with_the_command_that_brings_it() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        let mut spec = load_all(&shipped)
            .unwrap()
            .into_iter()
            .find(|s| s.name == "h2")
            .unwrap();
        spec.needs.programs = vec!["no-such-program".to_owned(), "sh".to_owned()];

        let missing = check(&spec, Path::new("/nowhere")).unwrap();

        assert_eq!(missing.programs, ["no-such-program"]);
        assert_eq!(missing.files[0], Path::new("/nowhere/h2/h2.jar"));
        let text = missing.to_string();
        assert!(
            text.contains("apt-get install") && text.contains("default-jdk-headless"),
            "{text}"
        );
        assert!(text.contains("apps/install h2"), "{text}");
    }

    #[test]
    fn nothing_is_missing_when_all_is_there() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        let mut spec = load_all(&shipped).unwrap().remove(0);
        spec.needs.programs = vec!["sh".to_owned()];
        spec.needs.files = vec!["{drivers}/driver.py".to_owned()];

        assert_eq!(check(&spec, Path::new("/nowhere")), None);
    }
}
