//! Window systems are followed by helpers: processes of the user whose window system it is, without any rights.
//!
//! What a window system sends is under the control of its user, and the daemon is root. So the daemon reads nothing of it.
//! It starts its own program again as that user, tells it over a pair of sockets what to follow, and hears of windows
//! in messages that are checked ([`super::wire`]). A helper that crashes, ends, floods or talks nonsense is ended and
//! started again later; nothing else happens.
//!
//! | a helper | by |
//! |---|---|
//! | is the user who owns the socket of the window system, in no other group | setgid(2), setgroups(2), setuid(2) before exec |
//! | is nobody, where that user is root | the same |
//! | gains no rights from what it executes, and executes nothing | `PR_SET_NO_NEW_PRIVS`, `RLIMIT_NPROC` |
//! | has three descriptors: the pair of sockets, nothing, the display's authority | all others close at exec |
//! | takes no more than 256 MiB, writes no files, leaves no core | `RLIMIT_AS`, `RLIMIT_FSIZE`, `RLIMIT_CORE` |
//! | dies with the daemon's thread that started it | `PR_SET_PDEATHSIG` |

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::process::{Resource, Rlimit, Signal};
use warmswap_control::Peer;

use super::wire::{Message, WireError};
use super::x11::{Windows, X11Error};
use super::{Heard, ipc, x11};

/// The user and the group with the fewest rights, as all distributions number them.
const NOBODY: u32 = 65_534;

/// Between two windows of one helper at least. What a user does is slower; a helper that floods waits.
const PACE: Duration = Duration::from_millis(20);

/// Largest file of authorities that is read.
const MAX_AUTHORITY_BYTES: u64 = 64 << 10;

/// Address space of a helper, in bytes: the program itself and the largest tree of windows.
const MAX_ADDRESS_BYTES: u64 = 256 << 20;

/// Descriptors of a helper, those that it opens for the window system included.
const MAX_DESCRIPTORS: u64 = 32;

/// Names the daemon's process to the helper.
const DAEMON: &str = "WARMSWAP_DAEMON";

/// A helper cannot be had, or is no more.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// The window system's socket cannot be looked at.
    #[error("socket {}: {source}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Another file is there.
    #[error("{} is no socket", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be started, or spoken to.
    #[error("cannot {action} a helper for window systems: {source}")]
    Start {
        /// What was tried, as a verb.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// It says that it cannot go on.
    #[error("{0}")]
    Failed(String),
    /// It ended without a word.
    #[error("the helper for window systems ended")]
    Ended,
    /// It does not speak as a helper does.
    #[error("the helper for window systems talks nonsense: {0}")]
    Nonsense(#[source] WireError),
    /// It says what only the daemon says.
    #[error("the helper for window systems gives orders")]
    Orders,
}

fn start(action: &'static str) -> impl FnOnce(io::Error) -> HelperError {
    move |source| HelperError::Start { action, source }
}

/// A window system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// An X server.
    X11 {
        /// The display.
        display: String,
    },
    /// sway or i3.
    Ipc {
        /// Its socket.
        socket: PathBuf,
        /// Which says whose i3's windows are.
        display: Option<String>,
    },
}

/// As which user a helper runs, and for which user it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// User of the helper; never root.
    pub user: u32,
    /// Its only group.
    pub group: u32,
    /// The owner of the window system: what is heard counts for this user's programs, of root's X server for all.
    pub peer: Peer,
}

impl Account {
    /// The account for a window system with this socket. A link is not followed: its owner is not the owner of what
    /// it points to.
    ///
    /// # Errors
    /// [`HelperError::Socket`], [`HelperError::NotASocket`].
    pub fn of_socket(path: &Path) -> Result<Self, HelperError> {
        let found = std::fs::symlink_metadata(path).map_err(|source| HelperError::Socket {
            path: path.to_owned(),
            source,
        })?;
        if !found.file_type().is_socket() {
            return Err(HelperError::NotASocket {
                path: path.to_owned(),
            });
        }
        Ok(Self::of_owner(found.uid(), found.gid()))
    }

