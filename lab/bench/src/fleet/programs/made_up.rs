//! Texts that are drawn, for tests on machines that have none.

use super::common::Draw;
use super::corpus::Document;

const SYLLABLES: [&str; 32] = [
    "ba", "con", "de", "di", "e", "fer", "ga", "ho", "in", "ka", "la", "li", "ma", "men", "na",
    "ne", "o", "per", "qui", "ra", "re", "sa", "se", "ta", "ti", "tor", "u", "va", "ve", "xi",
    "ya", "zo",
];

/// A word by its number. Common words (small numbers) are short.
fn push_word(text: &mut String, number: usize) {
    let mut rest = number + SYLLABLES.len();
    while rest > 0 {
        text.push_str(SYLLABLES[rest % SYLLABLES.len()]);
        rest /= SYLLABLES.len();
    }
}

/// Documents of about so many bytes together, of words drawn by Zipf's law.
pub fn documents(bytes: usize, seed: u64) -> Vec<Document> {
    let mut draw = Draw::new(seed);
    let mut documents = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let size = (256 + draw.below(6000)).min(left);
        let mut text = String::with_capacity(size + 16);
        while text.len() < size {
            push_word(&mut text, draw.zipf(20_000));
            let end = match draw.below(60) {
                0 => "\n\n",
                1..8 => ".\n",
                _ => " ",
            };
            text.push_str(end);
        }
        left -= size;
        let mut title = String::from("made-up/");
        push_word(&mut title, documents.len() * 37);
        documents.push(Document { title, text });
    }
    documents
}
