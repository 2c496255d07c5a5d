//! Readers that close a pipe early, as `head` does: no command panics, or ends otherwise than it would have.

use crate::common::{folder, text, warmswap};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use warmswap_doctor::{Machine, Part, require};

/// A pipe whose reading end is closed.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// How a command ends whose standard output and standard error nothing reads.
fn unread(mut command: Command) -> Option<i32> {
    let status = command.stdout(closed()).stderr(closed()).status();
    status.expect("the command starts").code()
}

#[test]
fn commands_end_as_they_would_have() {
    let nowhere = "/nonexistent/daemon.sock";
    let folder = folder();
    for args in [
        &["--help"][..],
        &["status", "--daemon", nowhere],
        &["status", "--daemon", nowhere, "--json", "-"],
        &["doctor"],
        &["doctor", "daemon", "--csv", "-"],
        &["config", "--example"],
        &["config", "--effective"],
        &["switch", "--daemon", nowhere, "web"],
        &["launch", "--daemon", nowhere, "web", "--", "true"],
        &["completions", "bash"],
        &["squeeze"],
        &["replay"],
    ] {
        let command = || {
            let mut command = warmswap(args);
            command.env("XDG_RUNTIME_DIR", folder.path());
            command
        };
        let read = command().output().expect("the command starts");
        assert_eq!(unread(command()), read.status.code(), "{args:?}");
    }
}

#[test]
fn the_first_line_is_all_that_is_read() {
    let mut child = warmswap(["config", "--example"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut first = String::new();
    // The reader is dropped with the pipe.
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut first)
        .expect("the first line can be read");
    let mut stderr = String::new();
    let mut pipe = child.stderr.take().expect("a pipe");
    pipe.read_to_string(&mut stderr).expect("text");
    let status = child.wait().expect("the command ends");
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    assert!(!first.is_empty());
}

/// A program under `run` keeps its exit status, and has the signals that it would have had.
#[test]
fn a_program_ends_as_it_does_and_a_closed_pipe_ends_it() {
    let hosts = [(Part::Group, "kernel"), (Part::Run, "preload")];
    let machine = Machine::this();
    let mut hosts = hosts
        .iter()
        .filter(|(part, _)| require(&machine, *part).is_ok());
    let Some((_, host)) = hosts.next() else {
        warmswap_testkit::skip!("a_program_ends_as_it_does", "no host works here");
    };
    let folder = folder();
    let seen = folder.path().join("seen");
    let run = |script: &str| {
        let mut command = warmswap(["run", "--host", host, "--budget", "64M", "sh", "-c", script]);
        command.env("SEEN", text(&seen));
        command
    };
    assert_eq!(unread(run("exit 7")), Some(7));
    let ignored = |mut command: Command| {
        let ran = warmswap_testkit::cli::Ran::from(command.output().expect("it starts"));
        let mask = ran.stdout.split_whitespace().nth(1).expect("a mask");
        u64::from_str_radix(mask, 16).expect("a mask")
    };
    let script = "grep SigIgn /proc/self/status";
    assert_eq!(ignored(run(script)) & 1 << 12, 0, "SIGPIPE is ignored");
    // As services of systemd are started, and programs by Python.
    let mut deaf = Command::new("sh");
    deaf.args(["-c", "trap '' PIPE XFSZ; exec \"$@\"", "sh"]);
    let plain = run(script);
    deaf.arg(plain.get_program()).args(plain.get_args());
    let both = 1 << 12 | 1 << 24;
    assert_eq!(ignored(deaf) & both, both, "ignored by the command alone");
    let mut childless = Command::new("sh");
    childless.args(["-c", "trap '' CHLD; exec \"$@\"", "sh"]);
    let plain = run("exit 7");
    childless.arg(plain.get_program()).args(plain.get_args());
    assert_eq!(unread(childless), Some(7));
    // Standard output that was closed is closed to the program, which notices.
    let mut mute = Command::new("sh");
    mute.args(["-c", "exec \"$@\" >&-", "sh"]);
    let plain = run("echo x 2>$SEEN || exit 5");
    mute.arg(plain.get_program()).args(plain.get_args());
    mute.env("SEEN", text(&seen));
    assert_eq!(unread(mute), Some(5));
    // 128 and the number of SIGPIPE.
    assert_eq!(
        unread(run("sh -c 'while :; do echo x; done'; echo $? >$SEEN")),
        Some(0)
    );
    assert_eq!(
        fs::read_to_string(&seen).expect("it is written").trim(),
        "141"
    );
}
