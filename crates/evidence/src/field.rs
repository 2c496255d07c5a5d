//! The name of the field at a place of a JSON text.
//!
//! `serde_json` says at which byte a value does not fit. Deserializing through a wrapper that keeps the path instead would
//! make a second copy of the code for every type of result, half a megabyte of the command.

/// The field, such as `data[0].similarity`, whose value ends at byte `end` of a JSON text, or is about to begin there;
/// `(top)` for the whole text. The text up to there has the form of JSON.
pub fn at(text: &str, end: usize) -> String {
    let mut path = Vec::new();
    let mut chars = text.char_indices().take_while(|(at, _)| *at < end);
    while let Some((start, char)) = chars.next() {
        match char {
            '{' => path.push(Step::Key(None)),
            '[' => path.push(Step::Index(0)),
            '}' | ']' => drop(path.pop()),
            ',' => match path.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                Some(Step::Key(key)) => *key = None,
                None => {}
            },
            '"' => {
                let word = string(text, start, &mut chars);
                if let Some(Step::Key(key @ None)) = path.last_mut() {
                    *key = Some(word);
                }
            }
            _ => {}
        }
    }
    let mut name = String::new();
    for step in path {
        match step {
            Step::Index(index) => name += &format!("[{index}]"),
            Step::Key(Some(key)) if name.is_empty() => name += key,
            Step::Key(Some(key)) => name = name + "." + key,
            Step::Key(None) => {}
        }
    }
    if name.is_empty() {
        name += "(top)";
    }
    name
}

/// A container that is open.
enum Step<'a> {
    /// An object, with the key that was read last, as it is written.
    Key(Option<&'a str>),
    /// A list, with the number of the element.
    Index(usize),
}

/// What stands in the string whose opening quote, at byte `start`, was read.
fn string<'a>(
    text: &'a str,
    start: usize,
    chars: &mut impl Iterator<Item = (usize, char)>,
) -> &'a str {
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => drop(chars.next()),
            '"' => return &text[start + 1..at],
            _ => {}
        }
    }
    ""
}

/// The byte that follows the `column` first ones of a line, both counted as `serde_json` does: lines from 1.
pub fn offset(text: &str, line: usize, column: usize) -> usize {
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    before.map(str::len).sum::<usize>() + column
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only whether it can be read matters")]
    struct Row {
        name: String,
        values: Vec<f64>,
        more: Option<Box<Row>>,
    }

    fn field(text: &str) -> String {
        let read: Result<BTreeMap<String, Vec<Row>>, _> = serde_json::from_str(text);
        let error = read.expect_err("it does not fit");
        at(text, offset(text, error.line(), error.column()))
    }

    #[test]
    fn a_field_is_named_from_the_top() {
        for (text, named) in [
            ("3", "(top)"),
            ("[]", "(top)"),
            (r#"{"a": 1}"#, "a"),
            (r#"{"b": [], "a": {}}"#, "a"),
            (r#"{"a": [{"name": 3, "values": []}]}"#, "a[0].name"),
            (r#"{"a": [{"name": "x", "values": []}, 7]}"#, "a[1]"),
            (
                r#"{"a": [{"name": "x", "values": [1, 2, "é"]}]}"#,
                "a[0].values[2]",
            ),
            // What lacks something is named itself.
            (
                r#"{"a": [{"name": "x", "values": []}, {"name": "y"}]}"#,
                "a[1]",
            ),
            (
                "{\"ä {\\\"[\": [],\n \"a\": [\n  {\"name\": \"]}\\\\\", \"values\": [],\n   \"more\": {\"name\": null}}]}",
                "a[0].more.name",
            ),
        ] {
            assert_eq!(field(text), named, "{text}");
        }
    }
}
