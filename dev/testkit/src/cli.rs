//! Running a command, and judging what it says.

use crate::schema::assert_described;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A command under test.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What its messages begin with.
    pub name: &'static str,
    /// Its file.
    pub path: &'static str,
}

/// The trace that is shipped.
#[must_use]
pub fn shipped_trace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/mixed.wst")
}

/// The same as an argument.
#[must_use]
pub fn trace() -> String {
    text(&shipped_trace()).to_owned()
}

/// A path as an argument.
///
/// # Panics
/// When it is not UTF-8.
#[must_use]
pub fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

/// A folder that goes when it is dropped.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
        }
    }
}

impl Program {
    /// The command, not yet run.
    pub fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Command {
        let mut command = Command::new(self.path);
        command.args(args);
        command
    }

    /// Runs the command to its end.
    ///
    /// # Panics
    /// When it does not start.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Ran {
        let output = self.command(args).output();
        output.expect("the command starts").into()
    }

    /// Runs the command; it succeeds, and says nothing on standard error.
    ///
    /// # Panics
    /// When it does otherwise.
    #[track_caller]
    pub fn succeed<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> String {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    }

    /// Runs the command with `--json -`, checks the envelope, and gives the data.
    ///
    /// # Panics
    /// When it fails, or the envelope is not as it should be.
    #[track_caller]
    pub fn json<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, schema: &str, args: I) -> Value {
        let mut command = self.command(args);
        command.args(["--json", "-"]);
        let ran = Ran::from(command.output().expect("the command starts"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let mut envelope: Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
        assert_described(&envelope);
        assert_eq!(envelope["schema"], schema);
        let version = match schema {
            "warmswap.compare" | "warmswap.replay" => 2,
            _ => 1,
        };
        assert_eq!(envelope["schema_version"], version);
        assert_eq!(envelope["warmswap"], env!("CARGO_PKG_VERSION"));
        assert!(envelope["machine"]["cores"].as_u64() > Some(0));
        assert!(envelope["machine"]["memory_bytes"].as_u64() > Some(0));
        let given: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|arg| Value::from(arg.to_str().expect("arguments are UTF-8")))
            .collect();
        assert_eq!(envelope["command"], Value::from(given));
        envelope["data"].take()
    }

    /// The command ended with `code`, printed nothing, and gave one line for the reason, which holds every
    /// one of `parts`.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn assert_refused(&self, ran: &Ran, code: i32, parts: &[&str]) {
        let reason = ran.stderr.as_str();
        assert!(
            reason.starts_with(&format!("{}: ", self.name)),
            "{reason:?}"
        );
        assert_eq!(reason.lines().count(), 1, "{reason:?}");
        assert_ended(ran, code, parts);
    }
}

/// The command line was none: it ended with 2, printed nothing to standard output, and clap's words for the reason hold
/// every one of `parts`.
///
/// # Panics
/// When it did not.
#[track_caller]
pub fn assert_misused(ran: &Ran, parts: &[&str]) {
    assert!(ran.stderr.starts_with("error: "), "{:?}", ran.stderr);
    assert_ended(ran, 2, parts);
}

#[track_caller]
fn assert_ended(ran: &Ran, code: i32, parts: &[&str]) {
    let reason = ran.stderr.as_str();
    assert_eq!(ran.code, Some(code), "{reason}");
    assert_eq!(ran.stdout, "", "standard output");
    for part in parts {
        assert!(reason.contains(part), "no {part:?} in {reason:?}");
    }
}

/// Functions of a command under test, as its tests call them: `COMMAND` (the command, not yet run), `run`, `succeed` and
/// `assert_refused`; see [`Program`].
#[macro_export]
macro_rules! command_under_test {
    ($command:ident, $name:literal, $path:expr) => {
        const PROGRAM: $crate::cli::Program = $crate::cli::Program {
            name: $name,
            path: $path,
        };

        pub fn $command<I, S>(args: I) -> ::std::process::Command
        where
            I: IntoIterator<Item = S>,
            S: AsRef<::std::ffi::OsStr>,
        {
            PROGRAM.command(args)
        }

        pub fn run<I, S>(args: I) -> $crate::cli::Ran
        where
            I: IntoIterator<Item = S>,
            S: AsRef<::std::ffi::OsStr>,
        {
            PROGRAM.run(args)
        }

        #[track_caller]
        pub fn succeed<I, S>(args: I) -> String
        where
            I: IntoIterator<Item = S>,
            S: AsRef<::std::ffi::OsStr>,
        {
            PROGRAM.succeed(args)
        }

        #[track_caller]
        pub fn assert_refused(ran: &$crate::cli::Ran, code: i32, parts: &[&str]) {
            PROGRAM.assert_refused(ran, code, parts);
        }
    };
}
