//! The kinds of change that can be taken back.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{FileError, Root, file, memcg, mount, swap, tree, zram};

/// How one change is taken back. Paths are complete (they include the root's prefix).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Nothing was changed yet.
    Nothing,
    /// Write the old value into a control file.
    Restore {
        /// The file.
        path: PathBuf,
        /// Its value before.
        value: String,
    },
    /// Swap off and remove the zram device `id`, unless it holds another swap area than `uuid`.
    RemoveZram {
        /// The device's number.
        id: u32,
        /// The identity that was written into its swap header.
        uuid: swap::Uuid,
        /// The kernel's serial number of the device, which no other one gets (Linux 5.15).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        serial: Option<u64>,
        /// What it was made for, in the words of its maker, for a later process that goes on with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<String>,
    },
    /// Swap off and remove a swap file, unless the file at its place is another one than `uuid`.
    RemoveSwapFile {
        /// The file.
        path: PathBuf,
        /// The identity that was written into its swap header.
        uuid: swap::Uuid,
    },
    /// Remove a control group with all below it; its processes move to the group `to`, or to the first that takes them of
    /// this process's own group and the parent.
    RemoveGroup {
        /// The group's folder.
        path: PathBuf,
        /// Where its processes go; `None` for the parent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<PathBuf>,
    },
    /// End every process of a session.
    EndSession {
        /// The session's number, the same as its first process's.
        leader: u32,
        /// Start of that process in clock ticks since boot.
        start_ticks: u64,
    },
    /// Remove a temporary folder with all that is in it.
    RemoveFolder {
        /// The folder; its name begins with [`Action::FOLDER_PREFIX`].
        path: PathBuf,
    },
    /// Unmount a file system and remove the mount point.
    Unmount {
        /// The mount point.
        path: PathBuf,
    },
}

/// How long it is tried to remove what the kernel or udev still holds for a moment.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(20);
/// The least attempts: switching much swap off takes longer than that.
const ATTEMPTS: u32 = 4;

impl Action {
    /// How the name of every folder begins that [`Action::RemoveFolder`] may remove.
    pub const FOLDER_PREFIX: &'static str = "warmswap-";

    /// True for what a restart of the machine does not take back by itself.
    pub(super) fn outlives_boot(&self) -> bool {
        matches!(
            self,
            Self::RemoveFolder { .. } | Self::RemoveSwapFile { .. }
        )
    }

    /// Takes the change back. What is gone already counts as done.
    pub(super) fn perform(&self, root: &Root) -> Result<(), FileError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Restore { path, value } => accept_gone(file::write(path, value)),
            Self::RemoveZram {
                id, uuid, serial, ..
            } => zram::remove(root, *id, uuid, *serial),
            Self::RemoveSwapFile { path, uuid } => swap::file::remove(root, path, uuid),
            Self::RemoveGroup { path, to } => remove_group(root, path, to.as_deref()),
            Self::EndSession {
                leader,
                start_ticks,
            } => tree::kill_session(root, *leader, *start_ticks),
            Self::RemoveFolder { path } => remove_folder(path),
            Self::Unmount { path } => mount::unmount(path),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "do nothing"),
            Self::Restore { path, value } => {
                write!(f, "set {} back to {value}", path.display())
            }
            Self::RemoveZram { id, .. } => write!(f, "remove the swap device /dev/zram{id}"),
            Self::RemoveSwapFile { path, .. } => {
                write!(f, "remove the swap file {}", path.display())
            }
            Self::RemoveGroup { path, .. } => {
                write!(f, "remove the control group {}", path.display())
            }
            Self::EndSession { leader, .. } => write!(f, "end the processes of session {leader}"),
            Self::RemoveFolder { path } => write!(f, "remove the folder {}", path.display()),
            Self::Unmount { path } => write!(f, "unmount {}", path.display()),
        }
    }
}

pub(crate) fn accept_gone(result: Result<(), FileError>) -> Result<(), FileError> {
    match result {
        Err(e) if e.is_gone() => Ok(()),
        other => other,
    }
}

/// Runs `attempt` until it answers neither "busy" nor "interrupted" nor that memory ran out, for about a second, but a few
/// times where one attempt takes that long.
pub(crate) fn while_busy(
    mut attempt: impl FnMut() -> Result<(), FileError>,
) -> Result<(), FileError> {
    let begin = Instant::now();
    let mut attempts = 0;
    loop {
        attempts += 1;
        match attempt() {
            Err(e) if is_for_now(&e) && (attempts < ATTEMPTS || begin.elapsed() < PATIENCE) => {
                std::thread::sleep(INTERVAL);
            }
            other => return other,
        }
    }
}

fn is_for_now(error: &FileError) -> bool {
    let transient = [libc::EBUSY, libc::EINTR, libc::ENOMEM];
    let errno = error.source.raw_os_error();
    errno.is_some_and(|errno| transient.contains(&errno))
}

fn remove_group(root: &Root, path: &Path, to: Option<&Path>) -> Result<(), FileError> {
    let own = memcg::own_group(root);
    // This process may be a member itself.
    let own = own.as_ref().map(memcg::Group::path);
    let own = own.filter(|own| !own.starts_with(path));
    let targets = [to, own, path.parent()];
    let targets: Vec<&Path> = targets.into_iter().flatten().collect();
    // A member that waits at its limit would wait for ever elsewhere.
    let limit = path.join("memory.limit_in_bytes");
    if limit.exists() {
        let _ = file::write(&limit, "-1");
    }
    // A member that forks while the list is read leaves a child behind, which the next reading finds.
    while_busy(|| empty_and_remove_group(path, &targets))
}

/// The kernel removes no group that has others below it, such as members made below their own.
fn empty_and_remove_group(path: &Path, targets: &[&Path]) -> Result<(), FileError> {
    match file::read(&path.join("cgroup.procs")) {
        Ok(members) => {
            for pid in members.lines() {
                // A member that ended meanwhile is no obstacle; one that stays makes the removal fail below.
                let _ = targets
                    .iter()
                    .any(|target| file::write(&target.join("cgroup.procs"), pid).is_ok());
            }
        }
        Err(e) if e.is_gone() => return Ok(()),
        // A group of threads: the group above it has its processes.
        Err(e) if e.source.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
        Err(e) => return Err(e),
    }
    for below in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            // If it stays, this one cannot be removed either.
            let _ = empty_and_remove_group(&below.path(), targets);
        }
    }
    accept_gone(std::fs::remove_dir(path).map_err(|e| FileError::new("remove", path, e)))
}

fn remove_folder(path: &Path) -> Result<(), FileError> {
    let ours = path
        .file_name()
        .and_then(|n| n.to_str())
        .is_some_and(|n| n.starts_with(Action::FOLDER_PREFIX));
    if !ours {
        let source = io::Error::new(
            io::ErrorKind::PermissionDenied,
            "its name does not begin with warmswap-",
        );
        return Err(FileError::new("remove", path, source));
    }
    // Processes that were just ended may still be closing files there.
    while_busy(|| match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Err(FileError::new(
            "remove",
            path,
            io::Error::from_raw_os_error(libc::EBUSY),
        )),
        result => accept_gone(result.map_err(|e| FileError::new("remove", path, e))),
    })
}
