//! The command lines that help and documents show: each is one that the command takes.

use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::ErrorKind;

use crate::shell::documents;

/// Checks the examples of every command and those of the documents.
///
/// # Panics
/// When a command has no example, or a shown line is none that the command takes.
pub fn check(command: &Command) {
    let mut built = command.clone();
    built.build();
    let path = built.get_name().to_owned();
    check_examples(&built, &path, command, false);
    let root = root();
    let mut lines = 0;
    for document in documents(&root) {
        let shown = document.path.display();
        for block in document.blocks() {
            for words in block.commands(&path) {
                let shown = format!("{shown}:{}: {}", block.line, words.join(" "));
                assert_taken(command, &words, &shown);
                lines += 1;
            }
        }
        for span in document.code_spans() {
            if span.split_whitespace().next() == Some(&path) {
                assert_named_things_are_there(&built, &span, &shown.to_string());
            }
        }
    }
    assert!(lines > 10, "only {lines} command lines were found");
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Commands below one with examples do without.
fn check_examples(command: &Command, path: &str, root: &Command, has_parents: bool) {
    let help = command.get_after_long_help().map(ToString::to_string);
    let help = help.unwrap_or_default();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    let lines = lines.map(|line| line.strip_prefix("sudo ").unwrap_or(line));
    let lines = lines.filter(|line| line.split(' ').next() == Some(root.get_name()));
    let mut has_examples = has_parents;
    for line in lines {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert_taken(root, &words, line);
        assert!(line.len() <= 78, "{line}");
        has_examples = true;
    }
    let mut visible = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        .peekable();
    assert!(
        has_examples || visible.peek().is_some(),
        "{path} has no examples"
    );
    let is_root = path == root.get_name();
    visible.for_each(|sub| {
        let below = format!("{path} {}", sub.get_name());
        check_examples(sub, &below, root, has_examples && !is_root);
    });
}

/// The words are what the command takes, or ask for its help or version.
#[track_caller]
fn assert_taken(command: &Command, words: &[String], shown: &str) {
    if let Err(error) = command.clone().try_get_matches_from(words) {
        let asked = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
        assert!(asked.contains(&error.kind()), "{shown}: {error}");
    }
}

/// The subcommands and options that a span of code names are there; what else it names is not looked at.
#[track_caller]
fn assert_named_things_are_there(built: &Command, span: &str, shown: &str) {
    let mut at = built;
    for word in span.split_whitespace().skip(1) {
        let is_name = |word: &str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        if word == "--" {
            break;
        } else if let Some(option) = word.strip_prefix("--") {
            let option = option.split_once('=').map_or(option, |(name, _)| name);
            let is_there = at.get_arguments().any(|arg| arg.get_long() == Some(option));
            assert!(is_there, "{shown}: no --{option} in `{span}`");
        } else if let Some(sub) = at.find_subcommand(word) {
            at = sub;
        } else {
            let takes_command = at.has_subcommands() && is_name(word);
            assert!(!takes_command, "{shown}: no command {word} in `{span}`");
            // What follows an argument may be another program's.
            if !word.starts_with('-') && at.get_positionals().next().is_some() {
                break;
            }
        }
    }
}
