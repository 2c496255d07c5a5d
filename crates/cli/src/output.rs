//! What all subcommands print, and how.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use warmswap_report::json::{Envelope, Schema};
use warmswap_report::machine::Machine;
use warmswap_report::table::Table;
use warmswap_report::units::Style;

/// The options that every subcommand takes.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write the result as JSON to this file; `-` for standard output, in place of the tables
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show raw numbers (bytes, nanoseconds) in place of human units
    #[arg(long, global = true)]
    bytes: bool,
}

/// Where results go.
#[derive(Debug)]
pub struct Output {
    json: Option<PathBuf>,
    /// How tables look.
    pub style: Style,
}

impl OutputArgs {
    /// Looks at the terminal.
    pub fn open(self) -> Output {
        let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Output {
            json: self.json,
            style: Style {
                raw: self.bytes,
                colour,
                ..Style::PLAIN
            },
        }
    }
}

impl Output {
    /// Shows tables to people, or the data to machines, or both.
    pub fn emit<T: Serialize>(&self, name: &'static str, data: T, tables: &[Table]) -> Result<()> {
        if !self.is_json_on_stdout() {
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
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Writes the data where it was asked for, and nothing else.
    pub fn save<T: Serialize>(&self, name: &'static str, data: T) -> Result<()> {
        let Some(path) = &self.json else {
            return Ok(());
        };
        let command = std::env::args().collect();
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
        if !self.is_json_on_stdout() {
            writeln!(stdout().lock(), "{line}")?;
        }
        Ok(())
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
