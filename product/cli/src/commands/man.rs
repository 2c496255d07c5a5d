//! `warmswap man`: writes the manual pages, or the reference of the book; and `warmswap completions`: what shells
//! complete.

mod json;
mod markdown;

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use warmswap_daemon::config::show;

use crate::interface;
use crate::manual::{self, EXIT, Page};

/// Where to.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder of manual pages; sections are folders in it
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Write the reference of the book instead: a Markdown page for each command
    #[arg(long)]
    markdown: bool,
}

/// For which shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Prints the completions of a shell.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut interface::command(), "warmswap", &mut text);
    Ok(std::io::stdout().lock().write_all(&text)?)
}

/// Writes a page for each command, one for the configuration and one for results as JSON.
pub fn run(args: ManArgs) -> Result<()> {
    let mut command = interface::command().disable_help_subcommand(true);
    command.build();
    if args.markdown {
        return markdown::pages(&command, &args.folder);
    }
    let commands = args.folder.join("man1");
    let files = args.folder.join("man5");
    for folder in [&commands, &files] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    command_pages(&command, "", &commands)?;
    write(&files.join("warmswap.conf.5"), show::man_page().as_bytes())?;
    write(&files.join("warmswap-json.5"), json::page()?.as_bytes())
}

/// Writes the page of a command, and those of the commands below it.
fn command_pages(command: &Command, path: &str, folder: &Path) -> Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let below = format!("{path} {}", sub.get_name());
        command_pages(sub, below.trim(), folder)?;
    }
    let man = Man::new(command.clone()).manual("warmswap");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    sections(manual::page(path)).to_writer(&mut text)?;
    write(&folder.join(man.get_filename()), &text)
}

/// EXAMPLES, EXIT STATUS, FILES and SEE ALSO.
fn sections(page: Option<&Page>) -> Roff {
    let mut roff = Roff::new();
    if let Some(page) = page.filter(|page| !page.examples.is_empty()) {
        roff.control("SH", ["EXAMPLES"]);
        for (line, does) in page.examples {
            entry(&mut roff, line, does);
        }
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in exit_codes(page) {
        entry(&mut roff, code, meaning);
    }
    if let Some(page) = page.filter(|page| !page.files.is_empty()) {
        roff.control("SH", ["FILES"]);
        for (path, what) in page.files {
            entry(&mut roff, path, what);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("warmswap"),
        roman("(1), "),
        bold("warmswap.conf"),
        roman("(5), "),
        bold("warmswap-json"),
        roman("(5)"),
    ]);
    roff
}

/// How a command ends: what it says of a code takes the place of what holds for all.
fn exit_codes(page: Option<&Page>) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = page.map_or(&[][..], |page| page.exit);
    let general = EXIT.iter();
    let general = general.filter(|(code, _)| !own.iter().any(|(other, _)| other == code));
    general.chain(own).copied()
}

fn entry(roff: &mut Roff, term: &str, text: &str) {
    roff.control("TP", []);
    roff.text([bold(term)]);
    roff.text([roman(text)]);
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
