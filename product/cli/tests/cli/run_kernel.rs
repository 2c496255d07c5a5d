//! `warmswap run --host kernel`: real programs in control groups of this machine.

use crate::common::{Ran, folder, text, warmswap};
use crate::run::compile;
use serde_json::Value;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use warmswap_doctor::{Machine, Part, require};
use warmswap_sys::process::Stat;
use warmswap_sys::{Root, swap};

/// Fills so many MiB with words that compress to about a third, checks and changes them in so many rounds, says what it
/// found, and ends with 5. Statically linked: nothing could be preloaded.
const WALKER: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static uint64_t value(size_t i) { return i % 4 ? 7 : (i * 2654435761u >> 7) & 0xffff; }
int main(int argc, char **argv) {
    size_t words = (size_t)atoi(argv[1]) << 17, wrong = 0;
    int rounds = atoi(argv[2]);
    volatile uint64_t *memory = malloc(words * 8);
    if (!memory) return 1;
    for (size_t i = 0; i < words; i++) memory[i] = value(i);
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < words; i++) {
            wrong += memory[i] != value(i) + (uint64_t)round;
            memory[i]++;
        }
    printf("%zu wrong\n", wrong);
    return 5;
}
"#;

fn command(args: &[&str]) -> Command {
    warmswap(["run", "--host", "kernel"].iter().chain(args))
}

fn run(args: &[&str]) -> Ran {
    command(args).output().expect("the command starts").into()
}

/// Ends the test where the kernel host cannot work.
macro_rules! needs_kernel_host {
    ($name:literal) => {
        if let Err(trouble) = require(&Machine::this(), Part::Group) {
            warmswap_testkit::skip!($name, "{trouble}");
        }
    };
}

/// The walker, if there is a compiler.
macro_rules! walker {
    ($name:literal, $folder:expr) => {{
        needs_kernel_host!($name);
        let Some(program) = compile($folder.path(), "walker", WALKER, &["-O2", "-static"]) else {
            warmswap_testkit::skip!($name, "there is no C compiler");
        };
        program
    }};
}

/// Fills so many MiB with numbers that do not compress, forks so many times, and checks all of them in each child and in the
/// end. Ends with 5.
const STUBBORN: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static uint64_t value(uint64_t i) {
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
    i = (i ^ i >> 27) * 0x94d049bb133111ebu;
    return i ^ i >> 31;
}
static size_t words;
static volatile uint64_t *memory;
static int is_wrong(size_t step) {
    for (size_t i = 0; i < words; i += step)
        if (memory[i] != value(i + 1)) return 1;
    return 0;
}
int main(int argc, char **argv) {
    int children = atoi(argv[2]), wrong = 0, status;
    words = (size_t)atoi(argv[1]) << 17;
    memory = malloc(words * 8);
    if (!memory) return 1;
    for (size_t i = 0; i < words; i++) memory[i] = value(i + 1);
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (child < 0) { perror("fork"); return 2; }
        if (!child) _exit(is_wrong(1 << 16));
    }
    while (wait(&status) > 0) wrong += status != 0;
    printf("%d wrong, %d\n", wrong, is_wrong(1));
    return 5;
}
"#;

fn devices() -> Vec<String> {
    let areas = swap::areas(&Root::machine()).expect("the list can be read");
    areas.into_iter().map(|area| area.path).collect()
}

/// The memory group of a process.
fn group(pid: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it runs");
    let line = text.lines().find(|line| line.contains(":memory:"));
    let line = line.or_else(|| text.lines().find(|line| line.starts_with("0::")));
    line.expect("a group")
        .rsplit(':')
        .next()
        .expect("a path")
        .to_owned()
}

fn data(path: &Path) -> Value {
    let text = fs::read(path).expect("it is written");
    let mut envelope: Value = serde_json::from_slice(&text).expect("valid JSON");
    assert_eq!(envelope["schema"], "warmswap.run");
    envelope["data"].take()
}

/// A shell under the command that says its number first and then does what it is told.
struct Shell {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    pid: u32,
}

