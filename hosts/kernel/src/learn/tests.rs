use super::*;
use crate::testing::range;

/// Pages come back, and their accessed bits are cleared.
fn bring(memory: &mut ProcessMemory, pages: &[PageRange]) {
    memory.note_brought(pages);
    memory.note_used(|_| 0);
}

fn is_hot(memory: &ProcessMemory, page: u64) -> bool {
    memory.heat(page / 64).hot & bit(page) != 0
}

fn is_cold(memory: &ProcessMemory, page: u64) -> bool {
    memory.heat(page / 64).is_cold
}

#[test]
fn pages_that_came_back_by_themselves_in_a_launch_are_hot() {
    let mut memory = ProcessMemory::default();
    assert!(!memory.learns_of_launch());
    memory.begin(vec![range(100, 50)]);
    assert!(memory.learns_of_launch());
    memory.judge_launch(&[range(110, 40)], |_| 0);
    let judged = memory.judge_session(&[range(120, 30)], |_| 0);

    let hot: Vec<u64> = (90..160).filter(|&page| is_hot(&memory, page)).collect();
    assert_eq!(hot, (100..110).collect::<Vec<_>>());
    assert_eq!(judged, Judged::default(), "nothing was brought back");
}

#[test]
fn a_region_that_is_wasted_twice_in_a_row_is_cold_until_it_is_used() {
    let mut memory = ProcessMemory::default();
    let waste = |memory: &mut ProcessMemory| {
        bring(memory, &[range(64, 64)]);
        memory.begin(Vec::new());
        memory.judge_session(&[], |_| 0b1)
    };
    assert_eq!(
        waste(&mut memory),
        Judged {
            used: 1,
            wasted: 63
        }
    );
    assert!(!is_cold(&memory, 64));
    waste(&mut memory);
    assert!(is_cold(&memory, 64) && is_cold(&memory, 127) && !is_cold(&memory, 128));
    assert_eq!(memory.cold_pages(), 64);
    // The program brings it back by itself.
    memory.begin(vec![range(64, 64)]);
    memory.judge_session(&[range(70, 58)], |_| 0);
    assert!(!is_cold(&memory, 64));
}

#[test]
fn use_between_makes_two_wastes_no_row() {
    let mut memory = ProcessMemory::default();
    for bits in [0, u64::MAX, 0] {
        bring(&mut memory, &[range(0, 64)]);
        memory.begin(Vec::new());
        memory.judge_session(&[], |_| bits);
    }
    assert!(!is_cold(&memory, 0));
}

#[test]
fn what_comes_back_while_a_session_goes_on_is_judged_after_the_next_one() {
    let mut memory = ProcessMemory::default();
    memory.begin(vec![range(0, 64)]);
    bring(&mut memory, &[range(0, 64)]);
    assert_eq!(memory.judge_session(&[], |_| 0), Judged::default());
    assert_eq!(memory.unjudged(), [0]);
    memory.begin(Vec::new());
    memory.judge_launch(&[], |_| 0b11);
    let judged = memory.judge_session(&[], |_| 0b110);
    assert_eq!(
        judged,
        Judged {
            used: 3,
            wasted: 61
        }
    );
    assert!(is_hot(&memory, 0) && is_hot(&memory, 1));
    assert!(!is_hot(&memory, 2), "touched after the launch");
    assert!(memory.unjudged().is_empty());
}

#[test]
fn pages_that_were_asked_for_and_are_still_away_were_not_used() {
    let mut memory = ProcessMemory::default();
    memory.begin(vec![range(0, 64)]);
    memory.note_asked(&[range(0, 64)]);
    let judged = memory.judge_session(&[range(32, 32)], |_| u64::MAX);
    assert_eq!((judged.used, judged.wasted), (32, 32));
}

#[test]
fn pages_that_were_mapped_and_are_away_again_are_not_judged() {
    let mut memory = ProcessMemory::default();
    bring(&mut memory, &[range(0, 64)]);
    memory.begin(Vec::new());
    let judged = memory.judge_session(&[range(0, 48)], |_| 0xffff << 40);
    assert_eq!((judged.used, judged.wasted), (8, 8));
    // Of a region that left as a whole nothing is known.
    for _ in 0..2 {
        bring(&mut memory, &[range(64, 64)]);
        memory.begin(Vec::new());
        let judged = memory.judge_session(&[range(64, 64)], |_| 0);
        assert_eq!(judged, Judged::default());
    }
    assert!(!is_cold(&memory, 64));
}

#[test]
fn what_is_used_before_more_comes_back_counts_though_bits_are_cleared() {
    let mut memory = ProcessMemory::default();
    memory.note_brought(&[range(0, 32)]);
    // The host's reads set the bits of all.
    memory.note_used(|_| u64::MAX >> 32);
    memory.begin(Vec::new());
    // The program uses eight of them; others come back, in this region and the next.
    memory.note_brought(&[range(64, 64)]);
    memory.note_used(|region| [0xff, u64::MAX][region as usize]);
    let judged = memory.judge_session(&[], |_| 0);
    assert_eq!((judged.used, judged.wasted), (8, 24));
    memory.begin(Vec::new());
    assert_eq!(memory.judge_session(&[], |_| 0).used, 0);
}

#[test]
fn the_hosts_own_reads_are_no_use() {
    let mut memory = ProcessMemory::default();
    memory.begin(Vec::new());
    memory.note_brought(&[range(0, 64)]);
    memory.judge_launch(&[], |_| u64::MAX);
    assert_eq!(memory.hot_pages(), 0);
    memory.begin(Vec::new());
    // Bits that were never cleared tell nothing.
    assert_eq!(memory.judge_session(&[], |_| u64::MAX), Judged::default());
    assert_eq!(memory.unjudged(), [0]);
    // Nor do those that are cleared after another session began.
    memory.note_used(|_| 0);
    assert!(memory.unjudged().is_empty());
}

