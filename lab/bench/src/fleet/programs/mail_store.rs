//! The objects of the mail program: messages, threads, folders.

use std::sync::atomic::{AtomicU32, Ordering};

use warmswap_heap::{AllocError, Bytes, Field, Mutator, Ref, Refs, object};

use super::btree::{self, Node};
use super::common::{Checksum, hash_of};
use super::words;

/// Bytes of a chunk of a body.
const CHUNK_BYTES: usize = 1024;
/// Words of a message that are indexed.
const INDEXED_WORDS: usize = 12;

object! {
    /// What the root refers to.
    pub struct Store {
        /// All folders.
        pub folders: Field<Refs<Folder>>,
        /// Messages by the words in them.
        words: Field<Node>,
        /// Messages that are not in it yet, the newest first.
        pub pending: Field<Message>,
        /// The thread that is on the screen.
        pub open: Field<Thread>,
        /// What is being written.
        pub draft: Field<Bytes>,
    }

    /// A folder.
    pub struct Folder {
        name: Field<Bytes>,
        /// Messages by date and number.
        pub by_date: Field<Node>,
        /// Messages by the first letters of the subject, and number.
        pub by_subject: Field<Node>,
        /// Messages.
        pub count: AtomicU32,
    }

    /// Messages that answer each other.
    pub struct Thread {
        subject: Field<Bytes>,
        first: Field<Message>,
        last: Field<Message>,
        count: AtomicU32,
    }

    /// A message.
    pub struct Message {
        subject: Field<Bytes>,
        sender: Field<Bytes>,
        headers: Field<Bytes>,
        body: Field<Chunk>,
        /// Its thread.
        pub thread: Field<Thread>,
        next_in_thread: Field<Message>,
        /// The next one of those that are not in the index of words.
        pub next_pending: Field<Message>,
        tags: Field<Tag>,
        /// Its number, by which keys differ.
        pub number: u32,
        flags: AtomicU32,
        /// Seconds.
        date: u64,
    }

    /// A part of a body.
    pub struct Chunk {
        text: Field<Bytes>,
        next: Field<Chunk>,
    }

    /// A mark that a person puts on a message.
    pub struct Tag {
        name: Field<Bytes>,
        next: Field<Tag>,
    }
}

/// A message before it is on the heap.
#[derive(Clone, Debug)]
pub struct Letter {
    /// Number.
    pub number: u32,
    /// Seconds.
    pub date: u64,
    /// Who wrote it.
    pub sender: String,
    /// What about.
    pub subject: String,
    /// Header lines.
    pub headers: String,
    /// The text.
    pub body: String,
}

fn key(high: u64, number: u32) -> u64 {
    high << 24 | u64::from(number & 0xff_ffff)
}

impl Store {
    /// Makes an empty store.
    pub fn alloc<'m>(mutator: &'m Mutator, names: &[&str]) -> Result<Ref<'m, Self>, AllocError> {
        let store = mutator.alloc(Self {
            folders: Field::null(),
            words: Field::null(),
            pending: Field::null(),
            open: Field::null(),
            draft: Field::null(),
        })?;
        let folders = mutator.alloc_refs(names.len())?;
        for (i, name) in names.iter().enumerate() {
            folders.set(mutator, i, Some(Folder::alloc(mutator, name)?));
        }
        store.folders.set(mutator, Some(folders));
        Ok(store)
    }

    /// A folder.
    pub fn folder<'m>(&self, mutator: &'m Mutator, i: usize) -> Option<Ref<'m, Folder>> {
        self.folders.get(mutator)?.get(mutator, i)
    }

    /// Adds a message to the index of words.
    pub fn index(&self, mutator: &Mutator, message: Ref<'_, Message>) -> Result<(), AllocError> {
        for hash in message.word_hashes(mutator) {
            btree::insert(mutator, &self.words, key(hash, message.number), message)?;
        }
        Ok(())
    }

    /// Takes a message out of the index of words.
    pub fn unindex(&self, mutator: &Mutator, message: Ref<'_, Message>) {
        for hash in message.word_hashes(mutator) {
            btree::remove(mutator, &self.words, key(hash, message.number));
        }
    }

    /// Messages with a word, at most so many.
    pub fn search<'m>(
        &self,
        mutator: &'m Mutator,
        word: &str,
        most: usize,
    ) -> Vec<Ref<'m, Message>> {
        let hash = word_hash(word);
        let mut found = Vec::new();
        btree::ascend(mutator, &self.words, key(hash, 0), |at, message| {
            if at >> 24 != hash || found.len() == most {
                return std::ops::ControlFlow::Break(());
            }
            found.push(message);
            std::ops::ControlFlow::Continue(())
        });
        found
    }
}

