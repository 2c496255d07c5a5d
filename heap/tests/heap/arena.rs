//! The heap over an arena, with swap that really happens: contents, and the paper's claims as counts of pages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{AdvisedMemory, MIB, Random, fleet, kinds, marvin};
use warmswap_arena::{Arena, ArenaConfig, ArenaStats, FaultMode};
use warmswap_heap::{
    ArenaMemory, Bytes, Collector, Field, FleetConfig, Heap, HeapConfig, Kind, LaunchDepth,
    Mutator, Ref, Refs, Root, object,
};
use warmswap_policy::SchemeSpec;

const PAGE: usize = 4096;

object! {
    struct Node {
        number: u64,
        next: Field<Node>,
        body: Field<Bytes>,
    }
}

/// Compresses to a quarter or better, and says which object it belongs to.
fn body_of(number: u64, len: usize) -> Vec<u8> {
    let word = Random(number).next().to_le_bytes();
    (0..len).map(|i| word[i / 64 % 8]).collect()
}

fn len_of(number: u64) -> usize {
    [40, 200, 1000, 2000][(number % 4) as usize]
}

/// Whether userfaultfd works here; if not, the test says by name that it is skipped.
fn can_run(test: &str) -> bool {
    use warmswap_uffd::{Feature, Uffd};
    match Uffd::probe() {
        Err(error) => warmswap_testkit::record_skip(test, &error.to_string()),
        Ok(features) if !features.has(Feature::Sigbus) => {
            warmswap_testkit::record_skip(test, "needs UFFD_FEATURE_SIGBUS");
        }
        Ok(_) => return true,
    }
    false
}

fn arena(
    budget_bytes: usize,
    mode: FaultMode,
    has_backing: bool,
) -> (Arena, Option<tempfile::TempDir>) {
    let scheme = SchemeSpec::parse("zram").expect("a scheme");
    let folder = has_backing.then(|| tempfile::tempdir().expect("a folder"));
    let config = ArenaConfig {
        fault_mode: mode,
        backing: folder.as_ref().map(|folder| folder.path().join("backing")),
        backing_limit_bytes: 256 << 20,
        address_space_bytes: 2 << 30,
        ..ArenaConfig::new(budget_bytes as u64, scheme)
    };
    (Arena::new(config).expect("an arena"), folder)
}

fn heap_over(arena: &Arena, max_bytes: usize, collector: Collector) -> Heap {
    let config = HeapConfig {
        background_collection_wait: Some(crate::common::NEVER),
        ..HeapConfig::new(max_bytes).with(collector)
    };
    let app = arena.application("test").expect("an application");
    let memory = ArenaMemory::new(app, config.address_bytes()).expect("a region");
    Heap::new(memory, config).expect("a heap")
}

fn verify(mutator: &Mutator, node: Ref<'_, Node>) -> u64 {
    let body = node.body.get(mutator).expect("every node has one");
    let number = node.number;
    assert!(
        body.bytes(mutator) == body_of(number, len_of(number)),
        "node {number}"
    );
    number
}

fn make(mutator: &mut Mutator, number: u64) -> Root<Node> {
    for _ in 0..1000 {
        mutator.safepoint();
        let content = body_of(number, len_of(number));
        let Ok(body) = mutator.alloc_bytes(&content) else {
            continue;
        };
        let node = Node {
            number,
            next: Field::null(),
            body: Field::null(),
        };
        let Ok(node) = mutator.alloc(node) else {
            continue;
        };
        node.body.set(mutator, Some(body));
        return mutator.root(node);
    }
    panic!("the heap stays full");
}

/// Lists of nodes in an array of heads, changed at random.
fn churn(
    mutator: &mut Mutator,
    seed: u64,
    heads: &Root<Refs<Node>>,
    steps: usize,
    is_shared: bool,
) {
    let mut random = Random(seed);
    let len = heads.get(mutator).len(mutator);
    for step in 0..steps {
        let index = random.below(len);
        let number = seed << 32 | step as u64;
        let node = make(mutator, number);
        let node = node.get(mutator);
        let array = heads.get(mutator);
        let before = array.get(mutator, index);
        // Lists do not become longer than they are read.
        let mut depth = 0;
        let mut at = before;
        while let Some(here) = at {
            verify(mutator, here);
            depth += 1;
            at = if depth < 8 {
                here.next.get(mutator)
            } else {
                None
            };
        }
        if depth < 8 {
            node.next.set(mutator, before);
        } else if !is_shared {
            assert!(before.is_some());
        }
        array.set(mutator, index, Some(node));
    }
}

