//! Letters made of a corpus: its texts with made-up headers.

use std::sync::Arc;

use super::common::Draw;
use super::corpus::Corpus;
use super::mail_store::Letter;
use super::words;

const NAMES: [&str; 16] = [
    "Ada", "Barbara", "Claude", "Dennis", "Edsger", "Frances", "Grace", "Ivan", "John", "Ken",
    "Lynn", "Margaret", "Niklaus", "Peter", "Radia", "Tony",
];

/// The first of October 2024, in seconds of Unix time.
const FIRST_DATE: u64 = 1_727_740_800;
const LEAST_BYTES: usize = 200;
const MOST_BYTES: usize = 5000;
const MOST_SUBJECT: usize = 72;

/// A source of letters, each newer than the one before. Begins again when the corpus is used up.
#[derive(Debug)]
pub struct Letters {
    corpus: Arc<Corpus>,
    document: usize,
    /// Byte of the document where the next letter begins.
    at: usize,
    draw: Draw,
    number: u32,
    date: u64,
}

impl Letters {
    /// Letters from a place of the corpus on that the seed says.
    pub fn new(corpus: Arc<Corpus>, seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        Self {
            document: draw.below(corpus.documents().len()),
            at: 0,
            draw,
            number: 0,
            date: FIRST_DATE,
            corpus,
        }
    }

    /// The next letter.
    pub fn next(&mut self) -> Letter {
        let size = LEAST_BYTES + self.draw.below(MOST_BYTES - LEAST_BYTES);
        let body = self.next_body(size);
        self.number += 1;
        self.date += 1 + self.draw.below(7200) as u64;
        let sender = self.draw_person();
        let recipient = self.draw_person();
        let id = self.draw.any();
        let subject = subject_of(&body);
        let headers = format!(
            "Return-Path: <{sender}>\nDelivered-To: {recipient}\nReceived: from mx{} (10.{}.{}.{}) by mail.example.org \
             with ESMTPS id {id:016x}\nMessage-ID: <{id:x}.{}@example.org>\nDate: {}\nFrom: {sender}\nTo: \
             {recipient}\nSubject: {subject}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n",
            id % 9,
            id >> 8 & 255,
            id >> 16 & 255,
            id >> 24 & 255,
            self.number,
            self.date,
        );
        Letter {
            number: self.number,
            date: self.date,
            sender,
            subject,
            headers,
            body,
        }
    }

    /// A word of the next letter's text, for a search; empty if there happens to be none.
    pub fn draw_word(&mut self) -> String {
        let documents = self.corpus.documents();
        let Some(document) = documents.get(self.draw.below(documents.len())) else {
            return String::new();
        };
        let words = words::words_of(&subject_of(&document.text));
        let at = self.draw.below(words.len());
        words.into_iter().nth(at).unwrap_or_default()
    }

    fn draw_person(&mut self) -> String {
        let name = NAMES[self.draw.zipf(NAMES.len())];
        let host = self.draw.zipf(12);
        format!("{name} <{}@host{host}.example.org>", name.to_lowercase())
    }

    fn next_body(&mut self, size: usize) -> String {
        let documents = self.corpus.documents();
        for _ in 0..documents.len() {
            let text = &documents[self.document].text[self.at..];
            if let Some(part) = words::parts(text, size).next() {
                self.at += part.len();
                return part.to_owned();
            }
            self.document = (self.document + 1) % documents.len();
            self.at = 0;
        }
        String::new()
    }
}

/// The first line that says something.
fn subject_of(text: &str) -> String {
    let says = |line: &&str| line.chars().filter(|c| c.is_alphabetic()).count() > 5;
    let line = text.lines().map(str::trim).find(says).unwrap_or("(none)");
    let line = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    line[..words::char_floor(line, MOST_SUBJECT.min(line.len()))].to_owned()
}
