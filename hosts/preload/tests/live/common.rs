//! Runs programs with the library and without.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use warmswap_protocol::{Mechanism, ProgramStats, RUN_VARIABLE, RunSettings};
use warmswap_testkit::{preload_library, skip};

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
    pub learned: Option<PathBuf>,
    pub control: Option<PathBuf>,
    pub files: bool,
    /// How often `touch` does its turns.
    pub repeats: u32,
}

impl Case {
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            scheme: "warmswap",
            mechanism: "auto",
            backing: None,
            learned: None,
            control: None,
            files: false,
            repeats: 1,
        }
    }
}

/// What came of a run.
pub struct Run {
    pub answer: String,
    pub errors: String,
    pub status: Option<i32>,
    pub stats: Option<ProgramStats>,
    /// Why it says that it was not paged.
    pub unpaged: Option<String>,
}

fn why_not(case: &Case) -> Option<String> {
    use warmswap_uffd::{Feature, Features, Reach, Uffd};
    let needs = match case.mechanism {
        "copy" => Features::of(&[Feature::WriteProtect]),
        // Without a word of how, a program is paged by moving its pages, or not at all.
        _ => Features::of(&[Feature::Move, Feature::WriteProtect]),
    };
    Uffd::open(Reach::Everything, needs)
        .err()
        .map(|error| error.to_string())
}

fn finish(output: Output, stats: Option<ProgramStats>, unpaged: Option<String>) -> Run {
    let errors = String::from_utf8_lossy(&output.stderr);
    Run {
        answer: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: format!("{errors}[{}]", output.status),
        status: output.status.code(),
        stats,
        unpaged,
    }
}

fn paged(case: &Case, command: &mut Command) -> Run {
    paged_while(case, command, || ()).0
}

/// Runs the command, and something else meanwhile.
fn paged_while<R>(case: &Case, command: &mut Command, meanwhile: impl FnOnce() -> R) -> (Run, R) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = RunSettings {
        stats_json: Some(RunSettings::stats_in(folder.path())),
        backing: case.backing.clone(),
        learned: case.learned.clone(),
        control: case.control.clone(),
        files: case.files,
        mechanism: match case.mechanism {
            "move" => Mechanism::Move,
            "copy" => Mechanism::Copy,
            _ => Mechanism::Auto,
        },
        ..RunSettings::new(case.scheme, case.budget.mib << 20)
    };
    command
        .env("LD_PRELOAD", preload_library())
        .env(RUN_VARIABLE, settings.to_variable().expect("text"))
        .env("REPEATS", case.repeats.to_string());
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("the program is there");
    let path = settings.stats_path(child.id()).expect("a place");
    let result = meanwhile();
    let output = child.wait_with_output().expect("our child");
    let unpaged = std::fs::read_to_string(path.with_extension("unpaged")).ok();
    let stats = std::fs::read(path).ok();
    let stats = stats.map(|json| serde_json::from_slice(&json).expect("a report"));
    (finish(output, stats, unpaged), result)
}

/// Compiles and runs one of the C programs, which checks itself; what it reported. `None` where it cannot run.
pub fn program(name: &str, case: &Case) -> Option<ProgramStats> {
    program_while(name, case, std::process::Stdio::null(), || ())
}

/// The same, with this as its standard input, while something else goes on.
pub fn program_while(
    name: &str,
    case: &Case,
    input: impl Into<std::process::Stdio>,
    meanwhile: impl FnOnce(),
) -> Option<ProgramStats> {
    let run = run_program(name, case, input, meanwhile)?;
    let Run { errors, stats, .. } = run;
    Some(stats.unwrap_or_else(|| panic!("{name} leaves no report: {errors}")))
}

/// The same, for a program that cannot report.
pub fn run_program(
    name: &str,
    case: &Case,
    input: impl Into<std::process::Stdio>,
    meanwhile: impl FnOnce(),
) -> Option<Run> {
    if let Some(reason) = why_not(case) {
        skip!(name, "{reason}"; None);
    }
    let (_folder, file) = compile(name)?;
    let (run, ()) = paged_while(case, Command::new(&file).stdin(input), meanwhile);
    assert_eq!(run.status, Some(0), "{name}: {}", run.errors);
    Some(run)
}

