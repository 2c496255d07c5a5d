//! The daemon, run as people run it: over this machine's own zram, with one program of ours.

use crate::common::{Ran, assert_refused, folder, json, run, succeed, text, warmswap};
use crate::schema::assert_described;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use warmswap_sys::{Root, swap, zram};
use warmswap_testkit::skip;

/// How long something may take that will happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two looks whether it happened.
const LOOK: Duration = Duration::from_millis(50);

/// Set for the process that holds memory.
const HOLDER: &str = "WARMSWAP_TEST_HOLDER";

/// Bytes that it holds: pages that shrink well, each of its own.
const HELD_BYTES: usize = 48 << 20;

/// Of them, it touches these, spread evenly, at each line of its input: 20 MB, more than the budget leaves room
/// for in the end, so that some of them must come back.
const TOUCHED_PAGES: usize = 5000;

/// Not a test of its own: run by the tests below in another process.
#[test]
fn holder() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut word = move |at: usize| {
        if !at.is_multiple_of(32) {
            return 1 << 40;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut memory: Vec<u64> = (0..HELD_BYTES / 8).map(&mut word).collect();
    println!("ready");
    for line in std::io::stdin().lines() {
        line.expect("a line");
        let stride = memory.len() / TOUCHED_PAGES;
        let sum: u64 = memory
            .iter_mut()
            .step_by(stride)
            .map(|word| {
                *word = word.wrapping_add(1);
                *word
            })
            .fold(0, u64::wrapping_add);
        println!("touched {sum}");
    }
}

/// The daemon with a configuration and a folder of its own.
struct Daemon {
    child: Child,
    folder: TempDir,
}

impl Daemon {
    /// Where its socket is.
    fn socket_in(folder: &TempDir) -> PathBuf {
        folder.path().join("run/daemon.sock")
    }

    fn socket(&self) -> PathBuf {
        Self::socket_in(&self.folder)
    }

    /// Starts one in `folder`, and waits until it answers.
    fn start(folder: TempDir, more: &str) -> Self {
        let socket = Self::socket_in(&folder);
        let config = folder.path().join("warmswap.conf");
        let text = format!(
            "[daemon]\nsocket = {}\nstate-folder = {}\nsave-interval-seconds = 1\n\
             [signals]\nx11 = no\nsway = no\ni3 = no\nactivity = no\n[discover]\nenable = no\n{more}",
            socket.display(),
            folder.path().join("learned").display(),
        );
        fs::write(&config, text).expect("a file can be written");
        let log = fs::File::create(folder.path().join("log")).expect("a log");
        let mut child = warmswap(["daemon", "--config", config.to_str().expect("UTF-8")])
            .stderr(log)
            .spawn()
            .expect("the daemon starts");
        wait_for("the daemon answers", || {
            let ended = child.try_wait().expect("a child");
            let log = || fs::read_to_string(folder.path().join("log"));
            assert!(ended.is_none(), "it ended: {ended:?}: {:?}", log());
            status(&socket).is_some()
        });
        Self { child, folder }
    }

    fn status(&self) -> Value {
        status(&self.socket()).expect("the daemon answers")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    /// The swap devices that it made.
    fn devices(&self) -> Vec<String> {
        let devices = self.status()["swap"]["own_devices"].take();
        serde_json::from_value(devices).expect("a list of paths")
    }

    /// Sends a signal, and waits for the end. What is left can be looked at in the folder.
    fn end(mut self, signal: &str) -> (std::process::ExitStatus, TempDir) {
        let kill = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(kill.expect("kill starts").success());
        let ended = self.child.wait().expect("a child");
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"));
        (ended, folder)
    }
}

impl Drop for Daemon {
    /// A test that failed leaves nothing running, and no device either.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill")
                .arg(self.child.id().to_string())
                .status();
            let _ = self.child.wait();
        }
    }
}

/// What `warmswap status` says of the daemon.
fn status(socket: &Path) -> Option<Value> {
    let output = warmswap(["status", "--daemon", text(socket), "--json", "-"])
        .output()
        .expect("the command starts");
    let mut envelope: Value = serde_json::from_slice(&output.stdout).ok()?;
    assert_described(&envelope);
    Some(envelope["data"]["daemon"].take()).filter(|daemon| !daemon.is_null())
}

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(LOOK);
    }
}

