//! A memory control group that another program made: its use, its limit and its members.

use std::path::{Path, PathBuf};

use super::{Hierarchy, MemcgError, MemcgStats, Version, read_stats};
use crate::{FileError, Root, file};

/// Limits above this mean "none" in version 1, which has no word for it.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// A group, by its folder. It may go at any time: every call then says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    path: PathBuf,
    version: Version,
}

/// The least limit under which the calling process is: that of its own group, or of one above it. `None` where there is
/// none, or no hierarchy that says so.
#[must_use]
pub fn own_limit_bytes(root: &Root) -> Option<u64> {
    let Hierarchy { mount, version } = Hierarchy::find(root).ok()?;
    let text = file::read(&root.path("/proc/self/cgroup")).ok()?;
    let own = text.lines().find_map(|line| own_path(line, version))?;
    // In a container the path may be the machine's; what is mounted here is the part that holds for us.
    mount
        .join(own)
        .ancestors()
        .take_while(|folder| folder.starts_with(&mount))
        .filter_map(|folder| Group::new(folder.to_owned(), version).limit_bytes().ok()?)
        .min()
}

/// The path in a line of `/proc/self/cgroup` (`4:memory:/a/b`, `0::/a/b`), if that is about memory.
fn own_path(line: &str, version: Version) -> Option<&str> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let is_memory = match version {
        Version::V1 => controllers.split(',').any(|name| name == "memory"),
        Version::V2 => controllers.is_empty(),
    };
    is_memory.then(|| path.trim_start_matches('/'))
}

impl Group {
    /// The group at `path`, which is absolute or relative to the top of the hierarchy.
    ///
    /// # Errors
    /// [`MemcgError::Missing`] without a hierarchy; [`FileError`] when there is no such group.
    pub fn open(root: &Root, path: &Path) -> Result<Self, MemcgError> {
        let Hierarchy { mount, version } = Hierarchy::find(root)?;
        let path = if path.starts_with(&mount) {
            path.to_owned()
        } else {
            mount.join(path.strip_prefix("/").unwrap_or(path))
        };
        let group = Self { path, version };
        group.usage_bytes()?;
        Ok(group)
    }

    pub(super) fn new(path: PathBuf, version: Version) -> Self {
        Self { path, version }
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Memory charged now, page cache included. Costs about 5 µs.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn usage_bytes(&self) -> Result<u64, FileError> {
        file::read_u64(&self.path.join(match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        }))
    }

    /// Its limit; none if it has none of its own.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn limit_bytes(&self) -> Result<Option<u64>, FileError> {
        let path = self.path.join(match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        });
        let text = file::read(&path)?;
        match text.trim() {
            "max" => Ok(None),
            number => match number.parse::<u64>() {
                Ok(bytes) => Ok((bytes < UNLIMITED_BYTES).then_some(bytes)),
                Err(_) => Err(FileError::unexpected(&path, "no limit")),
            },
        }
    }

    /// Limits its memory; `None` lifts the limit. Lowering it reclaims before it returns.
    ///
    /// # Errors
    /// [`FileError`]; busy when the kernel cannot reclaim enough.
    pub fn set_limit(&self, bytes: Option<u64>) -> Result<(), FileError> {
        let (name, none) = match self.version {
            Version::V1 => ("memory.limit_in_bytes", "-1"),
            Version::V2 => ("memory.max", "max"),
        };
        let value = bytes.map_or_else(|| none.to_owned(), |b| b.to_string());
        file::write(&self.path.join(name), &value)
    }

    /// Present use by kind. Costs about 50 µs.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn stats(&self) -> Result<MemcgStats, FileError> {
        read_stats(&self.path, self.version)
    }

    /// Its processes, those of groups below it included.
    ///
    /// # Errors
    /// [`FileError`] when the group is gone; groups below it that go meanwhile are passed over.
    pub fn pids(&self) -> Result<Vec<u32>, FileError> {
        let mut pids = Vec::new();
        collect(&self.path, &mut pids)?;
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }
}

fn collect(folder: &Path, pids: &mut Vec<u32>) -> Result<(), FileError> {
    let text = file::read(&folder.join("cgroup.procs"))?;
    pids.extend(
        text.lines()
            .filter_map(|line| line.trim().parse::<u32>().ok()),
    );
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = collect(&entry.path(), pids);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(mounts: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::create_dir_all(dir.path().join("cg/a/b")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("proc/self/mounts", mounts);
        write("cg/cgroup.controllers", "memory\n");
        write("cg/a/cgroup.procs", "7\n3\n");
        write("cg/a/b/cgroup.procs", "9\n3\n");
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn the_least_limit_above_a_process_holds_for_it() {
        for (mounts, own, file) in [
            (
                "none /cg cgroup rw,memory 0 0\n",
                "5:cpu:/x\n4:memory:/a/b\n0::/\n",
                "memory.limit_in_bytes",
            ),
            ("none /cg cgroup2 rw 0 0\n", "0::/a/b\n", "memory.max"),
        ] {
            let (dir, root) = machine(mounts);
            let write = |name: &str, text: &str| {
                std::fs::write(dir.path().join(name), text).unwrap();
            };
            assert_eq!(own_limit_bytes(&root), None);
            write("proc/self/cgroup", own);
            assert_eq!(own_limit_bytes(&root), None);
            write(&format!("cg/a/b/{file}"), "9000\n");
            assert_eq!(own_limit_bytes(&root), Some(9000));
            write(&format!("cg/a/{file}"), "7000\n");
            assert_eq!(own_limit_bytes(&root), Some(7000));
            // Of another machine's group the part that is mounted here is left.
            write("proc/self/cgroup", &own.replace("/a/b", "/elsewhere/a"));
            write(&format!("cg/{file}"), "8000\n");
            assert_eq!(own_limit_bytes(&root), Some(8000));
        }
    }

    #[test]
    fn version_1_calls_a_huge_limit_none() {
        let (dir, root) = machine("none /cg cgroup rw,memory 0 0\n");
        std::fs::write(dir.path().join("cg/a/memory.usage_in_bytes"), "900\n").unwrap();
        let limit = dir.path().join("cg/a/memory.limit_in_bytes");
        std::fs::write(&limit, "9223372036854771712\n").unwrap();

        let group = Group::open(&root, Path::new("/a")).unwrap();

        assert_eq!(group.usage_bytes().unwrap(), 900);
        assert_eq!(group.limit_bytes().unwrap(), None);
        std::fs::write(&limit, "4096\n").unwrap();
        assert_eq!(group.limit_bytes().unwrap(), Some(4096));
        assert_eq!(group.pids().unwrap(), [3, 7, 9]);
    }

    #[test]
    fn version_2_has_a_word_for_it() {
        let (dir, root) = machine("none /cg cgroup2 rw 0 0\n");
        std::fs::write(dir.path().join("cg/a/memory.current"), "901\n").unwrap();
        std::fs::write(dir.path().join("cg/a/memory.max"), "max\n").unwrap();

        let group = Group::open(&root, Path::new("a")).unwrap();

        assert_eq!(
            (group.usage_bytes().unwrap(), group.limit_bytes().unwrap()),
            (901, None)
        );
        assert!(Group::open(&root, Path::new("absent")).is_err());
    }
}
