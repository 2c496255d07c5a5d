//! An application that runs.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use warmswap_sys::memcg::Memcg;
use warmswap_sys::session::{Session, SessionError};
use warmswap_sys::undo::{Action, Pending, Undo};
use warmswap_sys::{FileError, Root, monotonic_ns, tree};

use crate::check::{FIXED_PATH, check, find_program};
use crate::error::AppError;
use crate::furnish::furnish;
use crate::pipe::{Line, LineReader};
use crate::spec::{AppSpec, Folders, Measured, Size};

/// Where applications find and put their files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// Folder of installed needs, made by `apps/install`.
    pub cache: PathBuf,
    /// Folder in which each application gets a temporary one as its `HOME` and `TMPDIR`.
    pub temporary: PathBuf,
}

impl Default for Directories {
    /// `$XDG_CACHE_HOME/warmswap` (or `~/.cache/warmswap`) and the system's temporary folder.
    fn default() -> Self {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map_or_else(home, PathBuf::from)
            .join("warmswap");
        Self {
            cache,
            temporary: std::env::temp_dir(),
        }
    }
}

/// What a person asks of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Come back to the foreground and show the first answer.
    Relaunch,
    /// Be used.
    Use,
}

impl Request {
    const fn word(self) -> &'static str {
        match self {
            Self::Relaunch => "relaunch",
            Self::Use => "use",
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// From the request's line to the answer's, in nanoseconds.
    pub latency_ns: u64,
    /// The answer's digest.
    pub digest: String,
}

/// A started application. Dropping it ends all its processes.
#[derive(Debug)]
pub struct RunningApp {
    spec: AppSpec,
    root: Root,
    stdin: Option<ChildStdin>,
    lines: LineReader<ChildStdout>,
    home: PathBuf,
    // Dropped in this order: first the processes end, then their folder goes.
    session: Session,
    folder: Option<Pending>,
}

impl RunningApp {
    /// Starts the application in a session of its own and waits until it is ready.
    ///
    /// Its environment is `PATH`, `HOME` and `TMPDIR` (a temporary folder), `LANG`, `TZ` and what the
    /// definition adds; address randomisation is left as the machine has it.
    ///
    /// # Errors
    /// [`AppError`]; nothing is left running.
    pub fn start(
        spec: &AppSpec,
        size: Size,
        directories: &Directories,
        undo: &Undo,
    ) -> Result<Self, AppError> {
        Self::start_with(spec, size, directories, undo, |_| Vec::new())
    }

    /// The same, with further environment variables: those that `environment` makes of the application's folder.
    ///
    /// # Errors
    /// [`AppError`]; nothing is left running.
    pub fn start_with(
        spec: &AppSpec,
        size: Size,
        directories: &Directories,
        undo: &Undo,
        environment: impl FnOnce(&Path) -> Vec<(String, OsString)>,
    ) -> Result<Self, AppError> {
        Self::prepared(spec, size, directories, undo, |home, command| {
            command.envs(environment(home));
            Ok(())
        })
    }

    /// As [`Self::start`], in a control group: all memory of its processes is charged to that.
    ///
    /// # Errors
    /// [`AppError`]; nothing is left running.
    pub fn start_in(
        group: &Memcg,
        spec: &AppSpec,
        size: Size,
        directories: &Directories,
        undo: &Undo,
    ) -> Result<Self, AppError> {
        Self::prepared(spec, size, directories, undo, |_, command| {
            group.start_here(command)
        })
    }

    fn prepared(
        spec: &AppSpec,
        size: Size,
        directories: &Directories,
        undo: &Undo,
        prepare: impl FnOnce(&Path, &mut Command) -> Result<(), FileError>,
    ) -> Result<Self, AppError> {
        if let Some(missing) = check(spec, &directories.cache) {
            return Err(AppError::Needs {
                app: spec.name.clone(),
                missing,
            });
        }
        let home = directories.temporary.join(folder_name(&spec.name));
        let folder = undo.register(Action::RemoveFolder { path: home.clone() })?;
        std::fs::create_dir(&home).map_err(|e| FileError::new("make", &home, e))?;
        let folders = furnish(spec, &directories.cache, &home)?;
        let (mut command, program) = build_command(spec, size, &folders, &home)?;
        prepare(&home, &mut command)?;
        let stderr = stderr_in(&home);
        let stderr_file = File::create(&stderr).map_err(|e| FileError::new("make", &stderr, e))?;
        let mut session =
            Session::start(undo, command.stderr(stderr_file)).map_err(|error| match error {
                SessionError::Start(source) => AppError::Start {
                    app: spec.name.clone(),
                    program,
                    source,
                },
                SessionError::File(error) => error.into(),
                SessionError::Undo(error) => error.into(),
            })?;
        let stdin = session.child().stdin.take();
        let lines = LineReader::new(session.child().stdout.take().expect("a piped stdout"));
        let mut app = Self {
            spec: spec.clone(),
            root: Root::machine(),
            stdin,
            lines,
            home,
            session,
            folder: Some(folder),
        };
        let answer = app.read_line("start", spec.start.ready_limit_s)?;
        if answer != "ready" {
            return Err(app.unexpected("start", answer));
        }
        Ok(app)
    }

