//! Running a command while its output is both shown and read.

use std::io::{BufRead, BufReader, IsTerminal};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};

/// Runs `command` to its end; shows each line of its output and gives it, without colours, to
/// `on_line`.
///
/// Standard output and error go through one pipe, so their lines keep their order.
///
/// # Errors
/// When the command cannot be started or its output cannot be read.
pub fn run(mut command: Command, mut on_line: impl FnMut(&str)) -> Result<ExitStatus> {
    let program = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe().context("no pipe")?;
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    // The command holds our ends for writing; reading ends when the child's are the last.
    drop(command);
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        on_line(without_colours(&text).trim_end());
        line.clear();
    }
    child
        .wait()
        .with_context(|| format!("cannot wait for {program}"))
}

/// `text` without the escape sequences that set colours (`ESC [ ... letter`).
fn without_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            rest.find(char::is_ascii_alphabetic);
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (ExitStatus, Vec<String>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let status = run(command, |line| lines.push(line.to_owned())).unwrap();
        (status, lines)
    }

    #[test]
    fn both_streams_arrive_in_order() {
        let (status, lines) = shell("echo one; echo two >&2; echo three; printf four");
        assert!(status.success());
        assert_eq!(lines, ["one", "two", "three", "four"]);
    }

    #[test]
    fn the_status_is_the_commands() {
        let (status, lines) = shell("exit 3");
        assert_eq!(status.code(), Some(3));
        assert!(lines.is_empty());
    }

    #[test]
    fn colours_are_dropped() {
        assert_eq!(
            without_colours("\u{1b}[1m\u{1b}[32m   Running\u{1b}[0m x"),
            "   Running x"
        );
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(Command::new("/nonexistent/program"), |_| {}).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/program"));
    }
}
