//! Telling the daemon what this process does, so that both do not work against each other.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warmswap_protocol::{AppEvent, Client, ClientError, Request};

/// How long the daemon has for an answer. Only the worker waits for it.
const TIMEOUT: Duration = Duration::from_millis(500);

/// After a daemon that does not answer, it is left alone for this long.
const PAUSE: Duration = Duration::from_secs(60);

/// What became of the last message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Told {
    /// None was sent yet.
    #[default]
    NotYet,
    /// No daemon runs.
    Absent,
    /// It heard.
    Heard,
    /// It refused, may not be spoken to, or does not answer.
    Failed(String),
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotYet => f.write_str("not told yet"),
            Self::Absent => f.write_str("not running"),
            Self::Heard => f.write_str("told"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// The way to the daemon.
#[derive(Debug)]
pub struct Teller {
    socket: PathBuf,
    app: String,
    is_known: bool,
    silent_until: Option<Instant>,
    told: Told,
}

impl Teller {
    /// Speaks as the application `app` over `socket`.
    #[must_use]
    pub fn new(socket: &Path, app: &str) -> Self {
        Self {
            socket: socket.to_owned(),
            app: app.to_owned(),
            is_known: false,
            silent_until: None,
            told: Told::NotYet,
        }
    }

    /// What became of the last message.
    #[must_use]
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// Tells the daemon; at most half a second goes by. A daemon that does not know this process yet is told which
    /// one it is first.
    pub fn tell(&mut self, event: AppEvent) {
        if self
            .silent_until
            .is_some_and(|until| Instant::now() < until)
        {
            return;
        }
        self.told = match self.try_tell(event) {
            Ok(()) => Told::Heard,
            Err(ClientError::Missing { .. } | ClientError::Dead { .. }) => {
                self.is_known = false;
                Told::Absent
            }
            Err(error) => {
                self.is_known = false;
                if matches!(error, ClientError::Timeout { .. }) {
                    self.silent_until = Some(Instant::now() + PAUSE);
                }
                Told::Failed(error.to_string())
            }
        };
    }

    fn try_tell(&mut self, event: AppEvent) -> Result<(), ClientError> {
        let mut client = Client::connect(&self.socket, TIMEOUT)?;
        let request = |event| Request::App {
            name: self.app.clone(),
            event,
        };
        let launch = request(AppEvent::Launch {
            pid: std::process::id(),
        });
        if !self.is_known {
            client.tell(&launch)?;
        }
        match client.tell(&request(event)) {
            // A daemon that was started anew knows this application no more.
            Err(ClientError::Refused { .. }) if self.is_known => {
                client.tell(&launch)?;
                client.tell(&request(event))?;
            }
            other => other?,
        }
        self.is_known = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    const DONE: &str = "{\"warmswap\":1,\"answer\":\"done\"}\n";

    fn socket() -> PathBuf {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::env::temp_dir().join(format!(
            "warmswap-self-pager-{}-{count}.sock",
            std::process::id()
        ))
    }

    #[test]
    fn a_daemon_is_told_which_process_it_is_before_anything_else() {
        let path = socket();
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = std::thread::spawn(move || {
            let mut lines = Vec::new();
            for requests in [2, 1] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                for _ in 0..requests {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    stream.write_all(DONE.as_bytes()).unwrap();
                    lines.push(line);
                }
            }
            lines
        });
        let mut teller = Teller::new(&path, "notebook");
        teller.tell(AppEvent::Background);
        teller.tell(AppEvent::Switch);
        assert_eq!(*teller.told(), Told::Heard);
        let lines = daemon.join().unwrap();
        let _ = std::fs::remove_file(&path);
        let pid = std::process::id();
        assert!(lines[0].contains(&format!("{{\"launch\":{{\"pid\":{pid}}}}}")));
        assert!(lines[1].contains("\"background\"") && lines[2].contains("\"switch\""));
    }

    #[test]
    fn without_a_daemon_nothing_is_wrong() {
        let mut teller = Teller::new(Path::new("/nonexistent/daemon.sock"), "x");
        teller.tell(AppEvent::Background);
        assert_eq!(*teller.told(), Told::Absent);
    }

    #[test]
    fn a_daemon_that_hangs_is_left_alone_afterwards() {
        let path = socket();
        let _listener = UnixListener::bind(&path).unwrap();
        let mut teller = Teller::new(&path, "x");
        teller.tell(AppEvent::Background);
        assert!(matches!(teller.told(), Told::Failed(why) if why.contains("no answer")));
        assert!(teller.silent_until.is_some());
        let _ = std::fs::remove_file(&path);
    }
}
