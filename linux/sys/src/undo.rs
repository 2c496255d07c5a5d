//! What was changed on the machine, and how it is taken back on every way out.
//!
//! A change is registered *before* it is made; the returned [`Pending`] takes it back when it is dropped
//! (return, error, panic). [`Undo::on_signals`] takes everything back at SIGINT and SIGTERM. Against
//! SIGKILL and lost power the list also stands in a state file, and the next [`Undo::open`] takes back
//! what an ended process left ([`Undo::inherit`] takes it over instead). Actions check what they find and are done at most once more than needed:
//! a device or swap that was there before, or that another program made since, is left alone.

mod action;
mod leftover;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

pub use action::Action;
pub(crate) use action::{accept_gone, while_busy};
pub use leftover::Inherited;

use crate::process::Stat;
use crate::runtime::{Reach, SYSTEM_FOLDER};
use crate::{FileError, Root, file};

/// The list of changes could not be kept or taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The state file cannot be used.
    #[error("cannot keep the list of changes: {0}")]
    State(#[source] FileError),
    /// A change could not be taken back; it stays in the state file.
    #[error("cannot {what}: {source}")]
    Action {
        /// The action in words.
        what: String,
        /// The system's answer.
        #[source]
        source: FileError,
    },
    /// The program is about to end after a signal; no further change may begin.
    #[error("the program was interrupted")]
    Interrupted,
    /// The signal thread cannot be started.
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// The registry. Clones share one list.
#[derive(Debug, Clone)]
pub struct Undo(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: Root,
    path: PathBuf,
    list: Mutex<List>,
}

#[derive(Debug)]
struct List {
    next: u64,
    actions: Vec<(u64, Action)>,
    interrupted: bool,
}

/// The form of a state file.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    boot_id: String,
    pid: u32,
    start_ticks: u64,
    /// The namespace of the process's number; 0 where it is not known.
    #[serde(default)]
    pid_namespace: u64,
    /// In the order in which the changes were made.
    actions: Vec<Action>,
}

impl Undo {
    /// Where state files lie: `/run/warmswap` for root, else `$XDG_RUNTIME_DIR/warmswap`, else `warmswap-UID` in the
    /// temporary directory.
    #[must_use]
    pub fn default_folder(root: &Root) -> PathBuf {
        let user = rustix::process::geteuid();
        if user.is_root() {
            return root.path(SYSTEM_FOLDER);
        }
        let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        match session.filter(|path| path.is_absolute()) {
            Some(session) => session.join("warmswap"),
            None => std::env::temp_dir().join(format!("warmswap-{}", user.as_raw())),
        }
    }

    /// Opens a registry whose state files lie in `folder` (made when missing, for the users of its [`Reach`]), after
    /// taking back what processes that ended without doing so left there. State files are for their owner only.
    ///
    /// What stands in state files is done with the caller's rights, so the folder and each file must belong to the
    /// caller, and no other user may write to them.
    ///
    /// # Errors
    /// [`UndoError::State`], also when others could have written what is to be done. A leftover that cannot be taken back
    /// is told on standard error, and tried again by the next command: it is no reason to refuse this one.
    pub fn open(root: &Root, folder: &Path) -> Result<Self, UndoError> {
        make_folder(root, folder)?;
        take_back_all(leftover::leftovers(folder)?, root)?;
        Self::new(root, folder)
    }

    /// An empty registry.
    fn new(root: &Root, folder: &Path) -> Result<Self, UndoError> {
        let pid = std::process::id();
        let start = Stat::read(&Root::machine(), pid)
            .map_err(UndoError::State)?
            .start_ticks;
        static COUNTER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let serial = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let list = List {
            next: 0,
            actions: Vec::new(),
            interrupted: false,
        };
        let path = folder.join(format!("{pid}-{start}-{serial}.json"));
        Ok(Self(Arc::new(Inner {
            root: root.clone(),
            path,
            list: Mutex::new(list),
        })))
    }