/// A program of ours that was launched as the application `hold`.
struct Holder {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Holder {
    fn launch(daemon: &Daemon) -> Self {
        let this = std::env::current_exe().expect("this program has a path");
        let mut child = warmswap(["launch", "--daemon", text(&daemon.socket()), "hold", "--"])
            .args([text(&this), "--exact", "daemon::holder", "--nocapture"])
            .env(HOLDER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut holder = Self {
            input: child.stdin.take(),
            child,
            output,
        };
        holder.hear("ready");
        holder
    }

    fn hear(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            let read = self.output.read_line(&mut line).expect("a line");
            assert!(read > 0, "the program ended without {word}");
        }
    }

    fn touch(&mut self) {
        let input = self.input.as_mut().expect("a pipe");
        writeln!(input).expect("the program listens");
        self.hear("touched");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

fn switch(daemon: &Daemon, args: &[&str]) {
    let socket = daemon.socket();
    succeed([&["switch", "--daemon", text(&socket)][..], args].concat());
}

/// The priority of all swap here: no other test has it.
const PRIORITY: i32 = 7077;

/// A small device, and so small a budget that what is not used leaves.
const PRESSED: &str = "[zram0]\nzram-size = 128\nswap-priority = 7077\n[host]\nahead-of-kernel = no\npressure-percent = 0\n\
                       budget = 24\npage-out-mib-per-second = 2000\nlaunch-window-ms = 2000\n";

/// The same with another budget, in MiB.
fn with_budget(mib: u32) -> String {
    PRESSED.replace("budget = 24", &format!("budget = {mib}"))
}

/// The swap areas of daemons here.
fn own_areas() -> Vec<swap::Area> {
    let mut areas = swap::areas(&Root::machine()).expect("a list of swap");
    areas.retain(|area| area.priority == PRIORITY);
    areas
}

/// One live test at a time: they tell their swap areas by the priority.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // One that failed has said so itself.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn assert_nothing_left(folder: &TempDir) {
    let areas = own_areas();
    assert!(areas.is_empty(), "{areas:?}");
    assert!(!Daemon::socket_in(folder).exists(), "the socket");
    let state = folder.path().join("run/daemon.state");
    let left: Vec<_> = fs::read_dir(state)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name != "launched")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Why the live tests cannot run here.
fn hindrance() -> Option<String> {
    zram::probe(&Root::machine())
        .err()
        .map(|error| error.to_string())
}

// ---- configuration ----

#[test]
fn what_holds_is_printed_with_where_it_comes_from() {
    let folder = folder();
    let file = folder.path().join("a.conf");
    fs::write(&file, "[zram0]\nzram-size = 1 + 2\n[hst]\n").expect("a file can be written");
    let file = text(&file);

    let ran = run(["config", "--effective", "--config", file]);

    assert_eq!(ran.code, Some(0));
    let expected = format!("# 3 MiB, {file}:2\nzram-size = 1 + 2\n");
    assert!(ran.stdout.contains(&expected), "{}", ran.stdout);
    let warning = format!("warmswap: {file}:3: there is no section [hst]; it is ignored\n");
    assert_eq!(ran.stderr, warning);

    fs::write(file, "[zram0]\nzram-size = much\n").expect("a file can be written");
    let ran = run(["config", "--effective", "--config", file]);
    assert_refused(&ran, 2, &[&format!("{file}:2"), "zram-size", "much"]);
    let ran = run(["daemon", "--config", file]);
    assert_refused(&ran, 2, &[&format!("{file}:2"), "zram-size", "much"]);
    assert_refused(&run(["config"]), 2, &["--effective"]);
    let ran = run(["config", "--effective", "--config", "/nonexistent/x"]);
    assert_refused(&ran, 2, &["/nonexistent/x"]);
}

#[test]
fn the_configuration_is_data_too() {
    let folder = folder();
    let file = folder.path().join("a.conf");
    fs::write(&file, "[host]\nprefetch = no\n").expect("a file can be written");

    let data = json(
        "warmswap.config",
        ["config", "--effective", "--config", text(&file)],
    );

    let settings = data["settings"].as_array().expect("a list");
    let prefetch = settings.iter().find(|setting| setting["key"] == "prefetch");
    let prefetch = prefetch.expect("a setting");
    assert_eq!(
        (&prefetch["value"], &prefetch["section"]),
        (&"no".into(), &"host".into())
    );
    assert_eq!(prefetch["origin"], format!("{}:2", file.display()));
}

#[test]
fn manual_pages_are_written() {
    let folder = folder();

    succeed(["man", text(folder.path())]);

    for page in [
        "man1/warmswap.1",
        "man1/warmswap-daemon.1",
        "man5/warmswap.conf.5",
    ] {
        let text = fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".TH"), "{page}");
    }
}

