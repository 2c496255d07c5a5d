//! `lottery`: pages of the pool whose loss costs little are likely to be evicted, old ones first (ezswap
//! section III-C).

use super::Eviction;
use super::by_page::{ByPage, Order};
use super::chunk_groups::{ChunkGroup, ChunkGroups, List, PAGE_CHUNKS};
use crate::entry::{PolicyEntry, arguments};
use crate::stored::cost;

pub(super) const ENTRY: PolicyEntry<dyn Eviction> = PolicyEntry {
    name: "lottery",
    summary: "a page of the pool is drawn by lot, the likelier the less its chunks are worth (seed=N)",
    source: "ezswap section III-C, Figure 7 and Eq. 4",
    build: |text| Ok(Box::new(Lottery::new(seed(text)?))),
};

/// The seed among the arguments.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    let mut seed = 1;
    for (key, value) in arguments(text) {
        if key != "seed" {
            return Err(format!("it takes seed=N, not '{key}'"));
        }
        seed = value
            .parse()
            .map_err(|_| format!("seed={value}: it is a number"))?;
    }
    Ok(seed)
}

/// Where one chunk is in a page, the free room is told in eighths up to here.
const STEPS: u32 = 4;
const EIGHTH: u32 = PAGE_CHUNKS / 8;

/// Categories with one chunk: 4 steps of free room, of a file or not; with two: 2 steps, 0 to 2 of files;
/// with three: 0 to 3 of files.
const ONES: usize = 2 * STEPS as usize;
const TWOS: usize = 3 * 2;
/// The categories of Figure 7.
pub const CATEGORIES: usize = ONES + TWOS + 4;

/// The weight of a category: 10,000 * (1 - free room) / (chunks * cost), with the least free room of the
/// category: the reciprocal of the benefit (Eq. 1) of what is in such a page.
const fn weight(chunks: u64, files: u64, free_eighths: u64) -> u64 {
    let total = files * cost(true) + (chunks - files) * cost(false);
    let divisor = 8 * chunks * total;
    (10_000 * (8 - free_eighths) + divisor / 2) / divisor
}

/// The weights of Figure 7, by category.
const WEIGHTS: [u64; CATEGORIES] = {
    let mut weights = [0; CATEGORIES];
    let mut at = 0;
    while at < CATEGORIES {
        weights[at] = if at < ONES {
            weight(1, at as u64 / STEPS as u64, at as u64 % STEPS as u64)
        } else if at < ONES + TWOS {
            let at = at - ONES;
            weight(2, at as u64 / 2, at as u64 % 2 * 2)
        } else {
            weight(3, (at - ONES - TWOS) as u64, 0)
        };
        at += 1;
    }
    weights
};

/// The category of a page of the pool: by its chunks, those of files among them, and its free room.
fn category(group: &ChunkGroup) -> usize {
    let (files, free) = (group.files(), group.free_chunks());
    match group.len() {
        1 => {
            let step = free.div_ceil(EIGHTH).saturating_sub(1).min(STEPS - 1);
            files * STEPS as usize + step as usize
        }
        2 => ONES + files * 2 + usize::from(free > 2 * EIGHTH),
        _ => ONES + TWOS + files,
    }
}

/// Eighteen lists of pages of the pool, by what their chunks are worth. A victim is the oldest page of a
/// list that is drawn with a chance of its pages times its weight (Eq. 4); all its chunks are evicted.
///
/// In a pool of size classes, which wins nothing by evicting by page, each chunk counts as a page with
/// one chunk: what it does not take of 4 KiB is free. A chunk of several pages counts with the mean size
/// of its pages.
///
/// Lists are in order of age by approximation: a page goes to the young end when the sum of its chunks'
/// stamps is above the list's average, else to the old end. Every operation is constant time. The same
/// seed and the same calls make the same choices.
pub type Lottery = ByPage<Draw>;

impl Lottery {
    /// An empty one.
    pub fn new(seed: u64) -> Self {
        Self::in_order(Draw {
            lists: [List::default(); CATEGORIES],
            random: SplitMix64(seed),
        })
    }
}

/// The lists of a [`Lottery`], and its source of chance.
#[derive(Debug)]
pub struct Draw {
    lists: [List; CATEGORIES],
    random: SplitMix64,
}

impl Order for Draw {
    fn link(&mut self, groups: &mut ChunkGroups, page: u32) {
        let list = &mut self.lists[category(&groups[page])];
        let end = groups.end_by_age(list, page);
        groups.link(list, page, end);
    }

    fn unlink(&mut self, groups: &mut ChunkGroups, page: u32) {
        let list = &mut self.lists[category(&groups[page])];
        groups.unlink(list, page);
    }

