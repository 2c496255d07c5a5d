use super::*;
use crate::pages::What;

/// This process, of which nothing was looked at.
fn own() -> Watched {
    let root = Root::machine();
    let pid = std::process::id();
    let start_ticks = Stat::read(&root, pid).unwrap().start_ticks;
    Watched::open(&root, ProcessId { pid, start_ticks }, 0).unwrap()
}

fn change(page: u64, what: What) -> Change {
    Change { page, what }
}

#[test]
fn a_look_at_this_process_finds_what_was_written() {
    let root = Root::machine();
    let mut w = own();
    let mut changes = Vec::new();
    w.look(&root, &mut changes).unwrap();
    let known = w.pages.present() + w.pages.swapped();
    assert!(known > 0 && changes.len() as u64 == known);

    let memory = vec![1u8; 64 * 4096];
    let inner = memory.as_ptr() as u64 / 4096 + 1;
    assert!(w.news(&root) > 0);
    changes.clear();
    w.look(&root, &mut changes).unwrap();

    let appeared = |page| {
        let what = changes.iter().find(|c| c.page == page).map(|c| c.what);
        what == Some(What::Appeared) || what.is_none() && w.pages.residence(page).is_some()
    };
    assert!((inner..inner + 62).all(appeared), "{}", memory[5000]);
}

#[test]
fn a_look_around_some_pages_leaves_the_others_to_the_next_look() {
    let root = Root::machine();
    let mut w = own();
    // Zeroed memory of this size is mapped, and not there before it is written to.
    let mut memory = vec![0u8; 64 << 20];
    let begin = memory.as_ptr() as u64;
    let first = begin / 4096 + 1;
    let last = first + (64 << 20) / 4096 - 3;
    w.look(&root, &mut Vec::new()).unwrap();
    for page in [first, last] {
        memory[(page * 4096 - begin) as usize] = 1;
    }

    let mut changes = Vec::new();
    w.look_around(&root, &[first, first + 1], &mut changes)
        .unwrap();
    assert!(changes.contains(&change(first, What::Appeared)));
    assert_eq!(w.pages.residence(last), None);

    assert!(w.news(&root) > 0);
    changes.clear();
    w.look(&root, &mut changes).unwrap();
    assert!(changes.contains(&change(last, What::Appeared)));
    assert!(!changes.contains(&change(first, What::Appeared)));
}

#[test]
fn pages_that_are_near_make_one_span() {
    let blocks = |blocks: &[u64]| spans(&blocks.iter().map(|b| b * 512 + 9).collect::<Vec<_>>());
    assert!(blocks(&[]).is_empty());
    assert_eq!(blocks(&[4, 4, 5, 7, 10]), [4..8, 10..11]);
    assert_eq!(blocks(&[4, 9]), [4..5, 9..10]);
}

#[test]
fn another_process_of_that_number_is_not_watched() {
    let id = ProcessId {
        pid: std::process::id(),
        start_ticks: 1,
    };
    assert!(
        Watched::open(&Root::machine(), id, 0)
            .unwrap_err()
            .is_gone()
    );
}
