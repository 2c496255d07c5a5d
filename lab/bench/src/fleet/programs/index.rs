//! A search engine for documentation: an inverted index with the texts.
//!
//! A dictionary (a hash table of two levels) leads to terms with their postings; documents have titles and texts in
//! sections of 1 KiB; results of the last queries are cached in the order of their use.
//!
//! Texts and data structures are real. What a person does is drawn: queries are words of the texts, those of some
//! documents far more often than those of others (Zipf).
//!
//! | state | what happens |
//! |---|---|
//! | foreground | queries, most times a result is opened; documents are replaced by new versions, whose terms are indexed |
//! | background | incoming documents are read into tokens (garbage); old documents get new summaries, cached queries new results |
//! | launch | the last queries with their results, the terms used most, the last result pages, the documents opened last |

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use warmswap_heap::{Bytes, Field, Mutator, Root, object};

use super::super::program::{Program, ProgramError};
use super::common::{Checksum, Draw, not_started, with_room};
use super::corpus::{Corpus, Document as Text};
use super::dictionary::{self, Posting};
use super::index_store::{self, Home, RESULTS, Results};
use super::words::{char_floor, for_each_word, words_of};

/// Terms that are indexed between two safepoints.
const BATCH: usize = 16;
/// Postings of a term that a query looks at: the newest.
const MOST_POSTINGS: usize = 2000;
/// Fewer postings are not worth to be written anew.
const LEAST_TO_CLEAN: usize = 32;
/// Tokens in a piece of background work.
const TOKENS: usize = 64;

object! {
    /// A word of a text that is being read.
    struct Token {
        text: Field<Bytes>,
        next: Field<Token>,
        at: u32,
    }
}

/// How large the index is, and of what.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// The texts.
    pub corpus: Arc<Corpus>,
    /// Bytes of texts that are stored. The heap becomes about 1.7 times that. The documents begin at a place of the
    /// corpus that the seed says.
    pub text_bytes: usize,
    /// Where everything random comes from.
    pub seed: u64,
}

/// An inverted index. See the module.
#[derive(Debug)]
pub struct Index {
    corpus: Arc<Corpus>,
    /// The first document of the corpus that is stored.
    first: usize,
    /// Number of each stored document's newest version.
    versions: Vec<u32>,
    next_number: u32,
    draw: Draw,
    root: Option<Root<Home>>,
}

impl Index {
    /// An index; nothing is allocated yet.
    #[must_use]
    pub fn new(options: IndexOptions) -> Self {
        let mut draw = Draw::new(options.seed);
        let all = options.corpus.documents();
        let first = draw.below(all.len());
        let mut bytes = 0;
        let stored = all.iter().cycle().skip(first).take(all.len());
        let count = stored
            .take_while(|text| {
                bytes += text.text.len();
                bytes <= options.text_bytes
            })
            .count();
        Self {
            first,
            versions: vec![0; count],
            next_number: 0,
            draw,
            root: None,
            corpus: options.corpus,
        }
    }

    fn text(corpus: &Corpus, first: usize, document: usize) -> &Text {
        let all = corpus.documents();
        &all[(first + document) % all.len()]
    }

    fn root(&self) -> Result<&Root<Home>, ProgramError> {
        self.root.as_ref().ok_or_else(|| not_started("index"))
    }

    /// Adds a text, or a new version of it.
    fn add(
        &mut self,
        mutator: &mut Mutator,
        document: usize,
        turn: usize,
    ) -> Result<(), ProgramError> {
        let corpus = Arc::clone(&self.corpus);
        let text = Self::text(&corpus, self.first, document);
        let changed = version(&text.text, turn);
        let mut counts = BTreeMap::<&str, u16>::new();
        let words = words_of(&changed);
        for word in &words {
            let count = counts.entry(word).or_default();
            *count = count.saturating_add(1);
        }
        let number = self.next_number;
        self.next_number += 1;
        let root = self.root()?;
        with_room(mutator, |mutator| {
            let words = words.len() as u32;
            let added = index_store::alloc_document(mutator, &text.title, &changed, words)?;
            let home = root.get(mutator);
            home.set_document(mutator, number, Some(added))
        })?;
        for (i, (&word, &frequency)) in counts.iter().enumerate() {
            if i % BATCH == 0 {
                mutator.safepoint();
            }
            let posting = Posting {
                document: number,
                frequency,
            };
            with_room(mutator, |mutator| {
                let Some(directory) = root.get(mutator).directory.get(mutator) else {
                    return Ok(());
                };
                match dictionary::find_or_add(mutator, directory, word)? {
                    Some(term) => term.add(mutator, posting),
                    None => Ok(()),
                }
            })?;
        }
        self.versions[document] = number;
        Ok(())
    }