impl Shell {
    fn start(script: &str) -> Self {
        let script = format!("echo $$; {script}");
        let mut child = command(&["--budget", "32M", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The kernel stops no process of a group that has lost its session.
            .process_group(0)
            .spawn()
            .expect("the command starts");
        let input = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut shell = Self {
            child,
            input,
            lines,
            pid: 0,
        };
        shell.pid = shell.line().parse().expect("a number");
        shell
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    fn signal(&self, signal: &str) {
        kill(signal, self.child.id());
    }

    /// What the group is called.
    fn group_name(&self) -> String {
        format!("warmswap-run-{}", self.child.id())
    }

    fn end(self) -> Ran {
        drop(self.input);
        self.child.wait_with_output().expect("it ends").into()
    }
}

fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(status.expect("kill starts").success());
}

/// Waits until a process has one of these states.
fn wait_for(pid: u32, states: &[char]) {
    let state = || Stat::read(&Root::machine(), pid).map(|stat| stat.state);
    while !state().is_ok_and(|state| states.contains(&state)) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn a_static_program_keeps_to_its_budget_and_computes_what_it_would() {
    let folder = folder();
    let program = walker!(
        "a_static_program_keeps_to_its_budget_and_computes_what_it_would",
        folder
    );
    let before = devices();
    let result = folder.path().join("result.json");
    let (program, json) = (text(&program), text(&result));
    let ran = run(&["--json", json, "--budget", "32M", program, "64", "3"]);

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "0 wrong\n"));
    assert!(ran.stderr.contains("needed 6"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("host    kernel: as asked"),
        "{}",
        ran.stderr
    );
    let data = data(&result);
    let number = |name: &str| data["kernel"][name].as_u64().expect("a number");
    assert_eq!(number("budget_bytes"), 32 << 20);
    assert!(number("needed_peak_bytes") >= 64 << 20, "{data}");
    // Half of it at least left, in every round.
    assert!(number("out_pages") >= 3 * 8192, "{data}");
    assert!(number("major_faults") >= 2 * 8192, "{data}");
    // Between two looks the pool grows, by more where the processors are busy. A limit that does not follow the pool would
    // take 10 MiB more.
    assert!(number("used_peak_bytes") <= 38 << 20, "{data}");
    assert!(number("pool_peak_bytes") >= 4 << 20, "{data}");
    assert_eq!(data["host"], "kernel");
    assert_eq!(data["program"]["exit"]["exited"]["status"], 5);
    assert_eq!(devices(), before);
}

/// What does not fit makes the budget larger, and the summary says so.
#[test]
fn no_budget_ends_a_program_that_does_not_compress_and_forks() {
    let folder = folder();
    let name = "no_budget_ends_a_program_that_does_not_compress_and_forks";
    needs_kernel_host!("no_budget_ends_a_program_that_does_not_compress_and_forks");
    let Some(program) = compile(folder.path(), "stubborn", STUBBORN, &["-O2"]) else {
        warmswap_testkit::skip!(name, "there is no C compiler");
    };
    let before = devices();
    let result = folder.path().join("result.json");
    for budget in ["1M", "12M"] {
        let args = ["--json", text(&result), "--budget", budget];
        let ran = run(&[&args, &[text(&program), "60", "100"][..]].concat());
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(5), "0 wrong, 0\n"),
            "{budget}: {}",
            ran.stderr
        );
        let data = data(&result);
        assert_eq!(data["kernel"]["oom_kills"], 0, "{budget}: {data}");
        assert!(ran.stderr.contains(", exceeded by "), "{}", ran.stderr);
        assert!(ran.stderr.contains("room to go on"), "{}", ran.stderr);
    }
    assert_eq!(devices(), before);
}

/// It would be so with any small device of another program's.
#[test]
fn a_small_device_of_another_program_does_not_lift_the_limit() {
    let folder = folder();
    let program = walker!(
        "a_small_device_of_another_program_does_not_lift_the_limit",
        folder
    );
    let device = OthersDevice::new("256M");
    let limit = format!("/sys/block/zram{}/mem_limit", device.0);
    fs::write(limit, "1M").expect("a limit");
    let result = folder.path().join("result.json");
    let args = ["--json", text(&result), "--budget", "32M"];
    let ran = run(&[&args, &[text(&program), "64", "2"][..]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "0 wrong\n"));
    let data = data(&result);
    assert_eq!(data["kernel"]["lifted_limits"], 0, "{data}");
    let used = data["kernel"]["used_peak_bytes"].as_u64();
    assert!(used.expect("a number") <= 38 << 20, "{data}");
}

#[test]
fn a_program_of_many_budgets_gets_more_swap() {
    let folder = folder();
    let program = walker!("a_program_of_many_budgets_gets_more_swap", folder);
    let before = devices();
    let result = folder.path().join("result.json");
    let args = ["--json", text(&result), "--budget", "16M"];
    let ran = run(&[&args, &[text(&program), "300", "1"][..]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "0 wrong\n"));
    let data = data(&result);
    assert_eq!(data["kernel"]["lifted_limits"], 0, "{data}");
    assert_eq!(data["kernel"]["added_devices"], 1, "{data}");
    assert_eq!(devices(), before);
}

