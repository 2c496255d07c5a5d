//! The Python package: installed by pip into a fresh environment, and its tests, for each interpreter asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::stream;
use crate::summary::{Skip, Tally};

/// Interpreters when `WARMSWAP_PYTHONS` is not set.
const DEFAULT: &str = "python3";

/// What `WARMSWAP_PYTHONS=all` stands for: those of these names that run here, and those that pyenv has.
const ALL: [&str; 7] = [
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "python3.15",
];

/// Environment variable with the file in which the tests note their results.
const RESULTS_LOG: &str = "WARMSWAP_PYTEST_LOG";

/// Installs the package for each interpreter and counts the results of its tests.
///
/// The first interpreter installs it from the sources (`pip install ./python`), as a user would. The others take
/// the wheel that this makes, which must serve them all.
///
/// # Errors
/// When a folder or a program that is there cannot be used.
pub fn run(root: &Path) -> Result<Tally> {
    let mut tally = Tally::default();
    let found = interpreters(std::env::var("WARMSWAP_PYTHONS").ok().as_deref());
    if found.is_empty() {
        tally
            .skips
            .push(skip("python", "there is no python3 from 3.9 on"));
    }
    let work = root.join("target/python");
    let wheels = work.join("wheels");
    for (index, python) in found.iter().enumerate() {
        println!("-- Python {} ({})", python.version, python.program);
        let name = format!("python {}", python.version);
        let venv = match environment(&work, python)? {
            Ok(venv) => venv,
            Err(why) => {
                println!("skipped: {name}: {why}");
                tally.skips.push(skip(&name, &why));
                continue;
            }
        };
        let is_installed = if index == 0 {
            let is_installed = passes(venv.pip(root).args(["install", "--quiet", "./python"]))?;
            is_installed && (found.len() == 1 || make_wheel(root, &venv, &wheels)?)
        } else {
            let mut install = venv.pip(root);
            install.args(["install", "--quiet", "--no-index", "--no-deps", "warmswap"]);
            passes(install.arg("--find-links").arg(&wheels))?
        };
        tally.add(Tally::check(&format!("{name}: pip install"), is_installed));
        if is_installed {
            tally.add(tests(root, &venv, &name)?);
        }
    }
    Ok(tally)
}

/// A Python interpreter of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Python {
    program: String,
    version: String,
}

/// The interpreters to test; those that do not run are left out, and each version counts once.
fn interpreters(setting: Option<&str>) -> Vec<Python> {
    let names: Vec<String> = match setting.map(str::trim) {
        None | Some("") => vec![DEFAULT.to_owned()],
        Some("all") => {
            let names = std::iter::once(DEFAULT).chain(ALL).map(str::to_owned);
            names.chain(pyenv()).collect()
        }
        Some(names) => names.split_ascii_whitespace().map(str::to_owned).collect(),
    };
    let mut found: Vec<Python> = Vec::new();
    for program in names {
        if let Some(python) = ask_version(&program)
            && found.iter().all(|other| other.version != python.version)
        {
            found.push(python);
        }
    }
    found
}

/// The interpreters that pyenv has, whether or not one of them is chosen.
fn pyenv() -> Vec<String> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = root.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let mut programs: Vec<String> = versions
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin/python3").display().to_string())
        .collect();
    programs.sort();
    programs
}

fn ask_version(program: &str) -> Option<Python> {
    const ASK: &str =
        "import sys; assert sys.version_info >= (3, 9); print('%d.%d' % sys.version_info[:2])";
    let output = Command::new(program)
        .args(["-c", ASK])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let version = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !version.is_empty()).then(|| Python {
        program: program.to_owned(),
        version,
    })
}

/// A virtual environment.
struct Venv {
    python: PathBuf,
}

impl Venv {
    fn pip(&self, root: &Path) -> Command {
        let mut command = Command::new(&self.python);
        command
            .current_dir(root)
            .args(["-m", "pip", "--disable-pip-version-check"]);
        command
    }
}

