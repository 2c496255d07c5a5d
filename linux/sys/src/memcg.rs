//! Memory control groups, version 1 and 2.

mod group;

pub use group::{Group, bounds_of, own_group, own_limit_bytes};

use std::path::{Path, PathBuf};

use crate::process::in_group;
use crate::undo::{Action, Pending, Undo, UndoError};
use crate::{FileError, Root, file};

/// The kernel's own value.
const SWAPPINESS: &str = "60";

/// A control group could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum MemcgError {
    /// No hierarchy with a memory controller is mounted.
    #[error(
        "no memory control group hierarchy is mounted; `warmswap doctor group` says what would fix it"
    )]
    Missing,
    /// A control file failed; often root is missing.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change could not be registered.
    #[error(transparent)]
    Undo(#[from] UndoError),
}

/// Which interface the kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `memory.limit_in_bytes` and its kin.
    V1,
    /// `memory.max` and its kin.
    V2,
}

/// The hierarchy that has the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Its interface.
    pub version: Version,
}

impl Hierarchy {
    /// Finds the memory controller in `/proc/self/mounts`; a version 2 hierarchy counts only when it has it.
    ///
    /// # Errors
    /// [`MemcgError::Missing`] when there is none.
    pub fn find(root: &Root) -> Result<Self, MemcgError> {
        let text = file::read(&root.path("/proc/self/mounts"))?;
        for line in text.lines() {
            let mut fields = line.split(' ').skip(1);
            let (Some(path), Some(kind), Some(options)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let mount = root.path(crate::swap::unescaped(path));
            let has_memory = |list: &str, separator: char| {
                list.split(separator).any(|word| word.trim() == "memory")
            };
            let version = match kind {
                "cgroup" if has_memory(options, ',') => Version::V1,
                "cgroup2"
                    if file::read(&mount.join("cgroup.controllers"))
                        .is_ok_and(|t| has_memory(&t, ' ')) =>
                {
                    Version::V2
                }
                _ => continue,
            };
            return Ok(Self { mount, version });
        }
        Err(MemcgError::Missing)
    }

    /// All groups, the top of the hierarchy included, each before those below it.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut folders = vec![self.mount.clone()];
        while let Some(folder) = folders.pop() {
            // One that goes meanwhile has none below it.
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|entry| entry.path()));
            groups.push(Group::new(folder, self.version));
        }
        groups
    }
}

/// What a group uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemcgStats {
    /// Memory charged now, page cache included.
    pub usage_bytes: u64,
    /// Anonymous memory.
    pub anonymous_bytes: u64,
    /// Page cache.
    pub file_bytes: u64,
    /// Of it, what was not used lately and the kernel drops first; 0 where it is not said.
    pub inactive_file_bytes: u64,
    /// Major faults.
    pub major_faults: u64,
}

/// A group of our own. Dropping it moves its processes to the parent and removes it.
#[derive(Debug)]
pub struct Memcg {
    path: PathBuf,
    version: Version,
    pending: Pending,
}

impl Memcg {
    /// Makes the group `warmswap-NAME` at the top of the hierarchy.
    ///
    /// # Errors
    /// [`MemcgError`]; a group of that name that exists already is an error.
    pub fn create(undo: &Undo, name: &str) -> Result<Self, MemcgError> {
        let Hierarchy { mount, version } = Hierarchy::find(undo.root())?;
        Self::create_in(undo, &mount, version, name, None)
    }

    /// Makes the group `warmswap-NAME` where every limit that holds for this process holds for it, too: below this
    /// process's own group in version 1, beside it in version 2, whose groups have members or groups below them. When
    /// the group goes, its members go to this process's own group.
    ///
    /// # Errors
    /// As for [`Self::create`]; in version 2 the group above must let this process hand its memory controller down.
    pub fn create_near(undo: &Undo, name: &str) -> Result<Self, MemcgError> {
        let Hierarchy { mount, version } = Hierarchy::find(undo.root())?;
        let own = group::own_folder(undo.root(), &mount, version)?;
        let parent = match version {
            Version::V2 if own != mount => own.parent().unwrap_or(&mount),
            _ => &own,
        };
        let group = Self::create_in(undo, parent, version, name, Some(own.clone()))?;
        if version == Version::V2 {
            // Beside this process's own group its limit on swap would not hold.
            match file::read(&own.join("memory.swap.max")) {
                Ok(limit) if limit.trim() != "max" => {
                    file::write(&group.path.join("memory.swap.max"), limit.trim())?;
                }
                _ => {}
            }
        }
        Ok(group)
    }