// ---- without a daemon ----

#[test]
fn without_a_daemon_the_way_to_one_is_said() {
    let nowhere = "/nonexistent/daemon.sock";
    for args in [
        &["switch", "--daemon", nowhere, "web"][..],
        &["launch", "--daemon", nowhere, "web", "--", "true"],
    ] {
        assert_refused(&run(args), 1, &[nowhere, "warmswap daemon"]);
    }
    assert_refused(&run(["switch", "4711"]), 2, &["--background"]);
}

// ---- live ----

#[test]
fn a_daemon_that_is_ended_leaves_nothing_behind() {
    if let Some(why) = hindrance() {
        skip!("a_daemon_that_is_ended_leaves_nothing_behind", "{why}");
    }
    let _turn = alone();
    for signal in ["-TERM", "-INT"] {
        let daemon = Daemon::start(folder(), PRESSED);
        let areas = own_areas();
        assert_eq!(areas.len(), 1);
        assert_eq!(daemon.devices(), [areas[0].path.as_str()]);
        let config = daemon.folder.path().join("warmswap.conf");
        let second = run(["daemon", "--config", text(&config)]);
        assert_refused(&second, 1, &["another daemon"]);

        let (ended, folder) = daemon.end(signal);

        assert_eq!(ended.code(), Some(0), "{signal}");
        assert_nothing_left(&folder);
    }
}

