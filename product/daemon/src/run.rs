//! The daemon from its start to its end.

use std::path::Path;

use rustix::fs::{Access, access};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use warmswap_kernel::HostError;
use warmswap_sys::undo::{Undo, UndoError};
use warmswap_sys::{FileError, Root, heap};

use crate::config::Config;
use crate::control::{ControlError, Socket};
use crate::daemon::Daemon;
use crate::devices::{DeviceError, Devices, is_without_swap, state_folder};
use crate::event::{Event, Events};
use crate::host::{Host, kernel_host};
use crate::swap_list::SwapList;

/// The daemon cannot start, or could not clean up behind itself.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Only root may look into other programs' memory.
    #[error("the daemon needs root: run it with sudo, or as a service")]
    NotRoot,
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The note of changes to the machine.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// A swap device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The list of swap areas.
    #[error(transparent)]
    File(#[from] FileError),
    /// The host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A thread, or signals.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// What was learned could not be kept at the end.
    #[error("{0}")]
    NotSaved(String),
}

/// Runs the daemon over the kernel host until SIGTERM, SIGINT or SIGHUP, and takes back what it changed.
///
/// # Errors
/// [`DaemonError`].
pub fn run(config: Config, root: &Root) -> Result<(), DaemonError> {
    if !warmswap_sys::is_root() {
        return Err(DaemonError::NotRoot);
    }
    // Tables of all pages, of a machine that is short of memory.
    heap::map_large_blocks();
    let host = |config: &Config| kernel_host(config, root);
    run_over(config, root, host)
}

/// The same over the host that `make_host` makes once the devices are there.
///
/// # Errors
/// [`DaemonError`].
pub fn run_over<H: Host>(
    config: Config,
    root: &Root,
    make_host: impl FnOnce(&Config) -> Result<H, HostError>,
) -> Result<(), DaemonError> {
    let say = |notice: &str| warmswap_sys::tell!("warmswap daemon: {notice}");
    allow_descriptors();
    // The socket first: the process that holds it is the only daemon here.
    let group = config.daemon.socket_group.as_deref();
    let socket = Socket::bind(root, &config.daemon.socket, group)?;
    let (events, heard) = Events::new();
    stop_at_signals(events.clone())?;
    let state = state_folder(&config.daemon.socket);
    // Before the devices of a daemon that was killed are taken over: on an error they stay as they are.
    let swap_list = SwapList::open(root)?;
    let (undo, inherited) = Undo::inherit(root, &state)?;
    let mut notices = Vec::new();
    let devices = Devices::set_up(&config.zram, &undo, inherited, &mut notices);
    notices.iter().for_each(|notice| say(notice));
    let devices = devices?;
    let host = make_host(&config)?;

    let switches = socket.switches();
    let control = socket.serve(events.clone())?;
    let paths = devices.paths();
    let following = swap_list.follow(devices, events.clone());
    let following = following.map_err(DaemonError::Thread)?;
    drop(events);

    // Last, so that it goes first on every way out: no client waits for an answer then.
    let folder = config.daemon.state_folder.clone();
    let mut daemon = Daemon::new(config, root.clone(), host, heard);
    daemon.set_own_devices(paths);
    match switches {
        Ok(switches) => daemon.set_switches(switches),
        Err(error) => say(&format!("programs cannot follow switches: {error}")),
    }
    daemon.resume_launched(state.join("launched"));
    if let Err(error) = check_folder(&folder) {
        say(&format!("keeps nothing of what it learns: {error}"));
    }
    say("is up");
    if is_without_swap(root) {
        say(
            "has nothing to do: this machine has no swap; write [zram0] into /etc/warmswap.toml and restart it",
        );
    }
    let saved = daemon.run();
    drop(daemon);
    drop(control);
    say("ends: pages come back from its devices");
    let mut notices = Vec::new();
    let removed = following.end(&mut notices);
    notices.iter().for_each(|notice| say(notice));
    removed?;
    saved.map_err(DaemonError::NotSaved)
}

/// Makes the folder if it is not there, and looks whether files can be made in it.
fn check_folder(folder: &Path) -> Result<(), FileError> {
    let made = std::fs::create_dir_all(folder);
    made.map_err(|error| FileError::new("make", folder, error))?;
    let writable = access(folder, Access::WRITE_OK | Access::EXEC_OK);
    writable.map_err(|errno| FileError::new("write to", folder, errno.into()))
}

/// As many descriptors as this process may have: it needs two for each process that it watches. Where that is refused, those
/// that are beyond are not watched.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}

/// Tells the daemon to stop when it is to end. A second signal while it cleans up changes nothing.
fn stop_at_signals(events: Events) -> Result<(), DaemonError> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(DaemonError::Thread)?;
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let wait = move || {
        for _ in signals.forever() {
            if !events.tell(Event::Stop) {
                return;
            }
        }
    };
    thread.spawn(wait).map_err(DaemonError::Thread)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_no_files_is_told_with_its_reason() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("of/learned");
        check_folder(&folder).unwrap();
        assert!(folder.is_dir());
        std::fs::write(place.path().join("file"), "").unwrap();
        let below = check_folder(&place.path().join("file/folder")).unwrap_err();
        assert!(below.to_string().starts_with("cannot make "), "{below}");
    }
}
