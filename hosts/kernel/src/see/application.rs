//! Which processes make up an application, found again as they fork, exec and exit.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use warmswap_sys::memcg::{Group, MemcgError};
use warmswap_sys::process::Stat;
use warmswap_sys::{FileError, Root, tree};

use crate::error::HostError;

/// How the processes of an application are found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Members {
    /// A process and all its descendants.
    Tree {
        /// The process.
        pid: u32,
        /// Its start in clock ticks since boot, so that a later process of its number is not taken for it; 0
        /// for the one that has the number now.
        #[serde(default)]
        start_ticks: u64,
        /// Whether the process itself belongs to it, and not only its descendants.
        with_root: bool,
    },
    /// All processes of a memory control group and the groups below it.
    Group {
        /// The group's folder, absolute or relative to the top of the hierarchy.
        path: PathBuf,
        /// Executables whose processes do not belong to it, as in [`Self::Executable`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        without: Vec<String>,
    },
    /// All processes whose executable has this path, or, without a slash, this file name. A `*` stands for any
    /// characters, slashes included; a ` (deleted)` of a program that was replaced is not looked at.
    Executable(String),
    /// All processes whose executable has this path, whatever characters it has; ` (deleted)` as above.
    Path(PathBuf),
}

/// One application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// Its name; learned tables are kept under it.
    pub name: String,
    /// Its processes.
    pub members: Members,
}

/// A process by number and start: an identity for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// Its start in clock ticks since boot.
    pub start_ticks: u64,
}

/// The living processes of each application, ascending by number, by one look at the machine's processes. A process belongs to
/// the first application that it fits; this process itself belongs to none, and neither do threads of the kernel.
/// Costs about 20 µs a process of the machine.
///
/// # Errors
/// [`HostError::File`] when `/proc` cannot be listed, or descriptors ran out. A control group that is gone has no
/// processes.
pub fn find(root: &Root, applications: &[&Application]) -> Result<Vec<Vec<ProcessId>>, HostError> {
    let all = tree::all(root)?;
    let own_pid = std::process::id();
    let mut free: FxHashMap<u32, &Stat> = all
        .iter()
        .filter(|s| !matches!(s.state, 'Z' | 'X') && s.pid != own_pid && s.pid != KTHREADD)
        .filter(|s| s.parent != KTHREADD)
        .map(|s| (s.pid, s))
        .collect();
    let mut executables = FxHashMap::default();
    let found = applications.iter().map(|application| {
        let mut pids = members(root, &application.members, &all, &free, &mut executables)?;
        pids.sort_unstable();
        let processes = pids.iter().filter_map(|pid| free.remove(pid));
        Ok(processes
            .map(|s| ProcessId {
                pid: s.pid,
                start_ticks: s.start_ticks,
            })
            .collect())
    });
    found.collect()
}

fn members(
    root: &Root,
    members: &Members,
    all: &[Stat],
    free: &FxHashMap<u32, &Stat>,
    executables: &mut FxHashMap<u32, Option<PathBuf>>,
) -> Result<Vec<u32>, HostError> {
    let mut runs = |pid: u32, fits: &dyn Fn(&Path) -> bool| {
        let executable = executables.entry(pid);
        let path = executable.or_insert_with(|| executable_of(root, pid));
        path.as_deref().is_some_and(fits)
    };
    let pids = free.keys().copied();
    Ok(match members {
        Members::Tree {
            pid,
            start_ticks,
            with_root,
        } => {
            let is_it = |s: &&Stat| *start_ticks == 0 || s.start_ticks == *start_ticks;
            match free.get(pid).copied().filter(is_it) {
                Some(_) => {
                    let family = tree::family(all, *pid).into_iter();
                    let family = family.skip(usize::from(!*with_root));
                    family.map(|s| s.pid).collect()
                }
                None => Vec::new(),
            }
        }
        Members::Group { path, without } => {
            let mut pids = group_pids(root, path)?;
            let mut is_out = |pid, pattern: &String| runs(pid, &|path| matches(pattern, path));
            pids.retain(|&pid| !without.iter().any(|pattern| is_out(pid, pattern)));
            pids
        }
        Members::Executable(pattern) => pids
            .filter(|&pid| runs(pid, &|path| matches(pattern, path)))
            .collect(),
        Members::Path(path) => pids
            .filter(|&pid| runs(pid, &|found| found == path))
            .collect(),
    })
}

fn group_pids(root: &Root, path: &Path) -> Result<Vec<u32>, FileError> {
    let pids = Group::open(root, path).and_then(|group| Ok(group.pids()?));
    match pids {
        Err(MemcgError::File(error)) if error.is_exhausted() => Err(error),
        pids => Ok(pids.unwrap_or_default()),
    }
}

