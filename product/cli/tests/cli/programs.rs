//! Commands about running programs, against one that is played by the test; and the doctor.

use crate::common::{Ran, assert_misused, assert_refused, folder, json, run, text, warmswap};
use serde_json::Value;
use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;
use warmswap_doctor::{Machine, Part, require};
use warmswap_protocol::{
    Answer, FaultCounts, LatencySummary, Phase, ProgramStats, Refusal, RefusalKind, Reply, Request,
    Server,
};
use warmswap_testkit::schema::assert_described;

fn stats(pid: u32) -> ProgramStats {
    ProgramStats {
        pid,
        name: "redis-server".to_owned(),
        managed: true,
        budget_bytes: 300 << 20,
        resident_bytes: 200 << 20,
        pool_bytes: 50 << 20,
        memory_ratio: Some(3.0),
        faults: FaultCounts {
            total: 12_345,
            pool: 12_345,
            ..FaultCounts::default()
        },
        fault_latency: LatencySummary {
            count: 12_345,
            p50_ns: 3_100,
            p99_ns: 9_900,
            ..LatencySummary::default()
        },
        ..ProgramStats::default()
    }
}

/// A folder that stands for a session: programs listen in it, and commands look there.
struct Session(TempDir);

impl Session {
    fn new() -> Self {
        let folder = folder();
        std::fs::create_dir(folder.path().join("warmswap")).expect("a folder can be made");
        Self(folder)
    }

    fn socket(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join("warmswap").join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = warmswap(args);
        command.env("XDG_RUNTIME_DIR", self.0.path());
        // Room for all columns.
        command.env("COLUMNS", "120");
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output();
        output.expect("the command starts").into()
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json", "-"]].concat());
        // Where nothing runs at all it says so.
        let is_empty = ran.code == Some(3) && ran.stderr.starts_with("warmswap: no daemon");
        assert!(
            is_empty || (ran.code, ran.stderr.as_str()) == (Some(0), ""),
            "{}",
            ran.stderr
        );
        let mut envelope: Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
        assert_described(&envelope);
        envelope["data"].take()
    }
}

/// Runs `commands` while a program of number `pid` listens on `socket`, and gives what it was told.
fn with_program(socket: &Path, pid: u32, commands: impl FnOnce()) -> Vec<Request> {
    let told = Mutex::new(Vec::new());
    let mut phase = Phase::Foreground;
    let answer = |request: Request| {
        let stats = |phase| ProgramStats {
            phase,
            ..stats(pid)
        };
        match request {
            Request::Status => Ok(Answer::Status(stats(phase).status())),
            Request::Stats => Ok(Answer::Stats(Box::new(stats(phase)))),
            Request::LaunchDone => Err(Refusal::new(RefusalKind::NotNow, "no launch is open")),
            request => {
                phase = match request {
                    Request::Background => Phase::Background,
                    _ => Phase::Launch,
                };
                told.lock().expect("no poison").push(request);
                Ok(Answer::Done)
            }
        }
    };
    with_server(socket, answer, commands);
    told.into_inner().expect("no poison")
}

/// Runs `commands` while requests on `socket` are answered.
fn with_server(
    socket: &Path,
    mut answer: impl FnMut(Request) -> Reply + Send,
    commands: impl FnOnce(),
) {
    let mut server = Server::bind(socket).expect("the socket is free");
    let stop = AtomicBool::new(false);
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let polled = server.poll_once(Some(Duration::from_millis(5)), &mut answer);
                polled.expect("polling works");
            }
        });
        let _stop = Stop(&stop);
        commands();
    });
}

/// A process number that no process can have: the largest that a kernel gives is less than 2^22.
const OWN: u32 = 4_999_999;

