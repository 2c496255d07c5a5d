//! The daemon, run as people run it: over this machine's own zram, with one program of ours.

use crate::common::{
    Ran, assert_misused, assert_refused, folder, json, run, succeed, text, warmswap,
};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use warmswap_heap::{Collector, FleetConfig, Heap, HeapConfig, KernelMemory, Kind};
use warmswap_protocol::{AppEvent, Client, Request};
use warmswap_sys::advise::{Advice, PageRange, advise_on_every_cpu};
use warmswap_sys::maps::{Backing, Mapping, Maps};
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::process::Process;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramSwap};
use warmswap_sys::{Root, swap, zram};
use warmswap_testkit::schema::assert_described;
use warmswap_testkit::skip;

/// How long something may take that will happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two looks whether it happened.
const LOOK: Duration = Duration::from_millis(50);

/// Set for the process that holds memory.
const HOLDER: &str = "WARMSWAP_TEST_HOLDER";

/// Bytes that it holds: pages that shrink well, each of its own.
const HELD_BYTES: usize = 48 << 20;

/// Of them, it touches these, spread evenly, at each line of its input.
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
        let config = folder.path().join("warmswap.toml");
        let text = format!(
            "[daemon]\nsocket = {socket:?}\nstate-folder = {:?}\n\
             [signals]\nactivity = false\n[discover]\nenable = false\n{more}",
            folder.path().join("learned"),
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

    /// The program: the command executes it.
    fn process(&self) -> u32 {
        self.child.id()
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

/// A small device.
const DEVICE: &str = "[zram0]\nzram-size = 128\nswap-priority = 7077\n";

/// With less memory free, nothing comes back.
const LEAST_FREE_BYTES: u64 = 2 << 30;

/// Has the kernel page out what a process holds.
fn page_out(pid: u32) {
    let maps = Maps::read(&Root::machine(), pid).expect("it runs");
    let own = |mapping: &&Mapping| mapping.backing == Backing::Anonymous && mapping.write;
    let ranges = maps.as_slice().iter().filter(own).map(|mapping| PageRange {
        first: mapping.start / 4096,
        count: mapping.pages(),
    });
    let process = Process::open(pid).expect("it runs");
    let ranges: Vec<_> = ranges.collect();
    advise_on_every_cpu(&process, Advice::PageOut, &ranges).expect("root may");
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
    let file = folder.path().join("a.toml");
    fs::write(&file, "[zram0]\nzram-size = \"1 + 2\"\n").expect("a file can be written");
    let file = text(&file);

    let ran = run(["config", "--effective", "--config", file]);

    assert_eq!(ran.code, Some(0));
    let expected = format!("# 3 MiB, {file}:2\nzram-size = \"1 + 2\"\n");
    assert!(ran.stdout.contains(&expected), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");

    fs::write(file, "[hst]\n").expect("a file can be written");
    let ran = run(["config", "--effective", "--config", file]);
    assert_refused(&ran, 2, &[&format!("{file}:1"), "did you mean host?"]);
    fs::write(file, "[zram0]\nzram-size = \"much\"\n").expect("a file can be written");
    let ran = run(["config", "--effective", "--config", file]);
    assert_refused(&ran, 2, &[&format!("{file}:2"), "zram-size", "much"]);
    let ran = run(["daemon", "--config", file]);
    assert_refused(&ran, 2, &[&format!("{file}:2"), "zram-size", "much"]);
    assert_misused(&run(["config"]), &["--effective"]);
    let ran = run(["config", "--effective", "--config", "/nonexistent/x"]);
    assert_refused(&ran, 2, &["/nonexistent/x"]);
}

#[test]
fn the_configuration_is_data_too() {
    let folder = folder();
    let file = folder.path().join("a.toml");
    fs::write(&file, "[host]\nprefetch = false\n").expect("a file can be written");

    let data = json(
        "warmswap.config",
        ["config", "--effective", "--config", text(&file)],
    );

    let settings = data["settings"].as_array().expect("a list");
    let prefetch = settings.iter().find(|setting| setting["key"] == "prefetch");
    let prefetch = prefetch.expect("a setting");
    assert_eq!(
        (&prefetch["value"], &prefetch["section"]),
        (&"false".into(), &"host".into())
    );
    assert_eq!(prefetch["origin"], format!("{}:2", file.display()));
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
        let daemon = Daemon::start(folder(), DEVICE);
        let areas = own_areas();
        assert_eq!(areas.len(), 1);
        assert_eq!(daemon.devices(), [areas[0].path.as_str()]);
        let config = daemon.folder.path().join("warmswap.toml");
        let second = run(["daemon", "--config", text(&config)]);
        assert_refused(&second, 1, &["another daemon"]);

        let (ended, folder) = daemon.end(signal);

        assert_eq!(ended.code(), Some(0), "{signal}");
        assert_nothing_left(&folder);
    }
}

#[test]
fn what_left_comes_back_and_is_told_also_after_a_kill() {
    let name = "what_left_comes_back_and_is_told_also_after_a_kill";
    if let Some(why) = hindrance() {
        skip!(name, "{why}");
    }
    let free = Meminfo::read(&Root::machine())
        .map_or(0, |memory| memory.free_bytes + memory.idle_file_bytes());
    if free < LEAST_FREE_BYTES {
        skip!(name, "too little memory is free");
    }
    let _turn = alone();
    let daemon = Daemon::start(folder(), DEVICE);
    let devices = daemon.devices();
    let mut holder = Holder::launch(&daemon);
    let app = |daemon: &Daemon| {
        let mut status = daemon.status();
        let apps = status["apps"].as_array_mut().expect("a list");
        let found = apps.iter_mut().find(|app| app["name"] == "hold");
        found.expect("the application is known").take()
    };
    let number = |value: &Value| value.as_u64().expect("a number");
    let comes_back = |daemon: &Daemon, holder: &mut Holder| {
        switch(daemon, &["--background", "hold"]);
        page_out(holder.process());
        wait_for("most of it comes back", || {
            number(&daemon.status()["given_back"]["bytes"]) > HELD_BYTES as u64 / 2
        });
        switch(daemon, &["hold"]);
        holder.touch();
        switch(daemon, &["--launch-done", "hold"]);
        switch(daemon, &["--background", "hold"]);
        wait_for("it is told what was used", || {
            number(&daemon.status()["given_back"]["used_pages"]) > 0
        });
    };
    comes_back(&daemon, &mut holder);

    let found = app(&daemon);
    assert_eq!(number(&found["processes"]), 1);
    assert!(number(&found["relaunch_count"]) >= 1, "{found}");
    let last = found["relaunches"].as_array().and_then(|all| all.last());
    assert_eq!(last.expect("a relaunch")["is_answered"], true);
    let metrics = succeed([
        "status",
        "--openmetrics",
        "--daemon",
        text(&daemon.socket()),
    ]);
    assert!(metrics.contains("warmswap_app_relaunches_total{app=\"hold\"}"));
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    let shown = succeed(["status", "--daemon", text(&daemon.socket())]);
    for part in ["working: ", "gave ", "hold", "Last relaunches"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    // The device and the program outlive the daemon.
    let (ended, folder) = daemon.end("-KILL");
    assert_eq!(ended.signal(), Some(9));
    let areas = swap::areas(&Root::machine()).expect("a list of swap");
    assert!(
        areas.iter().any(|area| area.path == devices[0]),
        "its device is still there"
    );
    let daemon = Daemon::start(folder, DEVICE);
    assert_eq!(daemon.devices(), devices, "{}", daemon.log());
    assert!(daemon.log().contains("goes on with"), "{}", daemon.log());
    wait_for("the program is found again", || {
        number(&app(&daemon)["processes"]) == 1
    });
    comes_back(&daemon, &mut holder);

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
fn a_device_that_is_there_only_without_swap_follows_other_swap() {
    let name = "a_device_that_is_there_only_without_swap_follows_other_swap";
    if let Some(why) = hindrance() {
        skip!(name, "{why}");
    }
    let _turn = alone();
    let areas = swap::areas(&Root::machine()).expect("a list of swap");
    if !areas.is_empty() {
        skip!(name, "this machine has swap of its own: {areas:?}");
    }
    let text =
        format!("[zram0]\nzram-size = 64\nswap-priority = {PRIORITY}\nonly-without-swap = true\n");
    let daemon = Daemon::start(folder(), &text);
    assert_eq!(own_areas().len(), 1);
    let state = folder();
    let undo = Undo::open(&Root::machine(), state.path()).expect("a registry");
    let config = ZramConfig {
        disk_bytes: 16 << 20,
        algorithm: "lzo-rle".to_owned(),
        second_algorithm: None,
        backing_device: None,
        memory_limit_bytes: None,
        priority: 1,
    };

    let other = ZramSwap::create(&undo, &config).expect("a device");
    wait_for("it goes", || daemon.devices().is_empty());
    assert!(own_areas().is_empty());
    drop(other);
    wait_for("it comes", || !daemon.devices().is_empty());
    assert_eq!(own_areas().len(), 1);
    assert!(
        daemon.log().contains("since there is swap"),
        "{}",
        daemon.log()
    );
    let (ended, folder) = daemon.end("-TERM");
    assert_eq!(ended.code(), Some(0));
    assert_nothing_left(&folder);
}

#[test]
fn another_wish_is_another_device_and_one_that_cannot_be_had_takes_none_away() {
    let name = "another_wish_is_another_device_and_one_that_cannot_be_had_takes_none_away";
    if let Some(why) = hindrance() {
        skip!(name, "{why}");
    }
    let _turn = alone();
    let zram = |size: &str, more: &str| {
        format!("[zram0]\nzram-size = {size}\nswap-priority = {PRIORITY}\n{more}")
    };
    let daemon = Daemon::start(folder(), &zram("\"32 + 32\"", ""));
    let first = daemon.devices();
    let (_, folder) = daemon.end("-KILL");

    let daemon = Daemon::start(folder, &zram("\"32 + 32\"", "zram-resident-limit = 16\n"));
    let second = daemon.devices();
    assert_ne!(first, second, "its limit is another");
    assert_eq!(own_areas().len(), 1);
    let (_, folder) = daemon.end("-KILL");

    // What the kernel has not is found out before the device goes.
    let config = folder.path().join("warmswap.toml");
    let before = fs::read_to_string(&config).expect("a file");
    let other = before.replace(
        "zram-resident-limit = 16",
        "compression-algorithm = \"nosuch\"",
    );
    fs::write(&config, other).expect("a file can be written");
    let refused = run(["daemon", "--config", text(&config)]);
    assert_refused(&refused, 1, &["nosuch", "[zram0]"]);
    assert_eq!(own_areas().len(), 1, "it stays");

    let daemon = Daemon::start(folder, &zram("\"32 + 32\"", "zram-resident-limit = 16\n"));
    assert_eq!(daemon.devices(), second);
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
    let daemon = Daemon::start(folder(), "[app.web]\nexecutable = \"no-such-program\"\n");
    let socket = daemon.socket();
    let socket = text(&socket);

    let unknown: Ran = run(["switch", "--daemon", socket, "wb"]);

    assert_refused(&unknown, 1, &["\"wb\"", "there are: web"]);
    let missing = run(["launch", "--daemon", socket, "x", "--", "/no/such/program"]);
    assert_refused(&missing, 2, &["cannot run /no/such/program"]);
    let shown = succeed(["status", "--daemon", socket]);
    assert!(shown.contains("absent"), "{shown}");
    let (ended, _) = daemon.end("-HUP");
    assert_eq!(ended.code(), Some(0));
}

/// The heap is in this process, beside two ordinary programs.
#[test]
fn a_heap_that_follows_the_daemon_hears_what_its_user_looks_at() {
    if let Some(why) = hindrance() {
        skip!(
            "a_heap_that_follows_the_daemon_hears_what_its_user_looks_at",
            "{why}"
        );
    }
    let _turn = alone();
    let daemon = Daemon::start(folder(), "");
    let socket = daemon.socket();
    let fleet = FleetConfig {
        background_wait: Duration::ZERO,
        ..FleetConfig::learned()
    };
    let config = HeapConfig::new(8 << 20).with(Collector::Fleet(fleet));
    let memory = KernelMemory::new(config.address_bytes()).expect("memory");
    let heap = Heap::new(memory, config).expect("a heap");
    heap.follow_daemon(&socket).expect("a thread");

    let _one = Holder::launch(&daemon);
    let other = ["launch", "--daemon", text(&socket), "other", "--", "cat"];
    let mut other = warmswap(other)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the command starts");
    wait_for("the other is known", || {
        let apps = daemon.status()["apps"].take();
        let mut apps = apps.as_array().expect("a list").iter();
        apps.any(|app| app["name"] == "other" && app["phase"] != "background")
    });
    let request = Request::App {
        name: "heap".to_owned(),
        event: AppEvent::Launch {
            pid: std::process::id(),
        },
    };
    let mut client = Client::connect(&socket, PATIENCE).expect("the daemon listens");
    client.tell(&request).expect("the daemon is root, too");
    for (round, name) in ["hold", "other"].into_iter().enumerate() {
        wait_for("its launch ends", || heap.stats().launches.len() > round);
        switch(&daemon, &[name]);
        wait_for("it groups in the background", || {
            let reports = heap.stats().reports;
            let grouped = reports.iter().filter(|r| r.kind == Kind::Grouping);
            grouped.count() > round
        });
        switch(&daemon, &["heap"]);
    }
    switch(&daemon, &["hold"]);
    let launches = heap.stats().launches.len();
    let (ended, _folder) = daemon.end("-TERM");
    assert_eq!(ended.code(), Some(0));
    wait_for("without a daemon it is in the foreground", || {
        heap.stats().launches.len() > launches
    });
    drop(other.stdin.take());
    assert!(other.wait().expect("a child").success());
}
