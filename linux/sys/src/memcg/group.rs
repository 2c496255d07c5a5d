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

/// The least limit over the calling process: of its own group, or of one above it. `None` where there is
/// none, or no hierarchy that says so.
#[must_use]
pub fn own_limit_bytes(root: &Root) -> Option<u64> {
    let groups = groups_above(root, &root.path("/proc/self/cgroup"))?;
    let limits = groups.iter().filter_map(|group| group.limit_bytes().ok()?);
    limits.min()
}

/// The groups that bound the memory of another process, its own first, each with its bound: a limit, or in version 2 what a
/// group may have before it is slowed down. 0 where nothing of it can go to swap: then pages of files are all that can be
/// reclaimed. Costs about 15 µs a group above the process.
#[must_use]
pub fn bounds_of(root: &Root, pid: u32) -> Vec<(Group, u64)> {
    let groups = groups_above(root, &root.proc_file(pid, "cgroup")).unwrap_or_default();
    let bounded = groups.into_iter().filter_map(|group| {
        let bytes = group.bound_bytes()?;
        Some((group, bytes))
    });
    bounded.collect()
}

/// The group of a process, by its list of them, and those above it.
fn groups_above(root: &Root, groups: &Path) -> Option<Vec<Group>> {
    let Hierarchy { mount, version } = Hierarchy::find(root).ok()?;
    let own = path_of(groups, version).ok()??;
    // In a container the path may be the machine's; what is mounted here is the part that holds for us.
    let own = mount.join(own);
    let folders = own
        .ancestors()
        .take_while(|folder| folder.starts_with(&mount));
    Some(
        folders
            .map(|folder| Group::new(folder.to_owned(), version))
            .collect(),
    )
}

/// The group that the calling process is in, if that can be told.
#[must_use]
pub fn own_group(root: &Root) -> Option<Group> {
    let Hierarchy { mount, version } = Hierarchy::find(root).ok()?;
    let path = own_folder(root, &mount, version).ok()?;
    Some(Group { path, version })
}

/// The folder of the calling process's group; the top of the hierarchy where its own is not mounted here.
pub(super) fn own_folder(
    root: &Root,
    mount: &Path,
    version: Version,
) -> Result<PathBuf, FileError> {
    let own = path_of(&root.path("/proc/self/cgroup"), version)?.map(|path| mount.join(path));
    Ok(own
        .filter(|folder| folder.is_dir())
        .unwrap_or_else(|| mount.to_owned()))
}

/// The path of a process's group below the top of the hierarchy, by the process's list of its groups.
fn path_of(groups: &Path, version: Version) -> Result<Option<String>, FileError> {
    let text = file::read(groups)?;
    let own = text.lines().find_map(|line| path_in(line, version));
    Ok(own.map(str::to_owned))
}

