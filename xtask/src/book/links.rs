//! Links and headings of Markdown, as far as the documents of the repository use them.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// `[text](target)`, by its place in the document.
#[derive(Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// What is shown.
    pub text: &'a str,
    /// Where it leads.
    pub target: &'a str,
    /// The line, from 1 on.
    pub line: usize,
    /// Where it begins, in bytes.
    pub start: usize,
    /// Where it has ended.
    pub end: usize,
}

/// The links of a document outside of code; a text may go over two lines, and has no brackets of its own.
pub fn links(text: &str) -> impl Iterator<Item = Link<'_>> {
    let mut found = Vec::new();
    let mut open: Option<usize> = None;
    let mut is_code = false;
    let mut is_block = false;
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = at;
        at += line.len();
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            (open, is_code) = (None, false);
            continue;
        }
        if is_block {
            continue;
        }
        if line.trim().is_empty() {
            // Neither code nor a link goes over the end of a paragraph.
            (open, is_code) = (None, false);
        }
        for (offset, c) in line.char_indices() {
            let here = start + offset;
            match c {
                '`' => is_code = !is_code,
                '[' if !is_code => open = Some(here),
                ']' if !is_code => {
                    let Some(begin) = open.take() else { continue };
                    let Some(rest) = text[here + 1..].strip_prefix('(') else {
                        continue;
                    };
                    let Some((target, _)) = rest.split_once(')') else {
                        continue;
                    };
                    found.push(Link {
                        text: &text[begin + 1..here],
                        target,
                        line: index + 1,
                        start: begin,
                        end: here + 2 + target.len() + 1,
                    });
                }
                _ => {}
            }
        }
    }
    found.into_iter()
}

/// The anchors of a document's headings.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_block = false;
    let headings = text.lines().filter(|line| {
        is_block ^= line.trim_start().starts_with("```");
        !is_block && line.starts_with('#')
    });
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.collect::<String>().to_lowercase()
}

/// A path without `.` and `..`.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if normal.parent().is_some() => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// `to` as a path from the folder of the file `from`; both begin at one place.
pub fn relative(from: &Path, to: &Path) -> PathBuf {
    let folder: Vec<_> = from
        .parent()
        .into_iter()
        .flat_map(Path::components)
        .collect();
    let to: Vec<_> = to.components().collect();
    let shared = folder.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = folder[shared..].iter().map(|_| Component::ParentDir);
    up.chain(to[shared..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "a [b](c.md), `[n](o)` and [`d`\ne](f#g)\n```\n[x](y)\n```\n[i]\n";
        let found: Vec<_> = links(text)
            .map(|link| (link.text, link.target, &text[link.start..link.end]))
            .collect();
        assert_eq!(
            found,
            [
                ("b", "c.md", "[b](c.md)"),
                ("`d`\ne", "f#g", "[`d`\ne](f#g)")
            ]
        );
    }

    #[test]
    fn headings_have_anchors() {
        let text = "# A `b`: c, d\n```\n# no\n```\n## What, and why?\n";
        let expected = ["a-b-c-d", "what-and-why"].map(str::to_owned);
        assert_eq!(anchors(text), BTreeSet::from(expected));
    }

    #[test]
    fn paths_are_seen_from_files() {
        let (from, to) = (Path::new("a/b/c.md"), Path::new("a/d.md"));
        assert_eq!(relative(from, to), Path::new("../d.md"));
        assert_eq!(normal(Path::new("a/b/../../c/./d")), Path::new("c/d"));
        assert_eq!(normal(Path::new("../x")), Path::new("../x"));
    }
}