fn keeps_contents(collector: Collector, threads: usize, part: usize, has_backing: bool) {
    const LIVE: usize = 8 * MIB;
    let (arena, _folder) = arena(LIVE * part / 100, FaultMode::Signal, has_backing);
    // Marvin's objects do not move, so that the room of single ones is not used again.
    let max_bytes = match collector {
        Collector::Marvin(_) => 12 * LIVE,
        _ => 2 * LIVE,
    };
    let heap = heap_over(&arena, max_bytes, collector);
    let mut mutator = heap.mutator().expect("the first of this thread");
    // 8 nodes of about 900 bytes in each list.
    let heads = mutator.alloc_refs(LIVE / 7000).expect("room");
    let heads = mutator.root(heads);
    let kinds = kinds(collector);
    let steps = 12_000 / threads;
    if threads == 1 {
        for round in 0..8 {
            churn(&mut mutator, round as u64 + 1, &heads, steps / 8, false);
            mutator.collect(kinds[round % kinds.len()]);
            match round {
                3 => heap.background(),
                4 | 5 => mutator.blocking(|| heap.expire_timer()),
                6 => heap.foreground(),
                _ => {}
            }
        }
    } else {
        let is_done = AtomicBool::new(false);
        mutator.blocking(|| {
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|thread| {
                        let (heap, heads) = (&heap, &heads);
                        scope.spawn(move || {
                            let mut mutator = heap.mutator().expect("the first of this thread");
                            churn(&mut mutator, thread as u64 + 1, heads, steps, true);
                        })
                    })
                    .collect();
                let (heap, is_done) = (&heap, &is_done);
                let collects = scope.spawn(move || {
                    let mut count = 0;
                    while !is_done.load(Ordering::Acquire) {
                        heap.collect(kinds[count % kinds.len()])
                            .expect("no mutator here");
                        count += 1;
                        match count % 4 {
                            0 => heap.background(),
                            2 => heap.foreground(),
                            _ => heap.expire_timer(),
                        }
                    }
                });
                let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
                is_done.store(true, Ordering::Release);
                for result in results {
                    result.expect("a worker that fails has said why");
                }
                collects.join().expect("it does not fail");
            });
        });
    }
    mutator.check().expect("the heap's invariants");
    let array = heads.get(&mutator);
    let mut count = 0;
    for index in 0..array.len(&mutator) {
        let mut node = array.get(&mutator, index);
        while let Some(here) = node {
            verify(&mutator, here);
            count += 1;
            node = here.next.get(&mutator);
        }
    }
    assert!(count > array.len(&mutator));
    let stats = arena.stats();
    assert!(stats.engine.stored > 0, "no page has left");
    assert!(stats.faults > stats.first_touches, "no page has come back");
    assert_eq!(stats.lost_slots, 0);
    if has_backing {
        assert!(stats.backing.is_some());
    }
    drop(mutator);
    drop((heads, heap));
    arena.check().expect("the arena's invariants");
}