/// The path in a line of `/proc/self/cgroup` (`4:memory:/a/b`, `0::/a/b`), if that is about memory.
fn path_in(line: &str, version: Version) -> Option<&str> {
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
        self.bound(match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        })
    }

    /// The memory above which it is slowed down and reclaimed from; none in version 1.
    fn high_bytes(&self) -> Result<Option<u64>, FileError> {
        match self.version {
            Version::V1 => Ok(None),
            Version::V2 => self.bound("memory.high"),
        }
    }

    /// What bounds its memory, as [`bounds_of`] says.
    #[must_use]
    pub fn bound_bytes(&self) -> Option<u64> {
        let limit = self.limit_bytes().ok().flatten();
        let has_swap = match self.version {
            // Memory and swap together are bounded: as much as memory alone leaves none.
            Version::V1 => {
                let together = self.bound("memory.memsw.limit_in_bytes").ok().flatten();
                together.is_none_or(|together| limit.is_none_or(|limit| together > limit))
            }
            Version::V2 => self.bound("memory.swap.max").ok().flatten() != Some(0),
        };
        let bounds = [limit, self.high_bytes().ok().flatten()];
        let least = bounds.into_iter().flatten().min();
        if has_swap { least } else { Some(0) }
    }

    fn bound(&self, name: &str) -> Result<Option<u64>, FileError> {
        let path = self.path.join(name);
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

    /// Lowers the limit of a group of version 1 from `from_bytes` to `bytes`: at once to what is in use, and from there in
    /// steps. The calling thread reclaims, and the kernel ends no member: where too little can be reclaimed, the limit stays
    /// where it is by then.
    ///
    /// # Errors
    /// [`FileError`]; busy when the kernel cannot reclaim enough.
    pub fn lower_limit(&self, bytes: u64, from_bytes: u64) -> Result<(), FileError> {
        let used = self.usage_bytes()?;
        let mut limit_bytes = from_bytes.min(used.max(bytes));
        if limit_bytes < from_bytes {
            self.set_limit(Some(limit_bytes))?;
        }
        while limit_bytes > bytes {
            limit_bytes = limit_bytes.saturating_sub(LOWERED_BYTES).max(bytes);
            self.set_limit(Some(limit_bytes))?;
        }
        Ok(())
    }

    /// How often the group reached its limit, or in version 2 the bytes above which it is slowed down (`memory.high`), so that
    /// a member had to reclaim. Limits of groups within it count from Linux 5.2 on for them alone.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn limit_hits(&self) -> Result<u64, FileError> {
        match self.version {
            Version::V1 => file::read_u64(&self.path.join("memory.failcnt")),
            Version::V2 => {
                let mut path = self.path.join("memory.events.local");
                let text = file::read(&path).or_else(|error| {
                    if !error.is_gone() {
                        return Err(error);
                    }
                    path = self.path.join("memory.events");
                    file::read(&path)
                })?;
                let hits = text.lines().filter_map(|line| {
                    let (event, count) = line.split_once(' ')?;
                    matches!(event, "max" | "high").then(|| count.trim().parse::<u64>().ok())?
                });
                hits.reduce(|sum, hits| sum + hits)
                    .ok_or_else(|| FileError::unexpected(&path, "no field max or high"))
            }
        }
    }

    /// What the group has in swap, in bytes before compression; `None` where the kernel keeps no account of it.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn swapped_bytes(&self) -> Result<Option<u64>, FileError> {
        let read = |name: &str| match file::read_u64(&self.path.join(name)) {
            Err(e) if e.is_gone() => Ok(None),
            result => result.map(Some),
        };
        Ok(match self.version {
            Version::V1 => match read("memory.memsw.usage_in_bytes")? {
                // Memory and swap together. Read first, so that what comes back in between counts as memory.
                Some(both) => Some(both.saturating_sub(self.usage_bytes()?)),
                None => None,
            },
            Version::V2 => read("memory.swap.current")?,
        })
    }

    /// How much more in bytes may go to swap by the limits of this group and of those above it; none where there are none.
    /// Version 1 limits memory and swap together only.
    #[must_use]
    pub fn swap_room_bytes(&self) -> Option<u64> {
        if self.version == Version::V1 {
            return None;
        }
        let is_group = |folder: &&Path| folder.join("cgroup.controllers").exists();
        let room = |folder: &Path| {
            // "max" is no number, and no limit.
            let most = file::read_u64(&folder.join("memory.swap.max")).ok()?;
            let used = file::read_u64(&folder.join("memory.swap.current")).unwrap_or(0);
            Some(most.saturating_sub(used))
        };
        self.path
            .ancestors()
            .take_while(is_group)
            .filter_map(room)
            .min()
    }

    /// The interface that it has.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// How much the kernel swaps when this group is at its limit, from 0 (never: it ends a member rather) to 200; none where
    /// it does not say.
    #[must_use]
    pub fn swappiness(&self, root: &Root) -> Option<u64> {
        let path = match self.version {
            Version::V1 => self.path.join("memory.swappiness"),
            Version::V2 => root.path("/proc/sys/vm/swappiness"),
        };
        file::read_u64(&path).ok()
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

/// By how much version 1 lowers a limit at a time. The kernel frees 128 KiB and looks whether less than the new limit is used,
/// until it is: where members take back meanwhile what is freed, a call for more does not end before they do.
const LOWERED_BYTES: u64 = 32 << 10;

fn collect(folder: &Path, pids: &mut Vec<u32>) -> Result<(), FileError> {
    let text = file::read(&folder.join("cgroup.procs"))?;
    pids.extend(
        text.lines()
            .filter_map(|line| line.trim().parse::<u32>().ok()),
    );
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            match collect(&entry.path(), pids) {
                Err(error) if error.is_exhausted() => return Err(error),
                // It went, or has threads only.
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
