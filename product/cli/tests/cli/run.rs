//! `warmswap run --host preload`, with a library in place of the real one that writes statistics and does nothing else.

use crate::common::{Ran, assert_misused, assert_refused, folder, text, warmswap};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;
use warmswap_doctor::{Machine, Part, diagnose};

/// Writes statistics where the settings want them, when the process ends. It knows the form in which the
/// command writes the settings: `"stats_json":"FOLDER/%p.json"`.
const STAND_IN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((destructor)) static void at_end(void) {
    const char *run = getenv("WARMSWAP_RUN"), *key = "\"stats_json\":\"";
    const char *start = run ? strstr(run, key) : NULL;
    const char *mark = start ? strstr(start, "%p.json") : NULL;
    if (!mark) return;
    start += strlen(key);
    char path[512];
    snprintf(path, sizeof path, "%.*s%d.json", (int)(mark - start), start, getpid());
    FILE *file = fopen(path, "w");
    if (!file) return;
    const char *unpaged = getenv("STAND_IN_UNPAGED");
    fprintf(file, "{\"pid\":%d,\"name\":\"stand-in\",\"scheme\":\"warmswap\",\"managed\":%s,"
                  "\"virtual_peak_bytes\":1048576,\"exit\":{\"exited\":{\"status\":null}}}",
            getpid(), unpaged ? "false" : "true");
    fclose(file);
    if (!unpaged) return;
    snprintf(path, sizeof path, "%.*s%d.unpaged", (int)(mark - start), start, getpid());
    if (!(file = fopen(path, "w"))) return;
    fputs(unpaged, file);
    fclose(file);
}
/* Shells end by this, and pass over destructors. */
void _exit(int status) {
    at_end();
    for (;;) syscall(SYS_exit_group, status);
}
"#;

/// A program without a loader, and without a C library.
const STATIC: &str = "void _start(void) { for (;;) {} }";

/// Compiles C; `None` where there is no compiler.
pub fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let (input, output) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&input, source).expect("a file can be written");
    let mut compiler = Command::new("cc");
    compiler
        .args(flags)
        .args([text(&input), "-o", text(&output)]);
    let compiled = compiler.status().ok()?;
    assert!(compiled.success(), "{name} compiles");
    Some(output)
}

/// The stand-in, compiled once.
fn stand_in() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let folder = folder();
        let path = compile(
            folder.path(),
            "stand_in.so",
            STAND_IN,
            &["-shared", "-fPIC"],
        )?;
        Some((folder, path))
    });
    library.as_ref().map(|(_, path)| path.as_path())
}

fn command(library: &Path, args: &[&str]) -> Command {
    let mut command = warmswap(["run", "--host", "preload"].iter().chain(args));
    command
        .env("WARMSWAP_PRELOAD", library)
        .env_remove("LD_PRELOAD");
    command
}

fn run(library: &Path, args: &[&str]) -> Ran {
    let output = command(library, args).output();
    output.expect("the command starts").into()
}

/// The library, if programs can be run with it here.
macro_rules! library {
    ($name:literal) => {{
        let Some(library) = stand_in() else {
            warmswap_testkit::skip!($name, "there is no C compiler");
        };
        let found = diagnose(&Machine::this());
        let lacks = &found.of(Part::Run).expect("a part").lacks;
        if lacks.iter().any(|key| *key != "preload_library") {
            warmswap_testkit::skip!($name, "run does not work here: {:?}", lacks);
        }
        library
    }};
}

#[test]
fn what_cannot_be_used_is_bad_input() {
    let library = library!("what_cannot_be_used_is_bad_input");
    for (args, parts) in [
        (&["--budget", "12q", "true"][..], &["12q"][..]),
        (&["--fault-threads", "0", "true"], &["--fault-threads"]),
        (&["--backing-limit", "1G", "true"], &["--backing"]),
        (&[], &["<CMD>"]),
    ] {
        assert_misused(&run(library, args), parts);
    }
    for (args, parts) in [
        (
            &["--budget", "1k", "true"][..],
            &["--budget 1K", "8.00 MiB"][..],
        ),
        (&["--budget", "0%", "true"], &["--budget 0%"]),
        (&["--scheme", "zrm", "true"], &["'zrm'"]),
        (
            &["/nonexistent/program"],
            &["/nonexistent/program", "No such file"],
        ),
        (
            &["no-such-program-anywhere"],
            &["no-such-program-anywhere", "PATH"],
        ),
        (&["/"], &["it is no file"]),
        (&["--json", "-", "true"], &["standard output"]),
    ] {
        assert_refused(&run(library, args), 2, parts);
    }
}