fn collectors() -> [(&'static str, Collector); 3] {
    [
        ("native", Collector::Native),
        ("fleet", Collector::Fleet(fleet())),
        ("marvin", Collector::Marvin(marvin())),
    ]
}

#[test]
fn contents_survive_swap_with_one_thread() {
    if !can_run("contents_survive_swap_with_one_thread") {
        return;
    }
    for (name, collector) in collectors() {
        for part in [25, 50] {
            eprintln!("{name}, {part} %");
            keeps_contents(collector, 1, part, false);
        }
    }
}

#[test]
fn contents_survive_swap_with_four_threads() {
    if !can_run("contents_survive_swap_with_four_threads") {
        return;
    }
    for (name, collector) in collectors() {
        for part in [25, 50] {
            eprintln!("{name}, {part} %");
            keeps_contents(collector, 4, part, false);
        }
    }
}

#[test]
fn contents_survive_swap_with_a_backing_file() {
    if !can_run("contents_survive_swap_with_a_backing_file") {
        return;
    }
    for (name, collector) in collectors() {
        eprintln!("{name}");
        keeps_contents(collector, 2, 25, true);
    }
}

// ---- the paper's claims ----

/// So many lists of so many nodes each; the lists' first nodes are one reference away from the root.
fn build(mutator: &mut Mutator, lists: usize, len: usize) -> Root<Refs<Node>> {
    let heads = mutator.alloc_refs(lists).expect("room");
    let heads = mutator.root(heads);
    for i in 0..lists {
        for k in 0..len {
            let node = make(mutator, (i * len + k) as u64 * 4 + 3); // 2000 bytes
            let (node, array) = (node.get(mutator), heads.get(mutator));
            node.next.set(mutator, array.get(mutator, i));
            array.set(mutator, i, Some(node));
        }
    }
    heads
}

/// The arena's threads work in their own time: waits until `is_so`.
fn wait_for(arena: &Arena, what: &str, is_so: impl Fn(&ArenaStats) -> bool) -> ArenaStats {
    for _ in 0..60_000 {
        let stats = arena.stats();
        if is_so(&stats) {
            return stats;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what}: {:?}", arena.stats());
}

#[test]
fn cold_regions_leave_launch_regions_stay_and_background_collections_bring_nothing_back() {
    let name =
        "cold_regions_leave_launch_regions_stay_and_background_collections_bring_nothing_back";
    if !can_run(name) {
        return;
    }
    let (arena, _) = arena(256 * MIB, FaultMode::Signal, false);
    let fleet = FleetConfig {
        learned_launches: false,
        ..fleet()
    };
    let heap = heap_over(&arena, 64 * MIB, Collector::Fleet(fleet));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let heads = build(&mut mutator, 200, 80); // 32 MB
    mutator.collect(Kind::Minor);
    mutator.collect(Kind::Minor);
    let before = arena.stats();
    heap.background();
    mutator.blocking(|| heap.expire_timer());
    let [launch, _, cold] = heap.stats().grouped_bytes;
    let (launch_pages, cold_pages) = ((launch / PAGE) as u64, (cold / PAGE) as u64);
    assert!(
        cold_pages > 6000 && launch_pages < 200,
        "{cold_pages} cold, {launch_pages} launch"
    );
    // Cold regions leave, though there is room for all.
    let away = wait_for(&arena, "cold pages leave", |stats| {
        stats.stored_pages + 200 >= cold_pages
    });
    assert!(away.resident_frames < before.resident_frames / 2);
    assert_eq!(heap.stats().refusals, 0);

    // What is near the roots is there: no fault.
    let array = heads.get(&mutator);
    for i in 0..array.len(&mutator) {
        let head = array.get(&mutator, i).expect("not empty");
        assert_eq!(head.number % 4, 3);
    }
    let touched = arena.stats();
    assert!(
        touched.faults - away.faults <= 4,
        "{} faults",
        touched.faults - away.faults
    );

    // Background collections, with something to collect.
    for _ in 0..3 {
        for number in 0..2000 {
            let node = make(&mut mutator, number);
            if number == 1000 {
                let keeps = heads.get(&mutator).get(&mutator, 7).expect("not empty");
                let next = keeps.next.get(&mutator).expect("80 of them");
                assert_eq!(next.number % 4, 3);
            }
            drop(node);
        }
        let before = arena.stats();
        mutator.collect(Kind::Background);
        let after = arena.stats();
        let came = |s: &ArenaStats| s.faults - s.first_touches + s.restored;
        assert!(
            came(&after) - came(&before) <= 16,
            "{} pages",
            came(&after) - came(&before)
        );
        assert!(after.stored_pages + 400 > cold_pages);
    }
    let report = *heap.stats().reports.last().expect("one has run");
    assert_eq!(report.kind, Kind::Background);
    assert!(
        report.touched_objects() < 200,
        "{} objects",
        report.touched_objects()
    );

    // A collection of the whole heap brings most of it back.
    let before = arena.stats();
    mutator.collect(Kind::Major);
    let after = arena.stats();
    assert!(
        after.faults - before.faults > cold_pages / 2,
        "{} of {cold_pages} pages",
        after.faults - before.faults
    );
    // And all of it is as it was.
    let array = heads.get(&mutator);
    for i in 0..array.len(&mutator) {
        let mut node = array.get(&mutator, i);
        let mut count = 0;
        while let Some(here) = node {
            verify(&mutator, here);
            count += 1;
            node = here.next.get(&mutator);
        }
        assert_eq!(count, 80);
    }
}

/// When the memory hears that launch regions are hot.
#[derive(Clone, Copy, PartialEq)]
enum Hears {
    Never,
    AtTheEnd,
    Always,
}

/// Another program fills memory, then this one launches: pages of launch objects, and those that had to come back.
fn launch_under_pressure(hot_restores: bool, hears: Hears) -> (u64, u64) {
    let (arena, _) = arena(36 * MIB, FaultMode::Signal, false);
    let fleet = FleetConfig {
        learned_launches: false,
        launch_depth: LaunchDepth::References(3),
        hot_restores,
        ..fleet()
    };
    let config = HeapConfig::new(64 * MIB).with(Collector::Fleet(fleet));
    let app = arena.application("launched").expect("an application");
    let memory = ArenaMemory::new(app, config.address_bytes()).expect("a region");
    let (memory, advised) = AdvisedMemory::new(memory);
    let ignores = hears != Hears::Always;
    advised.ignores_hot.store(ignores, Ordering::Relaxed);
    let heap = Heap::new(memory, config).expect("a heap");
    let mut mutator = heap.mutator().expect("the first of this thread");
    let heads = build(&mut mutator, 200, 25);
    mutator.collect(Kind::Minor);
    heap.background();
    mutator.blocking(|| heap.expire_timer());
    let report = *heap.stats().reports.last().expect("one has run");
    assert_eq!(report.kind, Kind::Grouping);
    let pages = report.grouped_bytes[0] / PAGE as u64;
    fill(&arena, pages + 5000, || {
        mutator.blocking(|| heap.expire_timer());
    });
    if hears == Hears::AtTheEnd {
        advised.ignores_hot.store(false, Ordering::Relaxed);
        mutator.blocking(|| heap.expire_timer());
    }
    let before = arena.stats();
    let array = heads.get(&mutator);
    for i in 0..array.len(&mutator) {
        verify(&mutator, array.get(&mutator, i).expect("not empty"));
    }
    (pages, arena.stats().faults - before.faults)
}

/// Another program takes memory until so many pages have left, and lets a period of advice pass for each megabyte.
fn fill(arena: &Arena, stored_pages: u64, mut period: impl FnMut()) {
    let heap = heap_over(arena, 128 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut kept = Vec::new();
    while arena.stats().engine.stored < stored_pages {
        kept.push(make(&mut mutator, 4 * kept.len() as u64 + 3)); // 2000 bytes
        if kept.len() % 500 == 0 {
            mutator.blocking(&mut period);
        }
    }
}

#[test]
fn under_pressure_launch_regions_stay_as_long_as_they_are_said_to_be_hot() {
    let name = "under_pressure_launch_regions_stay_as_long_as_they_are_said_to_be_hot";
    if !can_run(name) {
        return;
    }
    let (pages, came) = launch_under_pressure(false, Hears::Never);
    assert!(came * 2 > pages, "nothing keeps them: {came} of {pages}");
    let (pages, came) = launch_under_pressure(false, Hears::Always);
    assert!(came * 4 <= pages, "they stay: {came} of {pages} came back");
}

#[test]
fn hot_advice_brings_nothing_back_unless_that_is_switched_on() {
    let name = "hot_advice_brings_nothing_back_unless_that_is_switched_on";
    if !can_run(name) {
        return;
    }
    let (pages, came) = launch_under_pressure(false, Hears::AtTheEnd);
    assert!(
        came * 2 > pages,
        "they stay away: {came} of {pages} came back"
    );
    let (pages, came) = launch_under_pressure(true, Hears::AtTheEnd);
    assert!(came * 4 <= pages, "they are back: {came} of {pages}");
}

#[test]
fn marvin_collects_without_bringing_bookmarked_objects_back() {
    let name = "marvin_collects_without_bringing_bookmarked_objects_back";
    if !can_run(name) {
        return;
    }
    let (arena, _) = arena(256 * MIB, FaultMode::Signal, false);
    let heap = heap_over(&arena, 64 * MIB, Collector::Marvin(marvin()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let large = |mutator: &Mutator, i: u8| {
        let bytes = mutator.alloc_bytes(&[i; 8000]).expect("room");
        mutator.root(bytes)
    };
    let roots: Vec<_> = (0..2000).map(|i| large(&mutator, i as u8)).collect();
    heap.background();
    for _ in 0..3 {
        mutator.blocking(|| heap.expire_timer());
    }
    assert_eq!(heap.stats().bookmarks, roots.len());
    let away = wait_for(&arena, "bookmarked objects leave", |stats| {
        stats.stored_pages > 3000
    });
    mutator.collect(Kind::Major);
    let after = arena.stats();
    assert!(after.faults - after.first_touches - (away.faults - away.first_touches) < 200);
    assert_eq!(heap.stats().bookmarks, roots.len());
    for (i, root) in roots.iter().enumerate() {
        assert_eq!(root.get(&mutator).bytes(&mutator), [i as u8; 8000]);
    }
    assert_eq!(heap.stats().bookmarks, 0);
    assert!(arena.stats().faults > after.faults + 1000);
}