    /// Draws a list, and names its oldest page.
    fn next(&mut self) -> Option<u32> {
        let tickets = |list: &List, weight: &u64| list.len * weight;
        let total: u64 = self
            .lists
            .iter()
            .zip(&WEIGHTS)
            .map(|(l, w)| tickets(l, w))
            .sum();
        if total == 0 {
            return None;
        }
        let mut ticket = self.random.below(total);
        for (list, weight) in self.lists.iter().zip(&WEIGHTS) {
            let of_list = tickets(list, weight);
            if ticket < of_list {
                return list.tail();
            }
            ticket -= of_list;
        }
        None
    }
}

/// Sebastiano Vigna's splitmix64, a public-domain generator with 64 bits of state.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{ChunkId, Hotness};
    use crate::stored::StoredChunk;

    #[test]
    fn the_weights_are_those_of_figure_7() {
        let one = [[2500, 2188, 1875, 1563], [10_000, 8750, 7500, 6250]];
        let two = [[625, 469], [1000, 750], [2500, 1875]];
        let three = [278, 370, 556, 1111];
        let figure: Vec<u64> = one
            .concat()
            .into_iter()
            .chain(two.concat())
            .chain(three)
            .collect();
        assert_eq!(WEIGHTS, figure[..]);
    }

    fn stored(is_file: bool, bytes: u32) -> StoredChunk {
        StoredChunk {
            hotness: Hotness::Cold,
            is_file,
            pages: 1,
            bytes,
        }
    }

    #[test]
    fn categories_follow_the_free_room() {
        let category_of = |chunks: &[(bool, u32)]| {
            let mut lottery = Lottery::new(1);
            for (n, &(is_file, bytes)) in (0..).zip(chunks) {
                lottery.placed(ChunkId(n), Some(7));
                lottery.insert(ChunkId(n), stored(is_file, bytes));
            }
            category(&lottery.groups[0])
        };
        // 55 of 63 chunks: 8 are free, 12.5 %; one less is more.
        assert_eq!(category_of(&[(false, 55 * 64)]), 0);
        assert_eq!(category_of(&[(false, 54 * 64)]), 1);
        assert_eq!(category_of(&[(true, 39 * 64)]), 4 + 2);
        assert_eq!(category_of(&[(true, 100)]), 4 + 3);
        // The paper's example: one of a file, one not, 30 % free, weight 750.
        let example = category_of(&[(true, 1400), (false, 1400)]);
        assert_eq!(WEIGHTS[example], 750);
        assert_eq!(category_of(&[(true, 100); 3]), CATEGORIES - 1);
    }

    #[test]
    fn all_chunks_of_a_page_follow_each_other_but_not_those_that_come_later() {
        let mut lottery = Lottery::new(1);
        for n in 0..30 {
            lottery.placed(ChunkId(n), Some(n / 3));
            lottery.insert(ChunkId(n), stored(false, 1000));
        }
        let first = lottery.victim().unwrap();
        assert_eq!(
            lottery.victim(),
            Some(first),
            "a victim is named until it leaves"
        );
        lottery.remove(first);
        let late = ChunkId(30);
        lottery.placed(late, Some(first.0 / 3));
        lottery.insert(late, stored(false, 500));
        for _ in 0..2 {
            let next = lottery.victim().unwrap();
            assert_eq!(next.0 / 3, first.0 / 3);
            assert_ne!(next, late);
            lottery.remove(next);
        }
        assert_ne!(lottery.victim(), None);
    }

    #[test]
    fn lists_are_drawn_as_often_as_they_have_tickets() {
        let mut lottery = Lottery::new(42);
        // 1000 pages with one page of a file that did not shrink, 1000 with one anonymous page.
        for n in 0..2000 {
            lottery.insert(ChunkId(n), stored(n.is_multiple_of(2), 4000));
        }
        let mut files = 0;
        for _ in 0..10_000 {
            let victim = lottery.victim().unwrap();
            files += u32::from(victim.0.is_multiple_of(2));
            lottery.remove(victim);
            lottery.placed(victim, None);
            lottery.insert(victim, stored(victim.0.is_multiple_of(2), 4000));
        }
        // 10,000 tickets to 2,500: four of five.
        assert!((7_800..8_200).contains(&files), "{files}");
    }

    #[test]
    fn same_filled_chunks_are_never_named() {
        let mut lottery = Lottery::new(1);
        lottery.insert(ChunkId(0), stored(false, 0));
        assert_eq!(lottery.victim(), None);
        lottery.remove(ChunkId(0));
    }
}
