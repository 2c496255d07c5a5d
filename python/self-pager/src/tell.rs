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
    app: Option<String>,
    /// The daemon leaves this process's pages to it.
    is_left: bool,
    /// It knows the application.
    is_known: bool,
    silent_until: Option<Instant>,
    told: Told,
}

impl Teller {
    /// Speaks as the application `app` over `socket`. Without one the daemon hears no more than that this process pages itself:
    /// it knows by itself when the process comes and goes.
    #[must_use]
    pub fn new(socket: &Path, app: Option<&str>) -> Self {
        Self {
            socket: socket.to_owned(),
            app: app.map(str::to_owned),
            is_left: false,
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
                self.is_left = false;
                self.is_known = false;
                Told::Absent
            }
            Err(error) => {
                self.is_left = false;
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
        let pid = std::process::id();
        if !self.is_left {
            client.tell(&Request::PagesItself { pid })?;
            self.is_left = true;
        }
        let Some(app) = &self.app else {
            return Ok(());
        };
        let request = |event| Request::App {
            name: app.clone(),
            event,
        };
        if !self.is_known {
            if event == AppEvent::Background {
                // What is launched comes to the foreground, and another application would have to leave it.
                return Ok(());
            }
            client.tell(&request(AppEvent::Launch { pid }))?;
        }
        match client.tell(&request(event)) {
            // A daemon that was started anew knows this process no more.
            Err(ClientError::Refused { .. }) if self.is_known => {
                self.is_left = false;
                self.is_known = false;
                self.try_tell(event)
            }
            other => {
                self.is_known = other.is_ok();
                other
            }
        }
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
    fn a_daemon_is_told_which_process_it_is_and_of_a_launch_when_it_comes_to_the_foreground() {
        let path = socket();
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = std::thread::spawn(move || {
            let mut lines = Vec::new();
            for requests in [1, 2, 1] {
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
        let mut teller = Teller::new(&path, Some("notebook"));
        for event in [AppEvent::Background, AppEvent::Switch, AppEvent::Background] {
            teller.tell(event);
            assert_eq!(*teller.told(), Told::Heard);
        }
        let lines = daemon.join().unwrap();
        let _ = std::fs::remove_file(&path);
        let pid = std::process::id();
        let said = [
            format!("{{\"pages_itself\":{{\"pid\":{pid}}}}}"),
            format!("{{\"launch\":{{\"pid\":{pid}}}}}"),
            "\"switch\"".to_owned(),
            "\"background\"".to_owned(),
        ];
        for (line, part) in lines.iter().zip(&said) {
            assert!(line.contains(part), "{line} {part}");
        }
    }

    #[test]
    fn without_a_daemon_nothing_is_wrong() {
        let mut teller = Teller::new(Path::new("/nonexistent/daemon.sock"), Some("x"));
        teller.tell(AppEvent::Background);
        assert_eq!(*teller.told(), Told::Absent);
    }

    #[test]
    fn a_daemon_that_hangs_is_left_alone_afterwards() {
        let path = socket();
        let _listener = UnixListener::bind(&path).unwrap();
        let mut teller = Teller::new(&path, Some("x"));
        teller.tell(AppEvent::Background);
        assert!(matches!(teller.told(), Told::Failed(why) if why.contains("no answer")));
        assert!(teller.silent_until.is_some());
        let _ = std::fs::remove_file(&path);
    }
}
