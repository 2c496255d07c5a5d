//! Doubly linked lists of pages whose links stand in the page table: no memory of their own.

pub(crate) mod classes;

use crate::page::{PageId, PageTable};

/// A list of pages, front = least recently used. A page is on at most one list at a time.
#[derive(Clone, Copy, Debug)]
pub struct PageList {
    front: PageId,
    back: PageId,
    len: u32,
}

impl Default for PageList {
    fn default() -> Self {
        Self {
            front: PageId::NONE,
            back: PageId::NONE,
            len: 0,
        }
    }
}

impl PageList {
    /// How many pages are on the list.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True when no page is on the list.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The least recently used page.
    pub fn front(&self) -> Option<PageId> {
        (self.front != PageId::NONE).then_some(self.front)
    }

    /// Appends at the most recently used end. The page must be on no list.
    pub fn push_back(&mut self, table: &mut PageTable, page: PageId) {
        table[page].prev = self.back;
        table[page].next = PageId::NONE;
        match self.back {
            PageId::NONE => self.front = page,
            back => table[back].next = page,
        }
        self.back = page;
        self.len += 1;
    }

    /// Puts the page at the least recently used end. The page must be on no list.
    pub fn push_front(&mut self, table: &mut PageTable, page: PageId) {
        table[page].prev = PageId::NONE;
        table[page].next = self.front;
        match self.front {
            PageId::NONE => self.back = page,
            front => table[front].prev = page,
        }
        self.front = page;
        self.len += 1;
    }

    /// Takes the page off the list, on which it must be.
    pub fn remove(&mut self, table: &mut PageTable, page: PageId) {
        let (prev, next) = (table[page].prev, table[page].next);
        match prev {
            PageId::NONE => self.front = next,
            prev => table[prev].next = next,
        }
        match next {
            PageId::NONE => self.back = prev,
            next => table[next].prev = prev,
        }
        self.len -= 1;
    }

    /// Takes the least recently used page off.
    pub fn pop_front(&mut self, table: &mut PageTable) -> Option<PageId> {
        let page = self.front()?;
        self.remove(table, page);
        Some(page)
    }

    /// Appends all of `other`, in its order, at the most recently used end; `other` is empty afterwards.
    /// Constant time; labels are the caller's.
    pub fn append(&mut self, table: &mut PageTable, other: &mut Self) {
        if other.is_empty() {
            return;
        }
        match self.back {
            PageId::NONE => self.front = other.front,
            back => {
                table[back].next = other.front;
                table[other.front].prev = back;
            }
        }
        self.back = other.back;
        self.len += other.len;
        *other = Self::default();
    }

    /// The pages from least to most recently used.
    pub fn iter<'a>(&self, table: &'a PageTable) -> impl Iterator<Item = PageId> + 'a {
        let mut at = self.front;
        std::iter::from_fn(move || {
            let page = at;
            (page != PageId::NONE).then(|| {
                at = table[page].next;
                page
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_page::{AppId, PageAddr};

    fn table(pages: u64) -> (PageTable, Vec<PageId>) {
        let mut table = PageTable::default();
        let ids = (0..pages)
            .map(|number| table.find_or_insert(AppId(0), PageAddr::Anon { number }))
            .collect();
        (table, ids)
    }

    #[test]
    fn keeps_order_through_pushes_removals_and_appends() {
        let (mut table, ids) = table(6);
        let (mut a, mut b) = (PageList::default(), PageList::default());
        ids[..4]
            .iter()
            .for_each(|&page| a.push_back(&mut table, page));
        ids[4..]
            .iter()
            .for_each(|&page| b.push_back(&mut table, page));
        a.remove(&mut table, ids[1]);
        a.append(&mut table, &mut b);
        assert_eq!(
            a.iter(&table).collect::<Vec<_>>(),
            [ids[0], ids[2], ids[3], ids[4], ids[5]]
        );
        assert_eq!((a.len(), b.len()), (5, 0));
        assert_eq!(a.pop_front(&mut table), Some(ids[0]));
        a.remove(&mut table, ids[5]);
        a.push_back(&mut table, ids[1]);
        a.push_front(&mut table, ids[0]);
        assert_eq!(
            a.iter(&table).collect::<Vec<_>>(),
            [ids[0], ids[2], ids[3], ids[4], ids[1]]
        );
    }
}
