//! What is told to the daemon, and when again.
//!
//! The daemon may be absent, start later, or be exchanged. So the reporter keeps the last state of each window system, and
//! tells all of it on each new connection. While it fails, it waits longer each time; what happens meanwhile replaces what
//! it would have told.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use warmswap_protocol::{
    Client, ClientError, RefusalKind, Request, WINDOWS_HEARD_FOR, WindowEvent, WindowSystem,
};

use crate::Event;

/// How long the daemon has for an answer: the machine may be short of memory.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which a window system that is live is told again: the daemon believes it for three times as long.
const HEARTBEAT: Duration = Duration::from_secs(WINDOWS_HEARD_FOR.as_secs() / 3);

/// The first wait after a failure; it doubles with each one that follows.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What is known of one window system.
#[derive(Debug, Default)]
struct Known {
    /// That it is live, or absent.
    standing: Option<WindowEvent>,
    /// The process that is looked at.
    pid: Option<u32>,
    standing_is_told: bool,
    pid_is_told: bool,
}

/// Tells the daemon.
#[derive(Debug)]
pub struct Reporter {
    socket: PathBuf,
    client: Option<Client>,
    known: BTreeMap<WindowSystem, Known>,
    /// The wait after the next failure.
    wait: Duration,
    /// Not before this time is the daemon asked again; `None` where the last try succeeded.
    held_off_until: Option<Instant>,
    /// The last failure that was said.
    said: Option<String>,
}

impl Reporter {
    /// A reporter to the daemon that listens on `socket`.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            client: None,
            known: BTreeMap::new(),
            wait: FIRST_WAIT,
            held_off_until: None,
            said: None,
        }
    }

    /// Tells what `events` bring until their senders are gone.
    pub fn run(&mut self, events: &Receiver<Event>) {
        let mut beat = Instant::now() + HEARTBEAT;
        loop {
            let due = self.held_off_until.unwrap_or(beat);
            match events.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(event) => {
                    self.note(event);
                    // Of several windows in a row the last one counts.
                    events.try_iter().for_each(|event| self.note(event));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if now >= beat {
                beat = now + HEARTBEAT;
                self.repeat_live();
            }
            if self.held_off_until.is_none_or(|until| now >= until) {
                self.tell_all(now);
            }
        }
    }

    fn note(&mut self, (system, event): Event) {
        let known = self.known.entry(system).or_default();
        match event {
            WindowEvent::Focus { pid } => {
                known.pid = Some(pid);
                known.pid_is_told = false;
            }
            standing => {
                known.standing_is_told &= known.standing.as_ref() == Some(&standing);
                if matches!(standing, WindowEvent::Absent { .. }) {
                    known.pid = None;
                }
                known.standing = Some(standing);
            }
        }
    }

    fn repeat_live(&mut self) {
        for known in self.known.values_mut() {
            known.standing_is_told &= !matches!(known.standing, Some(WindowEvent::Live { .. }));
        }
    }

    /// Tells what was not told yet. A connection that has ended is made anew at once, a failure after that is waited out.
    fn tell_all(&mut self, now: Instant) {
        let had_client = self.client.is_some();
        let mut told = self.try_to_tell();
        if told.is_err() && had_client {
            told = self.try_to_tell();
        }
        match told {
            Ok(()) => {
                self.wait = FIRST_WAIT;
                self.held_off_until = None;
                self.said = None;
            }
            Err(error) => {
                self.held_off_until = Some(now + self.wait);
                self.wait = (self.wait * 2).min(LONGEST_WAIT);
                self.say(match error {
                    ClientError::Missing { path } | ClientError::Dead { path } => format!(
                        "no daemon listens on {}: start it (`warmswap daemon`); the agent goes on trying",
                        path.display()
                    ),
                    error => error.to_string(),
                });
            }
        }
    }

    fn say(&mut self, what: String) {
        if self.said.as_ref() != Some(&what) {
            // Nothing is left to tell it to where that is closed.
            let _ = writeln!(std::io::stderr(), "warmswap agent: {what}");
            self.said = Some(what);
        }
    }

    /// # Errors
    /// The connection's; it is closed then.
    fn try_to_tell(&mut self) -> Result<(), ClientError> {
        let told = self.tell_untold();
        if told.is_err() {
            self.client = None;
        }
        told
    }

    fn tell_untold(&mut self) -> Result<(), ClientError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let client = Client::connect(&self.socket, TIMEOUT)?;
                // Another daemon may listen, which knows nothing.
                for known in self.known.values_mut() {
                    known.standing_is_told = false;
                    known.pid_is_told = false;
                }
                self.client.insert(client)
            }
        };
        for (&system, known) in &mut self.known {
            if let Some(event) = known.standing.clone().filter(|_| !known.standing_is_told) {
                tell(client, system, event)?;
                known.standing_is_told = true;
            }
            if let Some(pid) = known.pid.filter(|_| !known.pid_is_told) {
                tell(client, system, WindowEvent::Focus { pid })?;
                known.pid_is_told = true;
            }
        }
        Ok(())
    }
}

/// Tells one event. A process of another user, or one that ended, is refused, and the daemon is told that the user looks at
/// none of this user's.
fn tell(client: &mut Client, system: WindowSystem, event: WindowEvent) -> Result<(), ClientError> {
    let is_focus = matches!(event, WindowEvent::Focus { .. });
    match client.tell(&Request::Window { system, event }) {
        Err(ClientError::Refused { refusal, .. })
            if is_focus && matches!(refusal.kind, RefusalKind::Denied | RefusalKind::Failed) =>
        {
            let event = WindowEvent::Elsewhere;
            client.tell(&Request::Window { system, event })
        }
        told => told,
    }
}
