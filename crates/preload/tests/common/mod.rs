//! Runs programs with the library and without.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use warmswap_control::{Mechanism, PRELOAD_LIBRARY, ProgramStats, RUN_VARIABLE, RunSettings};
use warmswap_testkit::skip;

/// Memory for a program.
#[derive(Clone, Copy)]
pub struct Budget {
    pub mib: u64,
}

/// How a program is paged.
pub struct Case {
    pub budget: Budget,
    pub scheme: &'static str,
    pub mechanism: &'static str,
    pub backing: Option<PathBuf>,
}

impl Case {
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            scheme: "warmswap",
            mechanism: "auto",
            backing: None,
        }
    }
}

/// What came of a run.
pub struct Run {
    pub answer: String,
    pub errors: String,
    pub status: Option<i32>,
    pub stats: Option<ProgramStats>,
}

/// The library, beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join(PRELOAD_LIBRARY));
    places
        .find(|place| place.exists())
        .expect("the library is built along with its tests")
}

fn why_not(case: &Case) -> Option<String> {
    use warmswap_sys::uffd::{Feature, Features, Reach, Uffd};
    let needs = match case.mechanism {
        "copy" => Features::of(&[Feature::WriteProtect]),
        "move" => Features::of(&[Feature::Move, Feature::WriteProtect]),
        _ => Features::NONE,
    };
    Uffd::open(Reach::Everything, needs)
        .err()
        .map(|error| error.to_string())
}

fn finish(output: Output, stats: Option<ProgramStats>) -> Run {
    Run {
        answer: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        status: output.status.code(),
        stats,
    }
}

fn paged(case: &Case, command: &mut Command) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = RunSettings {
        stats_json: Some(RunSettings::stats_in(folder.path())),
        backing: case.backing.clone(),
        mechanism: match case.mechanism {
            "move" => Mechanism::Move,
            "copy" => Mechanism::Copy,
            _ => Mechanism::Auto,
        },
        ..RunSettings::new(case.scheme, case.budget.mib << 20)
    };
    command
        .env("LD_PRELOAD", library())
        .env(RUN_VARIABLE, settings.to_variable().expect("text"));
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("the program is there");
    let path = settings.stats_path(child.id()).expect("a place");
    let output = child.wait_with_output().expect("our child");
    let stats = std::fs::read(path).ok();
    finish(
        output,
        stats.map(|json| serde_json::from_slice(&json).expect("a report")),
    )
}

/// Compiles and runs one of the C programs, which checks itself; what it reported. `None` where it cannot run.
pub fn program(name: &str, case: &Case) -> Option<ProgramStats> {
    if let Some(reason) = why_not(case) {
        skip!(name, "{reason}"; None);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let compiled = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-o",
        ])
        .arg(&file)
        .arg(source.join(format!("{name}.c")))
        .status();
    match compiled {
        Err(error) => skip!(name, "no C compiler: {error}"; None),
        Ok(status) => assert!(status.success(), "{name}.c does not compile"),
    }
    let run = paged(case, &mut Command::new(&file));
    assert_eq!(run.status, Some(0), "{name}: {}", run.errors);
    Some(run.stats.expect("a report"))
}

/// Runs a command without the library and with it. `None` where one cannot.
pub fn run(case: &Case, command: &[&str]) -> Option<(Run, Run)> {
    if let Some(reason) = why_not(case) {
        skip!(command[0], "{reason}"; None);
    }
    let Some(program) = find(command[0]) else {
        skip!(command[0], "it is not installed"; None);
    };
    let mut plain = Command::new(&program);
    let plain = plain.args(&command[1..]).output().expect("it is there");
    let plain = finish(plain, None);
    assert_eq!(plain.status, Some(0), "{command:?}: {}", plain.errors);
    let paged = paged(case, Command::new(&program).args(&command[1..]));
    assert_eq!(paged.status, Some(0), "{command:?}: {}", paged.errors);
    Some((plain, paged))
}

/// A program of the PATH; no shell script that only starts it.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program =
        |file: &PathBuf| std::fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    let folders = std::env::split_paths(&path);
    folders.map(|folder| folder.join(name)).find(is_program)
}