#[test]
fn a_relaunch_is_learned_prefetched_and_told_and_survives_a_kill() {
    let name = "a_relaunch_is_learned_prefetched_and_told_and_survives_a_kill";
    if let Some(why) = hindrance() {
        skip!(name, "{why}");
    }
    let _turn = alone();
    let daemon = Daemon::start(folder(), PRESSED);
    let devices = daemon.devices();
    let mut holder = Holder::launch(&daemon);
    let app = |daemon: &Daemon| {
        let mut status = daemon.status();
        let apps = status["apps"].as_array_mut().expect("a list");
        let found = apps.iter_mut().find(|app| app["name"] == "hold");
        found.expect("the application is known").take()
    };
    let bytes = |app: &Value, key: &str| app[key].as_u64().expect("a number");
    let leave = |daemon: &Daemon, away_bytes: u64| {
        switch(daemon, &["--background", "hold"]);
        wait_for("pages leave", || {
            bytes(&app(daemon), "swapped_bytes") > away_bytes
        });
    };
    // When it was: nothing is saved from then on until what is learned of it is known.
    let come_back = |daemon: &Daemon, holder: &mut Holder| {
        switch(daemon, &["hold"]);
        let began = SystemTime::now();
        holder.touch();
        switch(daemon, &["--launch-done", "hold"]);
        began
    };
    switch(&daemon, &["--launch-done", "hold"]);
    let mut last_began = SystemTime::now();
    for _ in 0..3 {
        // Half of all leaves: what is touched of that is seen to be.
        leave(&daemon, HELD_BYTES as u64 / 2);
        last_began = come_back(&daemon, &mut holder);
    }
    let found = app(&daemon);
    assert_eq!(bytes(&found, "processes"), 1);
    assert!(bytes(&found, "relaunch_count") >= 3, "{found}");
    let last = found["relaunches"].as_array().and_then(|all| all.last());
    let last = last.expect("a relaunch").clone();
    assert_eq!(last["is_answered"], true);
    assert!(bytes(&last, "faults_avoided") > 0, "{last}");

    let shown = succeed(["status", "--daemon", text(&daemon.socket())]);
    for part in [
        "working: ",
        "helping: ",
        "hold",
        "foreground",
        "Last relaunches",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    // Learned tables are saved a second after the last relaunch; they, the device and the program outlive the daemon.
    let wait_for_tables = |daemon: &Daemon, last_began: SystemTime| {
        let learned = daemon.folder.path().join("learned/hold.learned");
        wait_for("tables are saved", || {
            let saved = fs::metadata(&learned).and_then(|file| file.modified());
            saved.is_ok_and(|saved| saved > last_began)
        });
    };
    wait_for_tables(&daemon, last_began);
    let (ended, folder) = daemon.end("-KILL");
    assert_eq!(ended.signal(), Some(9));
    let areas = swap::areas(&Root::machine()).expect("a list of swap");
    assert!(
        areas.iter().any(|area| area.path == devices[0]),
        "its device is still there"
    );

    let is_back = |daemon: &Daemon| {
        assert_eq!(daemon.devices(), devices, "{}", daemon.log());
        assert!(daemon.log().contains("goes on with"), "{}", daemon.log());
        wait_for("the program is found again", || {
            bytes(&app(daemon), "processes") == 1
        });
    };
    let daemon = Daemon::start(folder, &with_budget(5));
    is_back(&daemon);
    // All but 4 MiB leaves, and so does most of what was learned to be hot. What is touched of it twice more is a
    // target of prepaging.
    let nearly_all = HELD_BYTES as u64 - (4 << 20);
    leave(&daemon, nearly_all);
    for _ in 0..2 {
        last_began = come_back(&daemon, &mut holder);
        leave(&daemon, nearly_all);
    }
    wait_for_tables(&daemon, last_began);
    let (_, folder) = daemon.end("-KILL");

    // There is room for it, so it is brought back early.
    let daemon = Daemon::start(folder, &with_budget(96));
    is_back(&daemon);
    come_back(&daemon, &mut holder);
    let found = app(&daemon);
    let last = found["relaunches"].as_array().and_then(|all| all.last());
    let avoided = last.map_or(0, |last| bytes(last, "faults_avoided"));
    assert!(
        bytes(&found, "prefetched_pages") > 0 && avoided > 0,
        "by what was learned before: {found}"
    );

    let (ended, folder) = daemon.end("-TERM");
    assert_eq!(ended.code(), Some(0));
    assert_nothing_left(&folder);
    holder.touch();
}

#[test]
fn a_device_that_is_configured_no_more_is_removed() {
    if let Some(why) = hindrance() {
        skip!("a_device_that_is_configured_no_more_is_removed", "{why}");
    }
    let _turn = alone();
    let zram = |mib: u32| format!("[zram0]\nzram-size = {mib}\nswap-priority = {PRIORITY}\n");
    let daemon = Daemon::start(folder(), &zram(64));
    let (_, folder) = daemon.end("-KILL");
    assert_eq!(own_areas().len(), 1);

    let daemon = Daemon::start(folder, &zram(65));

    let areas = own_areas();
    assert_eq!(daemon.devices(), [areas[0].path.as_str()]);
    assert_eq!((areas.len(), areas[0].size_bytes), (1, (65 << 20) - 4096));
    assert!(
        daemon.log().contains("configured no more"),
        "{}",
        daemon.log()
    );
    let (_, folder) = daemon.end("-TERM");
    assert_nothing_left(&folder);
}

#[test]
fn requests_that_make_no_sense_are_refused_by_the_daemon() {
    if let Some(why) = hindrance() {
        skip!(
            "requests_that_make_no_sense_are_refused_by_the_daemon",
            "{why}"
        );
    }
    let _turn = alone();
    let daemon = Daemon::start(folder(), "[app web]\nexecutable = no-such-program\n");
    let socket = daemon.socket();
    let socket = text(&socket);

    let unknown: Ran = run(["switch", "--daemon", socket, "wb"]);

    assert_refused(&unknown, 1, &["\"wb\"", "there are: web"]);
    let missing = run(["launch", "--daemon", socket, "x", "--", "/no/such/program"]);
    assert_refused(&missing, 1, &["/no/such/program"]);
    let shown = succeed(["status", "--daemon", socket]);
    assert!(shown.contains("absent"), "{shown}");
    let (ended, _) = daemon.end("-HUP");
    assert_eq!(ended.code(), Some(0));
}
