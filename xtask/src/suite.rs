//! `cargo xtask test`: all checks and tests, one after the other, and what came of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::summary::{Tally, TestOutput};
use crate::{book, fuzz, layers, python, stream};

/// One part of the suite, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Fmt,
    Spelling,
    Clippy,
    Layers,
    Licences,
    Doc,
    Book,
    Tests,
    Python,
    Fuzz,
}

const ALL: [Step; 10] = [
    Step::Fmt,
    Step::Spelling,
    Step::Clippy,
    Step::Layers,
    Step::Licences,
    Step::Doc,
    Step::Book,
    Step::Tests,
    Step::Python,
    Step::Fuzz,
];

/// Tests that the summary names as the slowest.
const SLOWEST: usize = 10;

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Spelling => "spelling",
            Self::Clippy => "clippy",
            Self::Layers => "layers",
            Self::Licences => "licences",
            Self::Doc => "doc",
            Self::Book => "book",
            Self::Tests => "tests",
            Self::Python => "python",
            Self::Fuzz => "fuzz",
        }
    }

    fn run(self, root: &Path) -> Result<Tally> {
        let passed = match self {
            Self::Fmt => cargo_passes(root, &["fmt", "--all", "--check"], &[])?,
            Self::Spelling => tool_passes(root, "typos", &[])?,
            Self::Clippy => {
                let args = [
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--",
                    "-D",
                    "warnings",
                ];
                cargo_passes(root, &args, &[])?
            }
            Self::Layers => layers::check(root)?,
            Self::Licences => {
                let args = ["--locked", "check", "licenses", "bans", "sources"];
                tool_passes(root, "cargo-deny", &args)?
            }
            Self::Doc => {
                let strict = [("RUSTDOCFLAGS", "-D warnings")];
                cargo_passes(root, &["doc", "--workspace", "--no-deps"], &strict)?
            }
            Self::Book => return book::step(root),
            Self::Tests => return tests(root),
            Self::Python => return python::run(root),
            Self::Fuzz => return fuzz::run(root),
        };
        Ok(Tally::check(self.name(), passed))
    }
}

/// Runs the steps named, or all of them, and prints the summary; `Ok(false)` when anything failed.
///
/// A step that fails does not stop the later ones. The last line is
/// `N passed, M failed, K skipped`.
///
/// # Errors
/// When a step is unknown.
pub fn run(root: &Path, names: &[&str]) -> Result<bool> {
    let steps = choose(names)?;
    let mut total = Tally::default();
    let mut report = Vec::new();
    for step in steps {
        println!("\n== {}", step.name());
        let start = Instant::now();
        let tally = step.run(root).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Tally::check(&format!("{}: {error:#}", step.name()), false)
        });
        let seconds = start.elapsed().as_secs_f64();
        let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
        report.push(format!(
            "{:<9} {verdict:<7} {seconds:>6.1} s   {}",
            step.name(),
            tally.line()
        ));
        total.add(tally);
    }
    if std::env::var_os("WARMSWAP_NO_SKIP").is_some_and(|value| value == "1") {
        total.forbid_skips();
    }
    println!("\n== summary");
    for line in report {
        println!("{line}");
    }
    for (time, name) in total.slowest(SLOWEST) {
        println!("slow: {:>6.1} s  {name}", time.as_secs_f64());
    }
    for name in &total.failures {
        println!("failed: {name}");
    }
    for skip in &total.skips {
        println!("skipped: {}: {}", skip.name, skip.reason);
    }
    println!("{}", total.line());
    Ok(total.failed == 0)
}

fn choose(names: &[&str]) -> Result<Vec<Step>> {
    if names.is_empty() {
        return Ok(ALL.to_vec());
    }
    for name in names {
        if !ALL.iter().any(|step| step.name() == *name) {
            let known = ALL.map(Step::name).join(" ");
            bail!("unknown step: {name} (known: {known})");
        }
    }
    Ok(ALL
        .into_iter()
        .filter(|step| names.contains(&step.name()))
        .collect())
}