#[test]
fn status_lists_what_runs_and_removes_what_has_ended() {
    let session = Session::new();
    let dead = session.socket("9.sock");
    drop(UnixListener::bind(&dead).expect("a socket can be made"));
    // Other paged programs of this user may run, start and end meanwhile.
    let listed = |pid: u32| {
        let listing = session.json(&["status"]);
        let programs = listing["programs"].as_array().expect("a list");
        programs.iter().filter(|one| one["pid"] == pid).count()
    };
    assert_eq!(listed(OWN), 0);
    assert!(!dead.exists());

    with_program(&session.socket(&format!("{OWN}.sock")), OWN, || {
        let ran = session.run(&["status"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let own = OWN.to_string();
        let mut lines = ran.stdout.lines();
        let line = lines.find(|line| line.split_whitespace().next() == Some(&own));
        let line = line.expect("the program has a row");
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            format!(
                "{OWN} redis-server foreground 300 MiB 200 MiB 50.0 MiB 3.00× 12,345 3.10 µs 9.90 µs 0 ns"
            )
        );
        assert_eq!(listed(OWN), 1);
        let one = session.json(&["status", &own]);
        assert_eq!(one["programs"][0]["pid"], OWN);
        assert_eq!(one["programs"][0]["fault_latency"]["p50_ns"], 3100);
    });
}

#[test]
fn the_daemon_is_shown_by_its_socket() {
    let session = Session::new();
    let [daemon, program] = ["daemon.sock", "4711.sock"].map(|name| session.socket(name));
    let answer = |request| match request {
        Request::Daemon => Ok(Answer::Daemon(Box::default())),
        _ => Err(Refusal::new(RefusalKind::Unknown, "for paged programs")),
    };
    let told = with_program(&program, 4711, || {
        with_server(&daemon, answer, || {
            let shown = session.json(&["status", text(&daemon), "4711"]);
            assert!(shown["daemon"].is_object(), "{shown}");
            assert_eq!(shown["programs"][0]["pid"], 4711);
        });
    });
    assert_eq!(told, []);
    // A socket of another kind of program.
    let no = |_| Err(Refusal::new(RefusalKind::Unknown, "no such request"));
    with_server(&daemon, no, || {
        let ran = session.run(&["status", text(&daemon)]);
        assert_refused(&ran, 1, &["daemon.sock", "no such request"]);
    });
}

#[test]
fn a_file_that_is_no_socket_is_called_that() {
    let session = Session::new();
    let file = session.socket("file");
    std::fs::write(&file, "").expect("a file can be written");
    let file = text(&file);
    for command in [&["status", file][..], &["switch", "--background", file]] {
        assert_refused(&session.run(command), 1, &[file, "is no socket"]);
    }
}

#[test]
fn where_nothing_runs_and_where_a_user_may_not_ask_status_says_so_in_one_line() {
    let session = Session::new();
    let nowhere = session.socket("daemon.sock");
    let nowhere = text(&nowhere);
    let nothing = session.run(&["status", "--daemon", nowhere]);
    // Other paged programs of this user may run meanwhile.
    if nothing.code == Some(3) {
        assert_refused(
            &nothing,
            3,
            &[
                "no daemon and no paged program of this user runs",
                "warmswap run",
            ],
        );
    }
    if !rustix::process::geteuid().is_root() {
        warmswap_testkit::skip!(
            "status_of_a_user_who_may_not_ask",
            "needs root to be another user"
        );
    }
    // A daemon of root's alone, and the user `nobody`.
    let folder = folder();
    let mode = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("a folder of ours");
    };
    mode(folder.path(), 0o755);
    let system = folder.path().join("run");
    std::fs::create_dir(&system).expect("a folder can be made");
    let socket = system.join("daemon.sock");
    let copy = folder.path().join("warmswap");
    std::fs::copy(env!("CARGO_BIN_EXE_warmswap"), &copy).expect("a copy");
    let ask = |command: &[&str]| {
        let mut asked = Command::new(&copy);
        std::os::unix::process::CommandExt::uid(&mut asked, 65_534);
        asked.args(command).args(["--daemon", text(&socket)]);
        Ran::from(asked.output().expect("the command starts"))
    };
    let unknown = format!("{} may not be looked into by this user", text(&system));
    let unknown = [unknown.as_str(), "is not known", "sudo"];

    mode(&system, 0o711);
    let nothing = ask(&["status"]);
    assert_refused(
        &nothing,
        3,
        &["no daemon and no paged program of this user runs"],
    );
    // A folder of an older version hides whether there is a daemon, and then the daemon itself.
    mode(&system, 0o700);
    assert_refused(&ask(&["status"]), 4, &unknown);
    let _daemon = UnixListener::bind(&socket).expect("a socket can be made");
    mode(&socket, 0o600);
    assert_refused(&ask(&["status"]), 4, &unknown);
    assert_refused(&ask(&["switch", "redis"]), 1, &unknown);

    mode(&system, 0o711);
    let refused = [
        text(&socket),
        "is not for this user",
        "usermod -aG warmswap",
    ];
    assert_refused(&ask(&["status"]), 4, &refused);
    assert_refused(&ask(&["switch", "redis"]), 1, &refused);
}

