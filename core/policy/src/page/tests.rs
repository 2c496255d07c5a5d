//! The page table keeps what it was told.

use super::*;

const APP: AppId = AppId(3);

#[test]
fn a_page_costs_16_bytes() {
    assert_eq!(size_of::<Page>(), 16);
}

#[test]
fn the_same_address_is_the_same_page_and_a_file_is_shared() {
    let mut table = PageTable::default();
    let a = table.find_or_insert(APP, PageAddr::Anon { number: 1000 });
    assert_eq!(table.find(APP, PageAddr::Anon { number: 1000 }), Some(a));
    assert_eq!(table.find(AppId(4), PageAddr::Anon { number: 1000 }), None);
    let f = table.find_or_insert(
        APP,
        PageAddr::File {
            file: FileId(7),
            number: 5,
        },
    );
    assert_eq!(
        table.find(
            AppId(4),
            PageAddr::File {
                file: FileId(7),
                number: 5
            }
        ),
        Some(f)
    );
    assert_eq!(
        table.addr(f),
        PageAddr::File {
            file: FileId(7),
            number: 5
        }
    );
    assert_eq!(table.addr(a), PageAddr::Anon { number: 1000 });
    assert!(table.is_file(f) && !table.is_file(a));
}

#[test]
fn a_forgotten_application_leaves_absent_pages_and_reusable_blocks() {
    let mut table = PageTable::default();
    let a = table.find_or_insert(APP, PageAddr::Anon { number: 1 });
    table[a].state = PageState::Resident;
    table.forget_blocks(APP, |_| true);
    assert_eq!(table.find(APP, PageAddr::Anon { number: 1 }), None);
    let b = table.find_or_insert(AppId(9), PageAddr::Anon { number: 77 });
    assert_eq!(b.index() / BLOCK_PAGES, a.index() / BLOCK_PAGES);
    assert_eq!(table[b].state, PageState::Absent);
    assert_eq!(table.owner(b), AppId(9));
}

#[test]
fn forgotten_blocks_are_used_again_and_the_others_stay() {
    let anon = |number| PageAddr::Anon { number };
    let mut table = PageTable::default();
    let [a, b, c] = [0, 64, 128].map(|number| table.find_or_insert(APP, anon(number)));
    let other = table.find_or_insert(AppId(4), anon(64));
    table[b].label = 7;
    table.find(APP, anon(64));
    table.forget_blocks(APP, |first| first == 64);

    assert_eq!(table.find(APP, anon(64)), None);
    assert_eq!(
        [0, 128].map(|number| table.find(APP, anon(number))),
        [Some(a), Some(c)]
    );
    assert_eq!(table.find(AppId(4), anon(64)), Some(other));
    let left: Vec<_> = table.pages_of(APP).collect();
    assert_eq!(left.len(), 2 * BLOCK_PAGES);
    assert!(!left.contains(&b));
    let bytes = table.state_bytes();
    for number in (64..64 * 1000).step_by(64) {
        let page = table.find_or_insert(AppId(9), anon(number));
        assert_eq!((page, table[page].label), (b, 0));
        table.forget_blocks(AppId(9), |first| first == number);
    }
    assert!(table.state_bytes() <= bytes + 4096);
}

#[test]
fn anticipated_pages_are_those_that_are_found_in_any_order_and_after_blocks_were_forgotten() {
    let anon = |number| PageAddr::Anon { number };
    let mut table = PageTable::default();
    let ids = [0, 64, 128, 192].map(|number| table.find_or_insert(APP, anon(number)));
    let wanted = [64, 9_000, 65, 128, 0].map(|number| (APP, anon(number)));
    let mut pages = [PageId::NONE; 8];
    let known = table.anticipate(wanted.into_iter(), &mut pages);
    assert_eq!(
        pages[..known],
        [ids[1], PageId(ids[1].0 + 1), ids[2], ids[0]]
    );

    // One that was not anticipated, one that is new, and the rest in their order.
    assert_eq!(table.find(APP, anon(192)), Some(ids[3]));
    assert_eq!(table.find(APP, anon(64)), Some(ids[1]));
    let new = table.find_or_insert(APP, anon(9_000));
    assert!(!ids.contains(&new));
    assert_eq!(table.find(APP, anon(65)), Some(PageId(ids[1].0 + 1)));
    table.forget_blocks(APP, |first| first == 128);
    assert_eq!(table.find(APP, anon(128)), None);
    assert_eq!(table.find(APP, anon(0)), Some(ids[0]));
}
