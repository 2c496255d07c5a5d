//! What all subcommands print, and how.

use crate::exit::BadInput;
use anyhow::{Context as _, Result};
use clap::Args;
use rustix::fs::{Access, access};
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use warmswap_report::json::{Envelope, Schema};
use warmswap_report::machine::Machine;
use warmswap_report::table::Table;
use warmswap_report::units::Style;

/// The options that every subcommand takes.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// The result as JSON; `-` for standard output, without tables
    #[arg(long, global = true, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// The tables as CSV in base units; `-` for standard output
    #[arg(long, global = true, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Raw numbers (bytes, nanoseconds) instead of human units
    #[arg(long, global = true, help_heading = "Output")]
    bytes: bool,
}

/// What a command gives besides what it prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Nothing: `--json` and `--csv` are refused.
    Nothing,
    /// A result, and no table of it: `--csv` is refused.
    Result,
    /// A result, and tables.
    Tables,
}

/// Columns of text where output is no terminal.
const WIDTH: usize = 100;

/// Narrower and wider terminals are taken for so wide.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=120;

/// Where results go.
#[derive(Debug)]
pub struct Output {
    json: Option<PathBuf>,
    csv: Option<PathBuf>,
    /// The command that results say they are of; `None` for this one.
    command: Option<Vec<String>>,
    /// How tables look.
    pub style: Style,
}

impl OutputArgs {
    /// Looks at the terminal. `gives` is what the command named `command` has for files.
    ///
    /// # Errors
    /// [`BadInput`] where it does not have what is asked for, or files cannot be written.
    pub fn open(self, command: &str, gives: Gives) -> Result<Output, BadInput> {
        let refuse = |option: &str, what: &str| {
            Err(BadInput(format!(
                "`warmswap {command}` has no {what}: leave --{option} out"
            )))
        };
        if self.json.is_some() && gives == Gives::Nothing {
            return refuse("json", "result");
        }
        if self.csv.is_some() && gives != Gives::Tables {
            return refuse("csv", "tables");
        }
        if self.json.is_some() && self.json == self.csv {
            let why = "--json and --csv name the same file";
            return Err(BadInput(why.to_owned()));
        }
        for (option, file) in [("--json", &self.json), ("--csv", &self.csv)] {
            if let Some(path) = file.as_deref().filter(|path| !is_stdout(path)) {
                check_file(option, path)?;
            }
        }
        let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Output {
            json: self.json,
            csv: self.csv,
            command: None,
            style: Style {
                raw: self.bytes,
                colour,
                width: width(self.bytes),
            },
        })
    }
}

/// What `$COLUMNS` says, else what the terminal is. Raw numbers that go elsewhere are for programs, which need all columns.
fn width(is_raw: bool) -> usize {
    let said = std::env::var("COLUMNS").ok();
    let said = said.and_then(|columns| columns.parse::<usize>().ok());
    let is_terminal = stdout().is_terminal();
    let terminal = || {
        let size = ratatui::crossterm::terminal::size().ok();
        size.filter(|_| is_terminal)
            .map(|(columns, _)| usize::from(columns))
    };
    match said.or_else(terminal).filter(|&columns| columns > 0) {
        Some(columns) => columns.clamp(*WIDTHS.start(), *WIDTHS.end()),
        None if is_raw && !is_terminal => usize::MAX,
        None => WIDTH,
    }
}

impl Output {
    /// Of a command that is a part of this one: its result goes to the file that it names, and its tables nowhere.
    pub fn of_part(&self, args: OutputArgs, command: Vec<String>) -> Self {
        Self {
            json: args.json,
            csv: args.csv,
            command: Some(command),
            style: self.style,
        }
    }

    /// Shows tables to people, or the data to machines, or both.
    pub fn emit<T: Serialize>(&self, name: &'static str, data: T, tables: &[Table]) -> Result<()> {
        if let Some(path) = &self.csv {
            // A blank line stands between tables.
            let texts: Vec<String> = tables.iter().map(Table::csv).collect();
            let text = texts.join("\r\n");
            if is_stdout(path) {
                stdout().lock().write_all(text.as_bytes())?;
            } else {
                std::fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        if !self.is_quiet() {
            let mut out = stdout().lock();
            for (index, table) in tables.iter().enumerate() {
                let gap = if index > 0 { "\n" } else { "" };
                write!(out, "{gap}{}", table.text(self.style))?;
            }
            out.flush()?;
        }
        self.save(name, data)
    }

    /// Whether the result is to go to standard output as JSON.
    pub fn is_json_on_stdout(&self) -> bool {
        self.json.as_deref().is_some_and(is_stdout)
    }

    /// Whether the result is wanted as data.
    pub fn saves(&self) -> bool {
        self.json.is_some()
    }

    /// Whether standard output is for machines.
    fn is_quiet(&self) -> bool {
        self.is_json_on_stdout()
            || self.csv.as_deref().is_some_and(is_stdout)
            || self.command.is_some()
    }

    /// Writes the data where it was asked for, and nothing else.
    pub fn save<T: Serialize>(&self, name: &'static str, data: T) -> Result<()> {
        let Some(path) = &self.json else {
            return Ok(());
        };
        let this = || std::env::args().collect();
        let command = self.command.clone().unwrap_or_else(this);
        let version = schema_version(name);
        let envelope = Envelope::new(Schema { name, version }, Machine::read()?, command, data);
        if self.is_json_on_stdout() {
            Ok(envelope.write_to(&mut stdout().lock())?)
        } else {
            Ok(envelope.save(path)?)
        }
    }

    /// Prints a line to people.
    pub fn say(&self, line: &str) -> Result<()> {
        if !self.is_quiet() {
            writeln!(stdout().lock(), "{line}")?;
        }
        Ok(())
    }
}

/// Whether a file is named that stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Checks that a file can be written, so that what `option` asks for is not refused when the work is done. Changes
/// nothing.
///
/// # Errors
/// [`BadInput`] with the reason.
pub fn check_file(option: &str, path: &Path) -> Result<(), BadInput> {
    let cannot = |why: String| {
        let path = path.display();
        Err(BadInput(format!("cannot write {option} {path}: {why}")))
    };
    if is_stdout(path) {
        return cannot("standard output does not take it; name a file".to_owned());
    }
    match path.metadata() {
        Ok(found) if found.is_dir() => cannot("it is a folder; name a file".to_owned()),
        Ok(_) => access(path, Access::WRITE_OK).or_else(|error| cannot(error.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            let folder = folder.unwrap_or(Path::new("."));
            let usable = access(folder, Access::WRITE_OK | Access::EXEC_OK);
            usable.or_else(|error| cannot(format!("its folder: {error}")))
        }
        Err(error) => cannot(error.to_string()),
    }
}

/// How often the shape of a result has changed, from 1. Since version 2, relaunches after a kill are in the figures about
/// relaunches.
fn schema_version(name: &str) -> u32 {
    match name {
        "warmswap.compare" | "warmswap.replay" => 2,
        _ => 1,
    }
}
