//! What tests share: saying by name what was skipped and why; the library that is preloaded.
//!
//! A test that lacks something it needs (root, zram, userfaultfd, an installed program) says so
//! with [`skip!`] and returns. The line goes to standard error and, so that `scripts/test` can
//! collect it, to the file named by the environment variable `WARMSWAP_SKIPPED_LOG`.
//!
//! ```no_run
//! # fn is_root() -> bool { false }
//! fn pages_out_to_zram() {
//!     if !is_root() {
//!         warmswap_testkit::skip!("pages_out_to_zram", "needs root");
//!     }
//!     // ... the test ...
//! }
//! # pages_out_to_zram();
//! ```

pub mod book;
pub mod cli;
pub mod command_lines;
pub mod install;
pub mod schema;
pub mod shell;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Environment variable with the path of the file that collects skips.
pub const SKIPPED_LOG: &str = "WARMSWAP_SKIPPED_LOG";

/// Environment variable with the path of the library that is preloaded, if it is built already.
pub const BUILT_LIBRARY: &str = "WARMSWAP_TEST_LIBRARY";

/// Says that the test `name` is skipped, and why, and returns from the calling function.
///
/// The reason takes the arguments of `format!`. The calling function returns `()`; any other says
/// what it returns as last part: `skip!("name", "needs root"; Ok(()))`.
#[macro_export]
macro_rules! skip {
    ($name:expr, $($reason:expr),+ $(,)?) => {{
        $crate::record_skip($name, &::std::format!($($reason),+));
        return;
    }};
    ($name:expr, $($reason:expr),+; $value:expr) => {{
        $crate::record_skip($name, &::std::format!($($reason),+));
        return $value;
    }};
}

/// The same for a test of what this build of the kernel has not: no failure where a skip is one.
#[macro_export]
macro_rules! excuse {
    ($name:expr, $($reason:expr),+ $(,)?) => {{
        $crate::record_excuse($name, &::std::format!($($reason),+));
        return;
    }};
}

/// Writes `skipped: NAME: REASON` to standard error and appends it to the file named by
/// [`SKIPPED_LOG`], if set.
///
/// # Panics
/// When that file cannot be written: a skip that is not reported must not pass for a success.
pub fn record_skip(name: &str, reason: &str) {
    record(name, &line("skipped", name, reason));
}

/// The same as `excused: NAME: REASON`.
///
/// # Panics
/// As [`record_skip`].
pub fn record_excuse(name: &str, reason: &str) {
    record(name, &line("excused", name, reason));
}

fn record(name: &str, line: &str) {
    eprint!("{line}");
    if let Some(path) = std::env::var_os(SKIPPED_LOG)
        && let Err(error) = append(Path::new(&path), line)
    {
        let path = Path::new(&path).display();
        panic!("cannot note the skip of {name} in {path}: {error}");
    }
}

/// The library that is preloaded into programs: what [`BUILT_LIBRARY`] names, else the one beside the tests. Cargo makes
/// libraries that no Rust program links only when it is asked to, so the first call of a process asks.
///
/// # Panics
/// When it does not compile.
#[must_use]
pub fn preload_library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(path) = std::env::var_os(BUILT_LIBRARY) {
            let path = PathBuf::from(path);
            assert!(
                path.is_file(),
                "{BUILT_LIBRARY}: {} is missing",
                path.display()
            );
            return path;
        }
        let mut build = Command::new(env!("CARGO"));
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        build.args(["build", "--quiet", "--lib", "--package", "warmswap-preload"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let status = build.status().expect("cargo runs its own tests");
        assert!(status.success(), "the library does not compile");
        let test = std::env::current_exe().expect("a test has a file");
        let folder = test
            .ancestors()
            .nth(2)
            .expect("it is in TARGET/PROFILE/deps");
        folder.join("libwarmswap_preload.so")
    })
}

/// The line with its line break; breaks inside of the arguments become spaces.
fn line(outcome: &str, name: &str, reason: &str) -> String {
    format!("{outcome}: {name}: {reason}").replace(['\n', '\r'], " ") + "\n"
}

/// Appends in one write, so lines of concurrent test processes do not mix.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line() {
        let needs_root = line("skipped", "a", "needs root");
        assert_eq!(needs_root, "skipped: a: needs root\n");
        let two = line("excused", "a", "one\ntwo");
        assert_eq!(two, "excused: a: one two\n");
    }

    #[test]
    fn lines_are_appended() {
        let path = std::env::temp_dir().join(format!("warmswap-testkit-{}", std::process::id()));
        append(&path, &line("skipped", "a", "x")).unwrap();
        append(&path, &line("skipped", "b", "y")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "skipped: a: x\nskipped: b: y\n");
    }

    #[test]
    fn a_log_that_cannot_be_written_is_an_error() {
        assert!(append(Path::new("/nonexistent/directory/log"), "x\n").is_err());
    }
}

/// A generator of numbers; the same seed gives the same ones.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
