//! Where the daemon hears what its user looks at.
//!
//! | module | source |
//! |---|---|
//! | [`x11`] | the active window of an X server (`_NET_ACTIVE_WINDOW`) |
//! | [`sway`] | the focused window of sway, over its IPC |
//! | [`activity`] | an application that begins to work after it rested |

pub mod activity;
pub mod sway;
pub mod x11;

use std::path::PathBuf;
use std::time::Duration;

use warmswap_sys::Root;

use crate::config::sections::{Place, SignalsSection};
use crate::event::{Event, Events, Source};

/// Time between two looks for a window system that is not there, or has ended.
const RETRY: Duration = Duration::from_secs(10);

/// Starts a thread for each window system that may be there. They sleep until something happens, end when
/// nobody listens any more, and are never waited for.
///
/// # Errors
/// The system's answer when a thread cannot be started.
pub fn start(config: &SignalsSection, root: &Root, events: &Events) -> std::io::Result<()> {
    let displays = root.path("/tmp/.X11-unix");
    let sockets = root.path("/run/user");
    let x11 = config.x11.clone();
    let sway = config.sway.clone();
    follow(Source::X11, events, {
        let events = events.clone();
        move || {
            let display = match &x11 {
                Place::Off => return Followed::Never,
                Place::At(display) => Some(display.clone()),
                Place::Auto => x11::display(&displays),
            };
            let Some(display) = display else {
                return Followed::Absent("no display".to_owned());
            };
            Followed::of(x11::follow(&display, |heard| {
                tell(&events, Source::X11, heard)
            }))
        }
    })?;
    follow(Source::Sway, events, {
        let events = events.clone();
        move || {
            let socket = match &sway {
                Place::Off => return Followed::Never,
                Place::At(path) => Some(PathBuf::from(path)),
                Place::Auto => sway::socket(&sockets),
            };
            let Some(socket) = socket else {
                return Followed::Absent("no socket".to_owned());
            };
            Followed::of(sway::follow(&socket, |heard| {
                tell(&events, Source::Sway, heard)
            }))
        }
    })
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
    /// Nobody listens any more.
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
fn tell(events: &Events, source: Source, heard: Heard) -> bool {
    events.tell(match heard {
        Heard::Live(state) => Event::Source {
            source,
            state,
            is_live: true,
        },
        Heard::Window(pid) => Event::Window { source, pid },
    })
}

/// Follows again and again, from a thread of its own.
fn follow(
    source: Source,
    events: &Events,
    attempt: impl Fn() -> Followed + Send + 'static,
) -> std::io::Result<()> {
    let events = events.clone();
    let run = move || {
        let mut told = None;
        loop {
            let state = match attempt() {
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