/// A fresh environment with what the tests need; the inner error says what is missing on this machine.
fn environment(work: &Path, python: &Python) -> Result<std::result::Result<Venv, String>> {
    let folder = work.join(format!("venv-{}", python.version));
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(work).with_context(|| format!("cannot make {}", work.display()))?;
    let mut make = Command::new(&python.program);
    if !passes(make.args(["-m", "venv"]).arg(&folder))? {
        return Ok(Err("it cannot make environments (python3-venv)".to_owned()));
    }
    let venv = Venv {
        python: folder.join("bin/python"),
    };
    // The build backend comes along, so that a failure here means the network or the index, and not the package.
    let needed = [
        "maturin>=1.9,<2",
        "pytest>=8",
        "mypy>=1.10",
        "nbclient>=0.10",
    ];
    let mut install = venv.pip(work);
    install
        .args([
            "install",
            "--quiet",
            "--only-binary=:all:",
            "ipykernel>=6",
            "pandas>=2",
        ])
        .args(needed);
    Ok(if passes(&mut install)? {
        Ok(venv)
    } else {
        Err("pip cannot install what the tests need (no network, or no wheels)".to_owned())
    })
}

fn make_wheel(root: &Path, venv: &Venv, wheels: &Path) -> Result<bool> {
    if wheels.exists() {
        fs::remove_dir_all(wheels).with_context(|| format!("cannot empty {}", wheels.display()))?;
    }
    let mut wheel = venv.pip(root);
    wheel.args(["wheel", "--quiet", "--no-deps", "./python", "--wheel-dir"]);
    passes(wheel.arg(wheels))
}

/// Runs pytest and counts what the tests noted.
fn tests(root: &Path, venv: &Venv, name: &str) -> Result<Tally> {
    let log = root.join("target/python/results.log");
    fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    let mut pytest = Command::new(&venv.python);
    pytest
        .current_dir(root.join("python"))
        .env(RESULTS_LOG, &log)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    let status = stream::run(pytest, |_| {})?;
    let noted =
        fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let mut tally = results(&noted, name);
    ensure!(tally.passed + tally.failed > 0, "pytest ran no test");
    if !status.success() && tally.failed == 0 {
        tally.fail(format!("{name}: pytest"));
    }
    Ok(tally)
}

/// Counts lines `passed: NAME`, `failed: NAME`, `skipped: NAME: REASON` and `excused: NAME: REASON`.
fn results(log: &str, python: &str) -> Tally {
    let mut tally = Tally::default();
    for line in log.lines() {
        match line.split_once(": ") {
            Some(("passed", _)) => tally.passed += 1,
            Some((outcome @ ("skipped" | "excused"), rest)) => {
                // A node's name may hold "::", but no colon before a blank.
                let (test, why) = rest.split_once(": ").unwrap_or((rest, "no reason given"));
                tally.skips.push(Skip {
                    excused: outcome == "excused",
                    ..skip(&format!("{python}: {test}"), why)
                });
            }
            Some((_, test)) => tally.fail(format!("{python}: {test}")),
            None => tally.fail(format!("{python}: a line that is no result: {line}")),
        }
    }
    tally
}

fn skip(name: &str, reason: &str) -> Skip {
    Skip {
        name: name.to_owned(),
        reason: reason.to_owned(),
        excused: false,
    }
}

fn passes(command: &mut Command) -> Result<bool> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noted_results_are_counted() {
        let log = "passed: tests/a.py::one\nskipped: tests/a.py::two: needs root\n\
                   failed: tests/a.py::three\npassed: tests/b.py::four[x: y]\n\
                   excused: tests/b.py::five: other swap\n";
        let tally = results(log, "python 3.11");
        assert_eq!(tally.line(), "2 passed, 1 failed, 2 skipped");
        assert!(!tally.skips[0].excused && tally.skips[1].excused);
        assert_eq!(tally.failures, ["python 3.11: tests/a.py::three"]);
        assert_eq!(tally.skips[0].reason, "needs root");
        assert_eq!(results("nonsense", "x").failed, 1);
    }

    #[test]
    fn programs_that_are_no_python_are_left_out() {
        assert!(interpreters(Some("true /nonexistent/python3")).is_empty());
    }
}
