//! Page tables of x86-64, four or five levels of 512 entries.

use std::io;
use std::ops::Range;

use super::{Bits, TABLE_PAGES};

/// One page table, or any page of words.
pub(super) type Table = [u64; TABLE_PAGES as usize];

/// A way to look at pages of kernel memory.
pub(super) trait Tables {
    /// Pages that can be copied at once.
    const MOST: usize;

    /// Copies the pages at these addresses, [`Self::MOST`] at most; where nothing is mapped there are zeros.
    fn copy(&mut self, addresses: &[u64]) -> io::Result<()>;

    /// One of the pages that were copied last.
    fn table(&self, at: usize) -> &Table;
}

// Of an entry.
const PRESENT: u64 = 1;
const ACCESSED: u64 = 1 << 5;
/// Above the last level: it maps a large page, and refers to no table.
const LARGE: u64 = 1 << 7;
/// The physical address of a page or table.
const ADDRESS: u64 = ((1 << 52) - 1) & !(PAGE_BYTES - 1);

const PAGE_BYTES: u64 = warmswap_page::PAGE_BYTES as u64;
/// Bits of an address that a level takes.
const LEVEL_BITS: u32 = TABLE_PAGES.ilog2();

/// Where all memory is mapped in the kernel begins at a multiple of this (KASLR moves it by so much).
const STEP: u64 = 1 << 30;
/// Where it begins at the earliest, with four levels and with five (Documentation/arch/x86/x86_64/mm.rst).
const LOWEST: [(u8, u64); 2] = [(4, 0xffff_8880_0000_0000), (5, 0xff11_0000_0000_0000)];
/// Places that are tried: a page table is in the lowest 4 TiB of memory.
const MOST_STEPS: u64 = 4096;

/// How page tables are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Where the kernel has mapped the physical address 0.
    memory: u64,
    levels: u8,
}

impl Layout {
    /// The address of the table that an entry refers to. What is no entry leads anywhere.
    fn child(self, entry: u64) -> u64 {
        self.memory.wrapping_add(entry & ADDRESS)
    }
}

/// Which entry of a table of this level leads to a last-level table; the last level is 0.
fn index(number: u64, level: u8) -> usize {
    (number >> (LEVEL_BITS * (u32::from(level) - 1)) & (TABLE_PAGES - 1)) as usize
}

/// The layout in which the table at `top` has these pages (page number, frame number), which ascend; `None` if there is none.
pub(super) fn find_layout<T: Tables>(
    tables: &mut T,
    top: u64,
    pages: &[(u64, u64)],
) -> io::Result<Option<Layout>> {
    for (levels, lowest) in LOWEST {
        for step in 0..MOST_STEPS {
            let memory = (top & !(STEP - 1)).wrapping_sub(step * STEP);
            if memory < lowest || memory > top {
                break;
            }
            let layout = Layout { memory, levels };
            if has_pages(tables, layout, top, pages)? {
                return Ok(Some(layout));
            }
        }
    }
    Ok(None)
}

/// Whether each of these pages is where it should be.
fn has_pages<T: Tables>(
    tables: &mut T,
    layout: Layout,
    top: u64,
    pages: &[(u64, u64)],
) -> io::Result<bool> {
    let mut numbers: Vec<u64> = pages.iter().map(|(page, _)| page / TABLE_PAGES).collect();
    numbers.dedup();
    let mut found = 0;
    let mut look = |number: u64, entries: Entries<'_>| {
        let first = number * TABLE_PAGES;
        let own = pages
            .iter()
            .filter(|(page, _)| page / TABLE_PAGES == number);
        found += own
            .filter(|&&(page, frame)| {
                let entry = entries.get((page - first) as usize);
                entry & PRESENT != 0 && (entry & ADDRESS) / PAGE_BYTES == frame
            })
            .count();
    };
    visit(tables, layout, top, &numbers, &mut look)?;
    Ok(found == pages.len())
}