    fn create_in(
        undo: &Undo,
        parent: &Path,
        version: Version,
        name: &str,
        to: Option<PathBuf>,
    ) -> Result<Self, MemcgError> {
        let path = parent.join(format!("{}{name}", Action::FOLDER_PREFIX));
        if path.exists() {
            let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(FileError::new("make", &path, source).into());
        }
        let pending = undo.register(Action::RemoveGroup {
            path: path.clone(),
            to,
        })?;
        if version == Version::V2 {
            file::write(&parent.join("cgroup.subtree_control"), "+memory")?;
        }
        std::fs::create_dir(&path).map_err(|e| FileError::new("make", &path, e))?;
        let memcg = Self {
            path,
            version,
            pending,
        };
        if version == Version::V1 && memcg.group().swappiness(undo.root()) == Some(0) {
            // It was inherited. At its limit a group that never swaps loses its members.
            file::write(&memcg.path.join("memory.swappiness"), SWAPPINESS)?;
        }
        Ok(memcg)
    }

    /// Limits the group's memory; `None` lifts the limit. Lowering it reclaims before it returns.
    ///
    /// # Errors
    /// [`FileError`]; busy when the kernel cannot reclaim enough.
    pub fn limit(&self, bytes: Option<u64>) -> Result<(), FileError> {
        self.group().set_limit(bytes)
    }

    /// Moves process `pid` with all its threads into the group. Memory that it has already stays charged
    /// to its old group.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn add(&self, pid: u32) -> Result<(), FileError> {
        file::write(&self.path.join("cgroup.procs"), &pid.to_string())
    }

    /// Makes `command` start in the group, so that all its memory is charged to it.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn start_here(&self, command: &mut std::process::Command) -> Result<(), FileError> {
        let path = self.path.join("cgroup.procs");
        let procs = std::fs::File::options().write(true).open(&path);
        in_group(
            command,
            procs.map_err(|e| FileError::new("open", &path, e))?,
        );
        Ok(())
    }

    /// Drops the clean pages of files that are charged to the group, however many processes have them mapped, and leaves
    /// anonymous memory alone. Pages that processes outside of the group brought into memory are not charged to it, and
    /// stay. Costs about 1 µs a page.
    ///
    /// # Errors
    /// [`FileError`]; version 2 can from Linux 6.9 on.
    pub fn drop_file_pages(&self) -> Result<(), FileError> {
        match self.version {
            Version::V1 => {
                let path = self.path.join("memory.swappiness");
                let before = file::read(&path)?;
                // Without swappiness pages of files are all that a group gives.
                file::write(&path, "0")?;
                let dropped = file::write(&self.path.join("memory.force_empty"), "0");
                file::write(&path, before.trim())?;
                dropped
            }
            Version::V2 => {
                let bytes = self.stats()?.file_bytes;
                let order = format!("{bytes} swappiness=0");
                match file::write(&self.path.join("memory.reclaim"), &order) {
                    // Not all of them could be dropped.
                    Err(e) if e.source.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
                    result => result,
                }
            }
        }
    }

    /// Present use.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn stats(&self) -> Result<MemcgStats, FileError> {
        read_stats(&self.path, self.version)
    }

    /// The group as seen by a process that does not own it.
    #[must_use]
    pub fn group(&self) -> Group {
        Group::new(self.path.clone(), self.version)
    }

    /// The group's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the group now.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn remove(self) -> Result<(), UndoError> {
        self.pending.finish()
    }
}