    /// The root under which actions are carried out.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.0.root
    }

    /// Writes `action` down; the caller makes its change afterwards. The state file is on disk on return.
    ///
    /// # Errors
    /// [`UndoError::State`], and [`UndoError::Interrupted`] when a signal has come: then the change must not
    /// be made.
    pub fn register(&self, action: Action) -> Result<Pending, UndoError> {
        let mut list = self.0.lock();
        if list.interrupted {
            return Err(UndoError::Interrupted);
        }
        let id = list.next;
        list.next += 1;
        list.actions.push((id, action));
        if let Err(e) = self.0.save(&list) {
            list.actions.pop();
            return Err(e);
        }
        Ok(Pending {
            undo: self.clone(),
            id: Some(id),
        })
    }

    /// Takes back every change, the latest first. Goes on after a failure.
    ///
    /// # Errors
    /// The first failure; what failed stays in the state file.
    pub fn run_all(&self) -> Result<(), UndoError> {
        self.0.run_all(&mut self.0.lock())
    }

    /// Starts the thread that, at SIGINT, SIGTERM or SIGHUP, takes everything back and ends the program
    /// with 128 + the signal's number. No change can be registered from that moment on.
    ///
    /// # Errors
    /// [`UndoError::Signals`].
    pub fn on_signals(&self) -> Result<(), UndoError> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(UndoError::Signals)?;
        let inner = Arc::clone(&self.0);
        std::thread::Builder::new()
            .name("undo".to_owned())
            .spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    // The lock is held until the end, so that no other thread leaves the program by its own
                    // way, or changes anything, while the list is worked off.
                    let mut list = inner.lock();
                    list.interrupted = true;
                    if let Err(e) = inner.run_all(&mut list) {
                        crate::tell!("{e}");
                    }
                    std::process::exit(128 + signal);
                }
            })
            .map_err(UndoError::Signals)?;
        Ok(())
    }

    fn finish(&self, id: u64) -> Result<(), UndoError> {
        let mut list = self.0.lock();
        let Some(position) = list.actions.iter().position(|(i, _)| *i == id) else {
            return Ok(());
        };
        self.0.perform(&list.actions[position].1)?;
        list.actions.remove(position);
        self.0.save(&list)
    }

    fn amend(&self, id: u64, action: Action) -> Result<(), UndoError> {
        let mut list = self.0.lock();
        if let Some(entry) = list.actions.iter_mut().find(|(i, _)| *i == id) {
            entry.1 = action;
        }
        self.0.save(&list)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, List> {
        // A panic while the lock was held leaves a list that is at worst too long, which is harmless.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_all(&self, list: &mut List) -> Result<(), UndoError> {
        let mut first_error = None;
        let mut kept = Vec::new();
        while let Some((id, action)) = list.actions.pop() {
            if let Err(e) = self.perform(&action) {
                first_error.get_or_insert(e);
                kept.push((id, action));
            }
        }
        kept.reverse();
        list.actions = kept;
        let saved = self.save(list);
        first_error.map_or(saved, Err)
    }

    fn perform(&self, action: &Action) -> Result<(), UndoError> {
        action
            .perform(&self.root)
            .map_err(|source| UndoError::Action {
                what: action.to_string(),
                source,
            })
    }

    /// Writes the state file anew, or removes it when nothing is pending.
    fn save(&self, list: &List) -> Result<(), UndoError> {
        if list.actions.is_empty() {
            return match std::fs::remove_file(&self.path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    Err(UndoError::State(FileError::new("remove", &self.path, e)))
                }
                _ => Ok(()),
            };
        }
        let pid = std::process::id();
        let state = State {
            boot_id: boot_id(&Root::machine()),
            pid,
            start_ticks: Stat::read(&Root::machine(), pid)
                .map_err(UndoError::State)?
                .start_ticks,
            pid_namespace: pid_namespace(),
            actions: list.actions.iter().map(|(_, a)| a.clone()).collect(),
        };
        write_state(&self.path, &state)
    }
}

/// The namespace in which this process has its number; 0 where the kernel does not tell.
fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Writes a state file anew, for its owner only.
fn write_state(path: &Path, state: &State) -> Result<(), UndoError> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    // A path that is not UTF-8 has no place in JSON.
    let text = serde_json::to_string_pretty(state)
        .map_err(|error| UndoError::State(FileError::unexpected(path, &error.to_string())))?;
    let fresh = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    // An existing one may be readable by others.
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    options
        .open(&fresh)
        .and_then(|mut file| {
            file.set_permissions(owner_only)?;
            file.write_all(text.as_bytes())
        })
        .and_then(|()| std::fs::rename(&fresh, path))
        .map_err(|e| {
            // What there is of it would stay for good.
            let _ = std::fs::remove_file(&fresh);
            UndoError::State(FileError::new("write", path, e))
        })
}

