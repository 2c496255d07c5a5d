//! What the paper says that Fleet does (sections 4 and 5), as counts of objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Advised, AdvisedMemory, MIB, SetClock, alloc, check, fleet, heap, heap_of};
use warmswap_heap::{
    Bytes, Cause, CollectionReport, Collector, FleetConfig, Heap, HeapConfig, KernelMemory, Kind,
    LaunchDepth, Mutator, REGION_BYTES, Record, Ref, Root,
};

fn advised_memory(config: HeapConfig) -> (AdvisedMemory<KernelMemory>, Arc<Advised>) {
    AdvisedMemory::new(KernelMemory::new(config.address_bytes()).expect("memory"))
}

/// As the paper has it, with no timer that expires by itself.
fn paper() -> FleetConfig {
    FleetConfig {
        learned_launches: false,
        ..fleet()
    }
}

fn last(heap: &Heap) -> CollectionReport {
    *heap.stats().reports.last().expect("one has run")
}

/// A list of `len` records of some words, each referring to the next; the first one's root.
fn list(mutator: &Mutator, first_number: usize, len: usize, words: usize) -> Root<Record> {
    let mut next: Option<Ref<'_, Record>> = None;
    for number in (first_number..first_number + len).rev() {
        let record = alloc(mutator, number, 1, words).expect("room");
        record.set(mutator, 0, next);
        next = Some(record);
    }
    mutator.root(next.expect("not empty"))
}

/// The records of a list, checked.
fn walk<'m>(
    mutator: &'m Mutator,
    list: &Root<Record>,
    first_number: usize,
    words: usize,
) -> Vec<Ref<'m, Record>> {
    let mut all = Vec::new();
    let mut next = Some(list.get(mutator));
    while let Some(record) = next {
        check(mutator, record, first_number + all.len(), (1, words));
        all.push(record);
        next = record.get(mutator, 0);
    }
    all
}

fn address(object: Ref<'_, Record>) -> usize {
    let text = format!("{object:?}");
    let digits = text.trim_start_matches("Ref(0x").trim_end_matches(')');
    usize::from_str_radix(digits, 16).expect("an address")
}

/// The application goes to the background and T_B is over.
fn go_away(heap: &Heap, mutator: &mut Mutator) {
    heap.background();
    mutator.blocking(|| heap.expire_timer());
}

// ---- grouping (section 5.3.1) ----

#[test]
fn objects_near_the_roots_are_launch_objects() {
    for depth in 0..=4 {
        let config = FleetConfig {
            launch_depth: LaunchDepth::References(depth),
            ..paper()
        };
        let heap = heap(8 * MIB, Collector::Fleet(config));
        let mut mutator = heap.mutator().expect("the first of this thread");
        let list = list(&mutator, 0, 100, 4);
        mutator.collect(Kind::Minor); // They are old.
        go_away(&heap, &mut mutator);
        let report = last(&heap);
        assert_eq!(report.kind, Kind::Grouping);
        let near = u64::from(depth);
        assert_eq!(report.grouped_objects, [near, 0, 100 - near], "D = {depth}");
        assert_eq!(walk(&mutator, &list, 0, 4).len(), 100);
        let checked = mutator.check().expect("the heap's invariants");
        assert_eq!(checked.reachable, 100);
    }
}