/// The daemon as `launch` meets it.
fn with_daemon(socket: &Path, commands: impl FnOnce()) -> Vec<Request> {
    with_program(socket, OWN, commands)
}

#[test]
fn what_is_launched_through_sudo_belongs_to_the_user_who_asked() {
    if !rustix::process::geteuid().is_root() {
        warmswap_testkit::skip!("launch_through_sudo", "needs root");
    }
    let session = Session::new();
    let socket = session.socket("daemon.sock");
    let launch = |user: &str, more: &[&str]| {
        let script = "id -u; id -g; echo $HOME $USER; id -G; echo ${SUDO_UID-none}";
        let args = [
            &["launch", "--daemon", text(&socket)],
            more,
            &["x", "--", "sh", "-c", script],
        ];
        let mut command = warmswap(args.concat());
        let output = command.env("SUDO_UID", user).output();
        Ran::from(output.expect("the command starts"))
    };
    let told = with_daemon(&socket, || {
        let ran = launch("65534", &[]);
        let lines: Vec<&str> = ran.stdout.lines().collect();
        let expected = ["65534", "65534", "/nonexistent nobody", "65534", "none"];
        assert_eq!(
            (lines.as_slice(), ran.code),
            (&expected[..], Some(0)),
            "{}",
            ran.stderr
        );
        let ran = launch("65534", &["--as-root"]);
        assert!(ran.stdout.starts_with("0\n"), "{}", ran.stdout);
        let ran = launch("0", &[]);
        assert!(ran.stdout.starts_with("0\n"), "{}", ran.stdout);
        assert_refused(&launch("someone", &[]), 2, &["SUDO_UID", "someone"]);
        assert_refused(&launch("4242424", &[]), 1, &["4242424", "--as-root"]);
    });
    // A user that cannot be found is not told of.
    assert_eq!(told.len(), 3, "{told:?}");
}

#[test]
fn programs_are_told_where_they_stand() {
    let session = Session::new();
    let socket = session.socket("4711.sock");
    let told = with_program(&socket, 4711, || {
        let ran = session.run(&["switch", "--background", "4711"]);
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), "", "")
        );
        let status = session.json(&["switch", "--foreground", text(&socket)]);
        assert_eq!(status["phase"], "launch");
        let refused = session.run(&["switch", "--launch-done", "4711"]);
        assert_refused(&refused, 1, &["4711.sock", "no launch is open"]);
    });
    assert_eq!(told, [Request::Background, Request::Foreground]);
}

#[test]
fn a_switch_needs_one_direction_and_a_program() {
    let session = Session::new();
    assert_refused(&session.run(&["switch", "4711"]), 2, &["--background"]);
    let both = ["switch", "--background", "--foreground", "4711"];
    assert_misused(&session.run(&both), &["cannot be used with"]);
    let missing = session.run(&["switch", "--background", "4711"]);
    assert_refused(&missing, 1, &["4711.sock", "no such program runs"]);
    let missing = session.run(&["status", "/nonexistent/x.sock"]);
    assert_refused(&missing, 1, &["/nonexistent/x.sock"]);
}

