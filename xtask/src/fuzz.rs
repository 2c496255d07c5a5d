//! The short fuzz run: every target of `fuzz/` for some seconds, starting from its seeds.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::stream;
use crate::summary::{Skip, Tally};

/// Seconds for each target: all targets together stay below a minute. Used when `WARMSWAP_FUZZ_SECONDS` is not set.
const DEFAULT_SECONDS: u32 = 5;

/// Memory of one target in MiB; the fuzzer reports more than that as a failure.
const MEMORY_LIMIT_MIB: u32 = 2048;

/// Runs each target and counts it as one check.
///
/// Without a nightly toolchain, without `cargo-fuzz` or without `fuzz/` the run is skipped; only the first of these is
/// excused where skips are failures.
///
/// # Errors
/// When the tools are there but do not answer.
pub fn run(root: &Path) -> Result<Tally> {
    if let Some(skip) = missing(root)? {
        println!("skipped: {}: {}", skip.name, skip.reason);
        return Ok(Tally {
            skips: vec![skip],
            ..Tally::default()
        });
    }
    let seconds = seconds(std::env::var("WARMSWAP_FUZZ_SECONDS").ok().as_deref())?;
    // All of them at once, on all processors. One that does not compile says so again when it is to run.
    let mut build = nightly_cargo(root);
    build.args(["fuzz", "build"]);
    stream::run(build, |_| {})?;
    let targets = targets(root)?;
    let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut tally = Tally::default();
    for targets in targets.chunks(at_once) {
        for (target, passed) in run_together(root, targets, seconds)? {
            tally.add(Tally::check(&format!("fuzz: {target}"), passed));
        }
    }
    ensure!(tally.passed + tally.failed > 0, "fuzz/ has no targets");
    Ok(tally)
}

/// Runs these targets at the same time; whether each passed.
fn run_together<'a>(
    root: &Path,
    targets: &'a [String],
    seconds: u32,
) -> Result<Vec<(&'a String, bool)>> {
    std::thread::scope(|scope| {
        let run = |target: &'a String| {
            println!("-- {target}, {seconds} s");
            let command = target_command(root, target, seconds);
            scope.spawn(move || -> Result<_> {
                let status = stream::run(command?, |_| {})?;
                Ok((target, status.success()))
            })
        };
        let running: Vec<_> = targets.iter().map(run).collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|outcome| outcome.expect("a run does not panic"))
            .collect()
    })
}

/// What keeps the targets from running.
fn missing(root: &Path) -> Result<Option<Skip>> {
    let skip = |reason: &str, excused| {
        Some(Skip {
            name: "fuzz".to_owned(),
            reason: reason.to_owned(),
            excused,
        })
    };
    if !root.join("fuzz/Cargo.toml").is_file() {
        return Ok(skip("there is no fuzz/Cargo.toml", false));
    }
    if !answers(nightly_cargo(root).arg("--version")) {
        return Ok(skip(
            "no nightly toolchain (rustup toolchain install nightly)",
            true,
        ));
    }
    if answers(nightly_cargo(root).args(["fuzz", "--version"])) {
        return Ok(None);
    }
    Ok(skip(
        "cargo-fuzz is not installed (scripts/bootstrap tools)",
        false,
    ))
}

/// `cargo` of the nightly toolchain, which is never installed as a side effect. It finds the tools that
/// `scripts/bootstrap tools` installed.
fn nightly_cargo(root: &Path) -> Command {
    let mut path = root.join("target/tools/bin").into_os_string();
    if let Some(others) = std::env::var_os("PATH") {
        path.push(":");
        path.push(others);
    }
    let mut command = Command::new("rustup");
    command
        .current_dir(root)
        .env("PATH", path)
        .env("RUSTUP_AUTO_INSTALL", "0")
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["run", "nightly", "cargo"]);
    command
}

fn answers(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn targets(root: &Path) -> Result<Vec<String>> {
    let output = nightly_cargo(root)
        .args(["fuzz", "list"])
        .output()
        .context("cargo fuzz could not be run")?;
    ensure!(
        output.status.success(),
        "cargo fuzz list failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

/// The command for one target. New inputs go to a corpus that is emptied first, so every short run
/// begins with the seeds of `fuzz/seeds/TARGET` alone.
fn target_command(root: &Path, target: &str, seconds: u32) -> Result<Command> {
    let corpus = root.join("fuzz/corpus/short").join(target);
    if corpus.exists() {
        fs::remove_dir_all(&corpus)
            .with_context(|| format!("cannot empty {}", corpus.display()))?;
    }
    fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    let mut command = nightly_cargo(root);
    command.args(["fuzz", "run", target]).arg(corpus);
    let seeds = root.join("fuzz/seeds").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    command
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MIB}"))
        .arg("-print_final_stats=1");
    Ok(command)
}

fn seconds(setting: Option<&str>) -> Result<u32> {
    let Some(text) = setting else {
        return Ok(DEFAULT_SECONDS);
    };
    let value: u32 = text
        .parse()
        .with_context(|| format!("WARMSWAP_FUZZ_SECONDS={text} is no number of seconds"))?;
    // libFuzzer takes 0 for "without end".
    ensure!(value > 0, "WARMSWAP_FUZZ_SECONDS must be at least 1");
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_positive_numbers() {
        assert_eq!(seconds(None).unwrap(), DEFAULT_SECONDS);
        assert_eq!(seconds(Some("3")).unwrap(), 3);
        for bad in ["0", "", "-1", "20s"] {
            assert!(seconds(Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_tree_without_targets_is_skipped_but_not_excused() {
        let skip = missing(Path::new("/nonexistent")).unwrap().unwrap();
        assert!(!skip.excused);
    }

    #[test]
    fn a_short_run_begins_empty() {
        let root = std::env::temp_dir().join(format!("warmswap-fuzz-{}", std::process::id()));
        let corpus = root.join("fuzz/corpus/short/reader");
        fs::create_dir_all(&corpus).unwrap();
        fs::write(corpus.join("old"), "x").unwrap();
        fs::create_dir_all(root.join("fuzz/seeds/reader")).unwrap();

        let command = target_command(&root, "reader", 7).unwrap();

        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        assert_eq!(fs::read_dir(&corpus).unwrap().count(), 0);
        assert!(args.contains(&"-max_total_time=7".to_owned()), "{args:?}");
        assert!(
            args.iter().any(|arg| arg.ends_with("fuzz/seeds/reader")),
            "{args:?}"
        );
        fs::remove_dir_all(&root).unwrap();
    }
}