/// See [`super::Accessed::read`].
pub(super) fn accessed<T: Tables>(
    tables: &mut T,
    layout: Layout,
    top: u64,
    numbers: &[u64],
    mut report: impl FnMut(u64, &Bits),
) -> io::Result<()> {
    visit(tables, layout, top, numbers, &mut |number, entries| {
        let bits = entries.accessed();
        if bits != Bits::default() {
            report(number, &bits);
        }
    })
}

/// What maps the pages of a last-level table.
#[derive(Clone, Copy)]
enum Entries<'a> {
    Pages(&'a Table),
    /// One large page, by its entry.
    Large(u64),
}

impl Entries<'_> {
    /// The entry of one page.
    fn get(&self, at: usize) -> u64 {
        match self {
            Self::Pages(table) => table[at],
            Self::Large(entry) => entry.wrapping_add(at as u64 * PAGE_BYTES),
        }
    }

    fn accessed(&self) -> Bits {
        const BOTH: u64 = PRESENT | ACCESSED;
        let table = match self {
            Self::Large(entry) if entry & BOTH == BOTH => return [u64::MAX; 8],
            Self::Large(_) => return Bits::default(),
            Self::Pages(table) => table,
        };
        let mut bits = Bits::default();
        for (word, entries) in bits.iter_mut().zip(table.as_chunks::<64>().0) {
            for (at, entry) in entries.iter().enumerate() {
                *word |= u64::from(entry & BOTH == BOTH) << at;
            }
        }
        bits
    }
}

