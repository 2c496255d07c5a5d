//! Which processes are in use: what the daemon tells programs that follow it. It is a file, since any number of programs can watch
//! one, and none of them can hold the daemon up.
//!
//! A line for each process of an application that the daemon knows: `PID START foreground` or `PID START background`, where START is
//! the time at which it began, as field 22 of `/proc/PID/stat` has it. Before the first switch there is no file.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::fs::{Gid, Mode, chmod, chown};
use warmswap_sys::process::Stat;
use warmswap_sys::{FileError, Root, file};

use crate::socket::failed;
use crate::{Access, Phase};

/// Its folder, beside the daemon's socket. Nothing else is in it, so that a watch of it tells of switches alone.
const FOLDER: &str = "switches";

const FILE: &str = "now";

/// What is written anew and then takes the file's place.
const DRAFT: &str = "next";

/// How often it is looked whether there is a daemon by now.
const LOOK_FOR_DAEMON: Duration = Duration::from_secs(1);

/// The folder of the daemon with this socket.
fn folder_of(socket: &Path) -> PathBuf {
    socket.parent().unwrap_or(Path::new("/")).join(FOLDER)
}

/// A process, and whether its application is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Process.
    pub pid: u32,
    /// When it began, in clock ticks since the machine did.
    pub start_ticks: u64,
    /// Its application is in the foreground.
    pub is_foreground: bool,
}

impl Standing {
    fn word(self) -> &'static str {
        match self.is_foreground {
            true => "foreground",
            false => "background",
        }
    }
}

/// The daemon's side. Dropping it removes the file and its folder.
#[derive(Debug)]
pub struct Switches {
    folder: PathBuf,
    access: Access,
    told: Option<String>,
}

impl Switches {
    /// Of the daemon with this socket, for those who may connect to it. What a daemon left that was killed goes.
    ///
    /// # Errors
    /// [`FileError`] when the folder cannot be made.
    pub fn make(socket: &Path, access: Access) -> Result<Self, FileError> {
        let folder = folder_of(socket);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("make", &folder)(error));
            }
            _ => {}
        }
        let made = Self {
            folder,
            access,
            told: None,
        };
        made.remove_files();
        admit(&made.folder, access, Mode::RWXU, Mode::RGRP | Mode::XGRP)?;
        Ok(made)
    }

    /// Tells where these processes stand, if that is anything new.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn tell(&mut self, standings: &[Standing]) -> Result<(), FileError> {
        let mut text = String::new();
        for standing in standings {
            let (pid, start_ticks) = (standing.pid, standing.start_ticks);
            // Writing to a string does not fail.
            let _ = writeln!(text, "{pid} {start_ticks} {}", standing.word());
        }
        if self.told.as_ref() == Some(&text) {
            return Ok(());
        }
        let [draft, path] = [DRAFT, FILE].map(|name| self.folder.join(name));
        fs::write(&draft, &text).map_err(failed("write", &draft))?;
        admit(&draft, self.access, Mode::RUSR | Mode::WUSR, Mode::RGRP)?;
        fs::rename(&draft, &path).map_err(failed("replace", &path))?;
        self.told = Some(text);
        Ok(())
    }

    fn remove_files(&self) {
        for name in [DRAFT, FILE] {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        self.remove_files();
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Gives a file or a folder the owner's rights, and a group its own.
fn admit(path: &Path, access: Access, owner: Mode, group: Mode) -> Result<(), FileError> {
    let set = match access {
        Access::Group(number) => {
            // The group first: it is never one that was not asked for.
            chown(path, None, Some(Gid::from_raw(number))).and_then(|()| chmod(path, owner | group))
        }
        Access::Owner => chmod(path, owner),
    };
    set.map_err(failed("set the permissions of", path))
}

/// A process that hears from the daemon when its application comes and goes.
#[derive(Debug)]
pub struct Follower {
    folder: PathBuf,
    pid: u32,
    start_ticks: u64,
    /// None while there is no daemon.
    watch: Option<OwnedFd>,
    phase: Option<Phase>,
}

impl Follower {
    /// Of this process. There need not be a daemon yet; `socket` is [`DAEMON_SOCKET`](crate::DAEMON_SOCKET) unless it is
    /// configured otherwise.
    ///
    /// # Errors
    /// [`FileError`] when this process cannot be looked at.
    pub fn new(socket: &Path) -> Result<Self, FileError> {
        let pid = std::process::id();
        let stat = Stat::read(&Root::machine(), pid)?;
        Ok(Self {
            folder: folder_of(socket),
            pid,
            start_ticks: stat.start_ticks,
            watch: None,
            phase: None,
        })
    }

    /// Where the application stands, if that is not what this said last: [`Phase::Foreground`] or [`Phase::Background`].
    /// It is in the foreground when the daemon ends. Does not wait.
    pub fn look(&mut self) -> Option<Phase> {
        let had_daemon = self.watch.is_some();
        if !self.drain() {
            let phase = Phase::Foreground;
            if had_daemon && self.phase.replace(phase) == Some(Phase::Background) {
                return Some(phase);
            }
            // Before the file is read, so that nothing is missed.
            self.watch = watch(&self.folder);
        }
        self.watch.as_ref()?;
        let text = file::read(&self.folder.join(FILE)).ok()?;
        let phase = self.find(&text)?;
        (self.phase.replace(phase) != Some(phase)).then_some(phase)
    }

    /// What can be read when there may be something new; none while there is no daemon, which [`Self::look`] looks for. Another
    /// daemon has another descriptor.
    #[must_use]
    pub fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(OwnedFd::as_fd)
    }

    /// As [`Self::look`], after a wait for a change, of `timeout` at most.
    pub fn wait(&mut self, timeout: Duration) -> Option<Phase> {
        if let Some(phase) = self.look() {
            return Some(phase);
        }
        match &self.watch {
            Some(watch) => {
                let timeout = Timespec {
                    tv_sec: timeout.as_secs().cast_signed(),
                    tv_nsec: timeout.subsec_nanos().into(),
                };
                // An error is a wait that was cut short.
                let _ = poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout));
            }
            None => std::thread::sleep(timeout.min(LOOK_FOR_DAEMON)),
        }
        self.look()
    }

    /// Takes in what was told of the folder; whether it is watched.
    fn drain(&mut self) -> bool {
        let Some(watch) = &self.watch else {
            return false;
        };
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut reader = Reader::new(watch.as_fd(), &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::IGNORED) {
                // The daemon took its folder away.
                self.watch = None;
                return false;
            }
        }
        true
    }

    fn find(&self, text: &str) -> Option<Phase> {
        let own = format!("{} {} ", self.pid, self.start_ticks);
        match text.lines().find_map(|line| line.strip_prefix(&own))? {
            "foreground" => Some(Phase::Foreground),
            "background" => Some(Phase::Background),
            _ => None,
        }
    }
}

