//! Manual pages, completions and the reference of the book: all of it follows from the command line's definition, by
//! clap's own generators.

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use std::fmt::Write as _;
use std::fs;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

pub use clap_mangen::roff;

/// Where to.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder of manual pages; sections are folders in it
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Write the reference of the book instead: pages of Markdown
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

/// A page besides those of commands.
#[derive(Debug)]
pub struct Page {
    /// Its name with the section, such as `warmswap.conf.5`.
    pub name: &'static str,
    /// In the form of manual pages.
    pub roff: String,
    /// In Markdown, with a heading.
    pub markdown: String,
}

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    let mut text = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    Ok(stdout().lock().write_all(&text)?)
}

/// Writes a page for each command, and `others`.
///
/// # Errors
/// The folder cannot be written.
pub fn man(args: &ManArgs, command: Command, others: &[Page]) -> Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let folder = |name: &str| -> Result<PathBuf> {
        let path = args.folder.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    };
    if args.markdown {
        let folder = folder("")?;
        let name = command.get_name().to_owned();
        let mut text = String::new();
        chapter(&command, &name, 1, &mut text);
        write(&folder.join(name + ".md"), &text)?;
        return others.iter().try_for_each(|page| {
            let (name, _) = page.name.rsplit_once('.').unwrap_or((page.name, ""));
            write(&folder.join(format!("{name}.md")), &page.markdown)
        });
    }
    clap_mangen::generate_to(command, folder("man1")?).context("cannot write manual pages")?;
    others.iter().try_for_each(|page| {
        let (_, section) = page.name.rsplit_once('.').unwrap_or((page.name, "5"));
        write(
            &folder(&format!("man{section}"))?.join(page.name),
            &page.roff,
        )
    })
}

/// The long help of a command and of those below it, each under a heading.
fn chapter(command: &Command, path: &str, level: usize, text: &mut String) {
    let heading = "#".repeat(level);
    let help = command.clone().render_long_help();
    // Writing to a string does not fail.
    let _ = write!(text, "{heading} {path}\n\n```text\n{help}```\n\n");
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        chapter(sub, &format!("{path} {}", sub.get_name()), 2, text);
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
