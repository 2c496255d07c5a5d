//! A table of pages: which of them came and went since it was last compared with what is there, and what was
//! noted of each.

use std::collections::BTreeMap;
use std::ops::Range;

use warmswap_engine::evidence;
use warmswap_sys::accessed::{Bits, TABLE_PAGES};
use warmswap_sys::pagemap::{Region, Residence};

/// Pages that are kept together.
pub const BLOCK_PAGES: u64 = 512;
const _: () = assert!(BLOCK_PAGES == TABLE_PAGES);

/// All blocks.
pub const ALL: Range<u64> = 0..u64::MAX;

// A page's state: where it is, in the two lowest bits, and marks.
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const SWAPPED: u8 = 2;
/// It is mapped, and belongs to a file or to shared memory: no page of this table's, and known not to be.
const FOREIGN: u8 = 3;
const WHERE: u8 = 3;
/// It is being brought back ahead of use.
const AHEAD: u8 = 4;
/// It is in memory, and stayed there when the kernel was asked to page it out, as it does where several processes have the
/// page, or it is locked.
const REFUSED: u8 = 8;
/// It was asked for once, and stayed: it may have been busy just then.
const STAYED: u8 = 64;
/// Its accessed bit was seen to be set since it was cleared.
const ACCESSED: u8 = 128;
/// How often it was seen to be accessed in another launch than before, up to 3.
const CONFIRMED: u8 = 3 << CONFIRMED_SHIFT;
const CONFIRMED_SHIFT: u32 = 4;
const _: () = assert!(CONFIRMED >> CONFIRMED_SHIFT == evidence::MOST_CONFIRMED);

/// What happened to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is in memory, and did not exist before.
    Appeared,
    /// It is in swap, and was not known before.
    AppearedSwapped,
    /// It was in swap and is in memory: it was touched, or read ahead by a prefetch that maps it.
    CameBack {
        /// It had been brought back ahead of use, and not been touched since.
        ahead: bool,
    },
    /// It was in memory and is in swap.
    Left,
    /// It existed, and does no more.
    Freed,
}

/// One change of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The page's number: its address / 4096.
    pub page: u64,
    /// What happened.
    pub what: What,
}

/// 512 neighbouring pages.
#[derive(Debug)]
struct Block {
    state: [u8; BLOCK_PAGES as usize],
    /// The launch in which the page was last seen to be accessed, modulo 256; 0 for none.
    seen: [u8; BLOCK_PAGES as usize],
}

impl Block {
    fn new() -> Box<Self> {
        Box::new(Self {
            state: [ABSENT; BLOCK_PAGES as usize],
            seen: [0; BLOCK_PAGES as usize],
        })
    }
}

/// A block as it is now.
#[derive(Debug)]
pub(crate) struct Fresh {
    number: u64,
    state: [u8; BLOCK_PAGES as usize],
}

impl Fresh {
    /// The block's number.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Whether a page in this state is one of the table's.
fn exists(state: u8) -> bool {
    matches!(state & WHERE, PRESENT | SWAPPED)
}

/// Pages that are compared at once.
const LANES: usize = size_of::<u64>();

/// The same byte for each of them.
const fn lanes(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; LANES])
}

/// The pages of a block whose state may have changed: in groups, since most have not.
fn changed(
    before: &[u8; BLOCK_PAGES as usize],
    now: &[u8; BLOCK_PAGES as usize],
) -> impl Iterator<Item = usize> {
    let groups = before.as_chunks().0.iter().zip(now.as_chunks().0);
    let groups = groups.enumerate().filter(|&(_, (&before, &now))| {
        u64::from_ne_bytes(before) & lanes(WHERE) != u64::from_ne_bytes(now)
    });
    groups.flat_map(|(group, _)| group * LANES..(group + 1) * LANES)
}

/// Whether any of these pages is foreign.
fn is_any_foreign(state: [u8; LANES]) -> bool {
    let state = u64::from_ne_bytes(state);
    state & state >> 1 & lanes(1) != 0
}
const _: () = assert!(FOREIGN == WHERE && WHERE == 3);

