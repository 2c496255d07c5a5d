//! Applications without a section in the configuration.
//!
//! A desktop that is run by systemd puts each application into a control group of its own
//! (`app-LAUNCHER-NAME-RANDOM.scope`, as systemd's "Desktop environments" describes); elsewhere the processes
//! of one executable are taken together. Only what holds enough memory counts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use warmswap_kernel::Members;
use warmswap_kernel::application::matches;
use warmswap_sys::process::MemoryUse;
use warmswap_sys::{FileError, Root, file, tree};

use crate::config::MAX_APP_NAME_BYTES;
use crate::config::sections::DiscoverSection;

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// An application that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it may be called.
    pub name: String,
    /// Its processes.
    pub members: Members,
    /// Their anonymous memory, swapped out or not.
    pub bytes: u64,
}

/// Looks at all processes but those of `taken` and this one. Costs about 50 µs a process.
///
/// # Errors
/// [`FileError`] when `/proc` cannot be listed. Processes that may not be looked at are left out.
pub fn scan(
    root: &Root,
    config: &DiscoverSection,
    taken: &BTreeSet<u32>,
) -> Result<Vec<Found>, FileError> {
    let own = std::process::id();
    let has_groups = root.path("/sys/fs/cgroup/cgroup.controllers").exists();
    let mut found: BTreeMap<PathBuf, Found> = BTreeMap::new();
    for process in tree::all(root)? {
        let pid = process.pid;
        let is_kernel = pid == KTHREADD || process.parent == KTHREADD;
        if is_kernel || pid == own || taken.contains(&pid) {
            continue;
        }
        let (Some(executable), Some(bytes)) = (executable(root, pid), anonymous_bytes(root, pid))
        else {
            continue;
        };
        if config
            .exclude
            .iter()
            .any(|pattern| matches(pattern, &executable))
        {
            continue;
        }
        let group = has_groups.then(|| app_group(root, pid)).flatten();
        let (key, name, members) = match group {
            Some((path, name)) => {
                let without = config.exclude.clone();
                (path.clone(), name, Members::Group { path, without })
            }
            None => {
                let name = executable.file_name().unwrap_or_default();
                let name = name.to_string_lossy().into_owned();
                (executable.clone(), name, Members::Path(executable))
            }
        };
        let app = found.entry(key).or_insert(Found {
            name: plain(&name),
            members,
            bytes: 0,
        });
        app.bytes += bytes;
    }
    let least = config.min_size.bytes;
    Ok(found
        .into_values()
        .filter(|app| app.bytes >= least)
        .collect())
}

/// A name that a configuration could have.
fn plain(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c == '/' || c.is_control() { '-' } else { c })
        .collect();
    let mut end = name.len().min(MAX_APP_NAME_BYTES - 8);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let name = name[..end].trim();
    if name.is_empty() || name.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("program {name}").trim().to_owned();
    }
    name.to_owned()
}

