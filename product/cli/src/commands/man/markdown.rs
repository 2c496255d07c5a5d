//! The reference of the book: a Markdown page for each command with those below it, one for the configuration and one
//! for results as JSON.

use anyhow::{Context as _, Result};
use clap::{Arg, Command};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use warmswap_daemon::config::show;

use super::{exit_codes, json, write};
use crate::manual;

/// Writes the pages to a folder: `warmswap.md`, and a page by the name of each command.
pub fn pages(command: &Command, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = |name: &str| folder.join(format!("{name}.md"));
    write(&file("warmswap"), front(command)?.as_bytes())?;
    for sub in visible(command) {
        let mut text = String::new();
        section(sub, sub.get_name(), 1, &mut text)?;
        write(&file(sub.get_name()), text.as_bytes())?;
    }
    let configuration = format!(
        "# warmswap.conf\n\nThe configuration of the daemon, as `warmswap config --example` prints it.\n\n\
         ```ini\n{}```\n",
        show::example()
    );
    write(&file("warmswap.conf"), configuration.as_bytes())?;
    write(&file("json"), json_page()?.as_bytes())
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

/// The page of the command itself.
fn front(command: &Command) -> Result<String> {
    let mut text = String::from("# warmswap\n\n| command | what it does |\n|---|---|\n");
    for sub in visible(command) {
        let name = sub.get_name();
        writeln!(text, "| [`{name}`]({name}.md) | {} |", about(sub))?;
    }
    text += "\n## Options of every command\n\n";
    for arg in arguments(command) {
        argument(arg, &mut text)?;
    }
    told(command, "", 2, &mut text)?;
    Ok(text)
}

/// A command and those below it.
fn section(command: &Command, path: &str, level: usize, text: &mut String) -> Result<()> {
    let heading = "#".repeat(level);
    let usage = command.clone().render_usage();
    write!(
        text,
        "{heading} warmswap {path}\n\n{}.\n\n```text\n{usage}\n```\n\n",
        about(command)
    )?;
    // Those of every command are told once.
    let mut own = arguments(command)
        .filter(|arg| !arg.is_global_set())
        .peekable();
    if own.peek().is_some() {
        writeln!(text, "{heading}# Arguments and options\n")?;
        writeln!(
            text,
            "Besides [those of every command](warmswap.md#options-of-every-command):\n"
        )?;
    }
    for arg in own {
        argument(arg, text)?;
    }
    told(command, path, level + 1, text)?;
    for sub in visible(command) {
        section(sub, &format!("{path} {}", sub.get_name()), 2, text)?;
    }
    Ok(())
}

/// Arguments first, then options, but for those of which every command has its own.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let positionals = command.get_positionals().filter(shown);
    positionals.chain(command.get_opts().filter(shown)).chain(
        command
            .get_arguments()
            .filter(|arg| !arg.is_positional() && !arg.get_action().takes_values())
            .filter(shown),
    )
}

fn argument(arg: &Arg, text: &mut String) -> Result<()> {
    // Clap writes an option's names and values, and those of an argument, as in its help.
    write!(text, "- `{arg}`")?;
    if let (Some(short), false) = (arg.get_short(), arg.is_positional()) {
        write!(text, ", `-{short}`")?;
    }
    let help = arg.get_long_help().or_else(|| arg.get_help());
    if let Some(help) = help {
        let help = help.to_string();
        let lines = help.split_whitespace().collect::<Vec<_>>().join(" ");
        write!(text, ": {}", escape(&lines))?;
    }
    let defaults = arg.get_default_values();
    if !defaults.is_empty() && arg.get_action().takes_values() && !arg.is_hide_default_value_set() {
        let values: Vec<_> = defaults
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        write!(text, ". Default: `{}`", values.join(","))?;
    }
    text.push_str(".\n");
    if arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        for value in arg.get_possible_values() {
            let name = value.get_name();
            match value.get_help() {
                Some(help) => writeln!(text, "  - `{name}`: {}", escape(&help.to_string()))?,
                None => writeln!(text, "  - `{name}`")?,
            }
        }
    }
    Ok(())
}

/// Examples, exit status and files, as the manual tells them.
fn told(command: &Command, path: &str, level: usize, text: &mut String) -> Result<()> {
    let page = manual::page(path);
    let heading = "#".repeat(level);
    if let Some(page) = page.filter(|page| !page.examples.is_empty()) {
        write!(text, "\n{heading} Examples\n\n```sh\n")?;
        for (line, does) in page.examples {
            writeln!(text, "# {does}\n{line}")?;
        }
        text.push_str("```\n");
    }
    let own = page.is_some_and(|page| !page.exit.is_empty());
    // A command that only holds others says nothing of its own.
    if own || !command.has_subcommands() || path.is_empty() {
        writeln!(text, "\n{heading} Exit status\n")?;
        for (code, meaning) in exit_codes(page) {
            writeln!(text, "- `{code}`: {}", escape(meaning))?;
        }
    }
    if let Some(page) = page.filter(|page| !page.files.is_empty()) {
        writeln!(text, "\n{heading} Files\n")?;
        for (path, what) in page.files {
            writeln!(text, "- `{path}`: {}", escape(what))?;
        }
    }
    text.push('\n');
    Ok(())
}

fn json_page() -> Result<String> {
    let mut text = String::from(
        "# Results as JSON\n\nCommands with results write them with `--json FILE`. `docs/results.schema.json` is all of \
         this as a JSON Schema.\n\n",
    );
    for (name, what, fields) in json::described()? {
        writeln!(text, "## {name}\n\n{}\n", escape(&what))?;
        for (field, what) in fields {
            writeln!(text, "- `{field}`: {}", escape(&what))?;
        }
        text.push('\n');
    }
    Ok(text)
}

fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string);
    escape(about.unwrap_or_default().trim_end_matches('.'))
}

/// Text in which nothing is taken for Markdown or HTML but code between backticks.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut is_code = false;
    for c in text.chars() {
        is_code ^= c == '`';
        if !is_code && matches!(c, '<' | '>' | '*' | '_' | '|' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left_as_it_is() {
        assert_eq!(escape("a <B> `c_<d>` e*"), "a \\<B\\> `c_<d>` e\\*");
    }
}
