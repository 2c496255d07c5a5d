//! Parts of the published schemes in live memory, each by what no other part does.

mod common;

use common::*;
use std::ops::Range;
use std::sync::atomic::Ordering;
use warmswap_arena::{Application, Arena, ArenaConfig, Mechanism, Region};

const PAGES: usize = 512;

/// An application whose pages have all left.
struct Left {
    arena: Arena,
    app: Application,
    region: Region,
}

impl Left {
    /// `None` where no memory can be paged.
    fn new(test: &str, scheme: &str) -> Option<Self> {
        if !can_run(test, Mechanism::Auto) {
            return None;
        }
        let arena = Arena::new(config(8 * MIB, scheme)).expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(PAGES * PAGE).expect("a region");
        app.foreground();
        app.launch_done();
        (0..PAGES).for_each(|page| write_page(words(&region), page, 1));
        leave(&region);
        Some(Self { arena, app, region })
    }

    /// The application comes to the front, uses these pages, and all of it leaves.
    fn relaunch(&self, used: Range<usize>) {
        self.app.foreground();
        used.for_each(|page| check_page(words(&self.region), page, 1));
        self.app.launch_done();
        self.app.background();
        leave(&self.region);
    }

    /// How many pages a touch of this one brings into memory.
    fn brought_by(&self, page: usize) -> usize {
        let resident = || {
            let all = self.region.resident_pages(0..self.region.len());
            all.expect("in the region")
        };
        let before = resident();
        check_page(words(&self.region), page, 1);
        resident() - before
    }
}

/// AdaptiveComp (Ariadne 4.3): a hot page is a chunk of its own, and four cold ones are one together.
#[test]
fn hot_pages_leave_in_small_chunks_and_cold_ones_in_large() {
    let name = "hot_pages_leave_in_small_chunks_and_cold_ones_in_large";
    let scheme = "ariadne-al-1k-2k-16k+prefetch=none";
    let Some(left) = Left::new(name, scheme) else {
        return;
    };
    let hot = 64..128;
    // The first relaunch takes them out of large chunks, with others that come along.
    left.relaunch(hot.clone());
    left.relaunch(hot.clone());

    assert_eq!(left.brought_by(100), 1, "hot");
    assert_eq!(left.brought_by(401), 4, "cold");
    check_account(&left.arena);
}

/// PreDecomp (Ariadne 4.4): of pages that are used in the order in which they left, the first alone is waited for.
#[test]
fn the_next_chunk_comes_before_it_is_asked_for() {
    let name = "the_next_chunk_comes_before_it_is_asked_for";
    for (prefetch, waited_for) in [("next", 1), ("none", 8)] {
        let Some(left) = Left::new(name, &format!("zram+prefetch={prefetch}")) else {
            return;
        };
        let begin = left.arena.stats();
        for page in 0..8 {
            check_page(words(&left.region), page, 1);
            let has_come = || left.arena.stats().pager.prefetched_pages > page as u64;
            while prefetch == "next" && !has_come() {
                std::thread::yield_now();
            }
        }
        let end = left.arena.stats();
        assert_eq!(end.chunks_read - begin.chunks_read, waited_for, "{end:#?}");
        assert_eq!(end.staged_faults - begin.staged_faults, 8 - waited_for);
        check_account(&left.arena);
    }
}

/// The lottery (ezswap III-C): old and new pages leave the pool, and those sooner that have a page of it to themselves.
#[test]
fn the_pool_gives_up_what_costs_little_and_not_what_is_oldest() {
    let name = "the_pool_gives_up_what_costs_little_and_not_what_is_oldest";
    if !can_run(name, Mechanism::Auto) {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let scheme = "zswap+eviction=lottery+layout=z3fold";
    let arena = Arena::new(ArenaConfig {
        backing: Some(folder.path().join("backing")),
        backing_limit_bytes: 64 << 20,
        pool_limit_bytes: Some(MIB as u64),
        ..config(16 * MIB, scheme)
    })
    .expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(2 * PAGES * PAGE).expect("a region");
    // Every other page makes an object beside which no second one has room.
    (0..2 * PAGES).for_each(|page| fill(&region, page, if page % 2 == 0 { 400 } else { 100 }));
    leave(&region);

    let was_given_up: Vec<bool> = (0..2 * PAGES)
        .map(|page| is_read(&arena, &region, page))
        .collect();
    let given_up =
        |pages: &mut dyn Iterator<Item = usize>| pages.filter(|&page| was_given_up[page]).count();
    let [old, new] =
        [0..PAGES, PAGES..2 * PAGES].map(|half| (given_up(&mut half.clone()), half.len()));
    assert!(
        old.0 < old.1 && new.0 > new.1 / 8,
        "old {old:?}, new {new:?}"
    );
    let alone = given_up(&mut (0..2 * PAGES).step_by(2));
    let together = given_up(&mut (1..2 * PAGES).step_by(2));
    assert!(alone > together, "{alone} alone, {together} together");
}

/// Fills a page with so many words that do not compress, and zeros.
fn fill(region: &Region, page: usize, random_words: usize) {
    let mut random = Random(page as u64);
    for word in &words(region)[page * 512..][..random_words] {
        word.store(random.next(), Ordering::Relaxed);
    }
}

/// Whether the content of a page came out of the backing file.
fn is_read(arena: &Arena, region: &Region, page: usize) -> bool {
    let read_bytes = || arena.stats().backing.expect("it has one").read_bytes;
    let before = read_bytes();
    let first = words(region)[page * 512].load(Ordering::Relaxed);
    assert_eq!(first, Random(page as u64).next(), "page {page}");
    read_bytes() > before
}