#[test]
fn a_survivor_tells_nothing_of_a_region_that_left() {
    let mut memory = ProcessMemory::default();
    for _ in 0..2 {
        bring(&mut memory, &[range(0, 64)]);
        memory.begin(Vec::new());
        let judged = memory.judge_session(&[range(0, 63)], |_| 0);
        assert_eq!(judged.wasted, 1);
    }
    assert!(!is_cold(&memory, 0));
}

#[test]
fn a_session_that_began_unseen_tells_only_of_what_came_back_or_was_never_known() {
    let mut memory = ProcessMemory::default();
    memory.begin_unseen();
    assert!(memory.learns_of_session(), "its mappings are not known");
    memory.set_mapped(vec![range(0, 1)]);
    assert!(!memory.learns_of_session() && !memory.learns_of_launch());
    memory.note_brought(&[range(64, 1)]);
    assert!(memory.learns_of_session() && memory.learns_of_launch());
    let mut memory = ProcessMemory::default();
    memory.set_mapped(vec![range(0, 1)]);
    memory.begin_unseen();
    memory.begin(Vec::new());
    assert!(memory.learns_of_session());
}

#[test]
fn words_of_bits_hold_exactly_the_pages() {
    let ranges = [range(0, 1), range(60, 70), range(190, 2), range(255, 1)];
    let bits = bits_of(&ranges);
    let expected: Vec<u64> = ranges.iter().flat_map(numbers).collect();
    let has = |page: &u64| {
        bits.get(&(page / 64))
            .is_some_and(|word| word & bit(*page) != 0)
    };
    assert_eq!((0..400).filter(has).collect::<Vec<_>>(), expected);
}

#[test]
fn memory_that_is_unmapped_is_forgotten() {
    let mut memory = ProcessMemory::default();
    memory.note_touched(10);
    memory.note_touched(1000);
    memory.keep_only(&[range(1000, 5)]);
    assert!(!is_hot(&memory, 10) && is_hot(&memory, 1000));
    memory.keep_only(&[]);
    assert_eq!(memory.hot_pages(), 0);
}

#[test]
fn a_page_takes_a_byte_at_most_in_the_mean() {
    // Tables grow by doubling: sizes over one doubling stand for all.
    let sizes = (1..=16).map(|part| part << 16);
    let mean = |bytes_a_page: Vec<f64>| bytes_a_page.iter().sum::<f64>() / 16.0;
    let bytes_a_page = sizes.map(|pages: u64| {
        let mut memory = ProcessMemory::default();
        memory.note_brought(&[range(1 << 30, (1 << 20) + pages)]);
        memory.state_bytes() as f64 / ((1 << 20) + pages) as f64
    });
    let mean = mean(bytes_a_page.collect());
    assert!(mean <= 1.0, "{mean} bytes");
}

#[test]
fn a_region_that_stays_away_for_two_sessions_is_cold_and_one_that_is_used_is_not() {
    let mut memory = ProcessMemory::default();
    for _ in 0..2 {
        // Of the second region a launch touches a page, and of the third the session.
        memory.begin(vec![range(0, 192)]);
        memory.judge_launch(&[range(0, 64), range(65, 127)], |_| 0);
        let judged = memory.judge_session(&[range(0, 64), range(65, 63), range(129, 63)], |_| 0);
        assert_eq!(judged, Judged::default());
    }
    let cold: Vec<u64> = [0, 64, 128]
        .into_iter()
        .filter(|&page| is_cold(&memory, page))
        .collect();
    assert_eq!(cold, [0]);
    assert_eq!(memory.cold_pages(), 0, "it is away");
    // A session that was not looked at tells nothing.
    let mut unseen = ProcessMemory::default();
    for _ in 0..2 {
        unseen.begin_unseen();
        unseen.judge_session(&[range(0, 64)], |_| 0);
    }
    assert!(!is_cold(&unseen, 0));
}

#[test]
fn pages_that_left_during_a_session_were_used_in_it() {
    let mut memory = ProcessMemory::default();
    for _ in 0..3 {
        memory.begin(Vec::new());
        memory.judge_launch(&[range(0, 64)], |_| 0);
        memory.judge_session(&[range(0, 64)], |_| 0);
    }
    assert!(!is_cold(&memory, 0));
}

#[test]
fn cold_pages_are_written_back_once_the_coldest_first_and_hot_ones_never() {
    let mut memory = ProcessMemory::default();
    let stays_away = |memory: &mut ProcessMemory, pages| {
        memory.begin(vec![pages]);
        memory.judge_session(&[pages], |_| 0);
    };
    memory.note_touched(3);
    stays_away(&mut memory, range(128, 10));
    (0..2).for_each(|_| stays_away(&mut memory, range(0, 138)));
    let away = [range(0, 138)];

    // Of the second region nothing is known but that it was away as long.
    let first = memory.to_write_back(&away);
    assert_eq!(first, [range(128, 10), range(0, 3), range(4, 124)]);
    memory.note_written(&first[..1]);
    assert_eq!(memory.to_write_back(&away), [range(0, 3), range(4, 124)]);
    memory.note_written(&[range(0, 138)]);
    assert!(memory.to_write_back(&away).is_empty());

    // Some came back, and left again.
    assert!(memory.to_write_back(&[range(0, 120)]).is_empty());
    assert_eq!(memory.to_write_back(&away), [range(128, 10), range(120, 8)]);
}