/// Goes down from `top` to the last-level tables of these numbers, which ascend.
fn visit<T: Tables>(
    tables: &mut T,
    layout: Layout,
    top: u64,
    numbers: &[u64],
    look: &mut impl FnMut(u64, Entries<'_>),
) -> io::Result<()> {
    // Tables of one level, each with those of `numbers` below it.
    let mut parents: Vec<(u64, Range<usize>)> = vec![(top, 0..numbers.len())];
    for level in (1..layout.levels).rev() {
        let mut children = Vec::new();
        for batch in parents.chunks(T::MOST) {
            copy(tables, batch)?;
            for (at, (_, below)) in batch.iter().enumerate() {
                let table = tables.table(at);
                let mut begin = below.start;
                for group in
                    numbers[below.clone()].chunk_by(|&a, &b| index(a, level) == index(b, level))
                {
                    let range = begin..begin + group.len();
                    begin = range.end;
                    let entry = table[index(group[0], level)];
                    match entry {
                        _ if entry & PRESENT == 0 => {}
                        _ if entry & LARGE != 0 => {
                            group.iter().for_each(|&n| look(n, Entries::Large(entry)));
                        }
                        _ => children.push((layout.child(entry), range)),
                    }
                }
            }
        }
        parents = children;
    }
    for batch in parents.chunks(T::MOST) {
        copy(tables, batch)?;
        for (at, (_, below)) in batch.iter().enumerate() {
            // Numbers that are the same would share a table.
            for &number in &numbers[below.clone()] {
                look(number, Entries::Pages(tables.table(at)));
            }
        }
    }
    Ok(())
}

fn copy<T: Tables>(tables: &mut T, batch: &[(u64, Range<usize>)]) -> io::Result<()> {
    let addresses: Vec<u64> = batch.iter().map(|&(address, _)| address).collect();
    tables.copy(&addresses)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Page tables in a map from addresses to pages.
    #[derive(Default)]
    struct Fake {
        pages: BTreeMap<u64, Box<Table>>,
        copies: Vec<Table>,
        memory: u64,
        next: u64,
    }

    impl Tables for Fake {
        const MOST: usize = 3;

        fn copy(&mut self, addresses: &[u64]) -> io::Result<()> {
            assert!(addresses.len() <= Self::MOST);
            let page = |address| self.pages.get(address).map_or([0; 512], |page| **page);
            self.copies = addresses.iter().map(page).collect();
            Ok(())
        }

        fn table(&self, at: usize) -> &Table {
            &self.copies[at]
        }
    }

    impl Fake {
        const TOP: u64 = 0x5000;

        fn new(memory: u64) -> Self {
            let pages = [(memory + Self::TOP, Box::new([0; 512]))].into();
            Self {
                pages,
                memory,
                next: Self::TOP + PAGE_BYTES,
                ..Self::default()
            }
        }

        /// Sets the entry of a page, `above` levels over the last one.
        fn map(&mut self, levels: u8, page: u64, above: u8, entry: u64) {
            let mut table = self.memory + Self::TOP;
            for level in (above + 1..levels).rev() {
                let at = (page >> (9 * level)) as usize & 511;
                let found = self.pages[&table][at];
                let child = if found == 0 {
                    self.next += PAGE_BYTES;
                    let entry = self.next | PRESENT | ACCESSED;
                    self.pages.get_mut(&table).unwrap()[at] = entry;
                    self.pages
                        .insert(self.memory + self.next, Box::new([0; 512]));
                    self.next
                } else {
                    found & ADDRESS
                };
                table = self.memory + child;
            }
            let at = (page >> (9 * above)) as usize & 511;
            self.pages.get_mut(&table).unwrap()[at] = entry;
        }

        fn accessed(&mut self, layout: Layout, numbers: &[u64]) -> Vec<(u64, Bits)> {
            let top = self.memory + Self::TOP;
            let mut found = Vec::new();
            let note = |number, bits: &Bits| found.push((number, *bits));
            accessed(self, layout, top, numbers, note).unwrap();
            found
        }
    }

    #[test]
    fn bits_are_those_of_pages_in_memory_that_were_accessed() {
        for (levels, memory) in LOWEST {
            let mut fake = Fake::new(memory);
            let layout = Layout { memory, levels };
            // Far apart, so that they share tables of some levels only; more of them than are copied at once.
            let numbers = [0, 7, 511, 512, 1 << 18, (1 << 18) + 1, (1 << 27) - 1];
            for number in numbers {
                fake.map(levels, number * 512 + 3, 0, 0x1000 | PRESENT | ACCESSED);
                fake.map(levels, number * 512 + 4, 0, 0x2000 | PRESENT);
                fake.map(levels, number * 512 + 5, 0, ACCESSED);
                fake.map(levels, number * 512 + 511, 0, 0x3000 | PRESENT | ACCESSED);
            }
            let mut expected = Bits::default();
            expected[0] = 1 << 3;
            expected[7] = 1 << 63;

            let found = fake.accessed(layout, &numbers);

            assert_eq!(found, numbers.map(|number| (number, expected)));
            let others = [1, 2, 600, 1 << 20];
            assert_eq!(fake.accessed(layout, &others), []);
        }
    }

    #[test]
    fn a_large_page_was_accessed_as_a_whole() {
        let (levels, memory) = LOWEST[0];
        let layout = Layout { memory, levels };
        let mut fake = Fake::new(memory);
        fake.map(levels, 5 * 512, 1, LARGE | PRESENT | ACCESSED);
        fake.map(levels, 6 * 512, 1, LARGE | PRESENT);
        fake.map(levels, 512 * 512, 2, LARGE | PRESENT | ACCESSED);

        let mut found = fake.accessed(layout, &[4, 5, 6, 512, 700]);
        found.sort_unstable();

        let all = [u64::MAX; 8];
        assert_eq!(found, [(5, all), (512, all), (700, all)]);
    }

    #[test]
    fn the_layout_is_the_one_in_which_all_pages_are_where_they_are() {
        for (levels, lowest) in LOWEST {
            let memory = lowest + 77 * STEP;
            let mut fake = Fake::new(memory);
            let pages = [(1000, 5), (1001, 9), (1 << 30, 6)];
            for (page, frame) in pages {
                fake.map(levels, page, 0, (frame * PAGE_BYTES) | PRESENT | ACCESSED);
            }
            let top = memory + Fake::TOP;
            let layout = find_layout(&mut fake, top, &pages).unwrap();
            assert_eq!(layout, Some(Layout { memory, levels }));
            let wrong = [(1000, 5), (1001, 10), (1 << 30, 6)];
            assert_eq!(find_layout(&mut fake, top, &wrong).unwrap(), None);
        }
    }
}
