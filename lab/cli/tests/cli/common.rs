//! The command under test.

use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;
use warmswap_results::Results;
use warmswap_testkit::cli::Program;
pub use warmswap_testkit::cli::{Ran, assert_misused, folder, shipped_trace, text};

const PROGRAM: Program = Program {
    name: "warmswap-lab",
    path: env!("CARGO_BIN_EXE_warmswap-lab"),
};

/// The command, not yet run.
pub fn lab<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Command {
    PROGRAM.command(args)
}

/// See [`Program::run`].
pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Ran {
    PROGRAM.run(args)
}

/// See [`Program::succeed`].
#[track_caller]
pub fn succeed<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> String {
    PROGRAM.succeed(args)
}

/// See [`Program::json`]; the result is read and written once more.
#[track_caller]
pub fn json<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(schema: &str, args: I) -> Value {
    let data = PROGRAM.json(schema, args);
    if let Some(again) = Results::again(schema, &data) {
        assert_eq!(again.expect("a result can be read"), data);
    }
    data
}

/// See [`Program::assert_refused`].
#[track_caller]
pub fn assert_refused(ran: &Ran, code: i32, parts: &[&str]) {
    PROGRAM.assert_refused(ran, code, parts);
}

/// The trace that is shipped, as an argument.
pub use warmswap_testkit::cli::trace;