#[test]
fn a_program_runs_where_temporary_files_have_no_place() {
    let library = library!("a_program_runs_where_temporary_files_have_no_place");
    let mut command = command(library, &["sh", "-c", "exit 4"]);
    let ran: Ran = command
        .env("TMPDIR", "/nonexistent")
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("exited with 4"), "{}", ran.stderr);
}

#[test]
fn a_missing_library_is_named_in_the_doctors_words() {
    let missing = Path::new("/nonexistent/libwarmswap_preload.so");
    let ran = run(missing, &["true"]);
    assert_refused(
        &ran,
        1,
        &["WARMSWAP_PRELOAD names /nonexistent/", "make build"],
    );
}

#[test]
fn a_folder_where_nothing_can_be_kept_is_said_and_a_file_is_refused() {
    let library = library!("a_folder_where_nothing_can_be_kept_is_said_and_a_file_is_refused");
    let ran = run(library, &["--learned", "/proc", "sh", "-c", "exit 4"]);
    assert_eq!(ran.code, Some(4));
    let said = ran
        .stderr
        .matches("--learned /proc: what is learned cannot")
        .count();
    assert_eq!(said, 1, "{}", ran.stderr);

    let folder = folder();
    let new = folder.path().join("a/b");
    let ran = run(library, &["--learned", text(&new), "true"]);
    assert!(!ran.stderr.contains("--learned"), "{}", ran.stderr);
    assert_eq!(fs::read_dir(&new).expect("a folder").count(), 0);

    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file can be written");
    let refused = run(library, &["--learned", text(&file), "true"]);
    assert_refused(&refused, 2, &["--learned", "it is no folder"]);
}

#[test]
fn scripts_run_as_they_do_elsewhere() {
    let library = library!("scripts_run_as_they_do_elsewhere");
    let folder = folder();
    let script = folder.path().join("script");
    for (content, printed) in [
        ("echo \"$0 $*\"; exit 3\n", 1),
        ("#!/bin/sh\necho \"$0 $*\"; exit 3\n", 1),
        ("", 0),
    ] {
        fs::write(&script, content).expect("a file can be written");
        for mode in [0o755, 0o6755] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(&script, mode).expect("a file of ours");
            let ran = run(library, &["--", text(&script), "a", "b"]);
            let line = format!("{} a b\n", script.display()).repeat(printed);
            let code = printed as i32 * 3;
            assert_eq!(
                (ran.code, ran.stdout),
                (Some(code), line),
                "{content:?}: {}",
                ran.stderr
            );
        }
    }
    fs::write(&script, "#!/no/such/interpreter\n").expect("a file can be written");
    for host in ["kernel", "preload"] {
        let mut command = warmswap(["run", "--host", host, text(&script)]);
        let ran = Ran::from(
            command
                .env("WARMSWAP_PRELOAD", library)
                .output()
                .expect("it starts"),
        );
        // The kernel host may be missing.
        if host == "preload" || ran.code == Some(2) {
            assert_refused(
                &ran,
                2,
                &["its interpreter \"/no/such/interpreter\"", "No such file"],
            );
        }
    }
}

#[test]
fn a_static_program_is_refused() {
    let library = library!("a_static_program_is_refused");
    let folder = folder();
    let flags = ["-static", "-nostdlib", "-ffreestanding"];
    let program = compile(folder.path(), "static", STATIC, &flags).expect("a compiler is there");
    assert_refused(
        &run(library, &[text(&program)]),
        2,
        &[text(&program), "statically linked"],
    );
}

