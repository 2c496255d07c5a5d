//! What pages hold, and what they should hold.

use core::array;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use std::kernel::{self, PAGE_BYTES};
use std::machine;

/// Words that are read or written at once, as far as other tasks can see.
const PIECE_WORDS: usize = 128;
/// Pieces of a page, each with a version of its own.
pub const PIECES: usize = PAGE_BYTES / 8 / PIECE_WORDS;

type Piece = [u64; PIECE_WORDS];

/// A page as it should be.
#[derive(Debug, Default)]
struct Page {
    versions: [AtomicU64; PIECES],
    /// Times that the kernel had filled it when it was last verified as a whole.
    fills: AtomicU64,
    /// Tasks that use it; negative while one has it to itself.
    users: AtomicI32,
}

/// Memory of the program, in pages. The model's own numbers take no step.
#[derive(Debug)]
pub struct ProgramMemory {
    address: usize,
    salt: u64,
    pages: Box<[Page]>,
}

/// What was verified.
#[derive(Debug, Default)]
pub struct Verified {
    /// Whole pages that were compared and had left their place since they were last compared.
    pub swaps: AtomicU64,
    /// Whole pages that were compared.
    pub pages: AtomicU64,
    /// Pieces that were written.
    pub writes: AtomicU64,
}

/// Small numbers without an order.
const NEAR_BY: [u64; 32] = {
    let mut numbers = [0; 32];
    let mut i = 0;
    while i < numbers.len() {
        numbers[i] = mix(i as u64) & 0xffff;
        i += 1;
    }
    numbers
};

const fn mix(value: u64) -> u64 {
    let z = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl ProgramMemory {
    /// Memory at an address, never touched.
    pub fn new(address: usize, pages: usize, salt: u64) -> Self {
        Self {
            address,
            salt,
            pages: (0..pages).map(|_| Page::default()).collect(),
        }
    }

    /// How many pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// What a piece of a page holds in that version. Pages differ in how well they can be compressed.
    fn piece(&self, page: usize, piece: usize, version: u64) -> Piece {
        if version == 0 {
            return [0; PIECE_WORDS];
        }
        let page_key = mix(self.salt ^ page as u64);
        let key = page_key.wrapping_add(version << 8 | piece as u64);
        let mixed = |i: usize| mix(key.wrapping_add(i as u64));
        match page_key % 8 {
            // The same all over the page, where all pieces have the same version.
            0 => [page_key.wrapping_add(version); PIECE_WORDS],
            1..=4 => array::from_fn(|i| key.wrapping_add((i & 7) as u64)),
            5 => array::from_fn(|i| if i < PIECE_WORDS / 2 { mixed(i) } else { key }),
            6 => array::from_fn(mixed),
            _ => array::from_fn(|i| key.wrapping_add(NEAR_BY[i % NEAR_BY.len()])),
        }
    }

    fn piece_address(&self, page: usize, piece: usize) -> usize {
        self.address + page * PAGE_BYTES + piece * PIECE_WORDS * 8
    }

    /// Whether the caller may use the page now; if so, it says when it does no more.
    pub fn begin_use(&self, page: usize) -> bool {
        let users = &self.pages[page].users;
        let is_free = users.load(Relaxed) >= 0;
        if is_free {
            users.fetch_add(1, Relaxed);
        }
        is_free
    }

    /// The caller uses the page no more.
    pub fn end_use(&self, page: usize) {
        self.pages[page].users.fetch_sub(1, Relaxed);
    }

    /// Whether the caller has these pages to itself now.
    pub fn take(&self, pages: std::ops::Range<usize>) -> bool {
        let is_unused = |page: &Page| page.users.load(Relaxed) == 0;
        let is_free = self.pages[pages.clone()].iter().all(is_unused);
        if is_free {
            self.pages[pages]
                .iter()
                .for_each(|page| page.users.store(-1, Relaxed));
        }
        is_free
    }

    /// The caller has these pages to itself no more. They were given up if `are_zero`.
    pub fn give_back(&self, pages: std::ops::Range<usize>, are_zero: bool) {
        for page in &self.pages[pages] {
            page.users.store(0, Relaxed);
            if are_zero {
                page.versions
                    .iter()
                    .for_each(|version| version.store(0, Relaxed));
            }
        }
    }

    /// Writes pieces of a page, each with a new version. What is overwritten is compared first.
    pub fn write(&self, page: usize, pieces: std::ops::Range<usize>, verified: &Verified) {
        let is_whole = pieces.len() == PIECES;
        let mut fills = 0;
        for piece in pieces {
            fills = kernel::write(self.piece_address(page, piece), PIECE_WORDS, |words| {
                let version = &self.pages[page].versions[piece];
                self.compare(page, piece, words);
                let next = version.fetch_add(1, Relaxed) + 1;
                words.copy_from_slice(&self.piece(page, piece, next));
            });
            verified.writes.fetch_add(1, Relaxed);
            machine::progress();
        }
        if is_whole {
            self.was_compared(page, fills, verified);
        }
    }

    /// Compares a whole page with what it should be.
    pub fn verify(&self, page: usize, verified: &Verified) {
        let mut fills = 0;
        for piece in 0..PIECES {
            fills = kernel::read(self.piece_address(page, piece), PIECE_WORDS, |words| {
                self.compare(page, piece, words);
            });
            machine::progress();
        }
        self.was_compared(page, fills, verified);
    }

    /// A whole page was compared after it had been filled so often.
    fn was_compared(&self, page: usize, fills: u64, verified: &Verified) {
        let before = self.pages[page].fills.swap(fills, Relaxed);
        verified.pages.fetch_add(1, Relaxed);
        // The first time that it was filled it came from nowhere.
        if fills > before.max(1) {
            verified.swaps.fetch_add(1, Relaxed);
        }
    }

    fn compare(&self, page: usize, piece: usize, words: &[u64]) {
        let version = self.pages[page].versions[piece].load(Relaxed);
        let wanted = self.piece(page, piece, version);
        if words != wanted {
            let is_other = |&i: &usize| words.get(i) != Some(&wanted[i]);
            let i = (0..PIECE_WORDS).find(is_other).unwrap_or(0);
            let (word, wanted) = (words[i], wanted[i]);
            panic!(
                "page {page}, piece {piece}, word {i}: {word:#x} in place of {wanted:#x} (version {version})"
            );
        }
    }

    /// The kernel could use the page: it is there.
    pub fn is_present(&self, page: usize) -> bool {
        kernel::is_present(self.piece_address(page, 0))
    }
}
