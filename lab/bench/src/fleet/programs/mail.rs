//! A mail program: folders of messages in B-trees, threads, an index of words.
//!
//! Texts and data structures are real; headers, and what a person does, are drawn.
//!
//! | state | what happens |
//! |---|---|
//! | foreground | opens folders, reads threads, searches, flags, tags, composes (drafts are garbage); expires old messages |
//! | background | fetches mail: most of what is received is garbage, some messages go to the folder's B-trees and to threads |
//! | launch | the list of folders, the newest messages of each with their first lines, the thread that is open |
//!
//! The words of messages that were fetched in the background are indexed when the person comes back.

use std::sync::Arc;

use warmswap_heap::{AllocError, Mutator, Ref, Root};

use super::super::program::{Program, ProgramError};
use super::common::{Checksum, Draw, not_started, with_room};
use super::corpus::Corpus;
use super::letters::Letters;
use super::mail_store::{Letter, Message, Store, Thread};
use super::words;

const FOLDERS: [&str; 6] = ["Inbox", "Lists", "Archive", "Sent", "Receipts", "Junk"];
const INBOX: usize = 0;
const SENT: usize = 3;
/// Messages of a page on the screen.
const PAGE: usize = 30;
/// Longer threads get no answers.
const MOST_IN_THREAD: usize = 12;
/// What a fetched message changes: two leaves, a thread or the message before it, the store.
const CHANGES_OF_FETCH: usize = 4;
const SEEN: u32 = 1;
const STARRED: u32 = 2;

/// How large the store is, and of what.
#[derive(Clone, Debug)]
pub struct MailOptions {
    /// The texts. Letters begin at a place that the seed says.
    pub corpus: Arc<Corpus>,
    /// Bytes of texts that are stored. The heap becomes about 1.5 times that.
    pub text_bytes: usize,
    /// Where everything random comes from.
    pub seed: u64,
}

/// A mail program. See the module.
#[derive(Debug)]
pub struct Mail {
    text_bytes: usize,
    letters: Letters,
    draw: Draw,
    root: Option<Root<Store>>,
    /// Messages that each folder may have.
    limits: [u32; FOLDERS.len()],
}

impl Mail {
    /// A store; nothing is allocated yet.
    #[must_use]
    pub fn new(options: MailOptions) -> Self {
        Self {
            letters: Letters::new(options.corpus, options.seed),
            text_bytes: options.text_bytes,
            draw: Draw::new(options.seed ^ 1),
            root: None,
            limits: [0; FOLDERS.len()],
        }
    }

    fn root(&self) -> Result<&Root<Store>, ProgramError> {
        self.root.as_ref().ok_or_else(|| not_started("mail"))
    }

    /// Puts a letter into a folder and a thread, to be indexed later.
    fn receive(
        &mut self,
        mutator: &mut Mutator,
        letter: &Letter,
        folder: usize,
    ) -> Result<(), ProgramError> {
        let answers = self.draw.percent(50).then(|| self.draw.below(PAGE));
        let root = self.root()?;
        with_room(mutator, |mutator| {
            let store = root.get(mutator);
            let Some(folder) = store.folder(mutator, folder) else {
                return Ok(());
            };
            let answered = answers.and_then(|i| folder.newest(mutator, i + 1).get(i).copied());
            let thread = answered.and_then(|answered| answered.thread.get(mutator));
            let thread = thread.filter(|thread| thread.len() < MOST_IN_THREAD);
            let message = Message::of(mutator, letter)?;
            if thread.is_none() {
                Thread::begin(mutator, message)?;
            }
            folder.insert(mutator, message)?;
            if let Some(thread) = thread {
                Thread::append(thread, mutator, message);
            }
            message
                .next_pending
                .set(mutator, store.pending.get(mutator));
            store.pending.set(mutator, Some(message));
            Ok(())
        })
    }

