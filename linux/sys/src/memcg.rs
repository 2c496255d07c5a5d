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
    /// Page cache that has to be written, or is being written, before it can be given up; 0 where it is not said.
    pub unwritten_bytes: u64,
    /// What is in swap and not in memory besides, before compression; `None` where the kernel keeps no account of it.
    pub swapped_bytes: Option<u64>,
    /// Major faults.
    pub major_faults: u64,
}

impl MemcgStats {
    /// Page cache that was not used lately and can be given up at once.
    #[must_use]
    pub fn idle_file_bytes(&self) -> u64 {
        self.inactive_file_bytes
            .saturating_sub(self.unwritten_bytes)
    }
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
    // Version 1 tells what the group itself has, and with this word what groups below it have, too.
    let (usage, anonymous, cache, unwritten, prefix) = match version {
        Version::V1 => (
            "memory.usage_in_bytes",
            "rss",
            "cache",
            ["dirty", "writeback"],
            "total_",
        ),
        Version::V2 => (
            "memory.current",
            "anon",
            "file",
            ["file_dirty", "file_writeback"],
            "",
        ),
    };
    let path = group.join("memory.stat");
    let text = file::read(&path)?;
    let said = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| {
            let rest = line.strip_prefix(prefix)?.strip_prefix(name)?;
            rest.strip_prefix(' ')?.trim().parse().ok()
        })
    };
    let field = |name: &str| {
        said(name).ok_or_else(|| FileError::unexpected(&path, &format!("no field {prefix}{name}")))
    };
    Ok(MemcgStats {
        usage_bytes: file::read_u64(&group.join(usage))?,
        anonymous_bytes: field(anonymous)?,
        file_bytes: field(cache)?,
        inactive_file_bytes: said("inactive_file").unwrap_or(0),
        unwritten_bytes: unwritten.into_iter().filter_map(said).sum(),
        swapped_bytes: match version {
            Version::V1 => said("swap"),
            // What came back and keeps its place in swap counts there, too.
            Version::V2 => file::read_u64(&group.join("memory.swap.current"))
                .ok()
                .map(|bytes| bytes.saturating_sub(said("swapcached").unwrap_or(0))),
        },
        major_faults: field("pgmajfault")?,
    })
}

#[cfg(test)]
mod tests;
