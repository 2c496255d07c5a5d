//! Eviction by page of the pool, with the lists of ezswap's Figure 7 as plain vectors, or one LRU list.

use std::collections::BTreeMap;
use warmswap_policy::{ChunkId, Hotness, StoredChunk};

/// A chunk, its room in 64ths of a page, whether it is of a file, and its stamp.
#[derive(Clone, Copy, Debug)]
struct Member {
    chunk: ChunkId,
    room: u32,
    is_file: bool,
    stamp: u64,
}

#[derive(Clone, Debug)]
struct Page {
    /// The page of the pool; for a chunk by itself its number, made different from those of pages.
    key: (bool, u32),
    /// Three places; a chunk takes the first free one.
    members: [Option<Member>; 3],
}

impl Page {
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten()
    }

    fn stamps(&self) -> u64 {
        self.members().map(|member| member.stamp).sum()
    }

    /// Row and column of Figure 7, and the weight that stands there.
    fn weight(&self) -> (usize, usize, usize, u64) {
        let used: u32 = self.members().map(|member| member.room).sum();
        let free = (63 - used.min(63)) as f64 / 64.0;
        let files = self.members().filter(|member| member.is_file).count();
        let count = self.members().count();
        let column = match count {
            1 if free <= 0.125 => 0,
            1 if free <= 0.25 => 1,
            1 if free <= 0.375 => 2,
            1 => 3,
            2 if free <= 0.25 => 0,
            2 => 1,
            _ => 0,
        };
        let weight = match (count, files, column) {
            (1, 0, column) => [2500, 2188, 1875, 1563][column],
            (1, _, column) => [10_000, 8750, 7500, 6250][column],
            (2, 0, column) => [625, 469][column],
            (2, 1, column) => [1000, 750][column],
            (2, _, column) => [2500, 1875][column],
            (_, files, _) => [278, 370, 556, 1111][files],
        };
        (count, files, column, weight)
    }
}

/// Lists of pages, head first, in the order of Figure 7's rows.
#[derive(Debug)]
pub struct LotteryModel {
    /// `None`: one LRU list in place of the lottery.
    random: Option<u64>,
    lists: Vec<((usize, usize, usize), Vec<Page>)>,
    /// Same-filled chunks: in the pool, but never evicted.
    filled: Vec<ChunkId>,
    condemned: Vec<ChunkId>,
    clock: u64,
}

impl LotteryModel {
    pub fn new(seed: u64) -> Self {
        let ones = (0..2).flat_map(|files| (0..4).map(move |column| (1, files, column)));
        let twos = (0..3).flat_map(|files| (0..2).map(move |column| (2, files, column)));
        let threes = (0..4).map(|files| (3, files, 0));
        let lists = ones.chain(twos).chain(threes).map(|key| (key, Vec::new()));
        Self {
            random: Some(seed),
            lists: lists.collect(),
            filled: Vec::new(),
            condemned: Vec::new(),
            clock: 0,
        }
    }

    pub fn lru() -> Self {
        let mut model = Self::new(0);
        model.random = None;
        model.lists = vec![((0, 0, 0), Vec::new())];
        model
    }

    pub fn contains(&self, chunk: ChunkId) -> bool {
        let pages = self.lists.iter().flat_map(|(_, pages)| pages);
        let mut members = pages.flat_map(Page::members);
        self.filled.contains(&chunk) || members.any(|member| member.chunk == chunk)
    }

    /// Takes the page that satisfies `is_it` off its list: list, place, page.
    fn take_page(&mut self, is_it: impl Fn(&Page) -> bool) -> Option<(usize, usize, Page)> {
        self.lists
            .iter_mut()
            .enumerate()
            .find_map(|(list, (_, pages))| {
                let at = pages.iter().position(&is_it)?;
                Some((list, at, pages.remove(at)))
            })
    }

    fn put(&mut self, page: Page) {
        let (count, files, column, _) = page.weight();
        let key = (count, files, column);
        let list = self.lists.iter_mut().find(|(other, _)| *other == key);
        let (_, pages) = list.expect("every page has its list");
        let total: u64 = pages.iter().map(Page::stamps).sum();
        if page.stamps() as f64 > total as f64 / pages.len().max(1) as f64 && !pages.is_empty() {
            pages.insert(0, page);
        } else {
            pages.push(page);
        }
    }