/// Adds a region to what is there now; they come in ascending order.
pub(crate) fn note(fresh: &mut Vec<Fresh>, region: Region) {
    let state = match region.residence {
        Residence::Present => PRESENT,
        Residence::Swapped => SWAPPED,
    };
    let (mut page, end) = (region.first, region.first + region.count);
    while page < end {
        let number = page / BLOCK_PAGES;
        let block_end = end.min((number + 1) * BLOCK_PAGES);
        if fresh.last().is_none_or(|last| last.number != number) {
            fresh.push(Fresh {
                number,
                state: [ABSENT; BLOCK_PAGES as usize],
            });
        }
        if let Some(block) = fresh.last_mut() {
            let base = number * BLOCK_PAGES;
            block.state[(page - base) as usize..(block_end - base) as usize].fill(state);
        }
        page = block_end;
    }
}

/// The pages. Memory: 2 bytes a page, for 512 neighbours if one of them exists.
#[derive(Debug, Default)]
pub struct Pages {
    blocks: BTreeMap<u64, Box<Block>>,
    present: u64,
    swapped: u64,
    /// Pages that are marked as refused.
    refused: u64,
    /// What is not there any more is in its file, and not freed.
    is_file: bool,
}

impl Pages {
    /// The pages of a file: what was mapped once and is no more counts as swapped.
    #[must_use]
    pub fn of_file() -> Self {
        Self {
            is_file: true,
            ..Self::default()
        }
    }

    /// Pages in memory.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Pages in swap.
    #[must_use]
    pub fn swapped(&self) -> u64 {
        self.swapped
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Bytes that the table takes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.blocks.len() * (size_of::<Block>() + 24)
    }