    /// The account for a display: that of its socket in `sockets` (`/tmp/.X11-unix`). One of another machine, or
    /// without a socket file, belongs to user `nobody`.
    ///
    /// # Errors
    /// [`HelperError::NotASocket`].
    pub fn of_display(sockets: &Path, display: &str) -> Result<Self, HelperError> {
        let number = display
            .strip_prefix("unix:")
            .or_else(|| display.strip_prefix(':'))
            .and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        let nobody = Self {
            user: NOBODY,
            group: NOBODY,
            peer: Peer { user: NOBODY },
        };
        let Some(number) = number else {
            return Ok(nobody);
        };
        match Self::of_socket(&sockets.join(format!("X{number}"))) {
            Err(HelperError::Socket { .. }) => Ok(nobody),
            other => other,
        }
    }

    fn of_owner(user: u32, group: u32) -> Self {
        let unprivileged = |id| if id == 0 { NOBODY } else { id };
        let peer = Peer { user };
        let group = if user == 0 { 0 } else { group };
        Self {
            user: unprivileged(user),
            group: unprivileged(group),
            peer,
        }
    }
}

/// How helpers are started.
#[derive(Clone, Debug)]
pub struct Helper {
    /// The program, which calls [`serve`].
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its environment, besides what this module adds.
    pub environment: Vec<(OsString, OsString)>,
}

impl Helper {
    /// The running program itself, with the subcommand `follow-windows`.
    #[must_use]
    pub fn own() -> Self {
        Self {
            program: PathBuf::from("/proc/self/exe"),
            arguments: vec![OsString::from("follow-windows")],
            environment: Vec::new(),
        }
    }

    /// Follows a window system through a helper until `tell` returns false. Sleeps meanwhile. The helper dies with
    /// the calling thread.
    ///
    /// # Errors
    /// [`HelperError`].
    pub fn follow(
        &self,
        system: &System,
        account: Account,
        tell: impl Fn(Heard) -> bool,
    ) -> Result<(), HelperError> {
        let (mut ours, theirs) = UnixStream::pair().map_err(start("make sockets for"))?;
        let _running = Running(self.spawn(theirs, account)?);
        for order in orders(system) {
            match order.write(&mut ours) {
                // It ended already; maybe it said why.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                written => written.map_err(start("speak to"))?,
            }
        }
        loop {
            let message = Message::read(&mut ours).map_err(|error| match error {
                // It ended before it read its orders.
                WireError::Read(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    HelperError::Ended
                }
                error => HelperError::Nonsense(error),
            })?;
            let heard = match message.ok_or(HelperError::Ended)? {
                Message::Live(place) => Heard::Live(place),
                Message::Window(pid) => Heard::Window(pid),
                Message::Failed(why) => return Err(HelperError::Failed(why)),
                Message::FollowX11(_) | Message::FollowIpc(_) | Message::Display(_) => {
                    return Err(HelperError::Orders);
                }
            };
            if !tell(heard) {
                return Ok(());
            }
            std::thread::sleep(PACE);
        }
    }

    fn spawn(&self, socket: UnixStream, account: Account) -> Result<Child, HelperError> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir("/")
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env(DAEMON, std::process::id().to_string())
            .stdin(Stdio::from(OwnedFd::from(socket)))
            .stdout(Stdio::null());
        match authority() {
            Some(authority) => command
                .env("XAUTHORITY", "/proc/self/fd/2")
                .stderr(Stdio::from(authority)),
            None => command.stderr(Stdio::null()),
        };
        if warmswap_sys::is_root() {
            // The standard library clears the other groups, too.
            command.gid(account.group).uid(account.user);
        }
        command.spawn().map_err(start("start"))
    }
}

/// What a helper is told first.
fn orders(system: &System) -> Vec<Message> {
    match system {
        System::X11 { display } => vec![Message::FollowX11(display.clone())],
        System::Ipc { socket, display } => {
            let display = display.clone().map(Message::Display);
            let follow = Message::FollowIpc(socket.to_string_lossy().into_owned());
            display.into_iter().chain([follow]).collect()
        }
    }
}