    /// Its definition.
    #[must_use]
    pub fn spec(&self) -> &AppSpec {
        &self.spec
    }

    /// The process that was started: the application, or the driver that speaks to it.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.session.pid()
    }

    /// Its folder: working folder, `HOME` and `TMPDIR`. It goes with the application.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.home
    }

    /// What it wrote to standard error so far.
    #[must_use]
    pub fn said(&self) -> String {
        warmswap_sys::file::read(&stderr_in(&self.home)).unwrap_or_default()
    }

    /// Asks for something and waits for the answer.
    ///
    /// # Errors
    /// [`AppError::Late`], [`AppError::Ended`], [`AppError::Answer`], [`AppError::Pipe`]. After the first
    /// of them, answers may no longer belong to their requests: end the application.
    pub fn request(&mut self, request: Request, seed: u64) -> Result<Response, AppError> {
        let line = format!("{} {seed}\n", request.word());
        let begin = monotonic_ns();
        let stdin = self
            .stdin
            .as_mut()
            .expect("open until the application is stopped");
        if let Err(source) = stdin.write_all(line.as_bytes()) {
            return Err(match source.kind() {
                std::io::ErrorKind::BrokenPipe => self.ended(),
                _ => AppError::Pipe {
                    app: self.spec.name.clone(),
                    source,
                },
            });
        }
        let answer = self.read_line(line.trim_end(), self.spec.requests.limit_s)?;
        let latency_ns = monotonic_ns() - begin;
        match answer.strip_prefix("done ") {
            Some(digest) => Ok(Response {
                latency_ns,
                digest: digest.to_owned(),
            }),
            None => Err(self.unexpected(line.trim_end(), answer)),
        }
    }

    /// The processes whose memory is the application's, parents first.
    ///
    /// # Errors
    /// [`FileError`] when `/proc` cannot be listed.
    pub fn pids(&self) -> Result<Vec<u32>, FileError> {
        let family = tree::descendants(&self.root, self.process())?;
        let driver = self.process();
        let wanted = |pid: &u32| self.spec.start.measured == Measured::Tree || *pid != driver;
        Ok(family.into_iter().map(|s| s.pid).filter(wanted).collect())
    }

    /// Ends all its processes and removes its folder.
    ///
    /// # Errors
    /// [`AppError::Undo`]; the next run tries again.
    pub fn stop(mut self) -> Result<(), AppError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), AppError> {
        // A closed input asks the driver to end; whatever does not is killed.
        drop(self.stdin.take());
        let ended = self.session.end();
        let removed = self.folder.take().map_or(Ok(()), Pending::finish);
        Ok(ended.and(removed)?)
    }

    fn read_line(&mut self, request: &str, limit_s: u32) -> Result<String, AppError> {
        match self.lines.next(Duration::from_secs(limit_s.into())) {
            Ok(Line::Text(line)) => Ok(line),
            Ok(Line::End) => Err(self.ended()),
            Ok(Line::Late) => Err(AppError::Late {
                app: self.spec.name.clone(),
                request: request.to_owned(),
                limit_s,
            }),
            Err(source) => Err(AppError::Pipe {
                app: self.spec.name.clone(),
                source,
            }),
        }
    }

    fn ended(&self) -> AppError {
        let text = self.said();
        let lines: Vec<&str> = text.lines().collect();
        let stderr = lines[lines.len().saturating_sub(8)..].join("\n");
        AppError::Ended {
            app: self.spec.name.clone(),
            stderr,
        }
    }

    fn unexpected(&self, request: &str, answer: String) -> AppError {
        AppError::Answer {
            app: self.spec.name.clone(),
            request: request.to_owned(),
            answer,
        }
    }
}

impl Drop for RunningApp {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Where an application with this folder writes its standard error.
fn stderr_in(home: &Path) -> PathBuf {
    home.join("stderr")
}

/// A name that no other application of this or another run has.
fn folder_name(app: &str) -> String {
    static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let serial = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!(
        "{}{app}-{}-{serial}",
        Action::FOLDER_PREFIX,
        std::process::id()
    )
}

fn build_command(
    spec: &AppSpec,
    size: Size,
    folders: &Folders,
    home: &Path,
) -> Result<(Command, String), AppError> {
    let words = spec.command(size, folders);
    let program = words[0].clone();
    let Some(path) = find_program(&program) else {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(AppError::Start {
            app: spec.name.clone(),
            program,
            source,
        });
    };
    let mut search = FIXED_PATH.to_owned();
    if let Some(folder) = path
        .parent()
        .and_then(Path::to_str)
        .filter(|f| !FIXED_PATH.split(':').any(|p| p == *f))
    {
        search = format!("{search}:{folder}");
    }
    let mut command = Command::new(&path);
    command
        .arg0(&program)
        .args(&words[1..])
        .env_clear()
        .env("PATH", search)
        .env("HOME", home)
        .env("TMPDIR", home)
        .env("LANG", "C.UTF-8")
        .env("TZ", "UTC")
        .envs(&spec.start.environment)
        .current_dir(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Ok((command, program))
}

#[cfg(test)]
#[path = "running/tests.rs"]
mod tests;
