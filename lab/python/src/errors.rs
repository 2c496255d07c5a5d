//! Exceptions, with the command's words.

use pyo3::PyErr;
use pyo3::exceptions::PyException;
use warmswap_commands::exit::is_bad_input;
use warmswap_output::exit;
use warmswap_trace::TraceError;

pyo3::create_exception!(
    warmswap_lab,
    Error,
    PyException,
    "It failed; the text is the line that the command says."
);
pyo3::create_exception!(
    warmswap_lab,
    BadInput,
    Error,
    "An argument, or a file that it names, cannot be used: where the command ends with 2."
);

/// The exception for an error of a command.
pub fn failed(error: &anyhow::Error) -> PyErr {
    let line = exit::line(error);
    if exit::is_bad(error, is_bad_input) {
        BadInput::new_err(line)
    } else {
        Error::new_err(line)
    }
}

/// The exception for a trace that cannot be read or written.
pub fn bad_trace(error: TraceError) -> PyErr {
    failed(&error.into())
}

/// The exception for words that are no command line: what clap says, without how the command is used.
pub fn misused(error: &clap::Error) -> PyErr {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim);
    let lines =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let parts: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = parts.join("; ");
    BadInput::new_err(text.trim_start_matches("error: ").to_owned())
}