fn read_stats(group: &Path, version: Version) -> Result<MemcgStats, FileError> {
    let (usage, anonymous, cache, inactive, faults) = match version {
        Version::V1 => (
            "memory.usage_in_bytes",
            "total_rss",
            "total_cache",
            "total_inactive_file",
            "total_pgmajfault",
        ),
        Version::V2 => (
            "memory.current",
            "anon",
            "file",
            "inactive_file",
            "pgmajfault",
        ),
    };
    let path = group.join("memory.stat");
    let text = file::read(&path)?;
    let field = |name: &str| {
        text.lines()
            .find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')?
                    .trim()
                    .parse()
                    .ok()
            })
            .ok_or_else(|| FileError::unexpected(&path, &format!("no field {name}")))
    };
    Ok(MemcgStats {
        usage_bytes: file::read_u64(&group.join(usage))?,
        anonymous_bytes: field(anonymous)?,
        file_bytes: field(cache)?,
        inactive_file_bytes: field(inactive).unwrap_or(0),
        major_faults: field(faults)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(mounts: &str, controllers: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::create_dir_all(dir.path().join("cg")).unwrap();
        std::fs::write(dir.path().join("proc/self/mounts"), mounts).unwrap();
        std::fs::write(dir.path().join("cg/cgroup.controllers"), controllers).unwrap();
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn both_versions_are_found_and_a_v2_without_memory_is_not() {
        let v1 = "none /cg2 cgroup2 rw 0 0\nnone /cpu cgroup rw,cpu 0 0\nnone /cg cgroup rw,memory 0 0\n";
        let v2 = "none /cg cgroup2 rw 0 0\n";

        let (_d1, first) = machine(v1, "");
        let (_d2, second) = machine(v2, "cpu memory pids\n");
        let (_d3, third) = machine(v2, "cpu pids\n");

        assert_eq!(Hierarchy::find(&first).unwrap().version, Version::V1);
        assert_eq!(Hierarchy::find(&second).unwrap().version, Version::V2);
        let error = Hierarchy::find(&third).unwrap_err();
        assert!(error.to_string().contains("doctor group"), "{error}");
    }

    #[test]
    fn a_near_group_is_below_its_maker_in_version_1_and_beside_it_in_version_2() {
        let v1 = (
            "none /cg cgroup rw,memory 0 0\n",
            "4:memory:/a/b\n",
            "a/b/warmswap-x",
        );
        let v2 = ("none /cg cgroup2 rw 0 0\n", "0::/a/b\n", "a/warmswap-x");
        let top = ("none /cg cgroup2 rw 0 0\n", "0::/\n", "warmswap-x");
        // The machine's path of a container that sees a part of the hierarchy alone.
        let elsewhere = (
            "none /cg cgroup rw,memory 0 0\n",
            "4:memory:/c\n",
            "warmswap-x",
        );
        for (mounts, own, expected) in [v1, v2, top, elsewhere] {
            let (dir, root) = machine(mounts, "memory\n");
            let cg = dir.path().join("cg");
            std::fs::create_dir_all(cg.join("a/b")).unwrap();
            std::fs::write(dir.path().join("proc/self/cgroup"), own).unwrap();
            for parent in [cg.clone(), cg.join("a")] {
                std::fs::write(parent.join("cgroup.subtree_control"), "").unwrap();
            }
            let state = tempfile::tempdir().unwrap();
            let undo = Undo::open(&root, &state.path().join("s")).unwrap();
            let group = Memcg::create_near(&undo, "x").unwrap();
            assert_eq!(group.path(), cg.join(expected));

            // Its members go to the group of its maker.
            let maker = match own.rsplit_once('/').unwrap().1.trim() {
                "b" => cg.join("a/b"),
                _ => cg.clone(),
            };
            std::fs::write(maker.join("cgroup.procs"), "").unwrap();
            std::fs::write(group.path().join("cgroup.procs"), "7\n").unwrap();
            // A folder with a file in it stays, as a group with members does.
            assert!(group.remove().is_err());
            let moved = std::fs::read_to_string(maker.join("cgroup.procs")).unwrap();
            assert_eq!(moved, "7");
        }
    }

    #[test]
    fn recorded_statistics_of_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("memory.usage_in_bytes", "900\n");
        write("memory.current", "901\n");
        write(
            "memory.stat",
            "total_rss 10\ntotal_rss_huge 77\ntotal_cache 20\ntotal_inactive_file 5\ntotal_pgmajfault 3\nanon 11\nfile 21\npgmajfault 4\n",
        );

        let v1 = read_stats(dir.path(), Version::V1).unwrap();
        let v2 = read_stats(dir.path(), Version::V2).unwrap();

        assert_eq!(
            v1,
            MemcgStats {
                usage_bytes: 900,
                anonymous_bytes: 10,
                file_bytes: 20,
                inactive_file_bytes: 5,
                major_faults: 3
            }
        );
        assert_eq!(
            v2,
            MemcgStats {
                usage_bytes: 901,
                anonymous_bytes: 11,
                file_bytes: 21,
                inactive_file_bytes: 0,
                major_faults: 4
            }
        );
    }

    #[test]
    fn pages_of_files_are_dropped_by_the_means_of_each_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let undo = Undo::open(&Root::at(&path), &path.join("state")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(path.join(name), text).unwrap();
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
        write("memory.swappiness", "70\n");
        write("memory.force_empty", "-");
        write("memory.current", "9000\n");
        write("memory.stat", "anon 1\nfile 8192\npgmajfault 0\n");
        write("memory.reclaim", "");
        let group = |version| Memcg {
            path: path.clone(),
            version,
            pending: undo.register(Action::Nothing).unwrap(),
        };

        group(Version::V1).drop_file_pages().unwrap();
        group(Version::V2).drop_file_pages().unwrap();

        assert_eq!(read("memory.force_empty"), "0");
        assert_eq!(read("memory.swappiness"), "70", "as it was");
        assert_eq!(read("memory.reclaim"), "8192 swappiness=0");
    }

    #[test]
    fn a_group_of_the_machine_holds_a_child_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Root::machine(), dir.path()).unwrap();
        let group = match Memcg::create(&undo, &format!("test-{}", std::process::id())) {
            Ok(group) => group,
            Err(e) => {
                warmswap_testkit::skip!("a_group_of_the_machine_holds_a_child_and_goes", "{e}");
            }
        };
        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("60");
        let mut child = sleep.spawn().unwrap();
        group.start_here(&mut sleep).unwrap();
        let mut inside = sleep.spawn().unwrap();
        let path = group.path().to_owned();
        assert_eq!(group.group().pids().unwrap(), [inside.id()]);

        group.limit(Some(64 << 20)).unwrap();
        group.add(child.id()).unwrap();
        group.stats().unwrap();
        group.remove().unwrap();

        assert!(!path.exists());
        for child in [&mut child, &mut inside] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