/// A helper that is ended, and waited for, on every way out.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A daemon that is root needs CAP_KILL for this. Without it, it waits, so that there is one helper at most.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The authority file that the environment of the daemon names, copied to a file in memory: the helper may read the copy,
/// not the file on disk. Its content is not interpreted here.
fn authority() -> Option<OwnedFd> {
    let named = std::env::var_os("XAUTHORITY").filter(|path| !path.is_empty());
    let path = match named {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".Xauthority"),
    };
    // A pipe in its place must hold up nothing.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_AUTHORITY_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(rustix::fs::memfd_create("xauthority", flags).ok()?);
    copy.write_all(&bytes).ok()?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&copy, seals).ok()?;
    Some(copy.into())
}

// ---- in the helper ----

/// This process has rights that a helper must not have.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// It is not a helper's process: the daemon starts these.
    #[error("only the daemon starts this")]
    NotAHelper,
    /// It is root.
    #[error("a helper must not run as root")]
    Root,
    /// A limit cannot be set.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

/// The helper: does what the daemon says over standard input, until the window system or the daemon ends.
///
/// # Errors
/// [`ConfineError`] before anything was read. What happens to the window system is told to the daemon.
pub fn serve() -> Result<(), ConfineError> {
    confine()?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let mut socket = UnixStream::from(socket.map_err(|source| ConfineError::System {
        action: "use standard input",
        source,
    })?);
    let why = obey(&mut socket);
    // Where the daemon is gone, there is no process to tell.
    let _ = Message::Failed(why).write(&mut socket);
    Ok(())
}

/// Gives up what a helper does not need, and sees to it that it ends with the daemon.
fn confine() -> Result<(), ConfineError> {
    let daemon = std::env::var(DAEMON).ok().and_then(|pid| pid.parse().ok());
    let daemon: u32 = daemon.ok_or(ConfineError::NotAHelper)?;
    if rustix::process::geteuid().is_root() || rustix::process::getuid().is_root() {
        return Err(ConfineError::Root);
    }
    let failed = |action| {
        move |errno: rustix::io::Errno| ConfineError::System {
            action,
            source: errno.into(),
        }
    };
    rustix::thread::set_no_new_privs(true).map_err(failed("give up new rights"))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(failed("end with the daemon"))?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if parent != Some(daemon) {
        // It ended before the signal was asked for.
        return Err(ConfineError::NotAHelper);
    }
    for (resource, limit) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        (Resource::Nofile, MAX_DESCRIPTORS),
        (Resource::As, MAX_ADDRESS_BYTES),
    ] {
        let both = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        rustix::process::setrlimit(resource, both).map_err(failed("set a limit"))?;
    }
    // The daemon's own protection from the OOM killer is not for helpers. Without it, nothing is lost.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    Ok(())
}

/// Follows what the daemon names; says why that ended.
fn obey(socket: &mut UnixStream) -> String {
    let mut display = None;
    let order = loop {
        match Message::read(socket) {
            Ok(Some(Message::Display(name))) => display = Some(name),
            Ok(Some(order)) => break order,
            Ok(None) => return "the daemon ended".to_owned(),
            Err(error) => return error.to_string(),
        }
    };
    let tell = |heard: Heard| {
        let message = match heard {
            Heard::Live(place) => Message::Live(place),
            Heard::Window(pid) => Message::Window(pid),
        };
        message.write(&mut &*socket).is_ok()
    };
    let windows = || Windows::connect(display.as_ref().ok_or(X11Error::NoDisplay)?);
    let ended = match order {
        Message::FollowX11(display) => {
            x11::follow(&display, tell).map_err(|error| error.to_string())
        }
        Message::FollowIpc(path) => {
            ipc::follow(path.as_ref(), windows, tell).map_err(|error| error.to_string())
        }
        _ => Err("no such order".to_owned()),
    };
    ended.err().unwrap_or_else(|| "the daemon ended".to_owned())
}
