//! Where the sockets of running programs are.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::{Uid, geteuid};
use warmswap_sys::runtime::{Reach, SYSTEM_FOLDER};
use warmswap_sys::{FileError, Root};

use crate::server::remove_if_dead;
use crate::socket::{failed, is_dead};

/// The folder for sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It cannot be made or looked at.
    #[error(transparent)]
    System(#[from] FileError),
    /// Others could put their own sockets there.
    #[error(
        "{} is not a folder that this user alone can write to (owner {owner}, mode {mode:o}); remove it, or make it so",
        path.display()
    )]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
}

/// A program that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Process.
    pub pid: u32,
    /// Its socket.
    pub socket: PathBuf,
}

/// The folders in which this user's programs may listen, the one for new sockets first: the session's
/// (`$XDG_RUNTIME_DIR/warmswap`), `/run/warmswap` for root, `/tmp/warmswap-UID`. They need not exist.
#[must_use]
pub fn socket_folders() -> Vec<PathBuf> {
    folders(
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        geteuid(),
    )
}

fn folders(session: Option<PathBuf>, user: Uid) -> Vec<PathBuf> {
    let session = session.filter(|path| path.is_absolute());
    let session = session.map(|path| path.join("warmswap"));
    let system = user.is_root().then(|| PathBuf::from(SYSTEM_FOLDER));
    let shared = PathBuf::from(format!("/tmp/warmswap-{}", user.as_raw()));
    session.into_iter().chain(system).chain([shared]).collect()
}

/// The folder for new sockets, made if it is not there: the first of [`socket_folders`] that can be used. It is for this
/// user only (mode 0700), except that all users may reach sockets in `/run/warmswap` by their names (0711). Each socket's
/// own mode says which users may connect.
///
/// # Errors
/// The error of the last one.
pub fn socket_folder() -> Result<PathBuf, PlaceError> {
    first_usable(&socket_folders())
}