/// 40 bits, which fit above a message's number.
fn word_hash(word: &str) -> u64 {
    hash_of(word.as_bytes()) >> 24
}

impl Folder {
    /// Makes an empty folder.
    pub fn alloc<'m>(mutator: &'m Mutator, name: &str) -> Result<Ref<'m, Self>, AllocError> {
        let folder = mutator.alloc(Self {
            name: Field::null(),
            by_date: Field::null(),
            by_subject: Field::null(),
            count: AtomicU32::new(0),
        })?;
        let name = mutator.alloc_bytes(name.as_bytes())?;
        folder.name.set(mutator, Some(name));
        Ok(folder)
    }

    /// Adds a message. It is there once if this is done twice.
    pub fn insert(&self, mutator: &Mutator, message: Ref<'_, Message>) -> Result<(), AllocError> {
        let (date, subject) = message.keys(mutator);
        btree::insert(mutator, &self.by_subject, subject, message)?;
        btree::insert(mutator, &self.by_date, date, message)?;
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a message out.
    pub fn remove(&self, mutator: &Mutator, message: Ref<'_, Message>) {
        let (date, subject) = message.keys(mutator);
        btree::remove(mutator, &self.by_subject, subject);
        if btree::remove(mutator, &self.by_date, date) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Reads its name and count.
    pub fn read(&self, mutator: &Mutator, sum: &mut Checksum) {
        if let Some(name) = self.name.get(mutator) {
            sum.add_bytes(name.bytes(mutator));
        }
        sum.add(self.count.load(Ordering::Relaxed).into());
    }

    /// The newest messages.
    pub fn newest<'m>(&self, mutator: &'m Mutator, most: usize) -> Vec<Ref<'m, Message>> {
        btree::last(mutator, &self.by_date, most)
    }

    /// The oldest message.
    pub fn oldest<'m>(&self, mutator: &'m Mutator) -> Option<Ref<'m, Message>> {
        btree::first(mutator, &self.by_date).map(|(_, message)| message)
    }
}

