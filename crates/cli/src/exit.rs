//! How the command ends: 2 for bad usage or input, 1 for failure, and one line that says why.

use clap::error::ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, InvalidSubcommand};
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
    let text = error.to_string();
    let said: Vec<_> = text
        .split("\n\n")
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"))
        .collect();
    let mut said = said.join("; ");
    if error.kind() == InvalidSubcommand {
        said += "; `warmswap --help` lists them";
    }
    eprintln!(
        "warmswap: {}",
        said.strip_prefix("error: ").unwrap_or(&said)
    );
    ExitCode::from(2)
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
        || cause.is::<TraceError>()
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
