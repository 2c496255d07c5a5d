//! The dictionary of the index: terms with their postings, in a hash table of two levels.
//!
//! Roots lead to the directory, that to 256 segments, those to arrays of terms that grow with the segment. Rare terms
//! keep their postings in themselves; the others have chunks of them, the newest first.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use warmswap_heap::{AllocError, Bytes, Field, Mutator, Ref, Refs, object};

use super::common::hash_of;

/// Segments of a dictionary.
const SEGMENTS: usize = 256;
/// Length of a new segment's array of terms. It doubles.
const FIRST_SLOTS: usize = 16;
/// Postings in a term.
const INLINE: usize = 2;
/// Postings in a chunk, so that it has 104 bytes with its header.
const CHUNK: usize = 14;

object! {
    /// A part of the dictionary.
    pub struct Segment {
        slots: Field<Refs<Term>>,
        terms: AtomicU32,
    }

    /// A word and the documents that it is in.
    pub struct Term {
        /// The word.
        pub text: Field<Bytes>,
        /// The next one in the same slot.
        next: Field<Term>,
        chunk: Field<Postings>,
        hash: u32,
        /// Postings in the term itself.
        inline: AtomicU32,
        documents: [AtomicU32; 2],
        frequencies: [AtomicU16; 2],
        /// All postings, of documents that are no more included.
        pub postings: AtomicU32,
        /// Queries with it.
        pub uses: AtomicU32,
    }

    /// Documents with a term, and how often it is in them.
    pub struct Postings {
        /// Older ones.
        next: Field<Postings>,
        used: AtomicU32,
        documents: [AtomicU32; 14],
        frequencies: [AtomicU16; 14],
    }
}

/// A document with a term.
#[derive(Clone, Copy, Debug)]
pub struct Posting {
    /// Its number.
    pub document: u32,
    /// How often the term is in it.
    pub frequency: u16,
}

/// The dictionary's directory.
pub type Directory = Refs<Segment>;

/// Makes an empty dictionary.
pub fn alloc(mutator: &Mutator) -> Result<Ref<'_, Directory>, AllocError> {
    let directory = mutator.alloc_refs(SEGMENTS)?;
    for i in 0..SEGMENTS {
        let segment = mutator.alloc(Segment {
            slots: Field::null(),
            terms: AtomicU32::new(0),
        })?;
        segment
            .slots
            .set(mutator, Some(mutator.alloc_refs(FIRST_SLOTS)?));
        directory.set(mutator, i, Some(segment));
    }
    Ok(directory)
}

/// The term of a word.
pub fn find<'m>(
    mutator: &'m Mutator,
    directory: Ref<'m, Directory>,
    word: &str,
) -> Option<Ref<'m, Term>> {
    let hash = hash_of(word.as_bytes());
    let segment = directory.get(mutator, hash as usize % SEGMENTS)?;
    find_in(mutator, segment, hash, word)
}

fn find_in<'m>(
    mutator: &'m Mutator,
    segment: Ref<'m, Segment>,
    hash: u64,
    word: &str,
) -> Option<Ref<'m, Term>> {
    let hash = (hash >> 8) as u32;
    let slots = segment.slots.get(mutator)?;
    let mut next = slots.get(mutator, hash as usize % slots.len(mutator));
    while let Some(term) = next {
        let is_it = term.hash == hash
            && term
                .text
                .get(mutator)
                .is_some_and(|text| text.bytes(mutator) == word.as_bytes());
        if is_it {
            return Some(term);
        }
        next = term.next.get(mutator);
    }
    None
}

/// The term of a word, which becomes one if it is new.
pub fn find_or_add<'m>(
    mutator: &'m Mutator,
    directory: Ref<'m, Directory>,
    word: &str,
) -> Result<Option<Ref<'m, Term>>, AllocError> {
    let hash = hash_of(word.as_bytes());
    let Some(segment) = directory.get(mutator, hash as usize % SEGMENTS) else {
        return Ok(None);
    };
    if let Some(term) = find_in(mutator, segment, hash, word) {
        return Ok(Some(term));
    }
    let Some(slots) = grown(mutator, segment)? else {
        return Ok(None);
    };
    let term = mutator.alloc(Term {
        text: Field::null(),
        next: Field::null(),
        chunk: Field::null(),
        hash: (hash >> 8) as u32,
        inline: AtomicU32::new(0),
        documents: Default::default(),
        frequencies: Default::default(),
        postings: AtomicU32::new(0),
        uses: AtomicU32::new(0),
    })?;
    let text = mutator.alloc_bytes(word.as_bytes())?;
    term.text.set(mutator, Some(text));
    put(mutator, slots, term);
    segment.terms.fetch_add(1, Ordering::Relaxed);
    Ok(Some(term))
}

