use warmswap_testkit::Random;
use warmswap_uffd::Protection;

use super::{Mapped, Program};

const OPEN: Option<Mapped> = Some(Mapped::Open(Protection::READ_WRITE));

/// The first place by looking at every page.
fn first_place(program: &Program, pages: usize, align: usize) -> Option<usize> {
    let places = (0..program.all().end).step_by(align);
    let mut fitting = places.filter(|&first| program.is_free(first..first + pages));
    fitting.next()
}

#[test]
fn a_gap_is_the_first_one_after_any_changes() {
    const PAGES: usize = 600;
    let mut numbers = Random(7);
    for _ in 0..40 {
        let mut program = Program::new(PAGES);
        for _ in 0..300 {
            let (pages, align) = (1 + numbers.below(40), 1 << numbers.below(5));
            if numbers.below(5) < 3 {
                let gap = program.gap(None, pages, align);
                let first = gap.as_ref().map(|gap| gap.start);
                assert_eq!(first, first_place(&program, pages, align));
                gap.into_iter().for_each(|gap| program.set(gap, OPEN));
            } else {
                let first = numbers.below(PAGES - pages);
                let mapped = [None, None, OPEN, Some(Mapped::Foreign)][numbers.below(4)];
                program.set(first..first + pages, mapped);
            }
        }
    }
}

#[test]
fn a_search_does_not_pass_over_holes_that_were_too_small_before() {
    let mut program = Program::new(200_000);
    let mut looked_at = 0;
    for _ in 0..4000 {
        // 17 pages from a multiple of 16 on leave holes of 15.
        let gap = program.gap(None, 17, 16).expect("room");
        program.find_gap(17, 16, |_| {
            looked_at += 1;
            None
        });
        program.set(gap, OPEN);
    }
    assert!(looked_at <= 8000, "{looked_at}");
}
