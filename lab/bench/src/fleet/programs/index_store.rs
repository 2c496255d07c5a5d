//! The objects of the index but for its dictionary: documents, cached queries, the home view.

use std::sync::atomic::{AtomicU32, Ordering};

use warmswap_heap::{AllocError, Bytes, Field, Mutator, Ref, Refs, object};

use super::common::Checksum;
use super::dictionary::{self, Directory, Term};
use super::words;

/// Documents in an array: 1 KiB of references.
const PAGE: usize = 256;
/// Bytes of a section of a stored text.
const SECTION_BYTES: usize = 1024;
/// Results of a query.
pub const RESULTS: usize = 10;
/// Queries in the cache.
const MOST_QUERIES: usize = 200;
/// Most used terms in the home view.
pub const TOP_TERMS: usize = 32;
/// Documents that were opened last, in the home view.
pub const OPENED: usize = 8;

object! {
    /// What the root refers to.
    pub struct Home {
        /// Terms.
        pub directory: Field<Directory>,
        /// Documents by number.
        pages: Field<Refs<Refs<Document>>>,
        /// The newest query of the cache.
        queries: Field<Query>,
        /// Most used terms.
        pub top: Field<Refs<Term>>,
        /// Documents that were opened last.
        pub opened: Field<Refs<Document>>,
        opened_so_far: AtomicU32,
    }

    /// A document.
    pub struct Document {
        title: Field<Bytes>,
        first: Field<Section>,
        /// What the background makes of it.
        pub summary: Field<Bytes>,
        /// Words in it.
        pub words: u32,
        opened: AtomicU32,
    }

    /// A part of a stored text.
    pub struct Section {
        text: Field<Bytes>,
        next: Field<Section>,
    }

    /// A query with its results.
    pub struct Query {
        text: Field<Bytes>,
        older: Field<Query>,
        /// Its results.
        pub results: Field<Results>,
    }

    /// The best documents of a query.
    pub struct Results {
        documents: [AtomicU32; 10],
        count: u32,
        snippets: Field<Refs<Bytes>>,
    }
}

/// Makes an empty index.
pub fn alloc(mutator: &Mutator) -> Result<Ref<'_, Home>, AllocError> {
    let home = mutator.alloc(Home {
        directory: Field::null(),
        pages: Field::null(),
        queries: Field::null(),
        top: Field::null(),
        opened: Field::null(),
        opened_so_far: AtomicU32::new(0),
    })?;
    home.directory
        .set(mutator, Some(dictionary::alloc(mutator)?));
    home.pages.set(mutator, Some(mutator.alloc_refs(16)?));
    home.top.set(mutator, Some(mutator.alloc_refs(TOP_TERMS)?));
    home.opened.set(mutator, Some(mutator.alloc_refs(OPENED)?));
    Ok(home)
}

/// Makes a document with its text.
pub fn alloc_document<'m>(
    mutator: &'m Mutator,
    title: &str,
    text: &str,
    word_count: u32,
) -> Result<Ref<'m, Document>, AllocError> {
    let document = mutator.alloc(Document {
        title: Field::null(),
        first: Field::null(),
        summary: Field::null(),
        words: word_count,
        opened: AtomicU32::new(0),
    })?;
    let title = mutator.alloc_bytes(title.as_bytes())?;
    document.title.set(mutator, Some(title));
    let mut last: Option<Ref<'_, Section>> = None;
    for part in words::parts(text, SECTION_BYTES) {
        let section = mutator.alloc(Section {
            text: Field::null(),
            next: Field::null(),
        })?;
        let text = mutator.alloc_bytes(part.as_bytes())?;
        section.text.set(mutator, Some(text));
        match last {
            Some(last) => last.next.set(mutator, Some(section)),
            None => document.first.set(mutator, Some(section)),
        }
        last = Some(section);
    }
    Ok(document)
}

