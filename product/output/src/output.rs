//! The options for results, and where results go.

use anyhow::{Context as _, Result};
use clap::Args;
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use std::io::{IsTerminal as _, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::exit::{BadInput, is_broken_pipe};
use crate::file::{self, is_same, is_stdout};
use crate::json::{Envelope, Schema};
use crate::machine::Machine;
use crate::table::Table;
use crate::units::Style;

/// The options of a command that has a result and no tables.
#[derive(Debug, Args)]
pub struct ResultArgs {
    /// The result as JSON; `-` for standard output, without text, but for `run`, whose standard output is the program's
    #[arg(long, global = true, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Raw numbers (bytes, nanoseconds) instead of human units
    #[arg(long, global = true, help_heading = "Output")]
    bytes: bool,
}

/// The options of a command that has a result and tables of it.
#[derive(Debug, Args)]
pub struct TableArgs {
    #[command(flatten)]
    result: ResultArgs,
    /// The tables as CSV in base units; `-` for standard output
    #[arg(long, global = true, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,
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
    /// Results for the caller, where nothing is written.
    kept: Option<Mutex<Vec<Kept>>>,
    /// How tables look.
    pub style: Style,
    /// The reader of standard output has closed it.
    is_closed: AtomicBool,
}

/// A result that is kept for the caller.
#[derive(Debug)]
pub struct Kept {
    /// The name of its schema.
    pub schema: &'static str,
    /// What `--json` writes.
    pub json: String,
    /// Its tables.
    pub tables: Vec<Table>,
}

impl ResultArgs {
    /// Looks at the terminal, and whether the file can be written.
    ///
    /// # Errors
    /// [`BadInput`] where it cannot.
    pub fn open(&self) -> Result<Output, BadInput> {
        self.with_csv(None)
    }

    fn with_csv(&self, csv: Option<&PathBuf>) -> Result<Output, BadInput> {
        let json = self.json.as_ref();
        if json.zip(csv).is_some_and(|(json, csv)| is_same(json, csv)) {
            let why = "--json and --csv name the same file";
            return Err(BadInput(why.to_owned()));
        }
        for (option, file) in [("--json", json), ("--csv", csv)] {
            if let Some(path) = file.filter(|path| !is_stdout(path)) {
                file::check(option, path)?;
            }
        }
        let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Output {
            json: json.cloned(),
            csv: csv.cloned(),
            command: None,
            kept: None,
            style: Style {
                raw: self.bytes,
                colour,
                width: width(self.bytes),
            },
            is_closed: AtomicBool::new(false),
        })
    }
}

impl TableArgs {
    /// Looks at the terminal, and whether the files can be written.
    ///
    /// # Errors
    /// [`BadInput`] where they cannot.
    pub fn open(&self) -> Result<Output, BadInput> {
        self.result.with_csv(self.csv.as_ref())
    }
}

/// What `$COLUMNS` says, else what the terminal is. Raw numbers that go elsewhere are for programs, which need all columns.
fn width(is_raw: bool) -> usize {
    let said = std::env::var("COLUMNS").ok();
    let said = said.and_then(|columns| columns.parse::<usize>().ok());
    let is_terminal = stdout().is_terminal();
    let terminal = || {
        let size = tcgetwinsize(stdout()).ok();
        size.filter(|_| is_terminal)
            .map(|size| usize::from(size.ws_col))
    };
    match said.or_else(terminal).filter(|&columns| columns > 0) {
        Some(columns) => columns.clamp(*WIDTHS.start(), *WIDTHS.end()),
        None if is_raw && !is_terminal => usize::MAX,
        None => WIDTH,
    }
}

