//! The pages of chunks of several: 8 bytes a chunk, and a run of 2, 4, 8, 16 or 32 places.

use super::Counts;
use warmswap_policy::PageId;
use warmswap_policy::room::make_room;

/// The pages of one chunk.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Where they begin.
    first: u32,
    counts: Counts,
}

/// The pages of all chunks of several, by the number of their group.
#[derive(Debug, Default)]
pub(super) struct Members {
    groups: Vec<Group>,
    free_groups: Vec<u32>,
    places: Vec<PageId>,
    free: [Vec<u32>; 6],
}

impl Members {
    fn class(len: usize) -> usize {
        len.next_power_of_two().trailing_zeros() as usize
    }

    /// A group of these pages, all of which have their valid copies there.
    pub fn insert(&mut self, pages: &[PageId]) -> u32 {
        let len = pages.len() as u8;
        let group = Group {
            first: self.take_places(pages),
            counts: Counts {
                pages: len,
                live: len,
                absent: 0,
            },
        };
        if let Some(number) = self.free_groups.pop() {
            self.groups[number as usize] = group;
            return number;
        }
        let number = self.groups.len();
        make_room(&mut self.groups, number + 1, 64);
        self.groups.push(group);
        number as u32
    }

    fn take_places(&mut self, pages: &[PageId]) -> u32 {
        let class = Self::class(pages.len());
        let first = self.free[class].pop().unwrap_or_else(|| {
            let first = self.places.len();
            let places = 1 << class;
            make_room(&mut self.places, first + places, 1024);
            self.places.resize(first + places, PageId::NONE);
            first as u32
        });
        self.places[first as usize..][..pages.len()].copy_from_slice(pages);
        first
    }

    pub fn remove(&mut self, number: u32) {
        let Group { first, counts } = self.groups[number as usize];
        self.free[Self::class(counts.pages.into())].push(first);
        self.free_groups.push(number);
    }

    pub fn get(&self, number: u32) -> &[PageId] {
        let Group { first, counts } = self.groups[number as usize];
        &self.places[first as usize..][..counts.pages.into()]
    }

    pub fn counts(&self, number: u32) -> Counts {
        self.groups[number as usize].counts
    }

    pub fn counts_mut(&mut self, number: u32) -> &mut Counts {
        &mut self.groups[number as usize].counts
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    pub fn state_bytes(&self) -> usize {
        let free = self.free.iter().map(Vec::capacity).sum::<usize>();
        self.groups.capacity() * size_of::<Group>()
            + (self.places.capacity() + free + self.free_groups.capacity()) * 4
    }
}