    /// Indexes the words of what was received.
    fn index_pending(&self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        let root = self.root()?;
        loop {
            mutator.safepoint();
            let is_done = with_room(mutator, |mutator| {
                let store = root.get(mutator);
                let Some(message) = store.pending.get(mutator) else {
                    return Ok(true);
                };
                store.index(mutator, message)?;
                store
                    .pending
                    .set(mutator, message.next_pending.get(mutator));
                message.next_pending.set(mutator, None);
                Ok(false)
            })?;
            if is_done {
                return Ok(());
            }
        }
    }

    /// Deletes the oldest messages of folders that have too many.
    fn expire(&self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        let root = self.root()?;
        for (i, &limit) in self.limits.iter().enumerate() {
            loop {
                mutator.safepoint();
                let store = root.get(mutator);
                let Some(folder) = store.folder(mutator, i) else {
                    break;
                };
                let count = folder.count.load(std::sync::atomic::Ordering::Relaxed);
                let Some(oldest) = folder.oldest(mutator).filter(|_| count > limit) else {
                    break;
                };
                store.unindex(mutator, oldest);
                folder.remove(mutator, oldest);
                if let Some(thread) = oldest.thread.get(mutator) {
                    thread.remove(mutator, oldest);
                }
            }
        }
        Ok(())
    }

    /// Shows a folder, and the thread of one of its messages.
    fn read(&mut self, mutator: &mut Mutator, sum: &mut Checksum) -> Result<(), ProgramError> {
        let (folder, which) = (self.draw.zipf(FOLDERS.len()), self.draw.zipf(PAGE));
        let store = self.root()?.get(mutator);
        if let Some(folder) = store.folder(mutator, folder) {
            folder.read(mutator, sum);
            let page = folder.newest(mutator, PAGE);
            for message in &page {
                message.read_line(mutator, sum);
            }
            if let Some(message) = page.get(which.min(page.len().saturating_sub(1))) {
                open(mutator, store, *message, sum);
            }
        }
        Ok(())
    }

    fn search(&mut self, mutator: &mut Mutator, sum: &mut Checksum) -> Result<(), ProgramError> {
        let word = self.letters.draw_word();
        let which = self.draw.below(5);
        let store = self.root()?.get(mutator);
        let found = store.search(mutator, &word, PAGE);
        for message in &found {
            message.read_line(mutator, sum);
        }
        if let Some(message) = found.get(which) {
            open(mutator, store, *message, sum);
        }
        Ok(())
    }

    /// Writes a letter. What is written so far is stored time and again.
    fn compose(&mut self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        const DRAFTS: usize = 5;
        let mut letter = self.letters.next();
        letter.subject.insert_str(0, "Re: ");
        for i in 1..=DRAFTS {
            mutator.safepoint();
            let end = words::char_floor(&letter.body, letter.body.len() * i / DRAFTS);
            let root = self.root()?;
            with_room(mutator, |mutator| {
                let draft = mutator.alloc_bytes(&letter.body.as_bytes()[..end])?;
                root.get(mutator).draft.set(mutator, Some(draft));
                Ok(())
            })?;
        }
        self.receive(mutator, &letter, SENT)?;
        self.root()?.get(mutator).draft.set(mutator, None);
        self.index_pending(mutator)
    }

    /// Marks a message of the inbox.
    fn mark(&mut self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        const TAGS: [&str; 4] = ["later", "important", "work", "done"];
        let (which, tag) = (self.draw.zipf(PAGE * 4), TAGS[self.draw.below(TAGS.len())]);
        let is_star = self.draw.percent(40);
        let root = self.root()?;
        with_room(mutator, |mutator| {
            let inbox = root.get(mutator).folder(mutator, INBOX);
            let newest = inbox.map(|inbox| inbox.newest(mutator, which + 1));
            match newest.and_then(|newest| newest.last().copied()) {
                Some(message) if is_star => message.flag(STARRED),
                Some(message) => message.tag(mutator, tag)?,
                None => {}
            }
            Ok(())
        })
    }
}

