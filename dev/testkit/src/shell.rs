//! Shell blocks of the documents: what tests check of them, and run.
//!
//! A block begins with ```` ```sh ```` or ```` ```console ````; of the latter, lines that begin with `$ ` are commands. One
//! with ```` ```sh,run ```` is to be run by a test. The documents are the README and the chapters of the book.

use std::fs;
use std::path::{Path, PathBuf};

/// The text of a document.
#[derive(Debug)]
pub struct Document {
    /// The file, for messages.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

/// A fenced block of shell commands.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence, from 1 on.
    pub line: usize,
    /// Whether a test is to run it.
    pub runs: bool,
    /// The commands.
    pub text: String,
}

/// The README and the chapters of the book, of the repository at `root`; generated chapters are left out.
///
/// # Panics
/// When one of them cannot be read, or the book has no chapters.
pub fn documents(root: &Path) -> Vec<Document> {
    let mut paths = Vec::new();
    chapters(&root.join("docs/book/src"), &mut paths);
    assert!(!paths.is_empty(), "the book has no chapters");
    paths.push(root.join("README.md"));
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            Document { path, text }
        })
        .collect()
}

fn chapters(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            chapters(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

impl Document {
    /// Its blocks of shell commands.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            let body: Vec<&str> = (&mut lines)
                .map(|(_, line)| line)
                .take_while(|line| !line.trim_start().starts_with("```"))
                .collect();
            let is_console = info == "console";
            if !is_console && info != "sh" && info != "sh,run" {
                continue;
            }
            let commands = body.iter().filter_map(|line| match is_console {
                true => line.strip_prefix("$ "),
                false => Some(line),
            });
            blocks.push(Block {
                line: index + 1,
                runs: info == "sh,run",
                text: commands.map(|line| format!("{line}\n")).collect(),
            });
        }
        blocks
    }

    /// What stands between single backticks outside of blocks.
    pub fn code_spans(&self) -> Vec<String> {
        let mut is_block = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                is_block = !is_block;
            } else if !is_block {
                prose.push_str(line);
                prose.push(' ');
            }
        }
        let spans = prose.split('`').skip(1).step_by(2);
        spans.map(str::to_owned).collect()
    }
}

impl Block {
    /// The words of each of its commands that runs `program`, without `sudo`, variables, redirections and comments.
    ///
    /// # Panics
    /// When the block has a here-document, which is not understood.
    pub fn commands(&self, program: &str) -> Vec<Vec<String>> {
        let is_prefix = |word: &str| word == "sudo" || is_assignment(word);
        let commands = commands(&self.text).into_iter().map(|words| {
            let words = words.into_iter().skip_while(|word| is_prefix(word));
            words.collect::<Vec<_>>()
        });
        commands
            .filter(|words| words.first().is_some_and(|word| word == program))
            .collect()
    }
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && is_name(name))
}

/// The words of all commands of a script, as far as the documents need the shell's grammar.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut is_redirected = false;
    let mut quote: Option<char> = None;
    let mut chars = script.chars().peekable();
    let end_word =
        |word: &mut Option<String>, redirected: &mut bool, commands: &mut Vec<Vec<String>>| {
            let Some(word) = word.take() else { return };
            if !std::mem::take(redirected)
                && let Some(last) = commands.last_mut()
            {
                last.push(word);
            }
        };
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => {
                if let Some(c) = chars.next().filter(|c| *c != '\n') {
                    word.get_or_insert_default().push(c);
                }
            }
            (None, '#') if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, '<' | '>') => {
                assert!(
                    !(c == '<' && chars.peek() == Some(&'<')),
                    "here-documents are not understood"
                );
                // The number of a descriptor is no word.
                if word
                    .as_ref()
                    .is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()))
                {
                    word = None;
                }
                end_word(&mut word, &mut is_redirected, &mut commands);
                while chars.next_if(|c| matches!(c, '>' | '&')).is_some() {}
                is_redirected = true;
            }
            (None, '\n' | ';' | '|' | '&') => {
                end_word(&mut word, &mut is_redirected, &mut commands);
                is_redirected = false;
                commands.push(Vec::new());
            }
            (None, c) if c.is_whitespace() => {
                end_word(&mut word, &mut is_redirected, &mut commands);
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    end_word(&mut word, &mut is_redirected, &mut commands);
    commands.retain(|words| !words.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(commands: &[&[&str]]) -> Vec<Vec<String>> {
        let owned = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        commands.iter().map(owned).collect()
    }

    #[test]
    fn scripts_are_cut_into_commands() {
        let script = "make build && sudo make install   # both; as root\n\
                      warmswap config --example > /etc/x 2>&1\n\
                      a 'b; c' \"d e\" | f \\\n  --g=1 &\n";
        let expected: &[&[&str]] = &[
            &["make", "build"],
            &["sudo", "make", "install"],
            &["warmswap", "config", "--example"],
            &["a", "b; c", "d e"],
            &["f", "--g=1"],
        ];
        assert_eq!(commands(script), words(expected));
    }

    #[test]
    fn blocks_and_spans_are_told_apart() {
        let document = Document {
            path: PathBuf::new(),
            text: "See `warmswap run`.\n\n```sh,run\nA=1 warmswap help\n```\n```rust\n`x`\n```\n\
                   ```console\n$ warmswap-lab schemes\nSchemes\n```\nAnd `this`.\n"
                .to_owned(),
        };
        let blocks = document.blocks();
        let found: Vec<_> = blocks.iter().map(|b| (b.line, b.runs)).collect();
        assert_eq!(found, [(3, true), (9, false)]);
        assert_eq!(
            blocks[0].commands("warmswap"),
            words(&[&["warmswap", "help"]])
        );
        assert_eq!(blocks[1].text, "warmswap-lab schemes\n");
        assert_eq!(document.code_spans(), ["warmswap run", "this"]);
    }
}