/// The program that a process runs; none when it may not be asked, or has none.
fn executable_of(root: &Root, pid: u32) -> Option<PathBuf> {
    let path = std::fs::read_link(root.proc_file(pid, "exe")).ok()?;
    let name = path.as_os_str().as_bytes();
    let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name)))
}

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// Whether a path fits a pattern; see [`Members::Executable`].
#[must_use]
pub fn matches(pattern: &str, path: &Path) -> bool {
    let text = if pattern.contains('/') {
        path.as_os_str().as_bytes()
    } else {
        path.file_name().map_or(&[][..], |name| name.as_bytes())
    };
    let Some((first, others)) = pattern.split_once('*') else {
        return text == pattern.as_bytes();
    };
    let (middle, last) = others.rsplit_once('*').unwrap_or(("", others));
    let text = text.strip_prefix(first.as_bytes());
    let Some(mut text) = text.and_then(|text| text.strip_suffix(last.as_bytes())) else {
        return false;
    };
    let mut parts = middle.split('*').filter(|part| !part.is_empty());
    parts.all(|part| {
        let at = text
            .windows(part.len())
            .position(|window| window == part.as_bytes());
        text = at.map_or(text, |at| &text[at + part.len()..]);
        at.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;

    /// A machine with these processes: number, parent, executable.
    fn machine(processes: &[(u32, u32, &str)]) -> Machine {
        let machine = Machine::with_groups();
        for &(pid, parent, executable) in processes {
            let start_ticks = u64::from(pid) * 10;
            machine.add_process(ProcessId { pid, start_ticks }, parent, executable);
        }
        machine
    }

    fn app(members: Members) -> Application {
        Application {
            name: "a".to_owned(),
            members,
        }
    }

    fn tree(pid: u32, with_root: bool) -> Application {
        app(Members::Tree {
            pid,
            start_ticks: 0,
            with_root,
        })
    }

    fn found(machine: &Machine, apps: &[&Application]) -> Vec<Vec<u32>> {
        let found = find(&machine.root(), apps).unwrap();
        let pids = |processes: Vec<ProcessId>| processes.into_iter().map(|p| p.pid).collect();
        found.into_iter().map(pids).collect()
    }

    #[test]
    fn a_tree_follows_its_descendants() {
        let machine = machine(&[
            (50, 1, "/bin/a"),
            (70, 50, "/bin/b"),
            (90, 70, "/bin/b"),
            (60, 1, "/bin/b"),
        ]);

        assert_eq!(found(&machine, &[&tree(50, true)]), [[50, 70, 90]]);
        assert_eq!(found(&machine, &[&tree(50, false)]), [[70, 90]]);
        assert!(found(&machine, &[&tree(99, true)])[0].is_empty());
        let later = app(Members::Tree {
            pid: 50,
            start_ticks: 501,
            with_root: true,
        });
        assert!(
            found(&machine, &[&later])[0].is_empty(),
            "another process of that number"
        );
    }

    #[test]
    fn a_process_belongs_to_the_first_that_fits_and_kernel_threads_to_none() {
        let machine = machine(&[
            (2, 0, "/none"),
            (3, 2, "/usr/lib/web/web"),
            (50, 1, "/usr/lib/web/web"),
            (70, 50, "/usr/lib/web/web (deleted)"),
            (80, 1, "/usr/bin/edit"),
        ]);
        let web = app(Members::Executable("web".to_owned()));
        let paths = app(Members::Executable("/usr/*".to_owned()));

        let found = found(&machine, &[&tree(70, true), &web, &paths]);

        assert_eq!(found, [vec![70], vec![50], vec![80]]);
    }

    #[test]
    fn a_path_of_any_bytes_is_itself_alone() {
        use std::os::unix::ffi::OsStrExt as _;
        let machine = machine(&[(50, 1, "/opt/*/a"), (60, 1, "/opt/b/a")]);
        let odd = std::ffi::OsStr::from_bytes(b"/opt/caf\xe9 (deleted)");
        let link = machine.path("proc/60/exe");
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(odd, &link).unwrap();
        let star = app(Members::Path("/opt/*/a".into()));
        let path = std::ffi::OsStr::from_bytes(b"/opt/caf\xe9");
        let odd = app(Members::Path(path.into()));
        assert_eq!(found(&machine, &[&star, &odd]), [[50], [60]]);
    }

    #[test]
    fn a_group_is_without_the_executables_that_are_left_out() {
        let machine = machine(&[(50, 1, "/usr/bin/game"), (70, 50, "/usr/bin/Xwayland")]);
        machine.set_group("game", 1, 0);
        machine.write("cg/game/cgroup.procs", "50\n70\n");
        let group = |without: &[&str]| {
            app(Members::Group {
                path: "/game".into(),
                without: without.iter().map(|&pattern| pattern.to_owned()).collect(),
            })
        };

        assert_eq!(found(&machine, &[&group(&[])]), [[50, 70]]);
        assert_eq!(found(&machine, &[&group(&["Xway*"])]), [[50]]);
    }

    #[test]
    fn patterns_fit_names_or_whole_paths() {
        let fits = |pattern: &str| matches(pattern, Path::new("/opt/app/bin/chromium-x"));

        for yes in [
            "chromium-x",
            "chromium*",
            "*",
            "ch*um-*",
            "/opt/*/bin/*",
            "/opt/app/bin/chromium-x",
        ] {
            assert!(fits(yes), "{yes}");
        }
        for no in ["chromium", "app", "/opt", "/app/*", "ch*y", "", "*x*x*x"] {
            assert!(!fits(no), "{no}");
        }
    }
}