/// A process that has the device open keeps it from going.
#[test]
fn a_failed_clean_up_leaves_the_numbers() {
    needs_kernel_host!("a_failed_clean_up_leaves_the_numbers");
    let folder = folder();
    let result = folder.path().join("result.json");
    let fifo = folder.path().join("end");
    let script = format!(
        "mkfifo {0}; device=$(awk '/zram/ {{ last = $1 }} END {{ print last }}' /proc/swaps); \
         sh -c 'read word < {0}' < /dev/null > /dev/null 2>&1 3< $device & \
         awk 'BEGIN {{ for (i = 0; i < 300000; i++) a[i] = i \"words\"; print length(a) }}'",
        text(&fifo)
    );
    let args = [
        "--json",
        text(&result),
        "--budget",
        "16M",
        "sh",
        "-c",
        &script,
    ];
    let ran = run(&args);
    fs::write(&fifo, "end\n").expect("it is read");
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "300000\n"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("the next command tries again"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("pages out"), "{}", ran.stderr);
    assert!(data(&result)["kernel"]["out_pages"].as_u64() > Some(1000));
    assert_eq!(run(&["true"]).code, Some(0));
}

/// The list of processes in the memory group of this one.
fn own_procs() -> PathBuf {
    let own = group(std::process::id());
    let procs = ["memory", ""].map(|name| format!("/sys/fs/cgroup/{name}{own}/cgroup.procs"));
    let mut procs = procs.into_iter().map(PathBuf::from);
    procs.find(|path| path.exists()).expect("a group")
}

#[test]
fn a_program_that_leaves_its_group_is_told() {
    needs_kernel_host!("a_program_that_leaves_its_group_is_told");
    let mut shell = Shell::start("read word; echo $word; read word");
    fs::write(own_procs(), shell.pid.to_string()).expect("it moves");
    shell.input.write_all(b"there\n").expect("it reads");
    assert_eq!(shell.line(), "there");
    // The command looks now and then.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let ran = shell.end();
    assert!(ran.stderr.contains("left its group"), "{}", ran.stderr);
}

/// It has left before any look could have found it in the group.
#[test]
fn a_child_that_leaves_the_group_is_told() {
    let folder = folder();
    let program = walker!("a_child_that_leaves_the_group_is_told", folder);
    let result = folder.path().join("result.json");
    let procs = own_procs();
    let script = format!(
        "sh -c 'echo $$ > {}; sleep 5; exec {} 64 8'; true",
        text(&procs),
        text(&program)
    );
    let args = ["--json", text(&result), "--budget", "16M"];
    let ran = run(&[&args, &["sh", "-c", &script][..]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("left its group"), "{}", ran.stderr);
    let line = "more than was charged to the group: a process was outside of the group";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
    let data = data(&result);
    assert_eq!(data["kernel"]["has_left_group"], true, "{data}");
}

#[test]
fn shared_memory_is_needed_and_zeros_are_paged() {
    const SHARED: &str = r#"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    size_t bytes = 60u << 20;
    char *all = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(all, 0, bytes);
    usleep(300000);
    return all[bytes / 2];
}
"#;
    needs_kernel_host!("shared_memory_is_needed_and_zeros_are_paged");
    let folder = folder();
    let Some(program) = compile(folder.path(), "shared", SHARED, &["-O0"]) else {
        warmswap_testkit::skip!(
            "shared_memory_is_needed_and_zeros_are_paged",
            "there is no C compiler"
        );
    };
    let result = folder.path().join("result.json");
    let args = ["--json", text(&result), "--budget", "16M", text(&program)];
    let ran = run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let data = data(&result);
    let number = |name: &str| data["kernel"][name].as_u64().expect("a number");
    assert!(number("needed_peak_bytes") >= 55 << 20, "{data}");
    // Linux 6.12 writes no zeros and does not count them.
    let vmstat = fs::read_to_string("/proc/vmstat").expect("it can be read");
    if vmstat.contains("swpout_zero") {
        assert!(number("out_pages") >= 10_000, "{data}");
    }
}