    /// All pages, to forget them.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().flat_map(|(number, block)| {
            let pages = block.state.iter().enumerate();
            pages.filter_map(move |(at, state)| {
                exists(*state).then_some(number * BLOCK_PAGES + at as u64)
            })
        })
    }

    /// Whether the page is in memory; none if it does not exist.
    #[must_use]
    pub fn residence(&self, page: u64) -> Option<Residence> {
        match self.state(page)? & WHERE {
            PRESENT => Some(Residence::Present),
            SWAPPED => Some(Residence::Swapped),
            _ => None,
        }
    }

    /// Whether any of these neighbours exists, which are in one block.
    pub(crate) fn is_any(&self, pages: Range<u64>) -> bool {
        let Some(block) = self.blocks.get(&(pages.start / BLOCK_PAGES)) else {
            return false;
        };
        let first = (pages.start % BLOCK_PAGES) as usize;
        let count = (pages.end - pages.start) as usize;
        block.state[first..first + count]
            .iter()
            .any(|&state| exists(state))
    }

    fn state(&self, page: u64) -> Option<u8> {
        let block = self.blocks.get(&(page / BLOCK_PAGES))?;
        Some(block.state[(page % BLOCK_PAGES) as usize])
    }

    /// The page's state and the launch in which it was seen.
    fn page(&mut self, page: u64) -> Option<(&mut u8, &mut u8)> {
        let block = self.blocks.get_mut(&(page / BLOCK_PAGES))?;
        let at = (page % BLOCK_PAGES) as usize;
        Some((&mut block.state[at], &mut block.seen[at]))
    }

    // ---- what is of this table ----

    /// Of blocks in which it was not asked whose their pages are, the numbers of those in which it must be: something is
    /// there that was not, or is in swap and was foreign.
    pub(crate) fn unknown(&self, fresh: &[Fresh]) -> Vec<u64> {
        let is_unknown = |fresh: &&Fresh| {
            let Some(block) = self.blocks.get(&fresh.number) else {
                return true;
            };
            let is_unknown = |at: usize| match block.state[at] & WHERE {
                ABSENT => fresh.state[at] != ABSENT,
                FOREIGN => fresh.state[at] == SWAPPED,
                _ => false,
            };
            changed(&block.state, &fresh.state).any(is_unknown)
        };
        fresh.iter().filter(is_unknown).map(Fresh::number).collect()
    }

    /// Takes in whose the pages are: in the blocks that were asked about, what is not among `own` is foreign; in the others,
    /// what was. All ascend.
    pub(crate) fn classify(&self, fresh: &mut [Fresh], asked: &[u64], own: &[Fresh]) {
        const NONE: [u8; BLOCK_PAGES as usize] = [ABSENT; BLOCK_PAGES as usize];
        for Fresh { number, state } in fresh {
            if asked.binary_search(number).is_ok() {
                let found = own.binary_search_by_key(number, Fresh::number);
                let own = found.map_or(&NONE, |at| &own[at].state);
                for (now, &own) in state.iter_mut().zip(own) {
                    let is_foreign = own == ABSENT && *now != ABSENT;
                    *now = if is_foreign { FOREIGN } else { own };
                }
            } else if let Some(block) = self.blocks.get(number) {
                let groups = block
                    .state
                    .as_chunks()
                    .0
                    .iter()
                    .zip(state.as_chunks_mut::<LANES>().0);
                for (before, now) in groups.filter(|(before, _)| is_any_foreign(**before)) {
                    for (now, &before) in now.iter_mut().zip(before) {
                        if *now == PRESENT && before & WHERE == FOREIGN {
                            *now = FOREIGN;
                        }
                    }
                }
            }
        }
    }

    // ---- what came and went ----

    /// Compares the blocks of a span with what they are now, takes that over, and appends what changed. Marks stay
    /// with a page as long as it exists, but for those that a change makes void.
    pub(crate) fn compare(&mut self, span: Range<u64>, fresh: &[Fresh], changes: &mut Vec<Change>) {
        let mut next = fresh.iter().map(|f| f.number).peekable();
        let mut gone = Vec::new();
        for &number in self.blocks.range(span).map(|(number, _)| number) {
            while next.peek().is_some_and(|&n| n < number) {
                next.next();
            }
            if next.peek() != Some(&number) {
                gone.push(number);
            }
        }
        for number in gone {
            self.compare_block(number, &[ABSENT; BLOCK_PAGES as usize], changes);
            if !self.is_file {
                self.blocks.remove(&number);
            }
        }
        for Fresh { number, state } in fresh {
            self.compare_block(*number, state, changes);
        }
    }

    fn compare_block(
        &mut self,
        number: u64,
        now: &[u8; BLOCK_PAGES as usize],
        changes: &mut Vec<Change>,
    ) {
        let block = self.blocks.entry(number).or_insert_with(Block::new);
        let state = block.state;
        for at in changed(&state, now) {
            let before = state[at];
            let now = match (before & WHERE, now[at]) {
                (PRESENT | SWAPPED, ABSENT) if self.is_file => SWAPPED,
                (_, now) => now,
            };
            if before & WHERE == now {
                continue;
            }
            self.present -= u64::from(before & WHERE == PRESENT);
            self.swapped -= u64::from(before & WHERE == SWAPPED);
            self.refused -= u64::from(before & REFUSED != 0);
            self.present += u64::from(now == PRESENT);
            self.swapped += u64::from(now == SWAPPED);
            let what = match (exists(before), now) {
                (false, PRESENT) => What::Appeared,
                (false, SWAPPED) => What::AppearedSwapped,
                (false, _) => {
                    block.state[at] = now;
                    continue;
                }
                (true, ABSENT | FOREIGN) => What::Freed,
                (true, SWAPPED) => What::Left,
                (true, _) => What::CameBack {
                    ahead: before & AHEAD != 0,
                },
            };
            block.state[at] = now | before & CONFIRMED;
            if matches!(what, What::Appeared | What::CameBack { .. }) {
                // That it came tells of the access that sets its bit.
                block.state[at] |= ACCESSED;
            }
            if !exists(now) {
                block.state[at] = now;
                block.seen[at] = 0;
            }
            let page = number * BLOCK_PAGES + at as u64;
            changes.push(Change { page, what });
        }
    }

    // ---- what is noted ----

    /// Notes that a page that is in memory could not be paged out. After the second time it is marked as refused, until it
    /// comes or goes or [`Self::forget_refused`]: the first time it may have been busy, as pages are that were just touched.
    pub fn mark_refused(&mut self, page: u64) {
        let Some((state, _)) = self
            .page(page)
            .filter(|(state, _)| **state & WHERE == PRESENT)
        else {
            return;
        };
        if *state & STAYED == 0 {
            *state |= STAYED;
        } else if *state & REFUSED == 0 {
            *state |= REFUSED;
            self.refused += 1;
        }
    }

    /// Whether the page is marked as refused.
    #[must_use]
    pub fn is_refused(&self, page: u64) -> bool {
        self.state(page).is_some_and(|state| state & REFUSED != 0)
    }

    /// Takes back the marks of all that are refused: each is marked again the next time. How many there were.
    pub fn forget_refused(&mut self) -> u64 {
        let refused = std::mem::take(&mut self.refused);
        if refused > 0 {
            for block in self.blocks.values_mut() {
                block.state.iter_mut().for_each(|state| *state &= !REFUSED);
            }
        }
        refused
    }

    /// The numbers of the blocks that have pages.
    pub(crate) fn block_numbers(&self) -> Vec<u64> {
        self.blocks.keys().copied().collect()
    }

    /// Takes in whose accessed bits are set among the pages of a block, and appends those of which that is news. Their bits
    /// are the lowest first.
    pub(crate) fn note_accessed(&mut self, number: u64, bits: &Bits, news: &mut Vec<u64>) {
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        for (word, &bits) in bits.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let at = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let state = &mut block.state[at];
                if *state & (WHERE | ACCESSED) == PRESENT {
                    *state |= ACCESSED;
                    news.push(number * BLOCK_PAGES + at as u64);
                }
            }
        }
    }

    /// The accessed bits of all pages have been cleared.
    pub(crate) fn forget_accessed(&mut self) {
        for block in self.blocks.values_mut() {
            block.state.iter_mut().for_each(|state| *state &= !ACCESSED);
        }
    }

    /// Launches since the page was seen to be accessed, as long as that is evidence; 0 for this one.
    #[must_use]
    pub fn age(&self, page: u64, launch: u8, most: u8) -> Option<u8> {
        let block = self.blocks.get(&(page / BLOCK_PAGES))?;
        let at = (page % BLOCK_PAGES) as usize;
        age(block.state[at], block.seen[at], launch, most)
    }

    /// Notes that a page that is in swap is being brought back ahead of use.
    pub fn mark_ahead(&mut self, page: u64) {
        if let Some((state, _)) = self.page(page)
            && *state & WHERE == SWAPPED
        {
            *state |= AHEAD;
        }
    }

    /// Takes the mark back. True if it was there: the page was not touched, and what was known of its use says less
    /// than before.
    pub fn take_ahead(&mut self, page: u64) -> bool {
        let Some((state, _)) = self.page(page).filter(|(state, _)| **state & AHEAD != 0) else {
            return false;
        };
        *state &= !AHEAD;
        if *state & CONFIRMED != 0 {
            *state -= 1 << CONFIRMED_SHIFT;
        }
        true
    }

    /// Notes that the page was seen to be accessed in this launch (1 to 255).
    pub fn mark_seen(&mut self, page: u64, launch: u8) {
        if let Some((state, seen)) = self.page(page) {
            if *seen != 0 && *seen != launch && *state & CONFIRMED != CONFIRMED {
                *state += 1 << CONFIRMED_SHIFT;
            }
            *seen = launch;
        }
    }

    /// Whether it is evident that a launch needs the page: it was seen to be accessed in it, or so few launches
    /// before, `most` at most, as its accesses are evidence for.
    #[must_use]
    pub fn is_needed(&self, page: u64, launch: u8, most: u8) -> bool {
        self.age(page, launch, most).is_some()
    }

    /// The pages in memory of which it is evident that the launch needs them, though they were not seen to be accessed
    /// in it; with the launches since then, 1 at least.
    pub fn held(&self, launch: u8, most: u8) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.blocks.iter().flat_map(move |(number, block)| {
            let pages = block.state.iter().zip(&block.seen).enumerate();
            pages.filter_map(move |(at, (&state, &seen))| {
                let age = age(state, seen, launch, most).filter(|&age| age > 0)?;
                (state & WHERE == PRESENT).then_some((number * BLOCK_PAGES + at as u64, age))
            })
        })
    }
}

/// Launches since a page was seen to be accessed, as long as that is evidence.
fn age(state: u8, seen: u8, launch: u8, most: u8) -> Option<u8> {
    let confirmed = (state & CONFIRMED) >> CONFIRMED_SHIFT;
    evidence::age(seen, confirmed, launch, most)
}

#[cfg(test)]
mod tests;
