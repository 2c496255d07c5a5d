use super::*;

fn region(first: u64, count: u64, residence: Residence) -> Region {
    Region {
        first,
        count,
        residence,
    }
}

/// This process, of which nothing was looked at.
fn own() -> Watched {
    let root = Root::machine();
    let pid = std::process::id();
    let start_ticks = Stat::read(&root, pid).unwrap().start_ticks;
    Watched::open(&root, ProcessId { pid, start_ticks }, 0).unwrap()
}

/// What a look that finds these regions says.
fn changes(watched: &mut Watched, regions: &[Region]) -> Vec<Change> {
    let (mut fresh, mut changes) = (Vec::new(), Vec::new());
    regions.iter().for_each(|&r| note(&mut fresh, r));
    watched.compare(ALL, &fresh, &mut changes);
    changes.sort_by_key(|c| c.page);
    changes
}

fn change(page: u64, what: What) -> Change {
    Change { page, what }
}

#[test]
fn every_change_is_told_once() {
    let mut w = own();

    let first = changes(
        &mut w,
        &[
            region(511, 2, Residence::Present),
            region(600, 1, Residence::Swapped),
        ],
    );
    let expected = [
        change(511, What::Appeared),
        change(512, What::Appeared),
        change(600, What::AppearedSwapped),
    ];
    assert_eq!(first, expected);
    assert_eq!((w.present_pages(), w.swapped_pages()), (2, 1));

    let second = [
        region(512, 1, Residence::Swapped),
        region(600, 1, Residence::Present),
    ];
    let expected = [
        change(511, What::Freed),
        change(512, What::Left),
        change(600, What::CameBack { ahead: false }),
    ];
    assert_eq!(changes(&mut w, &second), expected);
    assert_eq!(changes(&mut w, &second), []);
    assert_eq!(w.residence(600), Some(Residence::Present));
    assert_eq!(w.residence(511), None);
    assert_eq!(w.pages().collect::<Vec<_>>(), [512, 600]);
}

#[test]
fn a_page_that_came_ahead_is_told_apart_when_it_is_touched() {
    let mut w = own();
    changes(&mut w, &[region(7, 3, Residence::Swapped)]);
    w.mark_ahead(7);
    w.mark_ahead(8);
    w.mark_ahead(1 << 30);

    let found = changes(
        &mut w,
        &[
            region(7, 1, Residence::Present),
            region(8, 1, Residence::Swapped),
            region(9, 1, Residence::Present),
        ],
    );

    let expected = [
        change(7, What::CameBack { ahead: true }),
        change(9, What::CameBack { ahead: false }),
    ];
    assert_eq!(found, expected);
    assert!(!w.take_ahead(7) && w.take_ahead(8) && !w.take_ahead(8));
}

#[test]
fn the_kernel_is_told_once_that_a_page_is_cold() {
    let mut w = own();
    let there = [
        region(7, 2, Residence::Present),
        region(9, 1, Residence::Swapped),
    ];
    changes(&mut w, &there);

    assert!(w.mark_cooled(7) && !w.mark_cooled(7));
    assert!(!w.mark_cooled(9) && !w.mark_cooled(1 << 30), "not there");
    assert_eq!(changes(&mut w, &there), [], "the mark changes nothing else");
    assert_eq!(w.residence(7), Some(Residence::Present));
    // It is told again of a page that left and came back.
    changes(&mut w, &[region(7, 3, Residence::Swapped)]);
    changes(&mut w, &there);
    assert!(w.mark_cooled(7));
}

#[test]
fn evidence_ages_by_launches_and_goes_with_the_page() {
    let mut w = own();
    changes(&mut w, &[region(7, 3, Residence::Present)]);
    w.mark_seen(7, 254);
    w.mark_seen(8, 3);
    let lately = |w: &Watched, launch| w.seen_lately(launch, 5).collect::<Vec<_>>();

    assert_eq!(lately(&w, 3), [7], "8 was seen in this launch");
    assert_eq!(lately(&w, 4), [7, 8], "launches 254, 255, 1, 2, 3, 4");
    assert_eq!(lately(&w, 5), [8]);
    assert_eq!(lately(&w, 9), [0u64; 0]);
    changes(&mut w, &[region(7, 1, Residence::Present)]);
    changes(&mut w, &[region(7, 3, Residence::Present)]);
    assert_eq!(lately(&w, 4), [7]);
    assert_eq!(
        (next_launch(0), next_launch(254), next_launch(255)),
        (1, 255, 1)
    );
}

#[test]
fn a_look_at_this_process_finds_what_was_written() {
    let root = Root::machine();
    let mut w = own();
    let mut changes = Vec::new();
    w.look(&root, &mut changes).unwrap();
    let known = w.present_pages() + w.swapped_pages();
    assert!(known > 0 && changes.len() as u64 == known);

    let memory = vec![1u8; 64 * 4096];
    let inner = memory.as_ptr() as u64 / 4096 + 1;
    assert!(w.news(&root) > 0);
    changes.clear();
    w.look(&root, &mut changes).unwrap();

    let appeared = |page| {
        let what = changes.iter().find(|c| c.page == page).map(|c| c.what);
        what == Some(What::Appeared) || what.is_none() && w.residence(page).is_some()
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
    assert_eq!(w.residence(last), None);

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
