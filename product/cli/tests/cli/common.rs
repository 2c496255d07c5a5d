//! Running the command, and judging what it says.

use crate::schema::assert_described;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The trace that is shipped.
pub fn shipped_trace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/mixed.wst")
}

/// The same as an argument.
pub fn trace() -> String {
    text(&shipped_trace()).to_owned()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

/// A folder that goes when it is dropped.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// The command, not yet run.
pub fn warmswap<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warmswap"));
    command.args(args);
    command
}

/// How a run ended.
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

/// Runs the command to its end.
pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Ran {
    let output = warmswap(args).output();
    output.expect("the command starts").into()
}

/// Runs the command; it succeeds, and says nothing on standard error.
#[track_caller]
pub fn succeed<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> String {
    let ran = run(args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    ran.stdout
}

/// Runs the command with `--json -`, checks the envelope, and gives the data.
#[track_caller]
pub fn json<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(schema: &str, args: I) -> Value {
    let mut command = warmswap(args);
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
#[track_caller]
pub fn assert_refused(ran: &Ran, code: i32, parts: &[&str]) {
    let reason = ran.stderr.as_str();
    assert_eq!(ran.code, Some(code), "{reason}");
    assert_eq!(ran.stdout, "", "standard output");
    assert!(reason.starts_with("warmswap: "), "{reason:?}");
    assert_eq!(reason.lines().count(), 1, "{reason:?}");
    for part in parts {
        assert!(reason.contains(part), "no {part:?} in {reason:?}");
    }
}