/// What clears a terminal.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// Reads what a command writes until `part` has come for the second time, and ends the command.
fn until_twice(mut command: Command, part: &str) -> Option<String> {
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let mut output = child.stdout.take()?;
    let (mut written, mut buffer) = (Vec::new(), [0; 4096]);
    while String::from_utf8_lossy(&written).matches(part).count() < 2 {
        match output.read(&mut buffer) {
            Ok(read) if read > 0 => written.extend_from_slice(&buffer[..read]),
            _ => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Some(String::from_utf8_lossy(&written).into_owned())
}

#[test]
fn a_watch_looks_again_and_clears_terminals_only() {
    let session = Session::new();
    with_program(&session.socket(&format!("{OWN}.sock")), OWN, || {
        let own = OWN.to_string();
        let written = until_twice(
            session.command(&["status", "--watch", &own]),
            "redis-server",
        );
        let written = written.expect("the command starts");
        assert_eq!(written.matches("redis-server").count(), 2, "{written}");
        assert!(!written.contains('\u{1b}'), "{written:?}");

        let warmswap = text(Path::new(env!("CARGO_BIN_EXE_warmswap")));
        let mut terminal = Command::new("script");
        terminal
            .args(["-q", "-e", "-c"])
            .arg(format!("exec '{warmswap}' status --watch {own}"))
            .arg("/dev/null")
            .env("XDG_RUNTIME_DIR", session.0.path())
            .stdin(Stdio::null());
        let Some(written) = until_twice(terminal, CLEAR) else {
            warmswap_testkit::skip!(
                "a_watch_looks_again_and_clears_terminals_only",
                "needs script(1)"
            );
        };
        assert_eq!(written.matches(CLEAR).count(), 2, "{written:?}");
    });
    let both = session.run(&["status", "--watch", "--json", "-"]);
    assert_misused(&both, &["--watch", "--json"]);
}

#[test]
fn metrics_need_a_daemon() {
    let session = Session::new();
    let nowhere = session.socket("daemon.sock");
    let nothing = session.run(&["status", "--openmetrics", "--daemon", text(&nowhere)]);
    assert_refused(&nothing, 3, &["no daemon runs"]);
    with_program(&nowhere, OWN, || {
        let args = ["status", "--openmetrics", "--daemon", text(&nowhere)];
        let other = session.run(&args);
        assert_eq!((other.code, other.stdout.as_str()), (Some(1), ""));
    });
}

// ---- doctor ----

#[test]
fn the_doctor_looks_at_every_part() {
    let found = json("warmswap.doctor", ["doctor"]);
    let parts: Vec<_> = found["parts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|part| part["part"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        parts,
        [
            "daemon", "run", "group", "arena", "kernel", "record", "bench"
        ]
    );
    for check in found["checks"].as_array().expect("a list") {
        assert!(["there", "lacking", "unknown"].contains(&check["state"].as_str().expect("text")));
        assert_eq!(
            check["state"] == "lacking",
            check["fix"].is_string(),
            "{check}"
        );
    }
}

#[test]
fn the_doctor_tells_of_the_parts_that_are_named_only() {
    let mut command = warmswap(["doctor", "arena", "--json", "-"]);
    let output = command.output().expect("the command starts");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let data = &found["data"];
    assert_eq!(data["parts"].as_array().map(Vec::len), Some(1));
    let checks = data["checks"].as_array().expect("a list");
    let keys: Vec<_> = checks
        .iter()
        .filter_map(|check| check["key"].as_str())
        .collect();
    assert!(keys.contains(&"userfaultfd"), "{keys:?}");
    for other in ["preload_library", "zram", "memory_groups", "swap_area"] {
        assert!(!keys.contains(&other), "{keys:?}");
    }
    for check in checks {
        for needs in [&check["must"], &check["better"]] {
            let mut parts = needs.as_array().expect("a list").iter();
            assert!(parts.all(|part| part == "arena"), "{check}");
        }
    }
    // Either host will do for `run`.
    let both = json("warmswap.doctor", ["doctor", "run"]);
    assert_eq!(both["parts"].as_array().map(Vec::len), Some(2));
    let tables = run(["doctor", "daemon"]).stdout;
    assert!(
        tables.contains("swap area") && !tables.contains("preload library"),
        "{tables}"
    );
}

#[test]
fn the_doctor_names_what_is_missing_and_what_would_help() {
    let missing = "/nonexistent/libwarmswap_preload.so";
    let mut command = warmswap(["doctor", "run"]);
    command.env("WARMSWAP_PRELOAD", missing);
    let ran = Ran::from(command.output().expect("the command starts"));

    // The kernel host needs no library.
    let (code, takes) = match require(&Machine::this(), Part::Group) {
        Ok(()) => (0, "takes the kernel host here"),
        Err(_) => (1, "works here with neither host"),
    };
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(code), ""));
    assert!(ran.stdout.contains(takes), "{}", ran.stdout);
    let (tables, fixes) = ran
        .stdout
        .split_once("To fix what is not there:")
        .expect("fixes");
    assert!(tables.contains("/nonexistent/"), "{tables}");
    let widest = tables.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{tables}");
    assert!(fixes.contains("make build"), "{fixes}");
}