    pub fn insert(&mut self, chunk: ChunkId, pool_page: Option<u32>, stored: StoredChunk) {
        if stored.bytes == 0 {
            return self.filled.push(chunk);
        }
        let key = pool_page.map_or((false, chunk.0), |page| (true, page));
        let mut page = match self.take_page(|page| page.key == key) {
            Some((.., page)) => page,
            None => Page {
                key,
                members: [None; 3],
            },
        };
        let place = page.members.iter_mut().find(|place| place.is_none());
        *place.expect("three chunks a page") = Some(Member {
            chunk,
            room: stored.bytes.div_ceil(64),
            is_file: stored.is_file,
            stamp: self.clock,
        });
        self.clock += 1;
        match self.random {
            Some(_) => self.put(page),
            None => self.lists[0].1.insert(0, page),
        }
    }

    pub fn remove(&mut self, chunk: ChunkId) {
        self.condemned.retain(|&other| other != chunk);
        self.filled.retain(|&other| other != chunk);
        let has = |page: &Page| page.members().any(|member| member.chunk == chunk);
        let Some((list, at, mut page)) = self.take_page(has) else {
            return;
        };
        for place in &mut page.members {
            if place.is_some_and(|member| member.chunk == chunk) {
                *place = None;
            }
        }
        if page.members().next().is_some() {
            match self.random {
                Some(_) => self.put(page),
                None => self.lists[list].1.insert(at, page),
            }
        }
    }

    pub fn victim(&mut self) -> Option<ChunkId> {
        if self.condemned.is_empty() {
            let page = match &mut self.random {
                None => self.lists[0].1.last()?,
                Some(state) => {
                    let tickets =
                        |pages: &[Page]| pages.iter().map(|page| page.weight().3).sum::<u64>();
                    let total: u64 = self.lists.iter().map(|(_, pages)| tickets(pages)).sum();
                    if total == 0 {
                        return None;
                    }
                    let mut ticket =
                        ((u128::from(split_mix(state)) * u128::from(total)) >> 64) as u64;
                    let drawn = self.lists.iter().find(|(_, pages)| {
                        let of_list = tickets(pages);
                        let is_it = ticket < of_list;
                        ticket = ticket.wrapping_sub(of_list);
                        is_it
                    });
                    drawn?.1.last()?
                }
            };
            self.condemned = page.members().map(|member| member.chunk).collect();
        }
        self.condemned.last().copied()
    }
}

/// What is evicted page by page of the pool.
pub trait PoolModel {
    fn contains(&self, chunk: ChunkId) -> bool;
    fn insert(&mut self, chunk: ChunkId, pool_page: Option<u32>, stored: StoredChunk);
    fn remove(&mut self, chunk: ChunkId);
    fn victim(&mut self) -> Option<ChunkId>;
}

impl PoolModel for LotteryModel {
    fn contains(&self, chunk: ChunkId) -> bool {
        self.contains(chunk)
    }

    fn insert(&mut self, chunk: ChunkId, pool_page: Option<u32>, stored: StoredChunk) {
        self.insert(chunk, pool_page, stored);
    }

    fn remove(&mut self, chunk: ChunkId) {
        self.remove(chunk);
    }

    fn victim(&mut self) -> Option<ChunkId> {
        self.victim()
    }
}

/// A lottery for each class; the coldest that has something draws.
#[derive(Debug)]
pub struct ColdestLotteryModel {
    classes: BTreeMap<Hotness, LotteryModel>,
}

impl ColdestLotteryModel {
    pub fn new(seed: u64) -> Self {
        let classes = Hotness::ALL.map(|class| (class, LotteryModel::new(seed)));
        Self {
            classes: classes.into(),
        }
    }
}

impl PoolModel for ColdestLotteryModel {
    fn contains(&self, chunk: ChunkId) -> bool {
        self.classes.values().any(|model| model.contains(chunk))
    }

    fn insert(&mut self, chunk: ChunkId, pool_page: Option<u32>, stored: StoredChunk) {
        let model = self.classes.get_mut(&stored.hotness);
        model
            .expect("a model for each class")
            .insert(chunk, pool_page, stored);
    }

    fn remove(&mut self, chunk: ChunkId) {
        let mut models = self.classes.values_mut();
        models
            .find(|model| model.contains(chunk))
            .expect("it is there")
            .remove(chunk);
    }

    fn victim(&mut self) -> Option<ChunkId> {
        let [hot, warm, cold] = Hotness::ALL;
        [cold, warm, hot]
            .into_iter()
            .find_map(|class| self.classes.get_mut(&class)?.victim())
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
