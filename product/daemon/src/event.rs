//! What the daemon's one thread hears from the others.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use warmswap_protocol::{Peer, Refusal, RefusalKind, Reply, Request, WindowSystem};

/// How long the daemon's thread has for an answer, before the client is told that it has none: less than clients wait.
const DEADLINE: Duration = Duration::from_secs(8);

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
    /// Swap of the machine changed, and what is the daemon's own with it.
    Swap {
        /// The devices that are its own now, by path.
        own_devices: Vec<String>,
        /// What was done, for people.
        notices: Vec<String>,
    },
    /// The daemon is to end: a signal came.
    Stop,
}

/// A source of switch signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// `warmswap switch` and `warmswap launch`.
    Command,
    /// The window that is looked at, as an agent says.
    Windows(WindowSystem),
    /// Work after rest.
    Activity,
}

impl Source {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Windows(system) => system.name(),
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
    /// The daemon's [`Refusal`], or that it is ending, or at work for longer than 8 s.
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
        match answered.recv_timeout(DEADLINE) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Disconnected) => Err(ending()),
            Err(RecvTimeoutError::Timeout) => Err(Refusal::new(
                RefusalKind::NotNow,
                format!("the daemon has been at work for {DEADLINE:?}: ask again"),
            )),
        }
    }
}
