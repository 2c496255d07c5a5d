//! Where the daemon hears what its user looks at.
//!
//! | module | source |
//! |---|---|
//! | [`x11`] | the active window of an X server (`_NET_ACTIVE_WINDOW`) |
//! | [`ipc`] | the focused window of sway or i3, over the IPC of both |
//! | [`activity`] | an application that begins to work after it rested |
//!
//! Window systems are read by processes without rights ([`helper`]), which speak to the daemon in messages of bounded
//! length ([`wire`]).

pub mod activity;
pub mod helper;
pub mod ipc;
pub mod wire;
pub mod x11;

use std::path::PathBuf;
use std::time::Duration;

use warmswap_control::Peer;
use warmswap_sys::Root;

use self::helper::{Account, Helper, HelperError, System};
use crate::config::sections::{Place, SignalsSection};
use crate::event::{Event, Events, Source};

/// Time between two looks for a window system that is not there, or has ended.
const RETRY: Duration = Duration::from_secs(10);

/// Starts a thread for each window system that may be there. They sleep until something happens, end when the daemon
/// listens no more, and are never waited for. Each has a process started as `helper` says.
///
/// # Errors
/// The system's answer when a thread cannot be started.
pub fn start(
    config: &SignalsSection,
    root: &Root,
    helper: &Helper,
    events: &Events,
) -> std::io::Result<()> {
    let displays = root.path("/tmp/.X11-unix");
    let sessions = root.path("/run/user");
    let named = match &config.x11 {
        Place::At(display) => Some(display.clone()),
        Place::Auto | Place::Off => None,
    };
    // It says whose windows i3's are, too, whether or not its own active window is followed.
    let display = {
        let displays = displays.clone();
        move || named.clone().or_else(|| x11::display(&displays))
    };
    let is_off = config.x11 == Place::Off;
    follow(Source::X11, events, {
        let (display, helper) = (display.clone(), helper.clone());
        move |tell| match display() {
            _ if is_off => Followed::Never,
            Some(display) => {
                let account = Account::of_display(&displays, &display);
                Followed::of(through(&helper, &System::X11 { display }, account, tell))
            }
            None => Followed::Absent("no display".to_owned()),
        }
    })?;
    let find_sway = {
        let sessions = sessions.clone();
        move || ipc::sway_socket(&sessions)
    };
    let sway = follow_socket(
        config.sway.clone(),
        find_sway,
        helper.clone(),
        display.clone(),
    );
    follow(Source::Sway, events, sway)?;
    let find_i3 = move || ipc::i3_socket(&sessions);
    let i3 = follow_socket(config.i3.clone(), find_i3, helper.clone(), display);
    follow(Source::I3, events, i3)
}

/// Where what is heard goes, with the user for whom it counts; false when no daemon listens.
type Tell<'a> = &'a dyn Fn(Peer, Heard) -> bool;

fn through(
    helper: &Helper,
    system: &System,
    account: Result<Account, HelperError>,
    tell: Tell<'_>,
) -> Result<(), HelperError> {
    let account = account?;
    helper.follow(system, account, |heard| tell(account.peer, heard))
}

/// One attempt to follow a window manager over its socket, which `find` finds where none is configured.
fn follow_socket(
    place: Place,
    find: impl Fn() -> Option<PathBuf>,
    helper: Helper,
    display: impl Fn() -> Option<String>,
) -> impl Fn(Tell<'_>) -> Followed {
    move |tell| {
        let socket = match &place {
            Place::Off => return Followed::Never,
            Place::At(path) => Some(PathBuf::from(path)),
            Place::Auto => find(),
        };
        let Some(socket) = socket else {
            return Followed::Absent("no socket".to_owned());
        };
        let account = Account::of_socket(&socket);
        let system = System::Ipc {
            socket,
            display: display(),
        };
        Followed::of(through(&helper, &system, account, tell))
    }
}

/// What a window system tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is listened to from now on; where it is.
    Live(String),
    /// A window of this process is looked at.
    Window(u32),
}

/// How one attempt to follow a window system ended.
enum Followed {
    /// It is switched off.
    Never,
    /// The daemon listens no more.
    Unheard,
    /// It is not there, or ended, or refuses; for people.
    Absent(String),
}

impl Followed {
    fn of<E: std::fmt::Display>(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::Unheard,
            Err(error) => Self::Absent(error.to_string()),
        }
    }
}

/// Tells the daemon; false when it ended.
fn tell(events: &Events, source: Source, peer: Peer, heard: Heard) -> bool {
    events.tell(match heard {
        Heard::Live(state) => Event::Source {
            source,
            state,
            is_live: true,
        },
        Heard::Window(pid) => Event::Window { source, peer, pid },
    })
}

/// Follows again and again, from a thread of its own.
fn follow(
    source: Source,
    events: &Events,
    attempt: impl Fn(Tell<'_>) -> Followed + Send + 'static,
) -> std::io::Result<()> {
    let events = events.clone();
    let run = move || {
        let mut told = None;
        loop {
            let state = match attempt(&|peer, heard| tell(&events, source, peer, heard)) {
                Followed::Never => return,
                Followed::Unheard => return,
                Followed::Absent(state) => state,
            };
            // Once for each reason: it may be so for as long as the machine runs.
            if told.as_ref() != Some(&state) {
                told = Some(state.clone());
                let event = Event::Source {
                    source,
                    state,
                    is_live: false,
                };
                if !events.tell(event) {
                    return;
                }
            }
            std::thread::sleep(RETRY);
        }
    };
    let thread = std::thread::Builder::new().name(source.name().to_owned());
    thread.spawn(run).map(drop)
}