fn executable(root: &Root, pid: u32) -> Option<PathBuf> {
    let path = std::fs::read_link(root.proc_file(pid, "exe")).ok()?;
    let name = path.as_os_str().as_bytes();
    let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// Anonymous memory of a process, in memory and in swap.
fn anonymous_bytes(root: &Root, pid: u32) -> Option<u64> {
    let memory = MemoryUse::read(root, pid).ok()?;
    Some(memory.anonymous_bytes + memory.swapped_bytes)
}

/// The control group of the application that a process belongs to, and its name.
fn app_group(root: &Root, pid: u32) -> Option<(PathBuf, String)> {
    let text = file::read(&root.proc_file(pid, "cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let path = Path::new(path);
    path.ancestors().find_map(|group| {
        let name = app_of_unit(group.file_name()?.to_str()?)?;
        Some((group.to_owned(), name))
    })
}

/// The application of a unit: `app-gnome-org.gnome.Maps-4711.scope` is `org.gnome.Maps`.
fn app_of_unit(unit: &str) -> Option<String> {
    let name = unit.strip_prefix("app-")?;
    let parts: Vec<&str> = match name.strip_suffix(".scope") {
        Some(name) => {
            let parts: Vec<&str> = name.split('-').collect();
            // The last part of a scope makes it unique.
            parts[..parts.len().max(2) - 1].to_vec()
        }
        None => {
            let name = name.strip_suffix(".service")?;
            name.split('@').next()?.split('-').collect()
        }
    };
    let name = *parts.last()?;
    (!name.is_empty()).then(|| name.replace("\\x2d", "-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::Section as _;
    use crate::config::size::{Facts, Size};

    /// One process of a machine: number, parent, executable, MiB, control group.
    type Process<'a> = (u32, u32, &'a str, u64, &'a str);

    fn machine(processes: &[Process], with_groups: bool) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (pid, parent, executable, mib, group) in processes {
            let stat = format!(
                "{pid} (p) S {parent} 1 5 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {} 0 0 0\n",
                pid * 10
            );
            write(format!("proc/{pid}/stat"), &stat);
            let status = format!(
                "Name:\tp\nRssAnon:\t{} kB\nVmSwap:\t1024 kB\n",
                (mib - 1) << 10
            );
            write(format!("proc/{pid}/status"), &status);
            write(format!("proc/{pid}/cgroup"), &format!("0::{group}\n"));
            let link = place.path().join(format!("proc/{pid}/exe"));
            std::os::unix::fs::symlink(executable, link).unwrap();
        }
        if with_groups {
            write("sys/fs/cgroup/cgroup.controllers".to_owned(), "memory\n");
        }
        place
    }

    fn find(place: &tempfile::TempDir, taken: &[u32]) -> Vec<(String, u64)> {
        let facts = Facts { ram_bytes: 8 << 30 };
        let mut config = DiscoverSection::defaults(facts);
        config.min_size = Size::parse("64", facts).unwrap();
        let taken = taken.iter().copied().collect();
        let found = scan(&Root::at(place.path()), &config, &taken).unwrap();
        found
            .into_iter()
            .map(|app| (app.name, app.bytes >> 20))
            .collect()
    }

    #[test]
    fn processes_of_one_executable_are_one_application() {
        let place = machine(
            &[
                (2, 0, "/kernel", 900, "/"),
                (50, 2, "/kernel", 900, "/"),
                (100, 1, "/opt/web/web", 40, "/"),
                (101, 100, "/opt/web/web (deleted)", 30, "/"),
                (102, 1, "/usr/bin/small", 10, "/"),
                (103, 1, "/usr/lib/systemd/systemd-journald", 100, "/"),
                (104, 1, "/usr/bin/edit", 80, "/"),
                (105, 1, "/usr/bin/taken", 80, "/"),
                (106, 1, "/*", 80, "/"),
            ],
            false,
        );

        let found = find(&place, &[105]);

        let found: Vec<_> = found
            .iter()
            .map(|(name, mib)| (name.as_str(), *mib))
            .collect();
        assert_eq!(found, [("*", 80), ("web", 70), ("edit", 80)]);
    }

    #[test]
    fn a_desktop_says_what_belongs_together() {
        let scope =
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-firefox-4711.scope";
        let inner = format!("{scope}/inner");
        let processes = [
            (100, 1, "/usr/bin/firefox", 40, scope),
            (101, 100, "/usr/bin/plugin", 40, inner.as_str()),
        ];
        let with_groups = find(&machine(&processes, true), &[]);
        assert_eq!(with_groups, [("firefox".to_owned(), 80)]);
        let without = find(&machine(&processes, false), &[]);
        assert!(without.is_empty(), "two small programs: {without:?}");
    }

    #[test]
    fn what_is_excluded_is_no_part_of_a_group_either() {
        let group = "/user.slice/app-steam-1.scope";
        let place = machine(
            &[
                (100, 1, "/usr/bin/game", 80, group),
                (101, 100, "/usr/bin/Xwayland", 90, group),
            ],
            true,
        );
        let facts = Facts { ram_bytes: 8 << 30 };
        let config = DiscoverSection::defaults(facts);

        let found = scan(&Root::at(place.path()), &config, &BTreeSet::new()).unwrap();

        let [steam] = &found[..] else {
            panic!("{found:?}")
        };
        let Members::Group { without, .. } = &steam.members else {
            panic!("{steam:?}")
        };
        let is_left_out = |path: &str| without.iter().any(|p| matches(p, Path::new(path)));
        assert!(is_left_out("/usr/bin/Xwayland") && !is_left_out("/usr/bin/game"));
    }

    #[test]
    fn units_are_named_after_applications() {
        for (unit, name) in [
            (
                "app-gnome-org.gnome.Maps-4711.scope",
                Some("org.gnome.Maps"),
            ),
            ("app-firefox-1.scope", Some("firefox")),
            ("app-flatpak-org.x.Y-9.scope", Some("org.x.Y")),
            ("app-gnome-a\\x2db-7.scope", Some("a-b")),
            ("app-kde-editor@0af3.service", Some("editor")),
            ("app-x.scope", Some("x")),
            ("app-.scope", None),
            ("app.slice", None),
            ("session-3.scope", None),
        ] {
            assert_eq!(app_of_unit(unit).as_deref(), name, "{unit}");
        }
    }

    #[test]
    fn names_become_plain() {
        assert_eq!(plain("a/b\nc"), "a-b-c");
        assert_eq!(plain("7"), "program 7");
        assert_eq!(plain(""), "program");
        assert!(plain(&"é".repeat(90)).len() <= MAX_APP_NAME_BYTES);
    }
}