impl Message {
    /// Makes a message without content.
    pub fn alloc(mutator: &Mutator, number: u32, date: u64) -> Result<Ref<'_, Self>, AllocError> {
        mutator.alloc(Self {
            subject: Field::null(),
            sender: Field::null(),
            headers: Field::null(),
            body: Field::null(),
            thread: Field::null(),
            next_in_thread: Field::null(),
            next_pending: Field::null(),
            tags: Field::null(),
            number,
            flags: AtomicU32::new(0),
            date,
        })
    }

    /// Makes a message, in no folder and no thread.
    pub fn of<'m>(mutator: &'m Mutator, letter: &Letter) -> Result<Ref<'m, Self>, AllocError> {
        let message = Self::alloc(mutator, letter.number, letter.date)?;
        let parts = [
            (&message.subject, &letter.subject),
            (&message.sender, &letter.sender),
            (&message.headers, &letter.headers),
        ];
        for (field, text) in parts {
            field.set(mutator, Some(mutator.alloc_bytes(text.as_bytes())?));
        }
        let mut last: Option<Ref<'_, Chunk>> = None;
        for part in words::parts(&letter.body, CHUNK_BYTES) {
            let chunk = mutator.alloc(Chunk {
                text: Field::null(),
                next: Field::null(),
            })?;
            let text = mutator.alloc_bytes(part.as_bytes())?;
            chunk.text.set(mutator, Some(text));
            match last {
                Some(last) => last.next.set(mutator, Some(chunk)),
                None => message.body.set(mutator, Some(chunk)),
            }
            last = Some(chunk);
        }
        Ok(message)
    }

    /// Keys by date and by subject.
    fn keys(&self, mutator: &Mutator) -> (u64, u64) {
        let subject = self.subject.get(mutator);
        let subject = subject.map_or("", |subject| subject.text(mutator));
        let subject = subject.strip_prefix("Re: ").unwrap_or(subject).as_bytes();
        let letters = subject.iter().chain(std::iter::repeat(&0)).take(5);
        let letters = letters.fold(0, |all, &b| all << 8 | u64::from(b.to_ascii_lowercase()));
        (key(self.date, self.number), key(letters, self.number))
    }

    fn word_hashes(&self, mutator: &Mutator) -> Vec<u64> {
        let body = self.body.get(mutator).and_then(|c| c.text.get(mutator));
        let mut hashes = Vec::with_capacity(INDEXED_WORDS);
        for text in [self.subject.get(mutator), body].into_iter().flatten() {
            words::for_each_word(text.text(mutator), |word| {
                let hash = word_hash(word);
                if hashes.len() < INDEXED_WORDS && !hashes.contains(&hash) {
                    hashes.push(hash);
                }
            });
        }
        hashes
    }

    /// Reads what a list of messages shows.
    pub fn read_line(&self, mutator: &Mutator, sum: &mut Checksum) {
        for text in [&self.subject, &self.sender] {
            if let Some(text) = text.get(mutator) {
                sum.add_bytes(text.bytes(mutator));
            }
        }
        sum.add(self.date);
        sum.add(self.flags.load(Ordering::Relaxed).into());
        let tags = std::iter::successors(self.tags.get(mutator), |tag| tag.next.get(mutator));
        for name in tags.filter_map(|tag| tag.name.get(mutator)) {
            sum.add_bytes(name.bytes(mutator));
        }
    }

    /// Reads the start of its text.
    pub fn read_start(&self, mutator: &Mutator, sum: &mut Checksum) {
        let body = self.body.get(mutator).and_then(|c| c.text.get(mutator));
        if let Some(text) = body {
            let text = text.bytes(mutator);
            sum.add_bytes(&text[..text.len().min(200)]);
        }
    }

    /// Reads all of it.
    pub fn read(&self, mutator: &Mutator, sum: &mut Checksum) {
        self.read_line(mutator, sum);
        if let Some(headers) = self.headers.get(mutator) {
            sum.add_bytes(headers.bytes(mutator));
        }
        let chunks = std::iter::successors(self.body.get(mutator), |c| c.next.get(mutator));
        for text in chunks.filter_map(|chunk| chunk.text.get(mutator)) {
            sum.add_bytes(text.bytes(mutator));
        }
    }

    /// Changes flags.
    pub fn flag(&self, flags: u32) {
        self.flags.fetch_xor(flags, Ordering::Relaxed);
    }

    /// Marks it; a second mark replaces the first.
    pub fn tag(&self, mutator: &Mutator, name: &str) -> Result<(), AllocError> {
        let tag = mutator.alloc(Tag {
            name: Field::null(),
            next: Field::null(),
        })?;
        let name = mutator.alloc_bytes(name.as_bytes())?;
        tag.name.set(mutator, Some(name));
        self.tags.set(mutator, Some(tag));
        Ok(())
    }
}

impl Thread {
    /// Makes a thread of one message.
    pub fn begin<'m>(
        mutator: &'m Mutator,
        message: Ref<'m, Message>,
    ) -> Result<Ref<'m, Self>, AllocError> {
        let thread = mutator.alloc(Self {
            subject: Field::null(),
            first: Field::null(),
            last: Field::null(),
            count: AtomicU32::new(1),
        })?;
        thread.subject.set(mutator, message.subject.get(mutator));
        thread.first.set(mutator, Some(message));
        thread.last.set(mutator, Some(message));
        message.thread.set(mutator, Some(thread));
        Ok(thread)
    }

    /// Adds an answer: an old message refers to a new one then.
    pub fn append(thread: Ref<'_, Self>, mutator: &Mutator, message: Ref<'_, Message>) {
        match thread.last.get(mutator) {
            Some(last) => last.next_in_thread.set(mutator, Some(message)),
            None => thread.first.set(mutator, Some(message)),
        }
        thread.last.set(mutator, Some(message));
        thread.count.fetch_add(1, Ordering::Relaxed);
        message.thread.set(mutator, Some(thread));
    }

    /// Takes a message out.
    pub fn remove(&self, mutator: &Mutator, message: Ref<'_, Message>) {
        let mut before: Option<Ref<'_, Message>> = None;
        for at in self.messages(mutator) {
            if at == message {
                let after = at.next_in_thread.get(mutator);
                match before {
                    Some(before) => before.next_in_thread.set(mutator, after),
                    None => self.first.set(mutator, after),
                }
                if after.is_none() {
                    self.last.set(mutator, before);
                }
                self.count.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            before = Some(at);
        }
    }

    /// Its messages.
    pub fn messages<'m>(
        &self,
        mutator: &'m Mutator,
    ) -> impl Iterator<Item = Ref<'m, Message>> + use<'m> {
        let first = self.first.get(mutator);
        std::iter::successors(first, |message| message.next_in_thread.get(mutator))
    }

    /// Messages.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }
}