impl Output {
    /// Of a command that runs within a program: results are kept for it, and nothing is written.
    #[must_use]
    pub fn kept(command: Vec<String>) -> Self {
        Self {
            json: None,
            csv: None,
            command: Some(command),
            kept: Some(Mutex::default()),
            style: Style::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The results that were kept, in their order.
    #[must_use]
    pub fn into_kept(self) -> Vec<Kept> {
        let kept = self.kept.unwrap_or_default();
        kept.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a command that is a part of this one: its result goes to the file that it names, and its tables nowhere.
    #[must_use]
    pub fn of_part(&self, args: TableArgs, command: Vec<String>) -> Self {
        Self {
            json: args.result.json,
            csv: args.csv,
            command: Some(command),
            kept: None,
            style: self.style,
            is_closed: AtomicBool::new(false),
        }
    }

    /// Checks that a file that `option` names can be written, and that the result goes to another one. Changes nothing.
    ///
    /// # Errors
    /// [`BadInput`] with the reason.
    pub fn check_file(&self, option: &str, path: &Path) -> Result<(), BadInput> {
        file::check(option, path)?;
        self.differs(path, option)
    }

    /// Checks that a file that is read is not the one that the result goes to.
    ///
    /// # Errors
    /// [`BadInput`] where it is.
    pub fn check_input(&self, path: &Path) -> Result<(), BadInput> {
        self.differs(path, "what is read")
    }

    fn differs(&self, path: &Path, what: &str) -> Result<(), BadInput> {
        for (option, file) in [("--json", &self.json), ("--csv", &self.csv)] {
            if let Some(file) = file.as_deref().filter(|file| is_same(file, path)) {
                let file = file.display();
                let why = format!("{option} {file} and {what} are the same file: name another");
                return Err(BadInput(why));
            }
        }
        Ok(())
    }

    /// Refuses `--json` and `--csv` for a command without a result.
    ///
    /// # Errors
    /// [`BadInput`] where one of them is given.
    pub fn refuse_result(&self, command: &str) -> Result<(), BadInput> {
        self.refuse_tables(command)?;
        refuse(self.json.is_some(), command, "result", "--json")
    }

    /// Refuses `--csv` for a command without tables.
    ///
    /// # Errors
    /// [`BadInput`] where it is given.
    pub fn refuse_tables(&self, command: &str) -> Result<(), BadInput> {
        refuse(self.csv.is_some(), command, "tables", "--csv")
    }

    /// Whether the reader of standard output has closed it: more text reaches nothing.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// Writes to standard output, and drops what is left once its reader has closed it.
    ///
    /// # Errors
    /// It cannot be written for another reason.
    pub fn print(&self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        let mut out = stdout().lock();
        let written = write(&mut out).and_then(|()| out.flush());
        match written.map_err(anyhow::Error::from) {
            Err(error) if is_broken_pipe(&error) => {
                self.is_closed.store(true, Relaxed);
                Ok(())
            }
            written => written,
        }
    }

    /// Shows tables to people, or the data to machines, or both.
    ///
    /// # Errors
    /// A file or standard output cannot be written.
    pub fn emit<T: Serialize>(&self, name: &'static str, data: T, tables: &[Table]) -> Result<()> {
        if let Some(path) = &self.csv {
            // A blank line stands between tables.
            let texts: Vec<String> = tables.iter().map(Table::csv).collect();
            let text = texts.join("\r\n");
            if is_stdout(path) {
                self.print(|out| out.write_all(text.as_bytes()))?;
            } else {
                file::save(path, |out| out.write_all(text.as_bytes()))
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        if !self.is_quiet() {
            let texts: Vec<String> = tables.iter().map(|table| table.text(self.style)).collect();
            self.print(|out| out.write_all(texts.join("\n").as_bytes()))?;
        }
        self.save_with(name, data, tables)
    }

    /// Whether the result is to go to standard output as JSON.
    #[must_use]
    pub fn is_json_on_stdout(&self) -> bool {
        self.json.as_deref().is_some_and(is_stdout)
    }

    /// Whether the result is wanted as data.
    #[must_use]
    pub fn saves(&self) -> bool {
        self.json.is_some() || self.kept.is_some()
    }

    /// Whether standard output is for machines.
    fn is_quiet(&self) -> bool {
        self.is_json_on_stdout()
            || self.csv.as_deref().is_some_and(is_stdout)
            || self.command.is_some()
    }

    /// Writes the data where it was asked for, and nothing else.
    ///
    /// # Errors
    /// That cannot be written, or the machine cannot be described.
    pub fn save<T: Serialize>(&self, name: &'static str, data: T) -> Result<()> {
        self.save_with(name, data, &[])
    }

    fn save_with<T: Serialize>(&self, name: &'static str, data: T, tables: &[Table]) -> Result<()> {
        if !self.saves() {
            return Ok(());
        }
        let text = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
        let this = || std::env::args_os().map(text).collect();
        let command = self.command.clone().unwrap_or_else(this);
        let version = schema_version(name);
        let envelope = Envelope::new(Schema { name, version }, Machine::read()?, command, data);
        if let Some(kept) = &self.kept {
            let mut json = Vec::new();
            envelope.write_to(&mut json)?;
            let kept = &mut *kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(Kept {
                schema: name,
                json: String::from_utf8(json)?,
                tables: tables.to_vec(),
            });
        }
        match &self.json {
            None => Ok(()),
            Some(_) if self.is_json_on_stdout() => {
                self.print(|mut out| envelope.write_to(&mut out))
            }
            Some(path) => Ok(envelope.save(path)?),
        }
    }

    /// Prints a line to people.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn say(&self, line: &str) -> Result<()> {
        if self.is_quiet() {
            return Ok(());
        }
        self.print(|out| writeln!(out, "{line}"))
    }
}

fn refuse(is_given: bool, command: &str, what: &str, option: &str) -> Result<(), BadInput> {
    if is_given {
        let why = format!("`{command}` has no {what}: leave {option} out");
        return Err(BadInput(why));
    }
    Ok(())
}

/// How often the shape of a result has changed, from 1. Since version 2, relaunches after a kill are in the figures about
/// relaunches.
fn schema_version(name: &str) -> u32 {
    match name {
        "warmswap.compare" | "warmswap.replay" => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;
    use crate::units::Kind;

    #[test]
    fn results_are_kept_for_the_caller() {
        let output = Output::kept(vec!["warmswap-lab".to_owned(), "schemes".to_owned()]);
        let table = Table::new(
            "Answers",
            vec![Column::new("answer", "answer", Kind::Count)],
        );
        output.say("nothing is printed").expect("it is dropped");
        output
            .emit("warmswap.schemes", 42, &[table])
            .expect("it is kept");
        output.save("warmswap.compare", "text").expect("it is kept");
        let kept = output.into_kept();
        let schemas: Vec<_> = kept
            .iter()
            .map(|kept| (kept.schema, kept.tables.len()))
            .collect();
        assert_eq!(schemas, [("warmswap.schemes", 1), ("warmswap.compare", 0)]);
        assert!(kept[0].json.contains("\"data\": 42\n}"), "{}", kept[0].json);
        assert!(kept[1].json.contains("\"schema_version\": 2"));
    }
}
