//! The command line as a whole: subcommands in groups, and the help of each with examples.
//!
//! Everything that describes the command (help, manual pages, completions) begins with [`command`].

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};

use crate::Cli;
use crate::manual;

/// Subcommands by what people come for. One that is not named here is listed with the last group.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Use", &["daemon", "run", "launch", "switch", "config"]),
    ("Inspect", &["status", "top", "doctor"]),
    ("Research", &[]),
];

/// Options of every command that a command refuses, by the words behind `warmswap`: its help does not show them.
const REFUSED: [(&str, &[&str]); 9] = [
    ("daemon", &["json", "csv"]),
    ("launch", &["json", "csv"]),
    ("top", &["json", "csv"]),
    ("study all", &["json", "csv"]),
    ("report", &["json", "csv"]),
    ("run", &["csv"]),
    ("switch", &["csv"]),
    ("config", &["csv"]),
    ("trace head", &["csv"]),
];

/// The command with all subcommands, their examples and the grouped list.
pub fn command() -> Command {
    let command = Cli::command();
    let command = without_refused(command.clone(), "", &command);
    let command = with_examples(command, "");
    let template = template(&command);
    command.help_template(template)
}

/// Hides what a command below `root` refuses, and lets options take `-1`, which is refused by the option's name.
fn without_refused(command: Command, path: &str, root: &Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes_values = !arg.is_positional() && arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_values)
    });
    let refused = REFUSED.iter().find(|(name, _)| *name == path);
    let refused = refused.map_or(&[][..], |(_, options)| options);
    let args = root.get_arguments();
    // An own option of the same name stands in for the one of every command.
    let hidden = args
        .filter(|arg| refused.contains(&arg.get_id().as_str()))
        .map(|arg| arg.clone().allow_negative_numbers(true).hide(true));
    let command = command.args(hidden);
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, name| {
        let below = format!("{path} {name}").trim().to_owned();
        command.mut_subcommand(name, |sub| without_refused(sub, &below, root))
    })
}

/// Adds the examples of the manual to the long help of a command and of those below it.
fn with_examples(command: Command, path: &str) -> Command {
    let command = match manual::page(path) {
        Some(page) if !page.examples.is_empty() => command.after_long_help(examples(page)),
        _ => command,
    };
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, name| {
        let below = format!("{path} {name}");
        command.mut_subcommand(name, |sub| with_examples(sub, below.trim()))
    })
}

fn examples(page: &manual::Page) -> String {
    let mut text = String::from("Examples:");
    for (line, does) in page.examples {
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {line}\n      {does}");
    }
    text
}

/// The names of each group's subcommands, as they are listed.
fn groups(command: &Command) -> Vec<(&'static str, Vec<&str>)> {
    let named = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let last = GROUPS.len() - 1;
    let group = |(index, (title, names)): (usize, &(&'static str, &[&'static str]))| {
        let all = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let is_other = |name: &str| index == last && !named(name);
        let found = all.map(Command::get_name);
        let mut found: Vec<&str> = found
            .filter(|name| names.contains(name) || is_other(name))
            .collect();
        // Stable, so that those without a place stay in the order of their declaration.
        found.sort_by_key(|name| names.iter().position(|known| known == name));
        (*title, found)
    };
    GROUPS.iter().enumerate().map(group).collect()
}

fn template(command: &Command) -> StyledStr {
    let (header, literal) = (
        command.get_styles().get_header(),
        command.get_styles().get_literal(),
    );
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    let all = groups(command);
    let names = all.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    for (title, names) in &all {
        let _ = write!(text, "\n{header}{title}:{header:#}\n");
        for name in names {
            let sub = command.find_subcommand(name);
            let about = sub.and_then(Command::get_about).cloned();
            let about = about.unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    let _ = write!(
        text,
        "\n{header}Options:{header:#}\n{{options}}\n\n\
         `warmswap help COMMAND` explains a command, `man warmswap-COMMAND` in full.\n"
    );
    StyledStr::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use std::collections::BTreeSet;
    use std::path::Path;
    use warmswap_testkit::shell::documents;

    #[test]
    fn every_subcommand_stands_in_one_group_and_fits_80_columns() {
        let command = command();
        let listed = groups(&command);
        let names: Vec<&str> = listed.iter().flat_map(|(_, names)| names.clone()).collect();
        let all = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let all: BTreeSet<&str> = all.map(Command::get_name).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
        assert_eq!(names.iter().copied().collect::<BTreeSet<_>>(), all);
        assert!(listed.iter().all(|(_, names)| !names.is_empty()));
        for (_, names) in GROUPS {
            assert!(names.iter().all(|name| all.contains(name)), "{names:?}");
        }

        let help = command.clone().render_help().to_string();
        for (title, _) in listed {
            assert!(help.contains(&format!("\n{title}:\n")), "{help}");
        }
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    /// The visible commands below one, by the words behind `warmswap`.
    fn below(command: &Command, path: &str) -> Vec<String> {
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let all = visible.flat_map(|sub| {
            let words = format!("{path} {}", sub.get_name()).trim().to_owned();
            let mut all = below(sub, &words);
            all.push(words);
            all
        });
        all.collect()
    }

    #[test]
    fn every_command_has_examples_and_they_are_command_lines() {
        let known = below(&command(), "");
        for words in &known {
            let parent = words.rsplit_once(' ').map_or("", |(parent, _)| parent);
            let has =
                |words: &str| manual::page(words).is_some_and(|page| !page.examples.is_empty());
            // The studies have theirs together.
            assert!(has(words) || has(parent) && parent == "study", "{words}");
        }
        for page in manual::PAGES {
            assert!(
                page.command.is_empty() || known.iter().any(|name| name == page.command),
                "{}",
                page.command
            );
            for (line, does) in page.examples {
                let line = line.strip_prefix("sudo ").unwrap_or(line);
                if line.starts_with("systemctl ") {
                    continue;
                }
                let words: Vec<&str> = line.split_whitespace().collect();
                assert_command_line(&words, line);
                // What helps with a command may be another one.
                let of_doctor = words[1..].join(" ") == format!("doctor {}", page.command);
                let of_page = words[1..].join(" ").starts_with(page.command);
                assert!(of_page || of_doctor, "{line}");
                assert!(!does.ends_with('.') && line.len() <= 78, "{line}: {does}");
            }
        }
    }
    /// The words are what the command takes, or ask for its help or version.
    #[track_caller]
    fn assert_command_line(words: &[&str], shown: &str) {
        if let Err(error) = command().try_get_matches_from(words) {
            let is_asked = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            assert!(is_asked, "{shown}: {error}");
        }
    }

    /// The subcommands and options that a span of code names are there; what else it names is not looked at.
    #[track_caller]
    fn assert_named_things_are_there(span: &str, shown: &str) {
        let mut built = command();
        built.build();
        let mut at = &built;
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

    #[test]
    fn command_lines_of_the_documents_are_command_lines() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut lines = 0;
        for document in documents(&root) {
            for block in document.blocks() {
                for words in block.commands("warmswap") {
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    let shown = format!(
                        "{}:{}: {}",
                        document.path.display(),
                        block.line,
                        words.join(" ")
                    );
                    assert_command_line(&words, &shown);
                    lines += 1;
                }
            }
            for span in document.code_spans() {
                if span.starts_with("warmswap ") {
                    assert_named_things_are_there(&span, &document.path.display().to_string());
                }
            }
        }
        assert!(lines > 50, "only {lines} command lines were found");
    }
}
