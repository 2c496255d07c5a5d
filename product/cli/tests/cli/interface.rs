//! What the command says of itself, and the forms in which it gives results.

use crate::common::{Ran, assert_misused, assert_refused, folder, run, succeed, text, warmswap};
use std::fs;
use std::process::Command;

/// Runs the command in a terminal of so many columns, as far as it can tell.
fn in_columns(columns: usize, args: &[&str]) -> Ran {
    let mut command = warmswap(args);
    // A long path is not broken.
    command.env("WARMSWAP_PRELOAD", "/none");
    let output = command.env("COLUMNS", columns.to_string()).output();
    output.expect("the command starts").into()
}

// ---- help, manual pages and completions ----

#[test]
fn help_lists_commands_and_shows_examples() {
    let help = succeed(["--help"]);
    for shown in [
        "\nUsage: warmswap",
        "  daemon ",
        "  run ",
        "  status ",
        "Examples:\n  warmswap doctor\n",
    ] {
        assert!(help.contains(shown), "{shown}: {help}");
    }
    for hidden in ["completions", "\n  man "] {
        assert!(!help.contains(hidden), "{hidden}");
    }
    for line in help.lines().filter(|line| line.starts_with("  ")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(succeed(["help", "status"]).contains("Examples:\n  warmswap status\n"));
    let version = concat!("warmswap ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(succeed(["--version"]), version);
}

#[test]
fn commands_of_the_laboratory_are_named() {
    for command in ["replay", "bench", "trace", "study"] {
        let named = format!("`warmswap-lab {command}`");
        assert_refused(&run([command, "--json", "x"]), 2, &[&named]);
    }
    let usage = run(["squeeze"]);
    assert_misused(&usage, &["'squeeze'", "warmswap"]);
    assert!(!usage.stderr.contains("completions"), "{}", usage.stderr);
}

#[test]
fn every_command_has_a_page() {
    let folder = folder();
    let others = folder.path().join("man1/others.1.gz");
    fs::create_dir(folder.path().join("man1")).expect("a folder");
    fs::write(&others, [0xff; 8]).expect("a file");
    succeed(["man", text(folder.path())]);
    assert_eq!(fs::read(others).expect("it is there"), [0xff; 8]);
    let read = |page: &str| fs::read_to_string(folder.path().join(page)).expect(page);
    for page in [
        "man1/warmswap.1",
        "man1/warmswap-run.1",
        "man1/warmswap-launch.1",
    ] {
        let roff = read(page);
        for section in ["NAME", "SYNOPSIS", "OPTIONS", ".SH \"EXAMPLES\""] {
            assert!(roff.contains(section), "{page}: {section}");
        }
    }
    assert!(!folder.path().join("man1/warmswap-man.1").exists());
    let status = read("man1/warmswap-status.1");
    for part in ["warmswap status", "3  neither a daemon", "4  this user"] {
        assert!(status.contains(part), "{part}: {status}");
    }
    assert!(read("man5/warmswap.toml.5").contains(".TH"));
}

#[test]
fn shells_complete_subcommands_and_options() {
    let folder = folder();
    let file = folder.path().join("warmswap.bash");
    fs::write(&file, succeed(["completions", "bash"])).expect("a file");
    let complete = |words: &[&str]| {
        let last = words.len() - 1;
        let script = format!(
            ". {file}; COMP_WORDS=({words}); COMP_CWORD={last}; _warmswap warmswap '{word}' ''; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file = text(&file),
            words = words.join(" "),
            word = words[last],
        );
        let output = Command::new("bash").args(["-c", &script]).output();
        let output = output.expect("bash starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(complete(&["warmswap", "sta"]), "status\n");
    let options = complete(&["warmswap", "run", "--bud"]);
    assert_eq!(options, "--budget\n");
    for (shell, part) in [
        ("zsh", "#compdef warmswap"),
        ("fish", "complete -c warmswap"),
    ] {
        let script = succeed(["completions", shell]);
        assert!(
            script.contains(part) && script.contains("status"),
            "{shell}"
        );
    }
}

// ---- results ----

#[test]
fn what_has_no_result_refuses_to_write_one() {
    let folder = folder();
    let man = text(folder.path()).to_owned();
    for args in [
        &["daemon"][..],
        &["agent"],
        &["launch", "x", "--", "true"],
        &["man", &man],
        &["completions", "bash"],
    ] {
        for option in ["--json", "--csv"] {
            let args = [&args[..1], &[option, "-"], &args[1..]].concat();
            assert_misused(&run(args), &[option]);
        }
    }
    let example = run(["config", "--example", "--json", "-"]);
    assert_refused(&example, 2, &["config --example", "--json"]);
    assert!(
        fs::read_dir(folder.path())
            .expect("a folder")
            .next()
            .is_none()
    );
    assert_misused(&run(["run", "--csv", "-", "true"]), &["--csv"]);
    let both = run(["status", "--json", "-", "--csv", "-"]);
    assert_refused(&both, 2, &["same file"]);
}

#[test]
fn tables_fit_narrow_terminals() {
    for args in [&["doctor"][..], &["doctor", "run"]] {
        for columns in [80, 100] {
            let ran = in_columns(columns, args);
            // What would help is a command, which is not broken.
            let tables = ran.stdout.split("\nTo fix what is not there:").next();
            for line in tables.expect("text").lines() {
                let width = line.chars().count();
                assert!(width <= columns, "{args:?}: {width}: {line}");
            }
        }
    }
}

#[test]
fn faults_of_a_configuration_have_a_line_each() {
    let folder = folder();
    let file = folder.path().join("a.toml");
    fs::write(&file, "[host]\nprefetch = 1\n[zram0]\nzram-size = \"4X\"\n").expect("a file");
    let config = run(["config", "--effective", "--config", text(&file)]);
    let lines: Vec<&str> = config.stderr.lines().collect();
    assert_eq!(
        (config.code, lines.len()),
        (Some(2), 2),
        "{}",
        config.stderr
    );
    assert!(
        lines.iter().all(|line| line.starts_with("warmswap: ")),
        "{lines:?}"
    );
}
