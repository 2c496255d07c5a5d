//! Lists of pages by class, with the oldest page of each list that has pages found quickly.

use super::PageList;
use crate::page::{PageId, PageTable};

/// As many lists as asked for, and which of them have pages.
#[derive(Debug)]
pub struct ClassLists {
    lists: Vec<PageList>,
    /// A bit a list.
    occupied: Vec<u64>,
}

impl ClassLists {
    pub fn new(lists: usize) -> Self {
        Self {
            lists: vec![PageList::default(); lists],
            occupied: vec![0; lists.div_ceil(64)],
        }
    }

    pub fn push_back(&mut self, table: &mut PageTable, page: PageId, at: usize) {
        self.lists[at].push_back(table, page);
        self.occupied[at / 64] |= 1 << (at % 64);
    }

    pub fn push_front(&mut self, table: &mut PageTable, page: PageId, at: usize) {
        self.lists[at].push_front(table, page);
        self.occupied[at / 64] |= 1 << (at % 64);
    }

    pub fn remove(&mut self, table: &mut PageTable, page: PageId, at: usize) {
        self.lists[at].remove(table, page);
        self.note(at);
    }

    pub fn pop_front(&mut self, table: &mut PageTable, at: usize) -> Option<PageId> {
        let page = self.lists[at].pop_front(table);
        self.note(at);
        page
    }

    fn note(&mut self, at: usize) {
        if self.lists[at].is_empty() {
            self.occupied[at / 64] &= !(1 << (at % 64));
        }
    }

    pub fn front(&self, at: usize) -> Option<PageId> {
        self.lists[at].front()
    }

    /// The lists that have pages.
    pub fn occupied(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.occupied.iter().enumerate();
        words.flat_map(|(word, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(word * 64 + bit as usize)
            })
        })
    }

    /// Every list goes behind what is on list `to` by then, in the order of the lists. Constant time a list.
    pub fn rearrange(&mut self, table: &mut PageTable, to: impl Fn(usize) -> usize) {
        let mut new = Self::new(self.lists.len());
        for at in self.occupied().collect::<Vec<_>>() {
            let place = to(at);
            new.lists[place].append(table, &mut self.lists[at]);
            new.occupied[place / 64] |= 1 << (place % 64);
        }
        *self = new;
    }

    pub fn iter<'a>(&'a self, table: &'a PageTable) -> impl Iterator<Item = PageId> + 'a {
        self.lists.iter().flat_map(|list| list.iter(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_page::{AppId, PageAddr};

    #[test]
    fn lists_with_pages_are_known_through_pushes_removals_and_moves() {
        let mut table = PageTable::default();
        let pages: Vec<_> = (0..6)
            .map(|number| table.find_or_insert(AppId(0), PageAddr::Anon { number }))
            .collect();
        let mut lists = ClassLists::new(130);
        for (&page, at) in pages.iter().zip([0, 63, 64, 129, 129, 0]) {
            lists.push_back(&mut table, page, at);
        }
        assert_eq!(lists.occupied().collect::<Vec<_>>(), [0, 63, 64, 129]);
        lists.remove(&mut table, pages[2], 64);
        assert_eq!(lists.pop_front(&mut table, 129), Some(pages[3]));
        assert_eq!(lists.occupied().collect::<Vec<_>>(), [0, 63, 129]);
        lists.rearrange(&mut table, |at| if at == 129 { 7 } else { at / 63 });
        assert_eq!(lists.occupied().collect::<Vec<_>>(), [0, 1, 7]);
        lists.push_front(&mut table, pages[2], 7);
        let order: Vec<_> = lists.iter(&table).collect();
        assert_eq!(order, [pages[0], pages[5], pages[1], pages[2], pages[4]]);
        assert_eq!(lists.front(7), Some(pages[2]));
    }
}
