//! What other threads tell the daemon's one thread.

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
        /// The user that asks.
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
    /// The window that is looked at, as the agent of this user says.
    Windows(WindowSystem, u32),
    /// Work after rest.
    Activity,
}

impl Source {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Windows(system, _) => system.name(),
            Self::Activity => "activity",
        }
    }

    /// The user whose source it is; none for one that is the machine's.
    #[must_use]
    pub fn user(self) -> Option<u32> {
        match self {
            Self::Windows(_, user) => Some(user),
            Self::Command | Self::Activity => None,
        }
    }
}

/// The sending end. Clones tell the same daemon.
#[derive(Clone, Debug)]
pub struct Events {
    sender: Sender<Event>,
    /// How long an answer may take.
    deadline: Duration,
}

impl Events {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Self, Receiver<Event>) {
        let (sender, receiver) = channel();
        let deadline = DEADLINE;
        (Self { sender, deadline }, receiver)
    }

    /// Tells; false when the daemon listens no more.
    pub fn tell(&self, event: Event) -> bool {
        self.sender.send(event).is_ok()
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
        match answered.recv_timeout(self.deadline) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Disconnected) => Err(ending()),
            Err(RecvTimeoutError::Timeout) => Err(Refusal::new(
                RefusalKind::NotNow,
                format!(
                    "the daemon has been at work for {:?}: ask again",
                    self.deadline
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_that_the_daemon_is_at_work() {
        let (mut events, heard) = Events::new();
        events.deadline = Duration::ZERO;

        let refused = events.ask(Peer::ROOT, Request::Daemon).unwrap_err();

        assert_eq!(refused.kind, RefusalKind::NotNow);
        assert!(refused.message.contains("at work"), "{refused}");
        // The daemon comes to it later, and nothing waits for its answer any more.
        let Event::Request { answer, .. } = heard.recv().unwrap() else {
            panic!("a request")
        };
        let _ = answer.send(Err(refused));
        drop(heard);
        let refused = events.ask(Peer::ROOT, Request::Daemon).unwrap_err();
        assert!(refused.message.contains("ending"), "{refused}");
    }
}