fn first_usable(folders: &[PathBuf]) -> Result<PathBuf, PlaceError> {
    let none = failed("find", Path::new(""))(io::Error::from(io::ErrorKind::NotFound));
    let mut result = Err(none.into());
    for folder in folders {
        let reach = Reach::of(&Root::machine(), folder);
        result = make_own(folder, reach).map(|()| folder.clone());
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Makes the folder, or checks that only this user can make sockets in it; then gives it the rights of `reach`.
fn make_own(folder: &Path, reach: Reach) -> Result<(), PlaceError> {
    match fs::DirBuilder::new().mode(reach.mode()).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_own(folder)?,
        Err(error) => return Err(failed("make", folder)(error).into()),
    }
    // Other users do without; sockets of this one need it not.
    let _ = reach.grant(folder);
    Ok(())
}

/// Checks that a folder is this user's, and that no other can make sockets in it.
fn check_own(folder: &Path) -> Result<(), PlaceError> {
    let found = fs::symlink_metadata(folder).map_err(failed("look at", folder))?;
    if found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(PlaceError::Unsafe {
        path: folder.to_owned(),
        owner: found.uid(),
        mode: found.mode() & 0o7777,
    })
}

/// The daemon's socket where none is configured, in [`SYSTEM_FOLDER`].
pub const DAEMON_SOCKET: &str = "/run/warmswap/daemon.sock";

/// The default socket of the process `pid`, in a folder that exists.
///
/// # Errors
/// [`PlaceError`].
pub fn socket_path(pid: u32) -> Result<PathBuf, PlaceError> {
    Ok(socket_folder()?.join(socket_name(pid)))
}

/// The socket of the process `pid`: the one that it listens on, or where it would be in the first of
/// [`socket_folders`].
#[must_use]
pub fn socket_of(pid: u32) -> PathBuf {
    let found = running().into_iter().find(|program| program.pid == pid);
    found.map_or_else(
        || {
            let folder = socket_folders().into_iter().next().unwrap_or_default();
            folder.join(socket_name(pid))
        },
        |program| program.socket,
    )
}

fn socket_name(pid: u32) -> String {
    format!("{pid}.sock")
}

/// The process whose socket has this name.
fn pid_of_socket(name: &str) -> Option<u32> {
    name.strip_suffix(".sock")?.parse().ok()
}

/// The programs that listen in [`socket_folders`], by number. Sockets of programs that ended are removed.
/// Programs with a socket elsewhere (`--control`) are not among them.
#[must_use]
pub fn running() -> Vec<Running> {
    running_in(&socket_folders())
}

/// Removes sockets in [`socket_folders`] whose programs were killed. A program that ends otherwise removes its own.
pub fn remove_dead_sockets() {
    drop(running());
}

fn running_in(folders: &[PathBuf]) -> Vec<Running> {
    // In another user's folder, sockets are that user's.
    let entries = folders
        .iter()
        .filter(|folder| check_own(folder).is_ok())
        .filter_map(|folder| fs::read_dir(folder).ok());
    let mut found: Vec<_> = entries
        .flatten()
        .flatten()
        .filter_map(|entry| listening(&entry.path()))
        .collect();
    found.sort_by_key(|program| program.pid);
    found.dedup_by_key(|program| program.pid);
    found
}

/// The program behind `PID.sock`; a file that no process listens on is removed.
fn listening(socket: &Path) -> Option<Running> {
    let pid = pid_of_socket(socket.file_name()?.to_str()?)?;
    match is_dead(socket) {
        Ok(false) => Some(Running {
            pid,
            socket: socket.to_owned(),
        }),
        Ok(true) => {
            let _ = remove_if_dead(socket);
            None
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_session_comes_first_and_roots_own_folder_is_for_root() {
        let [root, user] = [0, 1000].map(Uid::from_raw);
        let paths = |session: Option<&str>, user| -> Vec<String> {
            let found = folders(session.map(PathBuf::from), user);
            found
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        assert_eq!(
            paths(Some("/run/user/1000"), user),
            ["/run/user/1000/warmswap", "/tmp/warmswap-1000"]
        );
        assert_eq!(paths(None, root), ["/run/warmswap", "/tmp/warmswap-0"]);
        assert_eq!(paths(Some("relative"), user), ["/tmp/warmswap-1000"]);
    }

    #[test]
    fn a_folder_that_others_can_write_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let [open, private, link] = ["open", "private", "link"].map(|name| place.path().join(name));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink(place.path(), &link).unwrap();

        let make = |folder: &Path| make_own(folder, Reach::Owner);
        let error = make(&open).unwrap_err();
        assert!(
            matches!(error, PlaceError::Unsafe { mode: 0o777, .. }),
            "{error}"
        );
        assert!(matches!(make(&link), Err(PlaceError::Unsafe { .. })));

        let chosen = first_usable(&[open, link, private.clone()]).unwrap();
        assert_eq!(chosen, private);
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o700);
        make(&private).unwrap();
    }

    #[test]
    fn all_may_reach_the_system_folder_also_one_of_an_older_version() {
        let place = tempfile::tempdir().unwrap();
        let system = place.path().join("warmswap");
        let mode = || fs::metadata(&system).unwrap().mode() & 0o7777;
        make_own(&system, Reach::Everyone).unwrap();
        assert_eq!(mode(), 0o711);

        fs::set_permissions(&system, fs::Permissions::from_mode(0o700)).unwrap();
        make_own(&system, Reach::Everyone).unwrap();
        assert_eq!(mode(), 0o711);
        // What listens there is found, and only its owner may connect to it.
        let socket = system.join("7.sock");
        let _server = Server::bind(&socket).unwrap();
        assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
        assert_eq!(running_in(std::slice::from_ref(&system)).len(), 1);

        fs::set_permissions(&system, fs::Permissions::from_mode(0o770)).unwrap();
        let error = make_own(&system, Reach::Everyone).unwrap_err();
        assert!(matches!(error, PlaceError::Unsafe { .. }), "{error}");
        assert_eq!(mode(), 0o770, "nothing is changed in a folder of others");
    }

    #[test]
    fn the_dead_are_removed_and_the_living_listed() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let _alive = Server::bind(&at("42.sock")).unwrap();
        let _younger = Server::bind(&at("7.sock")).unwrap();
        drop(UnixListener::bind(at("9.sock")).unwrap());
        drop(UnixListener::bind(at("daemon.sock")).unwrap());
        fs::write(at("11.json"), "").unwrap();

        let found = running_in(&[at("missing"), place.path().to_owned()]);

        let pids: Vec<_> = found.iter().map(|program| program.pid).collect();
        assert_eq!(pids, [7, 42]);
        assert!(!at("9.sock").exists(), "a dead program's socket");
        assert!(at("daemon.sock").exists(), "not named after a process");
        assert!(at("11.json").exists(), "no socket");

        // As a server is between bind(2) and listen(2), for which it locks the folder.
        drop(UnixListener::bind(at("9.sock")).unwrap());
        let lock = File::open(place.path()).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        running_in(&[place.path().to_owned()]);
        assert!(at("9.sock").exists(), "it may begin to listen");
        drop(lock);
        running_in(&[place.path().to_owned()]);
        assert!(!at("9.sock").exists());

        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(running_in(&[place.path().to_owned()]).is_empty());
    }
}
