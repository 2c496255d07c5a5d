//! How the command ends: 2 for bad usage or input, 1 for failure, and one line that says why.

use clap::Command;
use clap::error::ErrorKind::{
    DisplayHelpOnMissingArgumentOrSubcommand, InvalidSubcommand, InvalidValue, UnknownArgument,
};
use clap::error::{ContextKind, ContextValue};
use std::io;
use std::process::ExitCode;
use thiserror::Error;
use warmswap_apps::AppError;
use warmswap_engine::ConfigError;
use warmswap_evidence::EvidenceError;
use warmswap_policy::PolicyError;
use warmswap_replay::ReplayError;
use warmswap_report::size_expr::SizeError;
use warmswap_study::StudyError;
use warmswap_trace::TraceError;

/// What a person gave cannot be used.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// A file that a person wrote has several faults: a line for each.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BadLines(pub String);

/// Prints what is wrong with the arguments to standard error, in one line, and gives the exit code. Help
/// and version go to standard output; the help that stands in for missing subcommands is left whole.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        // Whoever does not want to read it needs no reason.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    eprintln!("warmswap: {}", misused(error, &words));
    ExitCode::from(2)
}

/// What is wrong with `words`, the command line behind `warmswap`, and what was probably meant. Clap's own tips are
/// left out: they name hidden subcommands, and `--` where it does not help.
fn misused(error: &clap::Error, words: &[String]) -> String {
    let text = error.to_string();
    let said: Vec<_> = text
        .split("\n\n")
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"))
        .filter(|part| !part.starts_with("tip: "))
        .collect();
    let said = said.join("; ");
    let said = NUMBERS
        .iter()
        .fold(said, |said, (rust, plain)| said.replace(rust, plain));
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let invalid = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let (command, path) = named(words);
    match error.kind() {
        InvalidSubcommand => {
            let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
            let meant = meant(
                invalid(ContextKind::InvalidSubcommand),
                visible.map(Command::get_name),
            );
            format!("{said}; `{path} --help` lists them{meant}")
        }
        InvalidValue => {
            let known = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(known)) => known.as_slice(),
                _ => &[],
            };
            let given = invalid(ContextKind::InvalidValue);
            format!("{said}{}", meant(given, known.iter().map(String::as_str)))
        }
        UnknownArgument => {
            let given = invalid(ContextKind::InvalidArg);
            match words.iter().position(|word| word == given) {
                Some(index) if path == "warmswap launch" && !given.starts_with('-') => format!(
                    "write -- before the program: warmswap {} -- {}",
                    words[..index].join(" "),
                    words[index..].join(" ")
                ),
                _ => unexpected(&command, given),
            }
        }
        _ => said.to_owned(),
    }
}

/// What the standard library says of a text that is no number, and what that means.
const NUMBERS: [(&str, &str); 5] = [
    ("invalid digit found in string", "it is no whole number"),
    (
        "cannot parse integer from empty string",
        "a number is missing",
    ),
    ("number too large to fit in target type", "it is too large"),
    ("invalid float literal", "it is no number"),
    (
        "cannot parse float from empty string",
        "a number is missing",
    ),
];

/// The command that words name, with its path: `warmswap trace` for `trace inf`.
fn named(words: &[String]) -> (Command, String) {
    let mut command = crate::interface::command();
    command.build();
    let mut path = command.get_name().to_owned();
    for word in words {
        let Some(sub) = command.find_subcommand(word).cloned() else {
            if word.starts_with('-') {
                continue;
            }
            break;
        };
        path = format!("{path} {}", sub.get_name());
        command = sub;
    }
    (command, path)
}

/// What is said of an option that a command does not have.
fn unexpected(command: &Command, given: &str) -> String {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let options: Vec<String> = visible
        .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
        .collect();
    let meant = meant(given, options.iter().map(String::as_str));
    format!("unexpected argument '{given}'{meant}")
}

/// The same of an option that stands where a program should: `run --budgt 64M -- true`.
pub fn no_program(words: &[&str], given: &str) -> BadInput {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    BadInput(unexpected(&named(&words).0, given))
}

/// Above this similarity (Damerau-Levenshtein, 0 to 1) a name counts as a misspelt one: one letter of three may be wrong.
const SIMILAR: f64 = 0.6;

/// The one of the `known` names that was probably meant, as a question behind what is wrong.
fn meant<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = name.trim_start_matches('-');
    let likeness =
        |known: &str| strsim::normalized_damerau_levenshtein(name, known.trim_start_matches('-'));
    let similar = known.filter(|known| likeness(known) > SIMILAR);
    let nearest = similar.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    nearest.map_or_else(String::new, |known| format!("; did you mean '{known}'?"))
}

/// Prints the error to standard error, in one line, and gives the exit code. Input with several faults has a line for
/// each.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // Whoever read the output has seen enough.
        return ExitCode::SUCCESS;
    }
    if let Some(BadLines(text)) = error.downcast_ref() {
        text.lines().for_each(|line| eprintln!("warmswap: {line}"));
        return ExitCode::from(2);
    }
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // A transparent error repeats its source.
        if !line.ends_with(&text) {
            line += if line.is_empty() { "" } else { ": " };
            line += &text;
        }
    }
    eprintln!("warmswap: {}", line.replace('\n', " "));
    ExitCode::from(if error.chain().any(is_bad_input) {
        2
    } else {
        1
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error
        .root_cause()
        .downcast_ref::<io::Error>()
        .map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

fn is_bad_input(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.is::<BadInput>()
        || cause
            .downcast_ref()
            .is_some_and(|error: &TraceError| !error.is_failed_write())
        || cause.is::<PolicyError>()
        || cause.is::<SizeError>()
        || cause.is::<ConfigError>()
        || cause.is::<toml::de::Error>()
        || cause
            .downcast_ref()
            .is_some_and(EvidenceError::is_bad_input)
        || matches!(
            cause.downcast_ref(),
            Some(AppError::Invalid { .. } | AppError::Unknown { .. })
        )
        || cause.downcast_ref().is_some_and(is_bad_study)
}

/// Errors in boxes, and those that show another as their own, hide it from a search of the chain.
fn is_bad_study(error: &StudyError) -> bool {
    match error {
        StudyError::Trace(_)
        | StudyError::Policy(_)
        | StudyError::NoContents { .. }
        | StudyError::HeapDump { .. }
        | StudyError::NoInstance { .. } => true,
        StudyError::Replay { source, .. } | StudyError::Contents { source, .. } => matches!(
            **source,
            ReplayError::Trace(_)
                | ReplayError::Policy(_)
                | ReplayError::Limits(_)
                | ReplayError::Pool(_)
        ),
        StudyError::Pool { .. } | StudyError::Codec { .. } => false,
    }
}
