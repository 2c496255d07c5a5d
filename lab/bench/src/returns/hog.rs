//! The program that takes the memory away.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

use warmswap_sys::session::{Session, SessionError};
use warmswap_sys::undo::{Action, Pending, Undo};
use warmswap_sys::{FileError, file, monotonic_ns};

use super::options::HogKind;
use crate::BenchError;

const SCRIPT: &str = include_str!("hog.py");

/// How much it takes, and how much work it does then.
#[derive(Debug, Clone, Copy)]
pub struct HogSize {
    pub kind: HogKind,
    pub bytes: u64,
    /// How long it works about; none for one that stays.
    pub length_ms: Option<u64>,
}

impl HogSize {
    /// As many rounds as that takes about, so that every arm's hog does the same; -1 for one that stays.
    fn rounds(self) -> i64 {
        let round_ms = match self.kind {
            HogKind::Anonymous => 500,
            HogKind::Files | HogKind::Compiler => 10_000,
        };
        self.length_ms.map_or(-1, |ms| (ms / round_ms) as i64)
    }
}

/// A hog that runs. Dropping it ends it and removes its files.
#[derive(Debug)]
pub struct Hog {
    begin_ns: u64,
    stdout: BufReader<ChildStdout>,
    // Dropped in this order: first its processes end, then their folder goes.
    session: Session,
    folder: PathBuf,
    _pending: Pending,
}

impl Hog {
    /// Starts one, where the calling thread is limited.
    pub fn start(undo: &Undo, temporary: &Path, size: HogSize) -> Result<Self, BenchError> {
        let name = format!("{}hog-{}", Action::FOLDER_PREFIX, std::process::id());
        let folder = temporary.join(name);
        if size.kind == HogKind::Files && is_in_memory(temporary) {
            let folder = temporary.display();
            let said = format!("{folder} is in memory, where copies are no page cache: set TMPDIR");
            return Err(BenchError::Hog { said });
        }
        let pending = undo.register(Action::RemoveFolder {
            path: folder.clone(),
        })?;
        std::fs::create_dir(&folder).map_err(|e| FileError::new("make", &folder, e))?;
        let said = folder.join("said");
        let stderr = std::fs::File::create(&said).map_err(|e| FileError::new("make", &said, e))?;
        let mut command = Command::new("python3");
        command
            .args(["-c", SCRIPT, size.kind.name()])
            .args([size.bytes.to_string(), size.rounds().to_string()])
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr);
        let begin_ns = monotonic_ns();
        let mut session = Session::start(undo, &mut command).map_err(|error| match error {
            SessionError::Start(source) => BenchError::Hog {
                said: format!("python3 cannot be started: {source}"),
            },
            SessionError::File(error) => error.into(),
            SessionError::Undo(error) => error.into(),
        })?;
        let stdout = session.child().stdout.take().expect("a piped stdout");
        Ok(Self {
            begin_ns,
            stdout: BufReader::new(stdout),
            session,
            folder,
            _pending: pending,
        })
    }

    /// Waits until it has taken all that it wants; how long that took, in nanoseconds.
    pub fn wait_until_full(&mut self) -> Result<u64, BenchError> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line) {
            Ok(_) if line == "full\n" => Ok(monotonic_ns() - self.begin_ns),
            _ => Err(self.failure()),
        }
    }

    /// Waits until it ends; what it wrote stays.
    pub fn wait_until_ended(&mut self) -> Result<(), BenchError> {
        let _ = self.stdout.read_to_end(&mut Vec::new());
        match self.session.child().wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// What it said last, else how it ended; it is about to.
    fn failure(&mut self) -> BenchError {
        let text = file::read(&self.folder.join("said")).unwrap_or_default();
        let status = || match self.session.child().wait() {
            Ok(status) => format!("it said nothing: {status}"),
            Err(error) => format!("it said nothing, and cannot be waited for: {error}"),
        };
        let last = text.lines().last().map(str::to_owned);
        BenchError::Hog {
            said: last.unwrap_or_else(status),
        }
    }
}

/// Whether files of the folder are memory (`tmpfs`).
fn is_in_memory(folder: &Path) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|of| of.f_type == TMPFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_sys::Root;

    /// Starts a hog of 32 MiB that ends once it has them, in a folder of its own.
    fn start(kind: HogKind) -> Result<(tempfile::TempDir, Hog), BenchError> {
        let dir = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Root::machine(), &dir.path().join("state")).unwrap();
        let size = HogSize {
            kind,
            bytes: 32 << 20,
            length_ms: Some(0),
        };
        let hog = Hog::start(&undo, dir.path(), size)?;
        Ok((dir, hog))
    }

    #[test]
    fn every_kind_takes_memory_and_leaves_nothing() {
        for (kind, program) in [
            (HogKind::Anonymous, "python3"),
            (HogKind::Files, "python3"),
            (HogKind::Compiler, "cc"),
        ] {
            if Command::new(program).arg("--version").output().is_err() {
                warmswap_testkit::skip!("every_kind_takes_memory", "{program} is not installed");
            }
            let (dir, mut hog) = start(kind).unwrap();
            assert!(hog.wait_until_full().unwrap() > 0);
            hog.wait_until_ended().unwrap();
            drop(hog);
            let left = std::fs::read_dir(dir.path()).unwrap().flatten();
            let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
            assert_eq!(left, ["state"]);
        }
    }

    #[test]
    fn a_hog_does_as_much_work_in_every_arm() {
        let rounds = |kind, length_ms| {
            let bytes = 1;
            HogSize {
                kind,
                bytes,
                length_ms,
            }
            .rounds()
        };
        assert_eq!(rounds(HogKind::Anonymous, Some(20_000)), 40);
        assert_eq!(rounds(HogKind::Compiler, Some(20_000)), 2);
        assert_eq!(rounds(HogKind::Files, Some(2000)), 0);
        assert_eq!(rounds(HogKind::Files, None), -1);
    }

    #[test]
    fn copies_in_memory_are_refused() {
        if !is_in_memory(Path::new("/dev/shm")) {
            warmswap_testkit::skip!("copies_in_memory_are_refused", "/dev/shm is no tmpfs");
        }
        let dir = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Root::machine(), &dir.path().join("state")).unwrap();
        let size = HogSize {
            kind: HogKind::Files,
            bytes: 1,
            length_ms: Some(0),
        };
        let error = Hog::start(&undo, Path::new("/dev/shm"), size).unwrap_err();
        assert!(error.to_string().ends_with("set TMPDIR"), "{error}");
    }

    #[test]
    fn a_hog_that_is_killed_is_an_error() {
        let Ok((_dir, mut hog)) = start(HogKind::Anonymous) else {
            warmswap_testkit::skip!("a_hog_that_is_killed_is_an_error", "no python3");
        };
        hog.session.child().kill().unwrap();
        let error = hog.wait_until_ended().unwrap_err();
        assert!(
            error.to_string().ends_with("signal: 9 (SIGKILL)"),
            "{error}"
        );
    }
}