/// A `cargo` command at the root of the workspace.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn cargo_passes(root: &Path, args: &[&str], environment: &[(&str, &str)]) -> Result<bool> {
    let mut command = cargo(root);
    command.args(args).envs(environment.iter().copied());
    Ok(stream::run(command, |_| {})?.success())
}

/// A tool that `scripts/bootstrap tools` installed, or the one in the PATH.
fn tool(root: &Path, name: &str) -> Command {
    let installed = root.join("target/tools/bin").join(name);
    let mut command = if installed.exists() {
        Command::new(installed)
    } else {
        Command::new(name)
    };
    command.current_dir(root);
    command
}

fn tool_passes(root: &Path, name: &str, args: &[&str]) -> Result<bool> {
    let mut command = tool(root, name);
    command.args(args);
    let status = stream::run(command, |_| {}).context("`scripts/bootstrap tools` installs it")?;
    Ok(status.success())
}

/// Unit, property, integration, live and documentation tests of the whole workspace.
///
/// Each test has a process of its own; `.config/nextest.toml` says which ones take turns. Nextest runs no
/// documentation tests, so cargo does.
fn tests(root: &Path) -> Result<Tally> {
    let log = SkipLog::create()?;
    let mut command = tool(root, "cargo-nextest");
    command
        .args(["nextest", "run", "--workspace", "--no-fail-fast"])
        .args(["--status-level", "all", "--no-input-handler"])
        .env("WARMSWAP_SKIPPED_LOG", &log.path);
    if let Some(library) = preload_library(root)? {
        command.env("WARMSWAP_TEST_LIBRARY", library);
    }
    let mut output = TestOutput::default();
    let status = stream::run(command, |line| output.nextest_line(line))
        .context("`scripts/bootstrap tools` installs it")?;
    let mut tally = output.finish("cargo nextest run", status.success());

    let mut command = cargo(root);
    command
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .env("WARMSWAP_SKIPPED_LOG", &log.path);
    let mut output = TestOutput::default();
    let status = stream::run(command, |line| output.doc_line(line))?;
    tally.add(output.finish("cargo test --doc", status.success()));
    tally.add_skip_log(&log.read()?);
    Ok(tally)
}

/// Builds the library that tests preload, with the features that crates have in tests. A test that builds it alone has Cargo
/// choose fewer features, and compile its dependencies again. None where it does not compile, which the tests say then.
fn preload_library(root: &Path) -> Result<Option<PathBuf>> {
    let mut build = cargo(root);
    build.args(["build", "--workspace", "--lib", "--examples"]);
    if !stream::run(build, |_| {})?.success() {
        return Ok(None);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), |folder| root.join(folder));
    let library = target.join("debug/libwarmswap_preload.so");
    // With settings of the user's own it is elsewhere.
    let is_elsewhere = ["CARGO_BUILD_TARGET", "CARGO_BUILD_TARGET_DIR"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    Ok(Some(library).filter(|library| !is_elsewhere && library.is_file()))
}

/// The file in which tests note that they were skipped; removed when dropped.
struct SkipLog {
    path: PathBuf,
}

impl SkipLog {
    fn create() -> Result<Self> {
        let path =
            std::env::temp_dir().join(format!("warmswap-skipped-{}.log", std::process::id()));
        fs::write(&path, "").with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path })
    }

    fn read(&self) -> Result<String> {
        fs::read_to_string(&self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))
    }
}

impl Drop for SkipLog {
    fn drop(&mut self) {
        // Nothing depends on the file any more, and its directory is for temporary files.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_in_their_own_order() {
        assert_eq!(choose(&[]).unwrap(), ALL);
        assert_eq!(choose(&["fuzz", "fmt"]).unwrap(), [Step::Fmt, Step::Fuzz]);
    }

    #[test]
    fn unknown_steps_are_named() {
        let error = choose(&["fmt", "fly"]).unwrap_err().to_string();
        assert!(error.contains("fly"), "{error}");
    }

    #[test]
    fn the_skip_log_is_empty_first_and_gone_afterwards() {
        let log = SkipLog::create().unwrap();
        let path = log.path.clone();
        assert_eq!(log.read().unwrap(), "");
        drop(log);
        assert!(!path.exists());
    }
}
