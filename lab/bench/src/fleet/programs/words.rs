//! Words of a text, and parts of texts.

/// Longer words are no words but data.
const MOST_BYTES: usize = 32;

/// Calls `each` with every word of three letters or more, in lower case.
pub fn for_each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut lower = String::new();
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if !(3..=MOST_BYTES).contains(&word.len()) {
            continue;
        }
        if word.bytes().any(|b| b.is_ascii_uppercase()) {
            lower.clear();
            lower.push_str(word);
            lower.make_ascii_lowercase();
            each(&lower);
        } else {
            each(word);
        }
    }
}

/// The words of three letters or more in a part of a text, in lower case.
pub fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_word(text, |word| words.push(word.to_owned()));
    words
}

/// Splits a text into parts of at most `most_bytes`, at the end of a paragraph or line where there is one in the
/// second half of a part.
pub fn parts(text: &str, most_bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = rest.split_at(part_end(rest, most_bytes));
        rest = after;
        Some(part)
    })
}

/// The last boundary between characters that is not behind a byte of a text, which may lie behind its end.
pub fn char_floor(text: &str, byte: usize) -> usize {
    let is_boundary = |&at: &usize| text.is_char_boundary(at);
    (0..=byte.min(text.len()))
        .rev()
        .find(is_boundary)
        .unwrap_or(0)
}

/// Where the first part of a text ends: after at least one character.
fn part_end(text: &str, most_bytes: usize) -> usize {
    if text.len() <= most_bytes {
        return text.len();
    }
    let most = char_floor(text, most_bytes.max(4));
    let head = &text[..most];
    for end_of in ["\n\n", "\n", " "] {
        if let Some(at) = head.rfind(end_of).map(|at| at + end_of.len())
            && at > most / 2
        {
            return at;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_lower_case_and_neither_short_nor_long() {
        let text = format!("The Heap's of_x {} GC\nÜbung", "a".repeat(40));
        assert_eq!(words_of(&text), ["the", "heap", "of_x", "Übung"]);
    }

    #[test]
    fn parts_are_the_text_again() {
        let text = "ein Satz mit ä, ö und ü.\n\nNoch einer.\n".repeat(30);
        for most in [1, 7, 64, 1000, 10_000] {
            let parts: Vec<&str> = parts(&text, most).collect();
            assert_eq!(parts.concat(), text);
            assert!(parts.iter().all(|part| part.len() <= most.max(4)));
        }
    }
}
