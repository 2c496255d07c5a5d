//! Tells the daemon which window its user looks at, from within the user's session.
//!
//! | module | subject |
//! |---|---|
//! | [`x11`] | the active window of an X server (`_NET_ACTIVE_WINDOW`) |
//! | [`ipc`] | the focused window of sway or i3, over the IPC of both |
//! | [`report`] | what is told to the daemon, and when again |
//!
//! The agent has the rights of its user and no others: it reads what the user's own window systems send, and the daemon
//! accepts from it only processes of that user. One thread follows each window system, and sleeps until something
//! happens.

#![forbid(unsafe_code)]

pub mod ipc;
pub mod report;
pub mod x11;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use warmswap_protocol::{WindowEvent, WindowSystem};

use self::report::Reporter;

/// Time between two looks for a window system that is not there, or has ended.
const RETRY: Duration = Duration::from_secs(10);

/// Events that wait to be told. A window system that sends more waits.
const WAITING: usize = 16;

/// What a window system tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is listened to from now on; where it is.
    Live(String),
    /// A window of this process is looked at.
    Window(u32),
}

/// Where a window system is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// Where it is found, if anywhere.
    #[default]
    Auto,
    /// It is not listened to.
    Off,
    /// A display, or a socket.
    At(String),
}

impl From<&str> for Address {
    fn from(value: &str) -> Self {
        match value {
            "auto" => Self::Auto,
            "no" => Self::Off,
            address => Self::At(address.to_owned()),
        }
    }
}

/// The window systems that are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The X11 display.
    pub x11: Address,
    /// The socket of sway.
    pub sway: Address,
    /// The socket of i3.
    pub i3: Address,
    /// The folder of X servers' sockets.
    pub displays: PathBuf,
    /// The folder of the sessions' folders.
    pub sessions: PathBuf,
}

impl Default for Sources {
    /// All that are found where they are by convention.
    fn default() -> Self {
        Self {
            x11: Address::Auto,
            sway: Address::Auto,
            i3: Address::Auto,
            displays: PathBuf::from("/tmp/.X11-unix"),
            sessions: PathBuf::from("/run/user"),
        }
    }
}

/// The agent cannot work.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Every window system is switched off.
    #[error("every window system is switched off: there is nothing to follow")]
    NothingToFollow,
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Follows `sources` and tells the daemon that listens on `socket`, for as long as this process lives.
///
/// # Errors
/// [`AgentError`].
pub fn run(sources: &Sources, socket: &Path) -> Result<(), AgentError> {
    let events = follow(sources).map_err(AgentError::Thread)?;
    Reporter::new(socket).run(&events);
    Err(AgentError::NothingToFollow)
}

/// What happened at a window system.
pub type Event = (WindowSystem, WindowEvent);

/// Starts a thread for each window system that may be there. Each sleeps until something happens, and ends when the
/// receiver is dropped.
///
/// # Errors
/// The system's answer when a thread cannot be started.
pub fn follow(sources: &Sources) -> std::io::Result<Receiver<Event>> {
    let (events, heard) = sync_channel(WAITING);
    let display = {
        let (address, displays) = (sources.x11.clone(), sources.displays.clone());
        // The display says whose i3's windows are, whether or not its own active window is followed.
        move || match &address {
            Address::At(display) => Some(display.clone()),
            Address::Auto | Address::Off => x11::display(&displays),
        }
    };
    if sources.x11 != Address::Off {
        let display = display.clone();
        start(WindowSystem::X11, &events, move |tell| {
            let display = display().ok_or("no display")?;
            x11::follow(&display, tell).map_err(|error| error.to_string())
        })?;
    }
    type Find = fn(&Path) -> Option<PathBuf>;
    let managers: [(WindowSystem, &Address, Find); 2] = [
        (WindowSystem::Sway, &sources.sway, ipc::sway_socket),
        (WindowSystem::I3, &sources.i3, ipc::i3_socket),
    ];
    for (system, address, find) in managers {
        if *address == Address::Off {
            continue;
        }
        let (address, sessions) = (address.clone(), sources.sessions.clone());
        let display = display.clone();
        start(system, &events, move |tell| {
            let socket = match &address {
                Address::At(path) => Some(PathBuf::from(path)),
                _ => find(&sessions),
            };
            let socket = socket.ok_or("no socket")?;
            let windows = || {
                let display = display().ok_or(x11::X11Error::NoDisplay)?;
                x11::Windows::connect(&display)
            };
            ipc::follow(&socket, windows, tell).map_err(|error| error.to_string())
        })?;
    }
    Ok(heard)
}

/// Where what is heard goes; false when the receiver is gone.
type Tell<'a> = &'a dyn Fn(Heard) -> bool;

/// Follows a window system again and again, from a thread of its own. An attempt ends well only when the receiver is gone.
fn start(
    system: WindowSystem,
    events: &SyncSender<Event>,
    attempt: impl Fn(Tell<'_>) -> Result<(), String> + Send + 'static,
) -> std::io::Result<()> {
    let events = events.clone();
    let follow = move || {
        let tell = |heard| {
            let event = match heard {
                Heard::Live(place) => WindowEvent::Live { place },
                Heard::Window(pid) => WindowEvent::Focus { pid },
            };
            events.send((system, event)).is_ok()
        };
        while let Err(why) = attempt(&tell) {
            if events.send((system, WindowEvent::Absent { why })).is_err() {
                return;
            }
            std::thread::sleep(RETRY);
        }
    };
    let thread = std::thread::Builder::new().name(system.name().to_owned());
    thread.spawn(follow).map(drop)
}