impl Home {
    /// The document of a number.
    pub fn document<'m>(&self, mutator: &'m Mutator, number: u32) -> Option<Ref<'m, Document>> {
        let (page, at) = (number as usize / PAGE, number as usize % PAGE);
        let pages = self.pages.get(mutator)?;
        if page >= pages.len(mutator) {
            return None;
        }
        pages.get(mutator, page)?.get(mutator, at)
    }

    /// Gives a number to a document, or takes it away from the one that had it.
    pub fn set_document(
        &self,
        mutator: &Mutator,
        number: u32,
        document: Option<Ref<'_, Document>>,
    ) -> Result<(), AllocError> {
        let (page, at) = (number as usize / PAGE, number as usize % PAGE);
        let Some(mut pages) = self.pages.get(mutator) else {
            return Ok(());
        };
        let len = pages.len(mutator);
        if page >= len {
            let larger = mutator.alloc_refs((len * 2).max(page + 1))?;
            for i in 0..len {
                larger.set(mutator, i, pages.get(mutator, i));
            }
            self.pages.set(mutator, Some(larger));
            pages = larger;
        }
        let documents = match pages.get(mutator, page) {
            Some(documents) => documents,
            None => {
                let documents = mutator.alloc_refs(PAGE)?;
                pages.set(mutator, page, Some(documents));
                documents
            }
        };
        documents.set(mutator, at, document);
        Ok(())
    }

    /// The cached query of this text, which becomes the newest one.
    pub fn cached<'m>(&self, mutator: &'m Mutator, text: &str) -> Option<Ref<'m, Query>> {
        let mut newer: Option<Ref<'m, Query>> = None;
        let mut next = self.queries.get(mutator);
        while let Some(query) = next {
            let older = query.older.get(mutator);
            let found = query.text.get(mutator)?;
            if found.bytes(mutator) == text.as_bytes() {
                if let Some(newer) = newer {
                    newer.older.set(mutator, older);
                    query.older.set(mutator, self.queries.get(mutator));
                    self.queries.set(mutator, Some(query));
                }
                return Some(query);
            }
            newer = Some(query);
            next = older;
        }
        None
    }

    /// Puts a query at the front of the cache; the oldest one leaves when there are too many.
    pub fn cache(
        &self,
        mutator: &Mutator,
        text: &str,
        results: Ref<'_, Results>,
    ) -> Result<(), AllocError> {
        let query = mutator.alloc(Query {
            text: Field::null(),
            older: Field::null(),
            results: Field::null(),
        })?;
        let text = mutator.alloc_bytes(text.as_bytes())?;
        query.text.set(mutator, Some(text));
        query.results.set(mutator, Some(results));
        query.older.set(mutator, self.queries.get(mutator));
        self.queries.set(mutator, Some(query));
        if let Some(last) = self.recent(mutator, MOST_QUERIES).nth(MOST_QUERIES - 1) {
            last.older.set(mutator, None);
        }
        Ok(())
    }

    /// The newest queries.
    pub fn recent<'m>(
        &self,
        mutator: &'m Mutator,
        most: usize,
    ) -> impl Iterator<Item = Ref<'m, Query>> + use<'m> {
        let first = self.queries.get(mutator);
        std::iter::successors(first, |query| query.older.get(mutator)).take(most)
    }

    /// Counts a use of a term, which may make it one of those used most.
    pub fn count_use(&self, mutator: &Mutator, term: Ref<'_, Term>) {
        let uses = term.uses.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(top) = self.top.get(mutator) else {
            return;
        };
        let mut least = (uses, None);
        for i in 0..top.len(mutator) {
            let of_place = match top.get(mutator, i) {
                Some(at) if at == term => return,
                Some(at) => at.uses.load(Ordering::Relaxed),
                None => 0,
            };
            if of_place < least.0 {
                least = (of_place, Some(i));
            }
        }
        if let Some(i) = least.1 {
            top.set(mutator, i, Some(term));
        }
    }

    /// Notes that a document was opened.
    pub fn note_opened(&self, mutator: &Mutator, document: Ref<'_, Document>) {
        document.opened.fetch_add(1, Ordering::Relaxed);
        let at = self.opened_so_far.fetch_add(1, Ordering::Relaxed) as usize % OPENED;
        if let Some(opened) = self.opened.get(mutator) {
            opened.set(mutator, at, Some(document));
        }
    }
}

impl Document {
    /// Reads title, summary and so many sections.
    pub fn read(&self, mutator: &Mutator, sections: usize, sum: &mut Checksum) {
        for bytes in [&self.title, &self.summary] {
            if let Some(bytes) = bytes.get(mutator) {
                sum.add_bytes(bytes.bytes(mutator));
            }
        }
        for text in self.texts(mutator).take(sections) {
            sum.add_bytes(text.as_bytes());
        }
    }

    fn texts<'m>(&self, mutator: &'m Mutator) -> impl Iterator<Item = &'m str> + use<'m> {
        let first = self.first.get(mutator);
        let sections = std::iter::successors(first, |section| section.next.get(mutator));
        sections.filter_map(|section| Some(section.text.get(mutator)?.text(mutator)))
    }

    /// What is around a word in one of the first sections, or how the text begins.
    pub fn snippet<'m>(&self, mutator: &'m Mutator, word: &str) -> &'m str {
        const BEFORE: usize = 40;
        const ALL: usize = 160;
        let mut texts = self.texts(mutator).take(4).peekable();
        let start = texts.peek().copied().unwrap_or("");
        let found = texts.find_map(|text| Some((text, text.find(word)?)));
        let (text, at) = found.unwrap_or((start, 0));
        let from = words::char_floor(text, at.saturating_sub(BEFORE));
        let to = words::char_floor(text, (from + ALL).min(text.len()));
        &text[from..to]
    }
}

impl Results {
    /// Makes the results of a query: documents, and a snippet of each.
    pub fn alloc<'m>(
        mutator: &'m Mutator,
        home: Ref<'_, Home>,
        numbers: &[u32],
        word: &str,
    ) -> Result<Ref<'m, Self>, AllocError> {
        let results = mutator.alloc(Self {
            documents: Default::default(),
            count: numbers.len().min(RESULTS) as u32,
            snippets: Field::null(),
        })?;
        let snippets = mutator.alloc_refs(RESULTS)?;
        results.snippets.set(mutator, Some(snippets));
        for (i, &number) in numbers.iter().take(RESULTS).enumerate() {
            results.documents[i].store(number, Ordering::Relaxed);
            if let Some(document) = home.document(mutator, number) {
                let snippet = document.snippet(mutator, word);
                let snippet = mutator.alloc_bytes(snippet.as_bytes())?;
                snippets.set(mutator, i, Some(snippet));
            }
        }
        Ok(results)
    }

    /// The documents' numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let documents = self.documents.iter().take(self.count as usize);
        documents.map(|number| number.load(Ordering::Relaxed))
    }

    /// Reads so many snippets.
    pub fn read(&self, mutator: &Mutator, most: usize, sum: &mut Checksum) {
        let Some(snippets) = self.snippets.get(mutator) else {
            return;
        };
        for i in 0..most.min(self.count as usize) {
            if let Some(snippet) = snippets.get(mutator, i) {
                sum.add_bytes(snippet.bytes(mutator));
            }
        }
    }
}

impl Query {
    /// Its text.
    pub fn text<'m>(&self, mutator: &'m Mutator) -> &'m str {
        self.text.get(mutator).map_or("", |text| text.text(mutator))
    }
}
