//! The daemon as shipped, as a process of its own: `warmswap daemon` with its default configuration, but for where its
//! socket and its learned tables are.
//!
//! Where it is told, it hears of launches and switches over its control socket, as from `warmswap launch` and `warmswap
//! switch`; else it finds applications and activity by itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize as _;
use serde::de::value::MapDeserializer;
use warmswap_apps::RunningApp;
use warmswap_kernel::{Counters, HostConfig, HostStatus};
use warmswap_protocol::{AppEvent, Client, ClientError, Request};
use warmswap_sys::cpu_time::CpuClock;
use warmswap_sys::session::{Session, SessionError};
use warmswap_sys::undo::{Action, Pending, Undo};
use warmswap_sys::{FileError, file};

use crate::BenchError;

/// How long the daemon has to come up, and for an answer: it may be paging out.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks whether it is up, or has ended.
const INTERVAL: Duration = Duration::from_millis(10);

/// A daemon that runs. Dropping it ends it.
#[derive(Debug)]
pub struct DaemonProcess {
    socket: PathBuf,
    clock: CpuClock,
    teller: Option<Teller>,
    // Dropped in this order: first its processes end, then their folder goes.
    _session: Session,
    _folder: Pending,
}

impl DaemonProcess {
    /// Starts `command` as a daemon whose files are in a new folder below `temporary`, and waits until it answers. If it
    /// `is_told`, it hears of launches and switches. `host` says whether it brings pages back and reads ahead.
    pub fn start(
        undo: &Undo,
        command: &Path,
        temporary: &Path,
        is_told: bool,
        host: &HostConfig,
    ) -> Result<Self, BenchError> {
        let folder = temporary.join(format!("warmswap-daemon-{}", std::process::id()));
        let pending = undo.register(Action::RemoveFolder {
            path: folder.clone(),
        })?;
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| BenchError::from(FileError::new(action, &path, source))
        };
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.mode(0o700).create(&folder);
        made.map_err(failed("make", &folder))?;
        let config = folder.join("warmswap.toml");
        let text = configuration(&folder, host);
        std::fs::write(&config, text).map_err(failed("write", &config))?;
        let said = folder.join("said");
        let stderr = File::create(&said).map_err(failed("make", &said))?;
        let mut daemon = Command::new(command);
        daemon
            .arg("daemon")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        let mut session = Session::start(undo, &mut daemon).map_err(|error| match error {
            SessionError::Start(source) => failed("start", command)(source),
            SessionError::File(error) => error.into(),
            SessionError::Undo(error) => error.into(),
        })?;
        let socket = folder.join("daemon.sock");
        let clock = wait_until_up(&mut session, &socket, &said)?;
        Ok(Self {
            clock,
            teller: is_told.then(|| Teller::start(socket.clone())),
            socket,
            _session: session,
            _folder: pending,
        })
    }

    /// An application was started; `at` is the number under which its switches are told.
    pub fn launched(&self, at: usize, app: &RunningApp) -> Result<(), BenchError> {
        let Some(teller) = &self.teller else {
            return Ok(());
        };
        let name = app.spec().name.clone();
        let request = Request::App {
            name: name.clone(),
            event: AppEvent::Launch { pid: app.process() },
        };
        self.connect()?.tell(&request)?;
        teller.names.lock().insert(at, name);
        Ok(())
    }

    /// An application comes to the foreground. Does not wait: the application does not either.
    pub fn switch(&self, app: usize) {
        if let Some(teller) = &self.teller {
            teller.switch(app);
        }
    }

    /// What its host did so far; its CPU time covers the whole process.
    ///
    /// # Errors
    /// [`BenchError::Control`], also when a switch before was not heard.
    pub fn status(&self) -> Result<HostStatus, BenchError> {
        if let Some(error) = self.teller.as_ref().and_then(|t| t.failed.lock().take()) {
            return Err(error.into());
        }
        let status = self.connect()?.daemon()?;
        Ok(HostStatus {
            counters: Counters {
                host_cpu_ns: self.clock.read_ns().unwrap_or_default(),
                bring_cpu_ns: 0,
                ..counters(&status.counters)
            },
            ..HostStatus::default()
        })
    }

    fn connect(&self) -> Result<Client, BenchError> {
        Ok(Client::connect(&self.socket, PATIENCE)?)
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        // Its session is ended, not asked: settings of the kernel that it changed are set back along with the arm's own, and
        // what it learned is not kept.
        drop(self.teller.take());
    }
}