/// The array of terms of a segment, after it has grown if it is full.
fn grown<'m>(
    mutator: &'m Mutator,
    segment: Ref<'m, Segment>,
) -> Result<Option<Ref<'m, Refs<Term>>>, AllocError> {
    let Some(slots) = segment.slots.get(mutator) else {
        return Ok(None);
    };
    let len = slots.len(mutator);
    if (segment.terms.load(Ordering::Relaxed) as usize) < len {
        return Ok(Some(slots));
    }
    let larger = mutator.alloc_refs(len * 2)?;
    for i in 0..len {
        let mut next = slots.get(mutator, i);
        while let Some(term) = next {
            next = term.next.get(mutator);
            put(mutator, larger, term);
        }
    }
    segment.slots.set(mutator, Some(larger));
    Ok(Some(larger))
}

fn put<'m>(mutator: &'m Mutator, slots: Ref<'m, Refs<Term>>, term: Ref<'m, Term>) {
    let slot = term.hash as usize % slots.len(mutator);
    term.next.set(mutator, slots.get(mutator, slot));
    slots.set(mutator, slot, Some(term));
}

impl Term {
    /// Adds a document.
    pub fn add(&self, mutator: &Mutator, posting: Posting) -> Result<(), AllocError> {
        let inline = self.inline.load(Ordering::Relaxed) as usize;
        if inline < INLINE {
            self.documents[inline].store(posting.document, Ordering::Relaxed);
            self.frequencies[inline].store(posting.frequency, Ordering::Relaxed);
            self.inline.store(inline as u32 + 1, Ordering::Relaxed);
        } else {
            let newest = self.chunk.get(mutator);
            let free = newest.filter(|c| (c.used.load(Ordering::Relaxed) as usize) < CHUNK);
            let chunk = match free {
                Some(chunk) => chunk,
                None => {
                    let chunk = mutator.alloc(Postings {
                        next: Field::null(),
                        used: AtomicU32::new(0),
                        documents: Default::default(),
                        frequencies: Default::default(),
                    })?;
                    chunk.next.set(mutator, newest);
                    self.chunk.set(mutator, Some(chunk));
                    chunk
                }
            };
            let at = chunk.used.load(Ordering::Relaxed) as usize;
            chunk.documents[at].store(posting.document, Ordering::Relaxed);
            chunk.frequencies[at].store(posting.frequency, Ordering::Relaxed);
            chunk.used.store(at as u32 + 1, Ordering::Relaxed);
        }
        self.postings.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Postings, those in the term first, then the newest ones, at most about `most`.
    pub fn some(&self, mutator: &Mutator, most: usize) -> Vec<Posting> {
        let mut found = Vec::new();
        let inline = self.inline.load(Ordering::Relaxed) as usize;
        push(&self.documents, &self.frequencies, inline, &mut found);
        let mut next = self.chunk.get(mutator);
        while let Some(chunk) = next.filter(|_| found.len() < most) {
            let used = chunk.used.load(Ordering::Relaxed) as usize;
            push(&chunk.documents, &chunk.frequencies, used, &mut found);
            next = chunk.next.get(mutator);
        }
        found
    }

    /// Gives the term these postings, in the order of [`Self::some`]; its old chunks are garbage.
    pub fn replace(&self, mutator: &Mutator, postings: &[Posting]) -> Result<(), AllocError> {
        // All that is new first: nothing has changed if the heap is full.
        let all = postings.iter().rev();
        let fresh = mutator.alloc(Term {
            text: Field::null(),
            next: Field::null(),
            chunk: Field::null(),
            hash: 0,
            inline: AtomicU32::new(0),
            documents: Default::default(),
            frequencies: Default::default(),
            postings: AtomicU32::new(0),
            uses: AtomicU32::new(0),
        })?;
        for &posting in all {
            fresh.add(mutator, posting)?;
        }
        for i in 0..INLINE {
            let document = fresh.documents[i].load(Ordering::Relaxed);
            let frequency = fresh.frequencies[i].load(Ordering::Relaxed);
            self.documents[i].store(document, Ordering::Relaxed);
            self.frequencies[i].store(frequency, Ordering::Relaxed);
        }
        let inline = fresh.inline.load(Ordering::Relaxed);
        self.inline.store(inline, Ordering::Relaxed);
        self.chunk.set(mutator, fresh.chunk.get(mutator));
        self.postings
            .store(postings.len() as u32, Ordering::Relaxed);
        Ok(())
    }
}

fn push(documents: &[AtomicU32], frequencies: &[AtomicU16], used: usize, into: &mut Vec<Posting>) {
    let pairs = documents.iter().zip(frequencies).take(used);
    into.extend(pairs.map(|(document, frequency)| Posting {
        document: document.load(Ordering::Relaxed),
        frequency: frequency.load(Ordering::Relaxed),
    }));
}
