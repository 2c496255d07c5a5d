//! Just enough of Rust's lexical rules to tell code from comments and literals.

/// `source` with every comment and every string or character literal replaced by spaces.
///
/// Line breaks are kept, so line numbers stay right. Lifetimes stay.
pub fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at).unwrap_or(at);
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        out.extend(
            chars[at..end]
                .iter()
                .map(|&c| if c == '\n' { '\n' } else { ' ' }),
        );
        at = end;
    }
    out
}

/// The words of `code` (identifiers and keywords) with their line numbers, counted from 1.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(index, line)| {
        line.split(|c: char| !is_word(c))
            .filter(|word| !word.is_empty())
            .map(move |word| (index + 1, word))
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the comment or literal that begins at `at` ends, if one begins there.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let peek = |ahead: usize| chars.get(at + ahead).copied();
    match (chars[at], peek(1)) {
        ('/', Some('/')) => Some(find(chars, at, |c| c == '\n')),
        ('/', Some('*')) => Some(block_comment_end(chars, at)),
        ('"', _) => Some(quoted_end(chars, at + 1, '"')),
        ('\'', Some('\\')) => Some(quoted_end(chars, at + 1, '\'')),
        ('\'', Some(_)) if peek(2) == Some('\'') => Some(at + 3),
        ('r', Some('"' | '#')) if starts_prefix(chars, at) => raw_string_end(chars, at + 1),
        _ => None,
    }
}

/// Whether the `r` at `at` can begin a raw string: it is not the tail of a longer word than the
/// prefixes `b` and `c`.
fn starts_prefix(chars: &[char], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|index| chars[index]);
    match before(1) {
        Some('b' | 'c') => !before(2).is_some_and(is_word),
        Some(c) => !is_word(c),
        None => true,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    chars[from..]
        .iter()
        .position(|&c| wanted(c))
        .map_or(chars.len(), |offset| from + offset)
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = from;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], from: usize, quote: char) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `from` stands behind the `r`. A raw identifier (`r#type`) is no string.
fn raw_string_end(chars: &[char], from: usize) -> Option<usize> {
    let open = find(chars, from, |c| c != '#');
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let hashes = open - from;
    let mut at = open + 1;
    while at < chars.len() {
        let closes = chars[at] == '"'
            && chars[at + 1..]
                .iter()
                .take_while(|&&c| c == '#')
                .take(hashes)
                .count()
                == hashes;
        if closes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(chars.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_unsafe(source: &str) -> bool {
        words(&code_only(source)).any(|(_, word)| word == "unsafe")
    }

    #[test]
    fn code_is_seen() {
        assert!(has_unsafe("fn f() { unsafe { g() } }"));
        assert!(has_unsafe("let a = 'x'; unsafe impl Send for T {}"));
        assert!(has_unsafe("let a = '\\''; unsafe {}"));
        assert!(has_unsafe("let a = '\"'; unsafe {} // \""));
        assert!(has_unsafe("fn f<'a>(x: &'a str) { unsafe {} }"));
        assert!(has_unsafe("let r#type = 1; unsafe {}"));
        assert!(has_unsafe("let s = r\"\\\"; unsafe {}"));
        assert!(has_unsafe("#[unsafe(no_mangle)] fn f() {}"));
        assert!(has_unsafe("/* a /* b */ c */ unsafe {}"));
    }

    #[test]
    fn comments_and_literals_are_not() {
        assert!(!has_unsafe("// unsafe\nfn f() {}"));
        assert!(!has_unsafe("/* a /* unsafe */ unsafe */ fn f() {}"));
        assert!(!has_unsafe("let s = \"unsafe \\\" unsafe\";"));
        assert!(!has_unsafe("let s = r#\"a \" unsafe\"#;"));
        assert!(!has_unsafe("let s = br##\"a \"# unsafe\"##;"));
        assert!(!has_unsafe("let s = b\"unsafe\";"));
        assert!(!has_unsafe("#![deny(unsafe_code)]"));
        assert!(!has_unsafe("/* never closed unsafe"));
        assert!(!has_unsafe("\"never closed unsafe"));
    }

    #[test]
    fn lines_are_kept() {
        let source = "/* one\n two */ \"three\n\"\nunsafe {}";
        let found: Vec<_> = words(&code_only(source))
            .map(|(line, word)| (line, word.to_owned()))
            .collect();
        assert_eq!(found, [(4, "unsafe".to_owned())]);
    }
}