#[test]
fn streams_status_and_forks_are_the_programs_own() {
    needs_kernel_host!("streams_status_and_forks_are_the_programs_own");
    let before = devices();
    let mut shell = Shell::start("cat; sh -c 'cat /proc/self/cgroup' >&2; exit 7");
    assert!(group(shell.pid).ends_with(&shell.group_name()));
    shell.input.write_all(b"through\n").expect("it reads");
    assert_eq!(shell.line(), "through");
    let name = shell.group_name();
    let ran = shell.end();

    assert_eq!(ran.code, Some(7));
    assert!(ran.stderr.contains(&name), "{}", ran.stderr);
    assert!(ran.stderr.contains("exited with 7"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("nothing of it was paged"),
        "{}",
        ran.stderr
    );
    assert_eq!(devices(), before);
    let group = format!("{}/{name}", group(std::process::id()));
    assert!(
        !Path::new("/sys/fs/cgroup/memory")
            .join(&group[1..])
            .exists()
    );

    let ran = run(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(ran.code, Some(128 + 9));
    assert!(ran.stderr.contains("killed by signal 9"), "{}", ran.stderr);
}

#[test]
fn signals_reach_the_program_and_the_group_goes_with_it() {
    needs_kernel_host!("signals_reach_the_program_and_the_group_goes_with_it");
    let before = devices();
    for signal in ["-TERM", "-INT"] {
        let script = "trap 'echo told; exit 3' TERM INT; echo ready; while :; do sleep 0.01; done";
        let mut shell = Shell::start(script);
        assert_eq!(shell.line(), "ready");
        shell.signal(signal);
        assert_eq!(shell.line(), "told");
        assert_eq!(shell.end().code, Some(3));
        assert_eq!(devices(), before);
    }
    // Of a timer, of a limit, and of real time: they would end the command, and leave program and device.
    for (signal, number) in [("-ALRM", 14), ("-XCPU", 24), ("-35", 35), ("-ABRT", 6)] {
        let shell = Shell::start("while :; do sleep 0.01; done");
        shell.signal(signal);
        assert_eq!(shell.end().code, Some(128 + number), "{signal}");
        assert_eq!(devices(), before, "{signal}");
    }
}

/// A timer that was set before outlives the `exec` of the command, as it would that of the program.
#[test]
fn an_alarm_of_the_one_who_starts_the_command_ends_the_program() {
    needs_kernel_host!("an_alarm_of_the_one_who_starts_the_command_ends_the_program");
    let plain = warmswap([
        "run", "--host", "kernel", "--budget", "64M", "sleep", "1000",
    ]);
    let ran: Ran = Command::new("python3")
        .arg("-c")
        .arg("import os, signal, sys; signal.setitimer(signal.ITIMER_REAL, 2); os.execv(sys.argv[1], sys.argv[1:])")
        .arg(plain.get_program())
        .args(plain.get_args())
        .output()
        .expect("python3 starts")
        .into();
    assert_eq!(ran.code, Some(128 + 14), "{}", ran.stderr);
    assert!(ran.stderr.contains("sleep"), "{}", ran.stderr);
}

#[test]
fn a_failed_program_that_sizes_its_heap_by_the_group_is_told_of_that() {
    needs_kernel_host!("a_failed_program_that_sizes_its_heap_by_the_group_is_told_of_that");
    let folder = folder();
    let node = folder.path().join("node");
    for (status, is_told) in [(3, true), (0, false)] {
        std::fs::write(&node, format!("#!/bin/sh\nexit {status}\n")).expect("a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&node, mode).expect("its own");
        let mut command = warmswap(["run", "--host", "kernel", "--budget", "64M"]);
        let ran: Ran = command.arg(&node).output().expect("it starts").into();
        assert_eq!(ran.code, Some(status));
        let told = ran.stderr.contains("--max-old-space-size");
        assert_eq!(told, is_told, "{}", ran.stderr);
    }
}

#[test]
fn the_command_stops_and_goes_on_with_the_program() {
    needs_kernel_host!("the_command_stops_and_goes_on_with_the_program");
    let mut shell = Shell::start("while read word; do echo $word; done");
    shell.signal("-TSTP");
    wait_for(shell.pid, &['T']);
    wait_for(shell.child.id(), &['T']);
    shell.signal("-CONT");
    wait_for(shell.pid, &['S', 'R']);
    shell.input.write_all(b"again\n").expect("it reads");
    assert_eq!(shell.line(), "again");
    assert_eq!(shell.end().code, Some(0));
}

#[test]
fn what_a_killed_command_left_is_taken_back_by_the_next() {
    needs_kernel_host!("what_a_killed_command_left_is_taken_back_by_the_next");
    let before = devices();
    let mut shell = Shell::start("while read word; do echo $word; done");
    let name = shell.group_name();
    assert!(group(shell.pid).ends_with(&name));
    shell.signal("-KILL");
    shell.child.wait().expect("it ends");

    assert_eq!(run(&["true"]).code, Some(0));

    assert_eq!(devices(), before);
    // The program goes on, without a limit.
    assert_eq!(group(shell.pid), group(std::process::id()));
    shell.input.write_all(b"alive\n").expect("it reads");
    assert_eq!(shell.line(), "alive");
}

#[test]
fn children_outlive_the_program_and_leave_its_group() {
    needs_kernel_host!("children_outlive_the_program_and_leave_its_group");
    let before = devices();
    let mut shell = Shell::start("sleep 600 >/dev/null 2>&1 </dev/null & echo $!");
    let child: u32 = shell.line().parse().expect("a number");
    let ran = shell.end();

    assert_eq!(ran.code, Some(0));
    let line = "one of its processes goes on, without the budget";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
    assert_eq!(group(child), group(std::process::id()));
    assert_eq!(devices(), before);
    kill("-KILL", child);
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let folder = folder();
    let program = walker!("two_at_once_do_not_disturb_each_other", folder);
    run_two_at_once(&program, folder.path(), |_| {});
}

#[test]
fn two_at_once_do_not_share_a_device_that_is_too_small_for_both() {
    let folder = folder();
    let program = walker!(
        "two_at_once_do_not_share_a_device_that_is_too_small_for_both",
        folder
    );
    let device = OthersDevice::new("64M");
    run_two_at_once(&program, folder.path(), |data| {
        assert_eq!(data["kernel"]["is_own_device"], true, "{data}");
    });
    let path = PathBuf::from(format!("/sys/block/zram{}", device.0));
    drop(device);
    assert!(!path.exists(), "{path:?} is left");
}

/// A zram device that is swapped to last, as another program sets it up. Dropping it removes it.
struct OthersDevice(String);

impl OthersDevice {
    fn new(size: &str) -> Self {
        let id = fs::read_to_string("/sys/class/zram-control/hot_add").expect("it is added");
        let device = Self(id.trim().to_owned());
        let disk_size = format!("/sys/block/zram{}/disksize", device.0);
        fs::write(disk_size, size).expect("a size");
        device.call("mkswap");
        device.call("swapon");
        device
    }

    fn call(&self, program: &str) {
        let ran = self.run(program).expect("it starts");
        assert!(ran.status.success(), "{program}: {ran:?}");
    }

    fn run(&self, program: &str) -> io::Result<Output> {
        let path = format!("/dev/zram{}", self.0);
        Command::new(program).arg(path).output()
    }
}

impl Drop for OthersDevice {
    fn drop(&mut self) {
        // The test may have failed before; the next one finds what could not be removed.
        let _ = self.run("swapoff");
        let _ = fs::write(format!("/sys/block/zram{}/reset", self.0), "1");
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.0);
    }
}

fn run_two_at_once(program: &Path, folder: &Path, check: impl Fn(&Value)) {
    let before = devices();
    let start = |mib: &str, rounds: &str, result: &Path| {
        let args = [
            "--json",
            text(result),
            "--budget",
            "24M",
            text(program),
            mib,
            rounds,
        ];
        let mut command = command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the command starts")
    };
    let results: [PathBuf; 2] = ["a", "b"].map(|name| folder.join(name));
    // The first ends while the second has pages in its device.
    let first = start("40", "1", &results[0]);
    let second = start("48", "4", &results[1]);
    for child in [first, second] {
        let ran = Ran::from(child.wait_with_output().expect("it ends"));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "0 wrong\n"));
    }
    for result in &results {
        let data = data(result);
        let used = data["kernel"]["used_peak_bytes"]
            .as_u64()
            .expect("a number");
        // Which pages of a device are whose is known by their number alone.
        assert!(used <= 28 << 20, "{data}");
        check(&data);
    }
    assert_eq!(devices(), before);
}

#[test]
fn status_lists_it_while_it_runs() {
    needs_kernel_host!("status_lists_it_while_it_runs");
    let shell = Shell::start("read word");
    let status = || {
        let pid = shell.pid.to_string();
        let ran = warmswap(["status", &pid, "--json", "-"]).output();
        Ran::from(ran.expect("the command starts"))
    };
    // It listens a moment after the program started, and has counted its memory a moment later.
    let listed = || -> Option<Value> {
        let ran = status();
        let mut envelope: Value = serde_json::from_str(&ran.stdout).ok()?;
        let program = envelope["data"]["programs"][0].take();
        (program["resident_bytes"].as_u64()? > 0).then_some(program)
    };
    let program = std::iter::repeat_with(listed).flatten().next();
    assert_eq!(program.expect("it runs")["budget_bytes"], 32 << 20);
    let said = warmswap(["switch", &shell.pid.to_string(), "--background"]).output();
    let said = Ran::from(said.expect("the command starts"));
    assert!(
        said.stderr.contains("nothing to do at a switch"),
        "{}",
        said.stderr
    );
    assert_eq!(shell.end().code, Some(1), "read saw the end of its input");
}
