use super::*;

fn region(first: u64, count: u64, residence: Residence) -> Region {
    Region {
        first,
        count,
        residence,
    }
}

/// What a look that finds these regions says.
fn changes(pages: &mut Pages, regions: &[Region]) -> Vec<Change> {
    let (mut fresh, mut changes) = (Vec::new(), Vec::new());
    regions.iter().for_each(|&r| note(&mut fresh, r));
    pages.compare(ALL, &fresh, &mut changes);
    changes.sort_by_key(|c| c.page);
    changes
}

fn change(page: u64, what: What) -> Change {
    Change { page, what }
}

#[test]
fn every_change_is_told_once() {
    let mut w = Pages::default();

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
    assert_eq!((w.present(), w.swapped()), (2, 1));

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
    assert_eq!(w.numbers().collect::<Vec<_>>(), [512, 600]);
}

#[test]
fn a_page_that_came_ahead_is_told_apart_when_it_is_touched() {
    let mut w = Pages::default();
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
fn a_page_that_was_refused_is_marked_until_it_comes_or_goes() {
    let mut w = Pages::default();
    let there = [region(510, 4, Residence::Present)];
    changes(&mut w, &there);
    for page in [510, 511, 511, 511, 512, 512, 513, 513, 700, 700] {
        w.mark_refused(page);
    }
    let refused = |w: &Pages| (510..=700).filter(|&p| w.is_refused(p)).collect::<Vec<_>>();

    changes(&mut w, &there);
    assert_eq!(refused(&w), [511, 512, 513]);
    let left = [
        region(510, 2, Residence::Present),
        region(512, 1, Residence::Swapped),
    ];
    changes(&mut w, &left);
    w.mark_refused(512);
    w.mark_refused(512);
    assert_eq!(refused(&w), [511], "one went to swap, one is no more");
    changes(&mut w, &there);
    w.mark_refused(512);
    w.mark_refused(510);
    assert_eq!(refused(&w), [510, 511], "512 is another page now");
    assert_eq!(w.forget_refused(), 2);
    assert_eq!((w.forget_refused(), refused(&w).len()), (0, 0));

    w.mark_refused(510);
    assert_eq!(refused(&w), [510], "it is known to stay");
    changes(&mut w, &[]);
    assert_eq!(w.forget_refused(), 0);
}

#[test]
fn evidence_ages_by_launches_and_goes_with_the_page() {
    let mut w = Pages::default();
    changes(&mut w, &[region(7, 3, Residence::Present)]);
    w.mark_seen(7, 254);
    w.mark_seen(8, 3);
    let held = |w: &Pages, launch| w.held(launch, 5).collect::<Vec<_>>();

    assert_eq!(held(&w, 3), [(7, 4)], "8 was seen in this launch");
    assert_eq!(held(&w, 4), [(7, 5), (8, 1)], "254, 255, 1, 2, 3, 4");
    assert_eq!(held(&w, 5), [(8, 2)]);
    assert_eq!(held(&w, 9), []);
    assert!(w.is_needed(8, 8, 5) && !w.is_needed(8, 9, 5) && !w.is_needed(9, 3, 5));
    changes(&mut w, &[region(7, 1, Residence::Present)]);
    changes(&mut w, &[region(7, 3, Residence::Present)]);
    assert_eq!(held(&w, 4), [(7, 5)]);
    assert_eq!([0, 254, 255].map(evidence::next_launch), [1, 255, 1]);
}

#[test]
fn evidence_lasts_twice_as_long_for_each_launch_that_confirms_it() {
    let mut w = Pages::default();
    let there = [region(7, 1, Residence::Present)];
    let away = [region(7, 1, Residence::Swapped)];
    let lasts = |w: &Pages, seen: u8| {
        let last = (seen..=255).take_while(|&launch| w.is_needed(7, launch, 200));
        last.last().unwrap() - seen
    };
    changes(&mut w, &there);
    for (launch, launches) in [(1, 10), (2, 20), (3, 40), (4, 80), (5, 80)] {
        // It leaves and comes back: what is known of it stays.
        changes(&mut w, &away);
        changes(&mut w, &there);
        w.mark_seen(7, launch);
        w.mark_seen(7, launch);
        assert_eq!(lasts(&w, launch), launches, "launch {launch}");
    }
    // It was brought back in vain.
    changes(&mut w, &away);
    w.mark_ahead(7);
    assert!(w.take_ahead(7));
    assert_eq!(lasts(&w, 5), 40);
    assert!(w.is_needed(7, 14, 9) && !w.is_needed(7, 15, 9), "at most 9");
}

#[test]
fn what_is_known_of_a_page_of_a_file_outlasts_its_absence() {
    let mut w = Pages::of_file();
    let there = [region(7, 2, Residence::Present)];
    assert_eq!(changes(&mut w, &there).len(), 2);
    w.mark_seen(7, 1);

    let left = [change(7, What::Left), change(8, What::Left)];
    assert_eq!(changes(&mut w, &[]), left);
    assert_eq!((w.present(), w.swapped()), (0, 2));
    w.mark_ahead(7);
    w.mark_ahead(8);

    let came = [change(7, What::CameBack { ahead: true })];
    assert_eq!(changes(&mut w, &[region(7, 1, Residence::Present)]), came);
    assert_eq!(changes(&mut w, &[region(7, 1, Residence::Present)]), []);
    assert!(w.is_needed(7, 3, 40) && w.take_ahead(8));
}

/// What a look says that finds these regions of all pages, and these of the process's own where it asks; the blocks where
/// it does.
fn look(pages: &mut Pages, all: &[Region], own: &[Region]) -> (Vec<u64>, Vec<Change>) {
    let (mut fresh, mut owned, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    all.iter().for_each(|&r| note(&mut fresh, r));
    own.iter().for_each(|&r| note(&mut owned, r));
    let asked = pages.unknown(&fresh);
    pages.classify(&mut fresh, &asked, &owned);
    pages.compare(ALL, &fresh, &mut changes);
    (asked, changes)
}

#[test]
fn whose_a_page_is_is_asked_once_in_a_block_and_again_when_something_is_new_there() {
    let mut w = Pages::default();
    let mapped = region(0, 600, Residence::Present);
    let own = [region(10, 1, Residence::Present)];
    let appeared = vec![change(10, What::Appeared)];
    assert_eq!(look(&mut w, &[mapped], &own), (vec![0, 1], appeared));
    assert_eq!(w.numbers().collect::<Vec<_>>(), [10]);
    assert_eq!((w.present(), w.residence(11)), (1, None));
    assert_eq!(look(&mut w, &[mapped], &[]), (vec![], vec![]));

    // It leaves and comes back without a question: swap is for the process's own.
    let rest = region(11, 589, Residence::Present);
    let away = [region(10, 1, Residence::Swapped), rest];
    assert_eq!(
        look(&mut w, &away, &[]),
        (vec![], vec![change(10, What::Left)])
    );
    let back = [region(10, 590, Residence::Present)];
    let came = change(10, What::CameBack { ahead: false });
    assert_eq!(look(&mut w, &back, &[]), (vec![], vec![came]));

    // A new page in the second block, and one there that was foreign and is in swap.
    let more = [region(10, 591, Residence::Present)];
    let own = [region(600, 1, Residence::Present)];
    let appeared = vec![change(600, What::Appeared)];
    assert_eq!(look(&mut w, &more, &own), (vec![1], appeared));
    let swapped = region(550, 1, Residence::Swapped);
    let some = [
        region(10, 540, Residence::Present),
        swapped,
        region(551, 50, Residence::Present),
    ];
    let own = [swapped, region(600, 1, Residence::Present)];
    let appeared = vec![change(550, What::AppearedSwapped)];
    assert_eq!(look(&mut w, &some, &own), (vec![1], appeared));

    // What was the process's own and is foreign counts as freed; so does what is gone.
    let (asked, mut freed) = look(&mut w, &[region(3000, 1, Residence::Present)], &[]);
    freed.sort_by_key(|change| change.page);
    assert_eq!(asked, [5]);
    assert_eq!(freed, [10, 550, 600].map(|page| change(page, What::Freed)));
    assert_eq!((w.present(), w.swapped()), (0, 0));
}

#[test]
fn a_page_that_changed_is_in_a_group_that_is_looked_at_and_marks_are_no_change() {
    const ALL_OF_IT: usize = BLOCK_PAGES as usize;
    let before = [PRESENT | AHEAD | CONFIRMED; ALL_OF_IT];
    assert_eq!(changed(&before, &[PRESENT; ALL_OF_IT]).count(), 0);
    for page in 0..ALL_OF_IT {
        for state in [ABSENT, SWAPPED, FOREIGN] {
            let mut now = [PRESENT; ALL_OF_IT];
            now[page] = state;
            let found: Vec<_> = changed(&before, &now).collect();
            assert_eq!(found.len(), LANES);
            assert!(found.contains(&page));
        }
    }
    for at in 0..LANES {
        let mut state = [PRESENT | CONFIRMED; LANES];
        assert!(!is_any_foreign(state));
        state[at] = FOREIGN;
        assert!(is_any_foreign(state), "{at}");
        state[at] = SWAPPED;
        assert!(!is_any_foreign(state), "{at}");
    }
}

#[test]
fn an_accessed_bit_is_news_once_until_it_is_cleared_and_for_pages_in_memory_only() {
    let mut w = Pages::default();
    let there = [
        region(512, 4, Residence::Present),
        region(516, 1, Residence::Swapped),
    ];
    changes(&mut w, &there);
    // Nothing else tells whether what was there before was touched.
    w.forget_accessed();
    let mut bits = Bits::default();
    bits[0] = 0b1_0011;
    let note = |w: &mut Pages, bits: &Bits| {
        let mut news = Vec::new();
        w.note_accessed(1, bits, &mut news);
        news
    };

    assert_eq!(w.block_numbers(), [1]);
    assert_eq!(note(&mut w, &bits), [512, 513], "one is in swap");
    bits[0] = 0b0111;
    assert_eq!(note(&mut w, &bits), [514]);
    w.forget_accessed();
    assert_eq!(note(&mut w, &bits), [512, 513, 514]);
    // What came back was touched for that, and is no news.
    changes(&mut w, &[region(512, 5, Residence::Present)]);
    assert_eq!(note(&mut w, &[u64::MAX; 8]), [515]);
    assert_eq!(w.age(512, 9, u8::MAX), None, "seen in no launch");
    w.mark_seen(512, 7);
    assert_eq!(w.age(512, 9, u8::MAX), Some(2));
}
