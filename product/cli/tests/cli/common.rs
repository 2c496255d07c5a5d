//! The command under test.

use serde_json::Value;
use std::ffi::OsStr;
pub use warmswap_testkit::cli::{Ran, assert_misused, folder, text};

warmswap_testkit::command_under_test!(warmswap, "warmswap", env!("CARGO_BIN_EXE_warmswap"));

/// See [`Program::json`](warmswap_testkit::cli::Program::json).
#[track_caller]
pub fn json<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(schema: &str, args: I) -> Value {
    PROGRAM.json(schema, args)
}
