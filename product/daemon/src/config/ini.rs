//! The syntax of configuration files, as in systemd: `[section]`, `key = value`, whole lines of comment.
//!
//! A line that begins with `#` or `;` is a comment. A backslash at the end of a line, or several, joins it with the next
//! one, by a space; comments between the two are left out. Nothing is quoted or escaped. Every value keeps its
//! file and line for messages.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1 on; where several were joined, the first of them.
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A section begins: the words between the brackets.
    Section(String),
    /// A key and its value, without the spaces around them.
    Property(String, String),
}

/// Why a line says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// A `[` without its `]`, or more behind it.
    #[error("a section is written [NAME], alone on its line")]
    Section,
    /// No `=`.
    #[error("neither [SECTION] nor KEY = VALUE")]
    NoValue,
    /// Nothing before the `=`.
    #[error("there is no key before the =")]
    NoKey,
}

/// What the lines of a file say, in order, each with its place.
pub fn parse(text: &str, file: &Path) -> Vec<(Origin, Result<Item, SyntaxError>)> {
    let file: Arc<Path> = file.into();
    let lines = joined(text).into_iter().map(|(line, text)| {
        let file = Arc::clone(&file);
        (Origin { file, line }, item(&text))
    });
    lines.collect()
}

/// The lines that say something, continued ones as one, with their numbers.
fn joined(text: &str) -> Vec<(u32, String)> {
    let mut lines: Vec<(u32, String)> = Vec::new();
    let mut continues = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        let more = line.ends_with('\\');
        // All backslashes at the end go: a value that kept one could not be printed as it is read.
        let part = line.trim_end_matches(|c: char| more && (c == '\\' || c.is_whitespace()));
        match lines.last_mut() {
            Some((_, begun)) if continues => {
                begun.push(' ');
                begun.push_str(part);
            }
            _ if part.is_empty() && !more => {}
            _ => lines.push((number, part.to_owned())),
        }
        continues = more;
    }
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}

fn item(line: &str) -> Result<Item, SyntaxError> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix('[') {
        let name = rest.strip_suffix(']').ok_or(SyntaxError::Section)?.trim();
        if name.is_empty() || name.contains(['[', ']']) {
            return Err(SyntaxError::Section);
        }
        return Ok(Item::Section(name.to_owned()));
    }
    let (key, value) = line.split_once('=').ok_or(SyntaxError::NoValue)?;
    let key = key.trim();
    if key.is_empty() {
        return Err(SyntaxError::NoKey);
    }
    Ok(Item::Property(key.to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The items, or the first line that is none.
    fn read(text: &str) -> Result<Vec<(u32, Item)>, (u32, SyntaxError)> {
        let lines = parse(text, Path::new("/x")).into_iter();
        let items = lines.map(|(at, item)| match item {
            Ok(item) => Ok((at.line, item)),
            Err(error) => Err((at.line, error)),
        });
        items.collect()
    }

    fn property(key: &str, value: &str) -> Item {
        Item::Property(key.to_owned(), value.to_owned())
    }

    #[test]
    fn sections_properties_and_comments() {
        let text =
            "# a comment\n[host]\n\n  key=value  \n; another\nb = c = d\n[app  x]\nempty =\n";
        assert_eq!(
            read(text).unwrap(),
            [
                (2, Item::Section("host".to_owned())),
                (4, property("key", "value")),
                (6, property("b", "c = d")),
                (7, Item::Section("app  x".to_owned())),
                (8, property("empty", "")),
            ]
        );
    }

    #[test]
    fn lines_are_joined_and_keep_the_first_ones_number() {
        let text = "a = 1, \\\n# not part of it\n   2, \\\n 3\nb = 4\\";
        assert_eq!(
            read(text).unwrap(),
            [(1, property("a", "1, 2, 3")), (5, property("b", "4"))]
        );
    }

    #[test]
    fn no_value_ends_with_a_backslash() {
        for text in ["a = b\\\\", "a = b \\ \\\n", "a = b\\\\\n\n"] {
            assert_eq!(read(text).unwrap(), [(1, property("a", "b"))], "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        assert_eq!(read("[a]\n[b"), Err((2, SyntaxError::Section)));
        assert_eq!(read("[a] x = 1"), Err((1, SyntaxError::Section)));
        assert_eq!(read("[]"), Err((1, SyntaxError::Section)));
        assert_eq!(read("\n\nhello"), Err((3, SyntaxError::NoValue)));
        assert_eq!(read("= 1"), Err((1, SyntaxError::NoKey)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}", lines in "[\\[\\]=#;\\\\ a\n\r]{0,60}") {
            let _ = read(&text);
            let _ = read(&lines);
        }

        #[test]
        fn what_is_written_is_read_back(
            written in proptest::collection::vec(("[a-z][a-z-]{0,9}", "[a-z0-9][a-z0-9 =/()*,.-]{0,20}[a-z0-9]"), 0..9)
        ) {
            let text: String = written.iter().map(|(key, value)| format!("{key} = {value}\n# x\n")).collect();
            let expected: Vec<_> = written
                .iter()
                .enumerate()
                .map(|(at, (key, value))| (at as u32 * 2 + 1, property(key, value)))
                .collect();
            prop_assert_eq!(read(&text).unwrap(), expected);
        }
    }
}