/// Its configuration: defaults, in its own folder.
fn configuration(folder: &Path, host: &HostConfig) -> String {
    let folder = folder.display();
    let mut keys = String::new();
    for (key, is_default) in [("bring-back", host.bring_back), ("prefetch", host.prefetch)] {
        if !is_default {
            keys += &format!("{key} = false\n");
        }
    }
    format!(
        "[host]\n{keys}[daemon]\nsocket = \"{folder}/daemon.sock\"\nstate-folder = \"{folder}/learned\"\n"
    )
}

/// Waits for its first answer; its clock.
fn wait_until_up(
    session: &mut Session,
    socket: &Path,
    said: &Path,
) -> Result<CpuClock, BenchError> {
    let what_it_said = || {
        let text = file::read(said).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        BenchError::Daemon {
            said: lines[lines.len().saturating_sub(4)..].join("; "),
        }
    };
    let begin = Instant::now();
    loop {
        let is_up = Client::connect(socket, PATIENCE).and_then(|mut client| client.daemon());
        if is_up.is_ok() {
            return CpuClock::of_process(session.pid()).ok_or_else(what_it_said);
        }
        let has_ended = session
            .child()
            .try_wait()
            .is_ok_and(|status| status.is_some());
        if has_ended || begin.elapsed() > PATIENCE {
            return Err(what_it_said());
        }
        std::thread::sleep(INTERVAL);
    }
}

/// The host's counters by their names; those that this version does not know are left out.
fn counters(told: &BTreeMap<String, u64>) -> Counters {
    let fields = told.iter().map(|(name, &count)| (name.as_str(), count));
    let fields: MapDeserializer<'_, _, serde::de::value::Error> = MapDeserializer::new(fields);
    // Numbers under names are such counters, whatever they count.
    Counters::deserialize(fields).unwrap_or_default()
}

/// The thread that tells of switches.
#[derive(Debug)]
struct Teller {
    switches: Option<Sender<usize>>,
    names: Arc<Mutex<BTreeMap<usize, String>>>,
    /// The first switch that was not heard.
    failed: Arc<Mutex<Option<ClientError>>>,
    thread: Option<JoinHandle<()>>,
}

impl Teller {
    fn start(socket: PathBuf) -> Self {
        let (switches, receiver) = channel();
        let names = Arc::new(Mutex::new(BTreeMap::new()));
        let failed = Arc::new(Mutex::new(None));
        let thread = {
            let (names, failed) = (Arc::clone(&names), Arc::clone(&failed));
            std::thread::spawn(move || tell(&socket, &receiver, &names, &failed))
        };
        Self {
            switches: Some(switches),
            names,
            failed,
            thread: Some(thread),
        }
    }

    fn switch(&self, app: usize) {
        if let Some(switches) = &self.switches {
            // The thread lives as long as the sender.
            let _ = switches.send(app);
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        drop(self.switches.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tell(
    socket: &Path,
    switches: &Receiver<usize>,
    names: &Mutex<BTreeMap<usize, String>>,
    failed: &Mutex<Option<ClientError>>,
) {
    while let Ok(app) = switches.recv() {
        let Some(name) = names.lock().get(&app).cloned() else {
            continue;
        };
        let event = AppEvent::Switch;
        let request = Request::App { name, event };
        // A connection each, as the command makes one.
        let told = Client::connect(socket, PATIENCE).and_then(|mut client| client.tell(&request));
        if let Err(error) = told {
            failed.lock().get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use warmswap_sys::Root;

    #[test]
    fn counters_are_known_by_their_names() {
        let told = [
            ("brought_pages", 7),
            ("used_pages", 3),
            ("of_a_later_version", 9),
        ];
        let told = told.map(|(name, count)| (name.to_owned(), count)).into();
        let expected = Counters {
            brought_pages: 7,
            used_pages: 3,
            ..Counters::default()
        };
        assert_eq!(counters(&told), expected);
    }

    #[test]
    fn a_command_that_is_no_daemon_is_told_by_what_it_says_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Root::machine(), &dir.path().join("state")).unwrap();
        let command = dir.path().join("command");
        std::fs::write(&command, "#!/bin/sh\necho no such $1 >&2\n").unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&command, executable).unwrap();

        let error = DaemonProcess::start(&undo, &command, dir.path(), true, &HostConfig::default())
            .unwrap_err();

        assert!(error.to_string().ends_with("no such daemon"), "{error}");
        assert!(
            std::fs::read_dir(dir.path())
                .unwrap()
                .flatten()
                .all(|entry| !entry.file_name().to_string_lossy().starts_with("warmswap-"))
        );
    }
}
