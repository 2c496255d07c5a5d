//! What the daemon's one thread hears from the others.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use warmswap_control::{Peer, Refusal, RefusalKind, Reply, Request};

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// A client asks.
    Request {
        /// The user who asks.
        peer: Peer,
        /// What.
        request: Request,
        /// Where the answer goes.
        answer: SyncSender<Reply>,
    },
    /// A window of this process is looked at.
    Window {
        /// The window system that says so.
        source: Source,
        /// The user of the window system: what it says counts for this user's processes only.
        peer: Peer,
        /// The process.
        pid: u32,
    },
    /// Where a source of switch signals stands.
    Source {
        /// Which.
        source: Source,
        /// For people.
        state: String,
        /// Whether it is listened to now.
        is_live: bool,
    },
    /// The daemon is to end: a signal came.
    Stop,
}

/// A source of switch signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// `warmswap switch` and `warmswap launch`.
    Command,
    /// The active window of an X server.
    X11,
    /// The focused window of sway.
    Sway,
    /// The focused window of i3.
    I3,
    /// Work after rest.
    Activity,
}

impl Source {
    /// Those that say which window is looked at.
    pub const WINDOWS: [Self; 3] = [Self::X11, Self::Sway, Self::I3];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::X11 => "x11",
            Self::Sway => "sway",
            Self::I3 => "i3",
            Self::Activity => "activity",
        }
    }
}

/// The sending end. Clones tell the same daemon.
#[derive(Clone, Debug)]
pub struct Events(Sender<Event>);

impl Events {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Self, Receiver<Event>) {
        let (sender, receiver) = channel();
        (Self(sender), receiver)
    }

    /// Tells; false when the daemon listens no more.
    pub fn tell(&self, event: Event) -> bool {
        self.0.send(event).is_ok()
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The daemon's [`Refusal`], or that it is ending.
    pub fn ask(&self, peer: Peer, request: Request) -> Reply {
        let (answer, answered) = sync_channel(1);
        let ending = || Refusal::new(RefusalKind::NotNow, "the daemon is ending");
        let asked = self.tell(Event::Request {
            peer,
            request,
            answer,
        });
        if !asked {
            return Err(ending());
        }
        answered.recv().unwrap_or_else(|_| Err(ending()))
    }
}