/// A watch of a folder for files that take their place; none while there is no such folder, or this user may not read it.
fn watch(folder: &Path) -> Option<OwnedFd> {
    let watch = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
    let events = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
    add_watch(&watch, folder, events).ok()?;
    Some(watch)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn own(is_foreground: bool) -> Standing {
        let pid = std::process::id();
        Standing {
            pid,
            start_ticks: Stat::read(&Root::machine(), pid).unwrap().start_ticks,
            is_foreground,
        }
    }

    #[test]
    fn a_program_hears_of_its_own_switches_alone() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("daemon.sock");
        let mut switches = Switches::make(&socket, Access::Owner).unwrap();
        let mut follower = Follower::new(&socket).unwrap();
        assert_eq!(follower.look(), None, "nothing was switched to");

        let other = Standing {
            pid: 1,
            start_ticks: 1,
            is_foreground: true,
        };
        let earlier = Standing {
            start_ticks: own(true).start_ticks - 1,
            ..own(true)
        };
        switches.tell(&[other, earlier, own(false)]).unwrap();
        assert_eq!(follower.wait(LONG), Some(Phase::Background));
        switches.tell(&[other, own(false)]).unwrap();
        assert_eq!(follower.look(), None, "that is nothing new");
        switches.tell(&[own(true)]).unwrap();
        assert_eq!(follower.wait(LONG), Some(Phase::Foreground));
        switches.tell(&[other]).unwrap();
        assert_eq!(follower.look(), None, "it is not known any more");
    }

    #[test]
    fn a_program_waits_for_the_daemon_and_for_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("daemon.sock");
        let mut follower = Follower::new(&socket).unwrap();
        assert_eq!(follower.wait(Duration::from_millis(1)), None);
        for _ in 0..2 {
            let told = std::thread::scope(|scope| {
                let told = scope.spawn(|| {
                    loop {
                        if let Some(phase) = follower.wait(LONG) {
                            return phase;
                        }
                    }
                });
                let mut switches = Switches::make(&socket, Access::Owner).unwrap();
                switches.tell(&[own(false)]).unwrap();
                let told = told.join().unwrap();
                drop(switches);
                told
            });
            assert_eq!(told, Phase::Background);
            assert!(!folder_of(&socket).exists(), "the daemon is gone");
            assert_eq!(follower.look(), Some(Phase::Foreground));
        }
    }

    #[test]
    fn those_who_may_connect_may_follow() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("daemon.sock");
        let group = rustix::process::getegid().as_raw();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        for (access, of_folder, of_file) in [
            (Access::Owner, 0o700, 0o600),
            (Access::Group(group), 0o750, 0o640),
        ] {
            let mut switches = Switches::make(&socket, access).unwrap();
            switches.tell(&[own(true)]).unwrap();
            let folder = folder_of(&socket);
            assert_eq!(mode(&folder), of_folder);
            assert_eq!(mode(&folder.join(FILE)), of_file);
            // Killed: the next one begins anew.
            std::mem::forget(switches);
        }
        let _next = Switches::make(&socket, Access::Owner).unwrap();
        assert!(!folder_of(&socket).join(FILE).exists());
    }
}