/// Compiles one of the C programs: the file, in a folder of its own. `None` where there is no compiler.
pub fn compile(name: &str) -> Option<(tempfile::TempDir, PathBuf)> {
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
        .arg("-ldl")
        .status();
    match compiled {
        Err(error) => skip!(name, "no C compiler: {error}"; None),
        Ok(status) => assert!(status.success(), "{name}.c does not compile"),
    }
    Some((folder, file))
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
    let plain = finish(plain, None, None);
    assert_eq!(
        plain.status,
        Some(0),
        "{command:?} without the library: {}",
        plain.errors
    );
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

/// Python itself, not a script that starts it, with its own tests. `None` where it has none.
pub fn python_with_tests() -> Option<String> {
    let script = "import sys, test.libregrtest; print(sys.executable)";
    let output = Command::new("python3").args(["-c", script]).output().ok();
    let output = output.filter(|output| output.status.success());
    let Some(output) = output else {
        skip!("pythons_own_tests", "Python or its tests are not installed"; None);
    };
    let path = String::from_utf8(output.stdout).expect("a path");
    Some(path.trim().to_owned())
}

/// Compiles a Java program; the folder that it is in. `None` where there is no compiler.
pub fn java_program(name: &str, source: &str) -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(format!("{name}.java"));
    std::fs::write(&file, source).expect("a new file");
    match Command::new("javac").arg(&file).status() {
        Err(error) => skip!(name, "no Java compiler: {error}"; None),
        Ok(status) => assert!(status.success(), "{name}.java does not compile"),
    }
    Some(folder)
}

/// A Redis server, without the library and with it: loaded, asked for a digest, used, saved by a forked child, and
/// asked again. What is compared are the digests.
pub fn redis(case: &Case) -> Option<[Run; 2]> {
    if let Some(reason) = why_not(case) {
        skip!("redis", "{reason}"; None);
    }
    let (Some(server), Some(cli)) = (find("redis-server"), find("redis-cli")) else {
        skip!("redis", "it is not installed"; None);
    };
    Some([false, true].map(|is_paged| {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let mut command = Command::new(&server);
        command.current_dir(folder.path());
        command.args(["--port", "0", "--save", "", "--enable-debug-command", "yes"]);
        command.arg("--unixsocket").arg(&socket);
        let ask = |arguments: &[&str]| {
            let output = Command::new(&cli)
                .arg("-s")
                .arg(&socket)
                .args(arguments)
                .output();
            String::from_utf8_lossy(&output.expect("it is there").stdout).into_owned()
        };
        let session = || {
            while ask(&["PING"]) != "PONG\n" {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            assert_eq!(ask(&["DEBUG", "POPULATE", "200000", "key", "300"]), "OK\n");
            let mut digests = ask(&["DEBUG", "DIGEST"]);
            let walk = "for i = 0, 199999, 3 do redis.call('append', 'key:' .. i, i) end return 1";
            assert_eq!(ask(&["EVAL", walk, "0"]), "1\n");
            digests += &ask(&["DEBUG", "DIGEST"]);
            assert!(ask(&["BGSAVE"]).contains("started"));
            while ask(&["INFO", "persistence"]).contains("rdb_bgsave_in_progress:1") {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            assert!(ask(&["INFO", "persistence"]).contains("rdb_last_bgsave_status:ok"));
            digests += &ask(&["DEBUG", "DIGEST"]);
            ask(&["SHUTDOWN", "NOSAVE"]);
            digests
        };
        let mut run = if is_paged {
            let (run, digests) = paged_while(case, &mut command, session);
            Run {
                answer: digests,
                ..run
            }
        } else {
            let quiet = std::process::Stdio::null;
            let mut child = command.stdout(quiet()).spawn().expect("it is there");
            let answer = session();
            let status = child.wait().expect("our child");
            Run {
                answer,
                errors: String::new(),
                status: status.code(),
                stats: None,
                unpaged: None,
            }
        };
        assert_eq!(run.status.take(), Some(0), "{}", run.errors);
        run
    }))
}
