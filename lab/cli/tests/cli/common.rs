//! The command under test.

use serde_json::Value;
use std::ffi::OsStr;
use warmswap_results::Results;
pub use warmswap_testkit::cli::{Ran, assert_misused, folder, shipped_trace, text, trace};

warmswap_testkit::command_under_test!(lab, "warmswap-lab", env!("CARGO_BIN_EXE_warmswap-lab"));

/// See [`Program::json`](warmswap_testkit::cli::Program::json); the result is read and written once more.
#[track_caller]
pub fn json<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(schema: &str, args: I) -> Value {
    let data = PROGRAM.json(schema, args);
    if let Some(again) = Results::again(schema, &data) {
        assert_eq!(again.expect("a result can be read"), data);
    }
    data
}