#[test]
fn an_object_counts_by_its_shortest_path() {
    let heap = heap(8 * MIB, Collector::Fleet(paper()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let long = list(&mutator, 0, 50, 1);
    let last_of_it = *walk(&mutator, &long, 0, 1).last().expect("not empty");
    let near = alloc(&mutator, 1000, 1, 1).expect("room");
    near.set(&mutator, 0, Some(last_of_it));
    let _near = mutator.root(near);
    mutator.collect(Kind::Minor);
    go_away(&heap, &mut mutator);
    // The first two of the list, the other root and the end of the list.
    assert_eq!(last(&heap).grouped_objects, [4, 0, 47]);
}

#[test]
fn young_objects_are_launch_objects() {
    let heap = heap(8 * MIB, Collector::Fleet(paper()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let old = list(&mutator, 0, 30, 4);
    mutator.collect(Kind::Minor);
    let young = list(&mutator, 100, 20, 4);
    go_away(&heap, &mut mutator);
    assert_eq!(last(&heap).grouped_objects, [2 + 20, 0, 28]);
    assert_eq!(walk(&mutator, &old, 0, 4).len(), 30);
    assert_eq!(walk(&mutator, &young, 100, 4).len(), 20);
    let [launch, working_set, cold] = heap.stats().grouped_bytes;
    assert_eq!((launch, working_set, cold), (REGION_BYTES, 0, REGION_BYTES));
}

#[test]
fn as_many_bytes_as_asked_for_are_launch_objects() {
    let config = FleetConfig {
        launch_depth: LaunchDepth::Bytes(64 << 10),
        ..paper()
    };
    let heap = heap(8 * MIB, Collector::Fleet(config));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let _list = list(&mutator, 0, 500, 252); // 1032 bytes each: header, shape, one reference
    mutator.collect(Kind::Minor);
    go_away(&heap, &mut mutator);
    let report = last(&heap);
    let [launch, _, cold] = report.grouped_bytes;
    assert!((64 << 10..66 << 10).contains(&launch), "{launch} bytes");
    assert_eq!(report.grouped_objects.iter().sum::<u64>(), 500);
    assert!(cold > launch);
}

#[test]
fn what_a_mutator_loads_meanwhile_is_the_working_set() {
    let heap = heap(64 * MIB, Collector::Fleet(paper()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let lists: Vec<_> = (0..40)
        .map(|i| list(&mutator, i * 1000, 1000, 20))
        .collect();
    mutator.collect(Kind::Minor);
    // Whether collector or mutator is first is chance: some attempts.
    for _ in 0..200 {
        heap.background();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                heap.expire_timer();
                is_done.store(true, Ordering::Release);
            });
            while !is_done.load(Ordering::Acquire) {
                mutator.safepoint();
                walk(&mutator, &lists[39], 39_000, 20);
            }
            mutator.safepoint();
        });
        let report = last(&heap);
        let [_, working_set, _] = report.grouped_objects;
        let shared = report.mutator_objects;
        assert_eq!(
            working_set, 0,
            "the collector's own copies are no working set"
        );
        if shared > 0 {
            assert!(heap.stats().grouped_bytes[1] > 0);
            for (i, list) in lists.iter().enumerate() {
                assert_eq!(walk(&mutator, list, i * 1000, 20).len(), 1000);
            }
            mutator.check().expect("the heap's invariants");
            return;
        }
    }
    panic!("the mutator was never first");
}

#[test]
fn what_a_launch_accessed_is_put_into_launch_regions_in_this_order() {
    let heap = heap(16 * MIB, Collector::Fleet(fleet()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let lists: Vec<_> = (0..4).map(|i| list(&mutator, i * 100, 100, 20)).collect();
    mutator.collect(Kind::Minor);
    go_away(&heap, &mut mutator);
    assert_eq!(last(&heap).grouped_objects, [8, 0, 392]);
    // The launch reads the third list, then the first, to its 50th element.
    heap.foreground();
    let mut accessed = Vec::new();
    for i in [2, 0] {
        let mut record = lists[i].get(&mutator);
        for number in 0..50 {
            check(&mutator, record, i * 100 + number, (1, 20));
            accessed.push(i * 100 + number);
            record = record.get(&mutator, 0).expect("100 of them");
        }
        accessed.push(i * 100 + 50); // loaded, if not read
    }
    heap.launch_done();
    go_away(&heap, &mut mutator);
    let report = last(&heap);
    // 102 learned, and the first two of the other lists.
    assert_eq!(report.grouped_objects, [106, 0, 294]);
    let mut order = Vec::new();
    for (i, list) in lists.iter().enumerate() {
        for (k, record) in walk(&mutator, list, i * 100, 20).into_iter().enumerate() {
            order.push((address(record), i * 100 + k));
        }
    }
    order.sort_unstable();
    let mut learned = order
        .iter()
        .map(|&(_, number)| number)
        .filter(|n| accessed.contains(n));
    let first: Vec<_> = learned.by_ref().collect();
    assert_eq!(first, accessed, "they lie in the order of access");
    let place = |number| {
        order
            .iter()
            .find(|&&(_, n)| n == number)
            .expect("all are there")
            .0
    };
    let bytes = place(accessed[101]) - place(accessed[0]);
    assert!(bytes < 102 * 120, "close together: {bytes} bytes");
}

#[test]
fn large_objects_are_grouped_where_they_are() {
    const LARGE: usize = 100 << 10;
    let heap = heap(32 * MIB, Collector::Fleet(fleet()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    // Near a root; at the end of a list; at the end of another, young.
    let near = mutator.alloc_record(0, LARGE).expect("room");
    let _near = mutator.root(near);
    let lists = [0, 100].map(|first| list(&mutator, first, 5, 1));
    let put_behind = |mutator: &Mutator, list: &Root<Record>| {
        let large = mutator.alloc_record(0, LARGE).expect("room");
        end_of(mutator, list, 4).set(mutator, 0, Some(large));
    };
    put_behind(&mutator, &lists[0]);
    mutator.collect(Kind::Minor);
    put_behind(&mutator, &lists[1]);
    go_away(&heap, &mut mutator);
    assert_eq!(last(&heap).grouped_objects, [1 + 4 + 1, 0, 6 + 1]);
    let [launch, _, cold] = heap.stats().grouped_bytes;
    assert_eq!((launch, cold), (3 * REGION_BYTES, 2 * REGION_BYTES));
    // A launch accesses the cold one, which is a launch object from then on; the young one is old by then.
    heap.foreground();
    let _ = end_of(&mutator, &lists[0], 5).shape(&mutator);
    heap.launch_done();
    go_away(&heap, &mut mutator);
    assert_eq!(last(&heap).grouped_objects, [1 + 5 + 1 + 2, 0, 3 + 1]);
    let [launch, _, cold] = heap.stats().grouped_bytes;
    assert_eq!((launch, cold), (3 * REGION_BYTES, 2 * REGION_BYTES));
    mutator.check().expect("the heap's invariants");
}

// ---- background collections (section 5.2) ----

#[test]
fn a_background_collection_reads_no_foreground_object() {
    for guided_swap in [true, false] {
        let config = FleetConfig {
            guided_swap,
            ..paper()
        };
        let heap = heap(32 * MIB, Collector::Fleet(config));
        let mut mutator = heap.mutator().expect("the first of this thread");
        let foreground = list(&mutator, 0, 20_000, 20);
        go_away(&heap, &mut mutator);
        let separating = if guided_swap {
            Kind::Grouping
        } else {
            Kind::Separating
        };
        assert_eq!(last(&heap).kind, separating);
        assert_eq!(mutator.check().expect("sound").reachable_foreground, 20_000);
        let background = list(&mutator, 30_000, 500, 20);
        let _garbage = list(&mutator, 40_000, 20_000, 20);
        drop(_garbage);
        let used = heap.stats().used_bytes;
        mutator.collect(Kind::Background);
        let report = last(&heap);
        assert_eq!((report.copied_objects, report.marked_objects), (500, 0));
        assert_eq!((report.card_objects, report.dirty_cards), (0, 0));
        assert_eq!(report.touched_objects(), 500);
        // Two megabytes are garbage.
        assert!(heap.stats().used_bytes + 5 * REGION_BYTES < used);
        assert_eq!(walk(&mutator, &foreground, 0, 20).len(), 20_000);
        assert_eq!(walk(&mutator, &background, 30_000, 20).len(), 500);
    }
}

#[test]
fn a_background_object_that_a_foreground_object_refers_to_survives() {
    let heap = heap(16 * MIB, Collector::Fleet(paper()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let foreground = list(&mutator, 0, 5000, 20);
    go_away(&heap, &mut mutator);
    let reader = |mutator: &Mutator| {
        let all = walk(mutator, &foreground, 0, 20);
        all.len()
    };
    // The last one refers to a list of background objects, which nothing else knows.
    let background = list(&mutator, 9000, 10, 20);
    let end = *walk(&mutator, &foreground, 0, 20)
        .last()
        .expect("not empty");
    end.set(&mutator, 0, Some(background.get(&mutator)));
    drop(background);
    for round in 0..3 {
        mutator.collect(Kind::Background);
        let report = last(&heap);
        assert_eq!(report.dirty_cards, 1, "round {round}");
        assert_eq!(report.copied_objects, 10);
        assert!(
            report.card_objects <= 1024 / 96 + 2,
            "{} objects",
            report.card_objects
        );
        mutator.check().expect("the heap's invariants");
        let kept = end_of(&mutator, &foreground, 4999)
            .get(&mutator, 0)
            .expect("it survives");
        let kept = mutator.root(kept);
        assert_eq!(walk(&mutator, &kept, 9000, 20).len(), 10);
    }
    // Without it the objects go, the card is clean, and stays so.
    end_of(&mutator, &foreground, 4999).set(&mutator, 0, None);
    mutator.collect(Kind::Background);
    assert_eq!(
        (last(&heap).dirty_cards, last(&heap).copied_objects),
        (1, 0)
    );
    mutator.collect(Kind::Background);
    assert_eq!((last(&heap).dirty_cards, last(&heap).card_objects), (0, 0));
    assert_eq!(reader(&mutator), 5000);
}

fn end_of<'m>(mutator: &'m Mutator, list: &Root<Record>, steps: usize) -> Ref<'m, Record> {
    let mut record = list.get(mutator);
    for _ in 0..steps {
        record = record.get(mutator, 0).expect("as long as that");
    }
    record
}

#[test]
fn a_card_is_cleaned_with_other_collections_in_between() {
    let heap = heap(16 * MIB, Collector::Fleet(paper()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let foreground = alloc(&mutator, 1, 3, 10).expect("room");
    let foreground = mutator.root(foreground);
    go_away(&heap, &mut mutator);
    let background = alloc(&mutator, 2, 0, 10).expect("room");
    foreground.get(&mutator).set(&mutator, 2, Some(background));
    for kind in [
        Kind::Minor,
        Kind::Background,
        Kind::Minor,
        Kind::Major,
        Kind::Background,
        Kind::Minor,
    ] {
        mutator.collect(kind);
        mutator.check().expect("the heap's invariants");
        let background = foreground
            .get(&mutator)
            .get(&mutator, 2)
            .expect("it survives");
        check(&mutator, background, 2, (0, 10));
    }
    mutator.collect(Kind::Separating);
    mutator.collect(Kind::Background);
    assert_eq!(
        last(&heap).copied_objects,
        0,
        "it is a foreground object now"
    );
    mutator.collect(Kind::Background);
    assert_eq!(last(&heap).dirty_cards, 0);
}

#[test]
fn garbage_among_foreground_objects_is_looked_for_in_the_last_resort() {
    let heap = heap(16 * MIB, Collector::Fleet(paper()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let foreground = list(&mutator, 0, 130_000, 20); // 13.5 MB
    go_away(&heap, &mut mutator);
    drop(foreground);
    mutator.collect(Kind::Background);
    let before = heap.stats();
    assert!(
        before.used_bytes > 12 * MIB,
        "a background collection leaves foreground garbage"
    );
    // More than the heap has room for beside that garbage.
    let mut kept = Vec::new();
    for number in 0..40_000 {
        let record = loop {
            match alloc(&mutator, number, 0, 20) {
                Ok(record) => break record,
                Err(error) => assert!(heap.stats().collections < 10_000, "{error}"),
            }
            mutator.safepoint();
        };
        kept.push((number, mutator.root(record)));
        mutator.safepoint();
    }
    mutator.blocking(|| heap.settle());
    let stats = heap.stats();
    assert!(
        stats
            .reports
            .iter()
            .any(|report| report.kind == Kind::Major)
    );
    assert!(stats.used_bytes < 8 * MIB, "{} bytes", stats.used_bytes);
    for (number, root) in &kept {
        check(&mutator, root.get(&mutator), *number, (0, 20));
    }
}

#[test]
fn cold_regions_that_the_last_resort_has_read_are_sent_away_again() {
    let config = HeapConfig::new(16 * MIB).with(Collector::Fleet(paper()));
    let (memory, advised) = advised_memory(config);
    let heap = Heap::new(memory, config).expect("a heap");
    let mut mutator = heap.mutator().expect("the first of this thread");
    let foreground = list(&mutator, 0, 150_000, 20); // 15.6 MB
    mutator.collect(Kind::Minor);
    go_away(&heap, &mut mutator);
    let cold = || advised.cold.load(Ordering::Relaxed);
    let first = cold();
    assert!(first > 3000, "{first} pages");
    mutator.collect(Kind::Background);
    let reports = heap.stats().reports;
    let [.., background, resort] = &reports[..] else {
        panic!("{} collections", reports.len())
    };
    assert_eq!(background.kind, Kind::Background);
    assert_eq!(
        (resort.kind, resort.cause),
        (Kind::Major, Cause::LastResort)
    );
    assert!(cold() >= 2 * first - 64, "{first}, then {} pages", cold());
    assert_eq!(walk(&mutator, &foreground, 0, 20).len(), 150_000);
}

// ---- the stages (section 5.1) ----

#[test]
fn grouping_is_the_first_collection_in_the_background_also_when_the_limit_asks_for_it() {
    let heap = heap(64 * MIB, Collector::Fleet(paper()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let _old = list(&mutator, 0, 1000, 20);
    mutator.collect(Kind::Minor);
    let young = list(&mutator, 2000, 500, 20);
    let before = heap.stats().collections as usize;
    heap.background();
    for number in 0..60_000 {
        alloc(&mutator, number, 0, 20).expect("room");
        mutator.safepoint();
    }
    mutator.blocking(|| heap.settle());
    let reports = heap.stats().reports;
    let first = &reports[before];
    assert_eq!((first.kind, first.cause), (Kind::Grouping, Cause::Limit));
    // The young list, and what is near the roots of the other.
    assert!(first.grouped_objects[0] >= 502, "{first:?}");
    let groupings = reports
        .iter()
        .filter(|report| report.kind == Kind::Grouping);
    assert_eq!(groupings.count(), 1);
    assert_eq!(walk(&mutator, &young, 2000, 20).len(), 500);
}

/// Table 2, and the period of advice, which the paper does not give.
#[test]
fn fleet_begins_after_ten_seconds_advises_every_five_and_ends_after_three() {
    let config = HeapConfig::new(4 * MIB).with(Collector::Fleet(FleetConfig::paper()));
    let (memory, advised) = advised_memory(config);
    let clock = Arc::new(SetClock::default());
    let heap = Heap::with_clock(memory, config, Arc::<SetClock>::clone(&clock)).expect("a heap");
    let mut mutator = heap.mutator().expect("the first of this thread");
    let _list = list(&mutator, 0, 10, 1);
    // Collections, advice to launch pages, bytes of foreground regions.
    let mut at_ms = |ms| {
        clock.set_ms(ms);
        mutator.blocking(|| heap.clock_changed());
        let stats = heap.stats();
        let hot = advised.hot.load(Ordering::Relaxed);
        (stats.collections, hot, stats.foreground_bytes)
    };
    heap.background();
    assert_eq!(at_ms(0), (0, 0, 0));
    assert_eq!(at_ms(9_999), (0, 0, 0));
    assert_eq!(at_ms(10_000), (1, 1, REGION_BYTES));
    assert_eq!(at_ms(14_999), (1, 1, REGION_BYTES));
    assert_eq!(at_ms(15_000), (1, 2, REGION_BYTES));
    assert_eq!(at_ms(20_000), (1, 3, REGION_BYTES));
    heap.foreground();
    assert_eq!(at_ms(20_000), (1, 3, REGION_BYTES));
    assert_eq!(at_ms(22_999), (1, 3, REGION_BYTES));
    assert_eq!(at_ms(23_000), (1, 3, 0));
    assert_eq!(at_ms(90_000), (1, 3, 0));
}

#[test]
fn coming_back_before_the_wait_is_over_groups_nothing() {
    let heap = heap(4 * MIB, Collector::Fleet(paper()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let _list = list(&mutator, 0, 10, 1);
    heap.launch_done(); // without a launch
    heap.background();
    heap.foreground();
    mutator.blocking(|| heap.expire_timer());
    assert_eq!(heap.stats().collections, 0);
    heap.foreground();
    heap.launch_done();
    heap.launch_done();
    mutator.blocking(|| heap.expire_timer());
    assert_eq!(
        (heap.stats().collections, heap.stats().foreground_bytes),
        (0, 0)
    );
    heap.background();
    heap.background();
    mutator.blocking(|| heap.expire_timer());
    assert_eq!(heap.stats().collections, 1);
    mutator.blocking(|| heap.expire_timer()); // advice only
    assert_eq!(heap.stats().collections, 1);
    heap.foreground();
    assert!(heap.stats().foreground_bytes > 0);
    mutator.blocking(|| heap.expire_timer());
    assert_eq!(heap.stats().foreground_bytes, 0);
    mutator.blocking(|| heap.expire_timer()); // nothing left to expire
    assert_eq!(heap.stats().collections, 1);
}

#[test]
fn a_native_heap_is_collected_once_in_the_background() {
    let config = HeapConfig {
        background_collection_wait: Some(std::time::Duration::from_secs(1 << 20)),
        ..HeapConfig::new(4 * MIB)
    };
    let heap = heap_of(config);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let _list = list(&mutator, 0, 10, 1);
    heap.background();
    for _ in 0..3 {
        mutator.blocking(|| heap.expire_timer());
    }
    let kinds: Vec<_> = heap
        .stats()
        .reports
        .iter()
        .map(|report| report.kind)
        .collect();
    assert_eq!(kinds, [Kind::Major]);
}

#[test]
fn little_change_needs_no_new_grouping() {
    let config = FleetConfig {
        regroup_percent: 10,
        ..paper()
    };
    let heap = heap(32 * MIB, Collector::Fleet(config));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let _list = list(&mutator, 0, 100_000, 20);
    go_away(&heap, &mut mutator);
    heap.foreground();
    go_away(&heap, &mut mutator);
    heap.foreground();
    let _more = list(&mutator, 200_000, 20_000, 20);
    go_away(&heap, &mut mutator);
    let kinds: Vec<_> = heap
        .stats()
        .reports
        .iter()
        .map(|report| report.kind)
        .collect();
    let of_grouping: Vec<_> = kinds
        .into_iter()
        .filter(|kind| matches!(kind, Kind::Grouping | Kind::Separating))
        .collect();
    assert_eq!(
        of_grouping,
        [Kind::Grouping, Kind::Separating, Kind::Grouping]
    );
}

// ---- limits ----

/// Collections that a launch of so many kilobytes of new objects begins, and their kinds.
fn launch_after_the_background(launch_raises_limit: bool, collector: Collector) -> Vec<Kind> {
    let config = HeapConfig {
        launch_raises_limit,
        background_collection_wait: Some(crate::common::NEVER),
        ..HeapConfig::new(64 * MIB).with(collector)
    };
    let heap = heap_of(config);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let _list = list(&mutator, 0, 100_000, 20);
    go_away(&heap, &mut mutator);
    heap.foreground();
    mutator.blocking(|| heap.settle());
    for number in 0..30_000 {
        alloc(&mutator, number, 0, 20).expect("room");
        mutator.safepoint();
    }
    mutator.blocking(|| heap.settle());
    let stats = heap.stats();
    let in_launch = stats.reports.iter().filter(|report| report.in_launch);
    let kinds_and_causes = in_launch.map(|report| (report.kind, report.cause));
    let (kinds, causes): (Vec<_>, Vec<_>) = kinds_and_causes.unzip();
    assert_eq!(stats.launch_collections, kinds.len() as u64);
    assert!(causes.iter().all(|&cause| cause == Cause::Limit));
    kinds
}

#[test]
fn a_launch_begins_a_collection_where_the_limit_of_the_background_stays() {
    let collectors = [Collector::Native, Collector::Fleet(paper())];
    for collector in collectors {
        assert_eq!(launch_after_the_background(true, collector), []);
        let kinds = launch_after_the_background(false, collector);
        assert_eq!(kinds.first(), Some(&Kind::Minor), "{collector:?}");
    }
}

#[test]
fn the_limit_asks_for_minor_collections_first_and_for_major_ones_when_these_do_not_help() {
    let heap = heap(64 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut kept: Vec<Root<Bytes>> = Vec::new();
    // All survives, until it does not.
    for i in 0..40_000 {
        let bytes = mutator.alloc_bytes(&[9; 1000]).expect("room");
        kept.push(mutator.root(bytes));
        if i % 10_000 == 9999 {
            kept.clear();
        }
        mutator.safepoint();
    }
    mutator.blocking(|| heap.settle());
    let reports = heap.stats().reports;
    assert_eq!(reports[0].kind, Kind::Minor);
    assert!(reports.iter().any(|report| report.kind == Kind::Major));
    let is_major = |report: &CollectionReport| report.kind == Kind::Major;
    assert!(
        reports
            .windows(2)
            .all(|two| !(is_major(&two[0]) && is_major(&two[1])))
    );
    let most = reports.iter().map(|report| report.used_bytes).max();
    assert!(
        most < Some(40 << 20),
        "garbage is collected before it is three times what lives"
    );
}