/// Shows all messages of a thread, which is the open one then.
fn open(mutator: &Mutator, store: Ref<'_, Store>, message: Ref<'_, Message>, sum: &mut Checksum) {
    let Some(thread) = message.thread.get(mutator) else {
        return;
    };
    for message in thread.messages(mutator) {
        message.read(mutator, sum);
    }
    message.flag(SEEN);
    store.open.set(mutator, Some(thread));
}

/// What a server sends of a letter, and what is made of it on the way: all of it garbage. Bytes allocated.
fn download(mutator: &Mutator, letter: &Letter) -> Result<usize, AllocError> {
    const PACKET: usize = 1400;
    let mut bytes = 0;
    for text in [&letter.headers, &letter.body] {
        for packet in words::parts(text, PACKET) {
            mutator.alloc_bytes(packet.as_bytes())?;
            bytes += packet.len().next_multiple_of(8) + 8;
        }
    }
    for line in letter.headers.lines() {
        mutator.alloc_bytes(line.as_bytes())?;
        bytes += line.len().next_multiple_of(8) + 8;
    }
    Ok(bytes)
}

impl Program for Mail {
    fn name(&self) -> &str {
        "mail"
    }

    fn start(&mut self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        let root = with_room(mutator, |mutator| {
            Ok(mutator.root(Store::alloc(mutator, &FOLDERS)?))
        })?;
        self.root = Some(root);
        let mut bytes = 0;
        let mut counts = [0; FOLDERS.len()];
        while bytes < self.text_bytes {
            mutator.safepoint();
            let letter = self.letters.next();
            // An empty body has only its headers.
            bytes += letter.body.len().max(1);
            let folder = self.draw.zipf(FOLDERS.len());
            counts[folder] += 1;
            self.receive(mutator, &letter, folder)?;
            self.index_pending(mutator)?;
        }
        self.limits = counts.map(|count| count + count / 20 + 20);
        Ok(())
    }

    fn use_it(&mut self, mutator: &mut Mutator, actions: usize) -> Result<u64, ProgramError> {
        let mut sum = Checksum::new();
        self.index_pending(mutator)?;
        self.expire(mutator)?;
        for _ in 0..actions {
            mutator.safepoint();
            match self.draw.below(20) {
                0..8 => self.read(mutator, &mut sum)?,
                8..13 => self.search(mutator, &mut sum)?,
                13..15 => self.compose(mutator)?,
                15..18 => self.mark(mutator)?,
                _ => {
                    let letter = self.letters.next();
                    with_room(mutator, |mutator| download(mutator, &letter))?;
                    self.receive(mutator, &letter, INBOX)?;
                }
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
        let (mut allocated, mut changed) = (0, 0);
        while allocated < bytes || changed < old_changes {
            mutator.safepoint();
            let letter = self.letters.next();
            allocated += with_room(mutator, |mutator| download(mutator, &letter))?;
            if changed < old_changes {
                self.receive(mutator, &letter, INBOX)?;
                changed += CHANGES_OF_FETCH;
                allocated += letter.body.len() + letter.headers.len() + 400;
            }
        }
        Ok(())
    }

    fn launch(&mut self, mutator: &mut Mutator) -> Result<u64, ProgramError> {
        let mut sum = Checksum::new();
        let root = self.root()?;
        for i in 0..FOLDERS.len() {
            mutator.safepoint();
            if let Some(folder) = root.get(mutator).folder(mutator, i) {
                folder.read(mutator, &mut sum);
            }
        }
        for i in 0..FOLDERS.len() {
            mutator.safepoint();
            let Some(folder) = root.get(mutator).folder(mutator, i) else {
                continue;
            };
            let shown = if i == INBOX { 2 * PAGE } else { PAGE / 3 };
            for message in folder.newest(mutator, shown) {
                message.read_line(mutator, &mut sum);
                message.read_start(mutator, &mut sum);
            }
        }
        mutator.safepoint();
        if let Some(thread) = root.get(mutator).open.get(mutator) {
            for message in thread.messages(mutator) {
                message.read(mutator, &mut sum);
            }
        }
        Ok(sum.get())
    }
}