    /// Replaces a text by a new version. Postings of the old one stay until a query meets them.
    fn update(&mut self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        let document = self.popular();
        let turn = 1 + self.draw.below(20);
        let old = self.versions[document];
        self.add(mutator, document, turn)?;
        let root = self.root()?;
        with_room(mutator, |mutator| {
            root.get(mutator).set_document(mutator, old, None)
        })
    }

    /// A stored document; some far more often than others.
    fn popular(&mut self) -> usize {
        let count = self.versions.len();
        // Coprime to every count below it: popular documents lie anywhere.
        (self.draw.zipf(count) * 1_000_000_007) % count
    }

    /// One to three words of a text, separated by spaces; empty if there happen to be none.
    fn draw_query(&mut self) -> String {
        let document = self.popular();
        let count = 1 + self.draw.below(3);
        let at = self.draw.any() as usize;
        let text = &Self::text(&self.corpus, self.first, document).text;
        let from = char_floor(text, at % text.len().max(1));
        let to = char_floor(text, (from + 200).min(text.len()));
        let mut words = words_of(&text[from..to]);
        words.truncate(count + 1);
        // The first may be half a word.
        words.drain(..1.min(words.len()));
        words.join(" ")
    }

    /// Finds documents. The best first.
    fn search(&self, mutator: &mut Mutator, query: &str) -> Result<Vec<u32>, ProgramError> {
        let root = self.root()?;
        let mut scores = HashMap::<u32, u64>::new();
        for word in query.split(' ') {
            mutator.safepoint();
            with_room(mutator, |mutator| {
                let home = root.get(mutator);
                let directory = home.directory.get(mutator);
                let term = directory.and_then(|d| dictionary::find(mutator, d, word));
                let Some(term) = term else { return Ok(()) };
                let postings = term.some(mutator, MOST_POSTINGS);
                let live: Vec<(Posting, u32)> = postings
                    .iter()
                    .filter_map(|p| Some((*p, home.document(mutator, p.document)?.words)))
                    .collect();
                let is_whole = postings.len() < MOST_POSTINGS;
                if is_whole && postings.len() >= LEAST_TO_CLEAN && live.len() * 2 < postings.len() {
                    let live: Vec<Posting> = live.iter().map(|(posting, _)| *posting).collect();
                    term.replace(mutator, &live)?;
                }
                let weight = 1_000_000 / (live.len() as u64 + 1);
                for (posting, words) in live {
                    let score = weight * u64::from(posting.frequency) / u64::from(words / 64 + 1);
                    *scores.entry(posting.document).or_default() += score;
                }
                home.count_use(mutator, term);
                Ok(())
            })?;
        }
        let mut found: Vec<(u32, u64)> = scores.into_iter().collect();
        found.sort_by_key(|&(document, score)| (std::cmp::Reverse(score), document));
        found.truncate(RESULTS);
        Ok(found.into_iter().map(|(document, _)| document).collect())
    }

    /// Answers a query from the cache or by a search, shows the results, and opens one.
    fn query(&mut self, mutator: &mut Mutator, sum: &mut Checksum) -> Result<(), ProgramError> {
        let query = self.draw_query();
        if query.is_empty() {
            return Ok(());
        }
        let root = self.root()?;
        let is_cached = root.get(mutator).cached(mutator, &query).is_some();
        if !is_cached {
            let numbers = self.search(mutator, &query)?;
            let word = query.split(' ').next().unwrap_or("");
            with_room(mutator, |mutator| {
                let home = root.get(mutator);
                let results = Results::alloc(mutator, home, &numbers, word)?;
                home.cache(mutator, &query, results)
            })?;
        }
        mutator.safepoint();
        let open = self.draw.below(4);
        let home = self.root()?.get(mutator);
        let newest = home.recent(mutator, 1).next();
        let Some(results) = newest.and_then(|query| query.results.get(mutator)) else {
            return Ok(());
        };
        results.read(mutator, RESULTS, sum);
        for (i, number) in results.numbers().enumerate() {
            let Some(document) = home.document(mutator, number) else {
                continue;
            };
            if i == open {
                home.note_opened(mutator, document);
                document.read(mutator, usize::MAX, sum);
            } else {
                document.read(mutator, 0, sum);
            }
        }
        Ok(())
    }

    /// Reads a piece of an incoming text into tokens; about how many bytes they took.
    fn tokenise(&mut self, mutator: &mut Mutator) -> Result<usize, ProgramError> {
        let document = self.popular();
        let at = self.draw.any() as usize;
        let text = &Self::text(&self.corpus, self.first, document).text;
        let from = char_floor(text, at % text.len().max(1));
        let to = char_floor(text, (from + 8 * TOKENS).min(text.len()));
        with_room(mutator, |mutator| {
            let (mut first, mut bytes, mut failed) = (None, 0, None);
            for_each_word(&text[from..to], |word| {
                let token = || {
                    let token = mutator.alloc(Token {
                        text: Field::null(),
                        next: Field::null(),
                        at: from as u32,
                    })?;
                    let word = mutator.alloc_bytes(word.as_bytes())?;
                    token.text.set(mutator, Some(word));
                    token.next.set(mutator, first);
                    Ok(token)
                };
                match token() {
                    Ok(token) => first = Some(token),
                    Err(error) => failed = Some(error),
                }
                bytes += 32 + word.len().next_multiple_of(8);
            });
            match failed {
                Some(error) => Err(error),
                None => Ok(bytes + 32),
            }
        })
    }