/// A registered change. Dropping it takes the change back; errors are then left to the next run.
#[derive(Debug)]
#[must_use = "dropping it takes the change back at once"]
pub struct Pending {
    undo: Undo,
    id: Option<u64>,
}

impl Pending {
    /// Takes the change back now.
    ///
    /// # Errors
    /// [`UndoError::Action`]; the action stays in the state file.
    pub fn finish(mut self) -> Result<(), UndoError> {
        self.id.take().map_or(Ok(()), |id| self.undo.finish(id))
    }

    /// Leaves the change as it is. It stays in the state file: the next process takes it back, or goes on with it.
    pub fn leave(mut self) {
        self.id = None;
    }

    /// Makes the change, or a further part of it. No signal takes it back before this is over, and none has done so
    /// before: the change cannot outlive its entry in the list.
    ///
    /// # Errors
    /// [`UndoError::Interrupted`] when a signal has come: then nothing was done.
    pub fn change<R>(&self, make: impl FnOnce() -> R) -> Result<R, UndoError> {
        let list = self.undo.0.lock();
        if list.interrupted {
            return Err(UndoError::Interrupted);
        }
        let made = make();
        drop(list);
        Ok(made)
    }

    /// Makes the change, and notes how it is taken back, where that is not known before. No signal comes in between.
    ///
    /// # Errors
    /// The error of `make`, which leaves nothing then. [`UndoError::Interrupted`] when a signal has come: then nothing was done.
    /// [`UndoError::State`] when it cannot be written down: dropping this takes the change back.
    pub fn make<R, E: From<UndoError>>(
        &self,
        make: impl FnOnce() -> Result<(R, Action), E>,
    ) -> Result<R, E> {
        let mut list = self.undo.0.lock();
        if list.interrupted {
            return Err(UndoError::Interrupted.into());
        }
        let (made, action) = make()?;
        if let Some(entry) = list.actions.iter_mut().find(|(i, _)| Some(*i) == self.id) {
            entry.1 = action;
        }
        self.undo.0.save(&list)?;
        Ok(made)
    }

    /// Replaces what is to be done, when more is known than at registration.
    ///
    /// # Errors
    /// [`UndoError::State`].
    pub fn amend(&self, action: Action) -> Result<(), UndoError> {
        self.id.map_or(Ok(()), |id| self.undo.amend(id, action))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(id) = self.id.take()
            && let Err(error) = self.undo.finish(id)
        {
            // It stays in the list: the next command tries it again.
            crate::tell!("warmswap: {error}");
        }
    }
}

/// Takes back what ended commands left.
fn take_back_all(left: Vec<leftover::Leftover>, root: &Root) -> Result<(), UndoError> {
    for leftover in left {
        match leftover.take_back(root) {
            Err(error @ UndoError::Action { .. }) => {
                crate::tell!("warmswap: what an ended command left stays: {error}");
            }
            result => result?,
        }
    }
    Ok(())
}

fn boot_id(root: &Root) -> String {
    file::read(&root.path("/proc/sys/kernel/random/boot_id"))
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

/// Makes the folder of state files if it is not there.
fn make_folder(root: &Root, folder: &Path) -> Result<(), UndoError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let failed = |action| move |e| UndoError::State(FileError::new(action, folder, e));
    let reach = Reach::of(root, folder);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(reach.mode())
        .create(folder)
        .map_err(failed("make"))?;
    let found = std::fs::symlink_metadata(folder).map_err(failed("look at"))?;
    check_own(folder, &found, found.is_dir())?;
    // Other users do without; nothing here needs it.
    let _ = reach.grant(folder);
    Ok(())
}

/// Refuses what another user could have made or changed, and what is not of the kind that is expected.
fn check_own(path: &Path, found: &std::fs::Metadata, is_kind: bool) -> Result<(), UndoError> {
    use std::os::unix::fs::MetadataExt as _;
    let (user, owner, mode) = (
        rustix::process::geteuid().as_raw(),
        found.uid(),
        found.mode(),
    );
    if is_kind && owner == user && mode & 0o022 == 0 {
        return Ok(());
    }
    let what = format!(
        "others could have written there what is undone with the rights of user {user} (owner {owner}, mode {:o}); \
         remove it",
        mode & 0o7777
    );
    let source = std::io::Error::new(std::io::ErrorKind::PermissionDenied, what);
    Err(UndoError::State(FileError::new("trust", path, source)))
}
