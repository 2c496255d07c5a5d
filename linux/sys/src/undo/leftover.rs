//! What processes left that ended without taking their changes back.

use std::path::{Path, PathBuf};

use super::{Action, Pending, State, Undo, UndoError, boot_id};
use crate::process::Stat;
use crate::{FileError, Root};

/// The state file of a process that is no more.
#[derive(Debug)]
pub(super) struct Leftover {
    path: PathBuf,
    /// With what of it is still there.
    state: State,
    same_boot: bool,
}

impl Leftover {
    /// Takes everything back, the latest first, and removes the file. What cannot be taken back keeps nothing else from
    /// it, and is left to the next command alone.
    pub(super) fn take_back(self, root: &Root) -> Result<(), UndoError> {
        let mut first_error = None;
        let mut left = Vec::new();
        for action in self.state.actions.iter().rev() {
            if let Err(source) = action.perform(root) {
                let what = action.to_string();
                first_error.get_or_insert(UndoError::Action { what, source });
                left.insert(0, action.clone());
            }
        }
        let Some(error) = first_error else {
            return self.remove();
        };
        let state = State {
            actions: left,
            ..self.state
        };
        super::write_state(&self.path, &state)?;
        Err(error)
    }

    fn remove(self) -> Result<(), UndoError> {
        match std::fs::remove_file(&self.path) {
            // Another command took it back at the same time.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|e| UndoError::State(FileError::new("remove", &self.path, e))),
        }
    }
}

/// The state files in `folder` of processes that are no more.
pub(super) fn leftovers(folder: &Path) -> Result<Vec<Leftover>, UndoError> {
    let entries = std::fs::read_dir(folder)
        .map_err(|e| UndoError::State(FileError::new("list", folder, e)))?;
    let boot = boot_id(&Root::machine());
    let mut found = Vec::new();
    for path in entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|x| x == "json"))
    {
        let Some(text) = read_own(&path)? else {
            continue;
        };
        let mut state: State = serde_json::from_str(&text)
            .map_err(|e| UndoError::State(FileError::unexpected(&path, &e.to_string())))?;
        let same_boot = state.boot_id == boot;
        let lives = Stat::read(&Root::machine(), state.pid)
            .is_ok_and(|s| s.start_ticks == state.start_ticks && !matches!(s.state, 'Z' | 'X'));
        // A number of another namespace, such as a container's, says nothing here: that process may live.
        let is_elsewhere =
            state.pid_namespace != 0 && state.pid_namespace != super::pid_namespace();
        if same_boot && (lives || is_elsewhere) {
            continue;
        }
        let remains = |action: &Action| same_boot || action.outlives_boot();
        state.actions.retain(remains);
        found.push(Leftover {
            path,
            state,
            same_boot,
        });
    }
    Ok(found)
}

/// What a state file holds, if it is still there. One that is a link, or that others could write, is refused.
fn read_own(path: &Path) -> Result<Option<String>, UndoError> {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = |source| UndoError::State(FileError::new("read", path, source));
    let mut options = std::fs::OpenOptions::new();
    // Nothing is waited for at a pipe, either.
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let found = file.metadata().map_err(failed)?;
    super::check_own(path, &found, found.is_file())?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text))
}

/// A change that a process made which ended without taking it back, and that is this process's now. Dropping
/// it takes the change back.
#[derive(Debug)]
pub struct Inherited {
    /// How it is taken back.
    pub action: Action,
    pub(crate) pending: Pending,
}

impl Inherited {
    /// Takes the change back now.
    ///
    /// # Errors
    /// [`UndoError::Action`]; the action stays in the state file.
    pub fn take_back(self) -> Result<(), UndoError> {
        self.pending.finish()
    }
}

impl Undo {
    /// Opens a registry as [`Undo::open`] does, but takes over what ended processes of this boot left in
    /// `folder`, in the order in which it was made, for an owner that goes on with it.
    ///
    /// # Errors
    /// As [`Undo::open`].
    pub fn inherit(root: &Root, folder: &Path) -> Result<(Self, Vec<Inherited>), UndoError> {
        super::make_folder(root, folder)?;
        let (same_boot, earlier): (Vec<_>, Vec<_>) =
            leftovers(folder)?.into_iter().partition(|l| l.same_boot);
        super::take_back_all(earlier, root)?;
        let undo = Self::new(root, folder)?;
        let mut inherited: Vec<Inherited> = Vec::new();
        for leftover in &same_boot {
            for action in &leftover.state.actions {
                // After a loss of power between the two steps here, both files list it.
                if inherited.iter().all(|known| known.action != *action) {
                    inherited.push(Inherited {
                        action: action.clone(),
                        pending: undo.register(action.clone())?,
                    });
                }
            }
        }
        // It stands in this process's file now.
        for leftover in same_boot {
            leftover.remove()?;
        }
        Ok((undo, inherited))
    }
}