#[test]
fn the_programs_status_is_kept_where_its_result_cannot_be_written() {
    let library = library!("the_programs_status_is_kept_where_its_result_cannot_be_written");
    let ran = run(
        library,
        &["--json", "/dev/full", "--", "sh", "-c", "exit 9"],
    );
    assert_eq!(ran.code, Some(9));
    let said = ran.stderr.matches("No space left").count();
    assert_eq!(said, 1, "{}", ran.stderr);
}

#[test]
fn streams_and_arguments_are_the_programs_own() {
    let library = library!("streams_and_arguments_are_the_programs_own");
    let mut child = command(
        library,
        &[
            "--",
            "sh",
            "-c",
            "cat; echo \"$0 $1\"; echo e >&2",
            "--json",
            "-",
        ],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"through\n").expect("the program reads");
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().expect("the command ends"));

    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "through\n--json -\n")
    );
    assert!(
        ran.stderr.starts_with("e\nwarmswap: stand-in ("),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("exited with 0"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1.00 MiB virtual"), "{}", ran.stderr);
}

#[test]
fn the_exit_status_is_the_programs_own() {
    let library = library!("the_exit_status_is_the_programs_own");
    let ran = run(library, &["sh", "-c", "exit 7"]);
    assert_eq!(ran.code, Some(7));
    assert!(ran.stderr.contains("exited with 7"), "{}", ran.stderr);

    // What killed programs leave behind goes with the next one.
    let session = folder();
    let left = session.path().join("warmswap/7.sock");
    std::fs::create_dir(session.path().join("warmswap")).unwrap();
    drop(UnixListener::bind(&left).unwrap());
    let mut command = command(library, &["sh", "-c", "kill -9 $$"]);
    command.env("XDG_RUNTIME_DIR", session.path());
    let ran = Ran::from(command.output().expect("the command starts"));
    assert!(!left.exists());
    assert_eq!(ran.code, Some(128 + 9));
    assert!(
        ran.stderr
            .contains("sh was killed by signal 9 before it wrote statistics"),
        "{}",
        ran.stderr
    );
}

/// What only the kernel pages is named for what it takes.
#[test]
fn the_summary_says_what_a_program_had_that_was_not_paged() {
    let name = "the_summary_says_what_a_program_had_that_was_not_paged";
    let library = library!("the_summary_says_what_a_program_had_that_was_not_paged");
    const SHARED: &str = r#"
#include <string.h>
#include <sys/mman.h>
int main(void) {
    size_t bytes = 80u << 20;
    char *all = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(all, 1, bytes);
    return all[bytes / 2] - 1;
}
"#;
    let folder = folder();
    let Some(program) = compile(folder.path(), "shared", SHARED, &["-O1"]) else {
        warmswap_testkit::skip!(name, "there is no C compiler");
    };
    let mut command = command(library, &["--budget", "32M", text(&program)]);
    let output = command.env("STAND_IN_UNPAGED", "left alone").output();
    let ran = Ran::from(output.expect("the command starts"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let more = "MiB in memory, more than the budget of";
    assert!(ran.stderr.contains(more), "{}", ran.stderr);
}

#[test]
fn the_summary_says_why_a_program_was_not_paged() {
    let library = library!("the_summary_says_why_a_program_was_not_paged");
    let mut command = command(library, &["true"]);
    command.env("STAND_IN_UNPAGED", "no thread: it is full");
    let ran = Ran::from(command.output().expect("the command starts"));
    let line = "\n  it was not paged: no thread: it is full\n";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
}

#[test]
fn signals_reach_the_program() {
    let library = library!("signals_reach_the_program");
    let script = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut child = command(library, &["sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "ready");
    let kill = Command::new("kill").arg(child.id().to_string()).status();
    assert!(kill.expect("kill starts").success());
    assert_eq!(line(), "told");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
}

#[test]
fn arguments_that_are_no_text_stand_in_the_result_as_far_as_they_are() {
    use std::os::unix::ffi::OsStrExt as _;

    let library = library!("arguments_that_are_no_text_stand_in_the_result_as_far_as_they_are");
    let folder = folder();
    let result = folder.path().join("result.json");
    let mut command = command(library, &["--json", text(&result), "sh", "-c", "exit 4"]);
    command.arg(std::ffi::OsStr::from_bytes(b"x\xff"));
    let ran = Ran::from(command.output().expect("the command starts"));
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    let result: Value =
        serde_json::from_slice(&fs::read(&result).expect("it is written")).expect("valid JSON");
    let last = result["command"].as_array().and_then(|words| words.last());
    assert_eq!(last, Some(&Value::from("x\u{fffd}")));
}

#[test]
fn statistics_are_written_for_all_processes() {
    let library = library!("statistics_are_written_for_all_processes");
    let folder = folder();
    let [stats, result] = ["stats.json", "result.json"].map(|name| folder.path().join(name));
    let ran = run(
        library,
        &[
            "--stats-json",
            text(&stats),
            "--json",
            text(&result),
            "sh",
            "-c",
            "cat /dev/null; exit 4",
        ],
    );

    assert_eq!(ran.code, Some(4));
    let read = |path: &Path| -> Value {
        serde_json::from_slice(&fs::read(path).expect("it is written")).expect("valid JSON")
    };
    let stats = read(&stats);
    assert_eq!(stats["virtual_peak_bytes"], 1 << 20);
    assert_eq!(stats["exit"]["exited"]["status"], 4);
    let result = read(&result);
    assert_eq!(result["schema"], "warmswap.run");
    let data = &result["data"];
    assert_eq!(
        (&data["program"], &data["complete"]),
        (&stats, &Value::from(true))
    );
    let others = data["others"].as_array().expect("a list");
    assert_eq!(others.len(), 1, "cat: {others:?}");
    assert_ne!(others[0]["pid"], stats["pid"]);
}

#[test]
fn the_library_comes_before_others_and_the_settings_with_it() {
    let library = library!("the_library_comes_before_others_and_the_settings_with_it");
    let script = "echo \"$LD_PRELOAD\"; echo \"$WARMSWAP_RUN\"";
    let mut command = command(
        library,
        &[
            "--budget",
            "64M",
            "--scheme",
            "zram",
            "--control",
            "a.sock",
            "--learned",
            "tables",
            "--files",
            "sh",
            "-c",
            script,
        ],
    );
    let second = folder();
    let other = second.path().join("other.so");
    fs::copy(library, &other).expect("a file can be copied");
    command.env("LD_PRELOAD", &other).current_dir(second.path());
    let ran = Ran::from(command.output().expect("the command starts"));

    let mut lines = ran.stdout.lines();
    let expected = format!("{}:{}", library.display(), other.display());
    assert_eq!(lines.next(), Some(expected.as_str()));
    let settings = lines.next().expect("settings");
    let settings = warmswap_protocol::RunSettings::from_variable(settings.as_ref());
    let settings = settings.expect("the library understands");
    assert_eq!(
        (settings.scheme.as_str(), settings.budget_bytes),
        ("zram", 64 << 20)
    );
    assert_eq!(settings.control, Some(second.path().join("a.sock")));
    assert_eq!(settings.learned, Some(second.path().join("tables")));
    assert_eq!(settings.idle_after_ms, Some(5000));
    assert!(settings.files);
}

#[test]
fn an_option_of_the_library_chooses_it_and_the_summary_says_so() {
    let library = library!("an_option_of_the_library_chooses_it_and_the_summary_says_so");
    let run = |args: &[&str]| {
        let mut command = warmswap(["run"].iter().chain(args));
        command.env("WARMSWAP_PRELOAD", library);
        Ran::from(command.output().expect("the command starts"))
    };
    let ran = run(&["--fault-threads", "3", "sh", "-c", "echo \"$LD_PRELOAD\""]);
    assert!(ran.stdout.contains(text(library)), "{}", ran.stdout);
    let last = ran.stderr.lines().last();
    let expected = "  host    preload: --fault-threads is an option of the preloaded library";
    assert_eq!(last, Some(expected));

    for option in [
        &["--scheme", "zram"][..],
        &["--files"],
        &["--learned", "tables"],
        &["--backing", "file"],
        &["--mechanism", "copy"],
        &["--idle-after", "0"],
        &["--fault-threads", "2"],
    ] {
        let args = [&["--host", "kernel"], option, &["true"]].concat();
        assert_refused(&run(&args), 2, &[option[0], "--host preload"]);
    }
}
