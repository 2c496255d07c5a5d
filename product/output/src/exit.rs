//! How a command ends: 2 for bad usage or input, 1 for failure, and one line that says why.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;
use std::io;
use std::process::ExitCode;

use crate::size_expr::SizeError;
use crate::tell;

/// An argument, or a file that an argument names, cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// A file that a person wrote has several faults: a line for each.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadLines(pub String);

/// Prints what clap says of a command line of the command `name`, and gives the exit code. Subcommands that are now of another
/// command are those of `moved`, with that command.
#[must_use]
pub fn usage(name: &str, mut error: clap::Error, moved: Option<(&str, &[&str])>) -> ExitCode {
    if let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
        && let Some(number) = argument.strip_prefix('-')
        && number.starts_with(|first: char| first.is_ascii_digit())
    {
        // It is no value that could stand behind `--`: no option takes a number below zero.
        error.remove(ContextKind::Suggested);
    }
    let named = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if error.kind() == ErrorKind::InvalidSubcommand => name,
        _ => "",
    };
    match moved.filter(|(_, commands)| commands.contains(&named)) {
        Some((command, _)) => tell!(
            "warmswap: `warmswap {named}` is `{command} {named}` now, of the package {command}"
        ),
        None => {
            // Dropped where nothing reads it.
            let unread = |failed: &io::Error| failed.kind() == io::ErrorKind::BrokenPipe;
            if let Some(failed) = error.print().err().filter(|failed| !unread(failed)) {
                tell!("{name}: cannot write what was asked for: {failed}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Prints the error to standard error, in one line behind the command's `name`, and gives the exit code. Input with
/// several faults has a line for each. `is_bad_input` knows errors besides those of this crate that are bad input.
pub fn report(
    name: &str,
    error: &anyhow::Error,
    is_bad_input: impl Fn(&(dyn Error + 'static)) -> bool,
) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(BadLines(text)) = error.downcast_ref() {
        text.lines().for_each(|line| tell!("{name}: {line}"));
        return ExitCode::from(2);
    }
    tell!("{name}: {}", line(error));
    ExitCode::from(if is_bad(error, is_bad_input) { 2 } else { 1 })
}

/// The error and its causes in one line.
#[must_use]
pub fn line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // A transparent error repeats its source.
        if !line.ends_with(&text) {
            line += if line.is_empty() { "" } else { ": " };
            line += &text;
        }
    }
    line.replace('\n', " ")
}

/// Whether the input is at fault. `is_bad_input` knows errors besides those of this crate that are bad input.
pub fn is_bad(
    error: &anyhow::Error,
    is_bad_input: impl Fn(&(dyn Error + 'static)) -> bool,
) -> bool {
    let is_bad = |cause: &(dyn Error + 'static)| {
        cause.is::<BadInput>() || cause.is::<SizeError>() || is_bad_input(cause)
    };
    error.chain().any(is_bad)
}

/// Whether the reader of what a command writes has closed it.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause: Option<&io::Error> = error.root_cause().downcast_ref();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