    /// Changes one old object so that it refers to a new one.
    fn refresh(&mut self, mutator: &mut Mutator, change: usize) -> Result<usize, ProgramError> {
        let document = self.popular();
        let number = self.versions[document];
        let title = Self::text(&self.corpus, self.first, document).title.clone();
        let which = self.draw.below(20);
        let root = self.root()?;
        with_room(mutator, |mutator| {
            let home = root.get(mutator);
            let query = home.recent(mutator, which + 1).last();
            if let Some(query) = query.filter(|_| change.is_multiple_of(4)) {
                let word = query.text(mutator).split(' ').next().unwrap_or("");
                let numbers: Vec<u32> = query
                    .results
                    .get(mutator)
                    .map_or_else(Vec::new, |results| results.numbers().collect());
                let results = Results::alloc(mutator, home, &numbers, word)?;
                query.results.set(mutator, Some(results));
                return Ok(200 * numbers.len());
            }
            let summary = format!("{title}: summary {change}");
            let summary = mutator.alloc_bytes(summary.as_bytes())?;
            if let Some(document) = home.document(mutator, number) {
                document.summary.set(mutator, Some(summary));
            }
            Ok(title.len() + 32)
        })
    }
}

/// A text as it is after so many changes: its halves change places at a line's end, and a line is added.
fn version(text: &str, turn: usize) -> String {
    if turn == 0 {
        return text.to_owned();
    }
    let at = char_floor(text, text.len() * turn / 21);
    let at = text[..at].rfind('\n').map_or(0, |line| line + 1);
    format!("{}{}\nRevision {turn}\n", &text[at..], &text[..at])
}

impl Program for Index {
    fn name(&self) -> &str {
        "index"
    }

    fn start(&mut self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        if self.versions.is_empty() {
            let what = "the index has no text: its limit is below the first document's size";
            return Err(ProgramError::Data(what.into()));
        }
        let root = with_room(mutator, |mutator| {
            Ok(mutator.root(index_store::alloc(mutator)?))
        })?;
        self.root = Some(root);
        for document in 0..self.versions.len() {
            mutator.safepoint();
            self.add(mutator, document, 0)?;
        }
        Ok(())
    }

    fn use_it(&mut self, mutator: &mut Mutator, actions: usize) -> Result<u64, ProgramError> {
        let mut sum = Checksum::new();
        for _ in 0..actions {
            mutator.safepoint();
            if self.draw.percent(15) {
                self.update(mutator)?;
            } else {
                self.query(mutator, &mut sum)?;
            }
        }
        Ok(sum.get())
    }

    fn work_in_background(
        &mut self,
        mutator: &mut Mutator,
        bytes: usize,
        old_changes: usize,
    ) -> Result<(), ProgramError> {
        let mut done = 0;
        for change in 0..old_changes {
            mutator.safepoint();
            done += self.refresh(mutator, change)?;
        }
        while done < bytes {
            mutator.safepoint();
            done += self.tokenise(mutator)?;
        }
        Ok(())
    }

    fn launch(&mut self, mutator: &mut Mutator) -> Result<u64, ProgramError> {
        const QUERIES: usize = 12;
        const PAGES: usize = 3;
        let mut sum = Checksum::new();
        for i in 0..QUERIES {
            mutator.safepoint();
            let home = self.root()?.get(mutator);
            let Some(query) = home.recent(mutator, i + 1).nth(i) else {
                break;
            };
            sum.add_bytes(query.text(mutator).as_bytes());
            let Some(results) = query.results.get(mutator) else {
                continue;
            };
            results.read(mutator, RESULTS, &mut sum);
            for number in results.numbers().filter(|_| i < PAGES) {
                if let Some(document) = home.document(mutator, number) {
                    document.read(mutator, 1, &mut sum);
                }
            }
        }
        for i in 0..index_store::TOP_TERMS {
            mutator.safepoint();
            let home = self.root()?.get(mutator);
            let top = home.top.get(mutator).and_then(|top| top.get(mutator, i));
            if let Some(text) = top.and_then(|term| term.text.get(mutator)) {
                sum.add_bytes(text.bytes(mutator));
            }
        }
        for i in 0..index_store::OPENED {
            mutator.safepoint();
            let home = self.root()?.get(mutator);
            let opened = home.opened.get(mutator);
            if let Some(document) = opened.and_then(|opened| opened.get(mutator, i)) {
                document.read(mutator, usize::MAX, &mut sum);
            }
        }
        Ok(sum.get())
    }
}
