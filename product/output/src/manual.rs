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
    let (commands, name) = (folder("man1")?, command.get_name().to_owned());
    clap_mangen::generate_to(command, &commands).context("cannot write manual pages")?;
    for page in fs::read_dir(&commands).context("cannot list manual pages")? {
        let page = page.context("cannot list manual pages")?.path();
        // The folder may hold pages of others.
        let own = page
            .file_name()
            .and_then(|file| file.to_str()?.strip_prefix(&*name));
        if !own.is_some_and(|rest| rest.starts_with(['.', '-']) && rest.ends_with(".1")) {
            continue;
        }
        let text = fs::read_to_string(&page);
        let text = text.with_context(|| format!("cannot read {}", page.display()))?;
        write(&page, &sectioned(&text))?;
    }
    others.iter().try_for_each(|page| {
        let (_, section) = page.name.rsplit_once('.').unwrap_or((page.name, "5"));
        write(
            &folder(&format!("man{section}"))?.join(page.name),
            &page.roff,
        )
    })
}

/// A page whose examples, exit status and files are sections, which clap's generator puts into one called EXTRA. Lines that are
/// indented stay as they are.
fn sectioned(page: &str) -> String {
    const EXTRA: &str = ".SH EXTRA\n";
    let Some((before, extra)) = page.split_once(EXTRA) else {
        return page.to_owned();
    };
    let (extra, after) = match extra.find("\n.SH ") {
        Some(end) => extra.split_at(end + 1),
        None => (extra, ""),
    };
    let mut text = before.to_owned();
    let mut is_indented = false;
    for line in extra.lines() {
        if std::mem::replace(&mut is_indented, line.starts_with(' ')) != is_indented {
            text += if is_indented { ".nf\n" } else { ".fi\n" };
        }
        let head = line
            .split_once(':')
            .filter(|(name, _)| ["Examples", "Exit status", "Files"].contains(name));
        text += &match head {
            Some((name, rest)) => {
                format!(".SH \"{}\"\n{}", name.to_uppercase(), rest.trim_start())
            }
            None if line.is_empty() => ".PP".to_owned(),
            None => line.to_owned(),
        };
        text = text.trim_end_matches('\n').to_owned() + "\n";
    }
    text += if is_indented { ".fi\n" } else { "" };
    text + after
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

#[cfg(test)]
mod tests {
    use super::sectioned;

    #[test]
    fn what_follows_the_options_is_divided_into_sections() {
        let page = ".SH OPTIONS\nx\n.SH EXTRA\nExamples:\n  a b\n      does: c\n\nExit status: 1 when\nit fails.\n.SH VERSION\nv1\n";
        let wanted = ".SH OPTIONS\nx\n.SH \"EXAMPLES\"\n.nf\n  a b\n      does: c\n.fi\n.PP\n.SH \"EXIT STATUS\"\n1 when\n\
                      it fails.\n.SH VERSION\nv1\n";
        assert_eq!(sectioned(page), wanted);
        assert_eq!(sectioned(".SH OPTIONS\nx\n"), ".SH OPTIONS\nx\n");
    }
}
