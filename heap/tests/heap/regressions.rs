//! What once went wrong, and must not again: each test names what it was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::{MIB, fleet, heap, heap_of, marvin};
use warmswap_heap::{
    AllocError, Collector, Field, FleetConfig, Heap, HeapConfig, KernelMemory, Kind, LARGE_BYTES,
    Mutator, REGION_BYTES, Record, Ref, Root, object,
};

object! {
    struct Element {
        value: u64,
        next: Field<Element>,
    }

    struct Empty {}
}

/// Where an object is.
fn place<T: warmswap_heap::Managed>(object: Ref<'_, T>) -> String {
    format!("{object:?}")
}

/// A field outside the heap was set by `compare_and_set`, since an empty one was not checked: moved into an object
/// later, it referred to where the object had been.
#[test]
fn a_field_on_the_stack_cannot_be_set_by_any_means() {
    let heap = heap(MIB, Collector::Native);
    let mutator = heap.mutator().expect("the first of this thread");
    let object = mutator
        .alloc(Element {
            value: 1,
            next: Field::null(),
        })
        .expect("room");
    let field = Field::null();
    let set = catch_unwind(AssertUnwindSafe(|| {
        field.compare_and_set(&mutator, None, Some(object))
    }));
    assert!(set.is_err());
    let set = catch_unwind(AssertUnwindSafe(|| field.set(&mutator, Some(object))));
    assert!(set.is_err());
    assert!(field.is_null());
}

/// The same for a field of another heap, empty or not.
#[test]
fn a_field_of_another_heap_cannot_be_used() {
    let (one, two) = (heap(MIB, Collector::Native), heap(MIB, Collector::Native));
    let (m1, m2) = (one.mutator().expect("one"), two.mutator().expect("two"));
    let new = || Element {
        value: 1,
        next: Field::null(),
    };
    let (a, b) = (
        m1.alloc(new()).expect("room"),
        m2.alloc(new()).expect("room"),
    );
    let panics = |run: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    panics(&|| {
        a.next.compare_and_set(&m2, None, Some(b));
    });
    panics(&|| a.next.set(&m2, Some(b)));
    panics(&|| a.next.set(&m1, Some(b)));
    panics(&|| drop(m2.root(a)));
    panics(&|| drop(m1.weak(b)));
    panics(&|| m1.finaliser(b, || {}));
    a.next.set(&m1, Some(a));
    panics(&|| {
        a.next.get(&m2);
    });
    let root = m1.root(a);
    panics(&|| {
        let _ = root.get(&m2);
    });
}

/// An array above the size limit for moved objects was put in the rest of an ordinary region, and moved.
#[test]
fn large_objects_stay_where_they_are() {
    let heap = heap(16 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let _ = mutator.alloc_bytes(b"begins a region").expect("room");
    let large = mutator.alloc_bytes(&vec![7; LARGE_BYTES]).expect("room");
    let before = place(large);
    let large = mutator.root(large);
    for kind in [Kind::Minor, Kind::Major, Kind::Background, Kind::Grouping] {
        mutator.collect(kind);
        assert_eq!(place(large.get(&mutator)), before);
    }
    let largest_moved = mutator
        .alloc_bytes(&vec![7; LARGE_BYTES - 8])
        .expect("room");
    let before = place(largest_moved);
    let largest_moved = mutator.root(largest_moved);
    mutator.collect(Kind::Minor);
    assert_ne!(place(largest_moved.get(&mutator)), before);
}

/// Old regions with little in them counted as dense, since what was used of them was live: each minor collection left
/// one more until the heap was full of nothing.
#[test]
fn sparse_regions_are_compacted() {
    let heap = heap(8 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut kept = Vec::new();
    for i in 0..200 {
        let element = Element {
            value: i,
            next: Field::null(),
        };
        match mutator.alloc(element) {
            Ok(element) => kept.push(mutator.root(element)),
            Err(AllocError::Full { .. }) => panic!("full after {i} objects"),
            Err(error) => panic!("{error}"),
        }
        mutator.collect(if i % 20 == 19 {
            Kind::Major
        } else {
            Kind::Minor
        });
    }
    mutator.collect(Kind::Major);
    assert!(heap.stats().used_bytes <= 3 * REGION_BYTES);
    for (i, root) in kept.iter().enumerate() {
        assert_eq!(root.get(&mutator).value, i as u64);
    }
}

/// A heap whose live part is more than half of it found its limit above its size: it was full of garbage, and no
/// collection was ever asked for.
#[test]
fn a_heap_that_is_more_than_half_full_collects_by_itself() {
    for live in [20, 55, 75] {
        let heap = heap(16 * MIB, Collector::Native);
        let mut mutator = heap.mutator().expect("the first of this thread");
        let keep = |mutator: &Mutator| {
            let bytes = mutator.alloc_bytes(&[1; 4000]).expect("room");
            mutator.root(bytes)
        };
        let mut kept: Vec<Root<_>> = Vec::new();
        for i in 0..100_000 {
            if kept.len() < live * 16 * MIB / 100 / 4008 {
                kept.push(keep(&mutator));
            } else if let Err(error) = mutator.alloc_bytes(&[2; 4000]) {
                panic!("{live} % live, object {i}: {error}");
            }
            mutator.safepoint();
        }
        assert!(heap.stats().collections > 0);
    }
}

/// The copies of a collection that ran counted against the heap's size, beside what they were copies of: threads
/// waited, or found the heap full, for as long as it ran.
#[test]
fn mutators_have_the_whole_heap_while_a_collection_runs() {
    let heap = heap(32 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut kept = Vec::new();
    for _ in 0..20 * MIB / 1008 {
        let bytes = mutator.alloc_bytes(&[4; 1000]).expect("room");
        kept.push(mutator.root(bytes));
    }
    for kind in [Kind::Background, Kind::Grouping] {
        let is_done = AtomicUsize::new(0);
        mutator.blocking(|| {
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    heap.collect(kind).expect("no mutator here");
                    is_done.store(1, Ordering::Release);
                });
                threads.spawn(|| {
                    let mut mutator = heap.mutator().expect("the first of this thread");
                    // 8 MiB of garbage and 20 of live objects fit.
                    for i in 0..8 * MIB / 1008 {
                        let bytes = mutator.alloc_bytes(&[4; 1000]);
                        assert!(bytes.is_ok(), "object {i}: {bytes:?}");
                        mutator.safepoint();
                    }
                });
            });
        });
        assert_eq!(is_done.load(Ordering::Acquire), 1);
        mutator.collect(Kind::Major);
    }
}

/// What asks for more than there is may ask again after a safepoint: a collection has run.
#[test]
fn a_full_heap_has_room_after_a_safepoint() {
    let heap = heap(2 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    for _ in 0..3 {
        let mut count = 0;
        while mutator.alloc_bytes(&[3; 1000]).is_ok() {
            count += 1;
        }
        assert!(count > 1000, "{count}");
        for _ in 0..3 {
            mutator.safepoint();
        }
    }
}

/// Copies can take a third more room than what they are copies of, and so can copies of these: there was none left,
/// and the process ended.
#[test]
fn there_is_room_for_every_copy_however_it_packs() {
    let heap = heap(48 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    // Four to a region as they are allocated; three and a small one as they are copied.
    let big = |mutator: &Mutator| {
        let bytes = mutator.alloc_bytes(&vec![1; LARGE_BYTES - 8]).ok()?;
        Some(mutator.root(bytes))
    };
    object! {
        struct Node {
            next: Field<Node>,
            bytes: [Field<warmswap_heap::Bytes>; 3],
        }
    }
    let mut bigs = Vec::new();
    while let Some(root) = big(&mutator) {
        bigs.push(root);
        // All of this is live: a collection would only cost time.
        if bigs.len() >= (48 * MIB - 4 * REGION_BYTES) / LARGE_BYTES {
            break;
        }
    }
    let mut head: Option<Root<Node>> = None;
    for three in bigs.chunks_exact(3) {
        let node = Node {
            next: Field::null(),
            bytes: Default::default(),
        };
        let node = mutator.alloc(node).expect("room");
        for (field, bytes) in node.bytes.iter().zip(three) {
            field.set(&mutator, Some(bytes.get(&mutator)));
        }
        node.next
            .set(&mutator, head.as_ref().map(|head| head.get(&mutator)));
        head = Some(mutator.root(node));
    }
    let nodes = bigs.len() / 3;
    drop(bigs);
    for kind in [
        Kind::Background,
        Kind::Grouping,
        Kind::Background,
        Kind::Grouping,
        Kind::Major,
    ] {
        mutator.collect(kind);
        let checked = mutator.check().expect("the heap's invariants");
        assert_eq!(checked.reachable, 4 * nodes);
    }
}

/// The room that is kept for learned objects came out of what copies need.
#[test]
fn there_is_room_for_copies_beside_the_room_for_learned_objects() {
    let fleet = FleetConfig {
        learned_launches: true,
        ..fleet()
    };
    let heap = heap(48 * MIB, Collector::Fleet(fleet));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut kept = Vec::new();
    while let Ok(bytes) = mutator.alloc_bytes(&[5; 1000]) {
        kept.push(mutator.root(bytes));
    }
    for _ in 0..2 {
        heap.background();
        mutator.blocking(|| heap.expire_timer());
        heap.foreground();
        // All of it is accessed in the launch, and again while it is grouped.
        for root in &kept {
            assert_eq!(root.get(&mutator).bytes(&mutator)[0], 5);
        }
        heap.launch_done();
        heap.background();
        let done = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|threads| {
            let (heap, seen) = (&heap, Arc::clone(&done));
            threads.spawn(move || {
                heap.expire_timer();
                seen.store(1, Ordering::Release);
            });
            while done.load(Ordering::Acquire) == 0 {
                for root in kept.iter().rev() {
                    assert_eq!(root.get(&mutator).bytes(&mutator)[999], 5);
                }
                mutator.safepoint();
            }
            mutator.blocking(|| {});
        });
    }
    mutator.check().expect("the heap's invariants");
}

/// A minor collection changed the references of a written object in its place, and not those of its bookmark: brought
/// back, it referred to where the young object had been.
#[test]
fn a_bookmark_of_a_written_object_follows_young_objects() {
    let heap = heap(8 * MIB, Collector::Marvin(marvin()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let old = mutator.alloc_record(2, 4000).expect("room");
    let old = mutator.root(old);
    heap.background();
    mutator.blocking(|| heap.expire_timer());
    let young = mutator.alloc_record(0, 8).expect("room");
    young.data(&mutator)[0].store(77, Ordering::Relaxed);
    old.get(&mutator).set(&mutator, 1, Some(young));
    for _ in 0..3 {
        mutator.blocking(|| heap.expire_timer());
    }
    assert_eq!(heap.stats().bookmarks, 1);
    for kind in [Kind::Minor, Kind::Major] {
        mutator.collect(kind);
        // Where the young object was is used for something else.
        for _ in 0..2000 {
            let _ = mutator.alloc_record(0, 120).expect("room");
        }
        mutator.check().expect("the heap's invariants");
    }
    let young = old.get(&mutator).get(&mutator, 1).expect("it was set");
    assert_eq!(young.data(&mutator)[0].load(Ordering::Relaxed), 77);
    assert_eq!(heap.stats().bookmarks, 0);
}

/// A finaliser that collects waited for its own thread; one that drops the heap joined it.
#[test]
fn finalisers_may_use_the_heap() {
    let heap = Arc::new(Mutex::new(Some(heap(4 * MIB, Collector::Native))));
    let (told, tells) = mpsc::channel();
    let mut mutator = {
        let heap = heap.lock().expect("not poisoned");
        heap.as_ref()
            .expect("not dropped")
            .mutator()
            .expect("the first")
    };
    let shared = Arc::clone(&heap);
    let collects = told.clone();
    let bytes = mutator.alloc_bytes(b"one").expect("room");
    mutator.finaliser(bytes, move || {
        let heap = shared.lock().expect("not poisoned");
        let heap = heap.as_ref().expect("not dropped");
        heap.collect(Kind::Major).expect("no mutator here");
        heap.settle();
        heap.expire_timer();
        let mut own = heap.mutator().expect("the first of the collector's thread");
        let kept = own.alloc_bytes(b"in a finaliser").expect("room");
        let kept = own.root(kept);
        own.safepoint();
        own.collect(Kind::Minor);
        assert_eq!(kept.get(&own).bytes(&own), b"in a finaliser");
        collects.send("collected").expect("the test waits");
    });
    mutator.collect(Kind::Minor);
    assert_eq!(tells.recv(), Ok("collected"));
    let bytes = mutator.alloc_bytes(b"two").expect("room");
    let shared = Arc::clone(&heap);
    mutator.finaliser(bytes, move || {
        drop(shared.lock().expect("not poisoned").take());
        told.send("dropped").expect("the test waits");
    });
    mutator.collect(Kind::Minor);
    assert_eq!(tells.recv(), Ok("dropped"));
    let alone = mutator.alloc_bytes(b"alone").expect("the memory is there");
    let alone = mutator.root(alone);
    mutator.safepoint();
    mutator.collect(Kind::Major);
    assert_eq!(alone.get(&mutator).bytes(&mutator), b"alone");
}

/// A heap that was dropped before its mutator waited for the collector, which waited for the mutator.
#[test]
fn a_heap_can_be_dropped_before_its_mutator() {
    for _ in 0..20 {
        let heap = heap(4 * MIB, Collector::Native);
        let mut mutator = heap.mutator().expect("the first of this thread");
        let kept = mutator.alloc_bytes(b"kept").expect("room");
        let kept = mutator.root(kept);
        heap.background();
        while heap.stats().collections == 0 && mutator.alloc_bytes(&[0; 1000]).is_ok() {}
        drop(heap);
        mutator.safepoint();
        assert_eq!(kept.get(&mutator).bytes(&mutator), b"kept");
    }
}

/// Objects stayed told apart, and accesses noted, for as long as the application stayed in the foreground.
#[test]
fn coming_and_going_fast_ends_in_the_foreground() {
    let heap = heap(8 * MIB, Collector::Fleet(fleet()));
    let ways: [&dyn Fn(); 3] = [
        &|| heap.foreground(),
        &|| (heap.background(), heap.foreground()).1,
        &|| (heap.background(), heap.background(), heap.foreground()).2,
    ];
    for come_again in ways {
        let mut mutator = heap.mutator().expect("the first of this thread");
        let bytes = mutator.alloc_bytes(b"kept").expect("room");
        let _root = mutator.root(bytes);
        heap.background();
        mutator.blocking(|| heap.expire_timer());
        assert!(heap.stats().foreground_bytes > 0);
        heap.foreground();
        come_again();
        mutator.blocking(|| heap.expire_timer());
        assert_eq!(heap.stats().foreground_bytes, 0);
    }
}

/// A factor without limit overflowed where the limit was computed.
#[test]
fn an_infinite_factor_is_no_limit() {
    let config = HeapConfig {
        foreground_factor: f64::INFINITY,
        background_factor: 1e300,
        ..HeapConfig::new(2 * MIB)
    };
    let heap = heap_of(config);
    let mut mutator = heap.mutator().expect("the first of this thread");
    for _ in 0..3 {
        while mutator.alloc_bytes(&[3; 1000]).is_ok() {}
        mutator.collect(Kind::Minor);
        mutator.collect(Kind::Major);
        heap.background();
        mutator.blocking(|| heap.settle());
    }
}

/// An array with many dirty cards was walked as a whole for each of them.
#[test]
fn dirty_cards_of_a_large_array_are_looked_at_alone() {
    const LEN: usize = 4 << 20;
    let heap = heap(64 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let array = mutator.alloc_refs::<Element>(LEN).expect("room");
    let array = mutator.root(array);
    mutator.collect(Kind::Major);
    for i in (0..LEN).step_by(256) {
        let element = Element {
            value: i as u64,
            next: Field::null(),
        };
        let element = mutator.alloc(element).expect("room");
        array.get(&mutator).set(&mutator, i, Some(element));
    }
    // 16,384 cards of 256 references each; 16,384 times 4 million took minutes.
    mutator.collect(Kind::Minor);
    let dirty: u64 = heap
        .stats()
        .reports
        .iter()
        .map(|report| report.dirty_cards)
        .sum();
    assert!(dirty >= LEN as u64 / 256, "{dirty} cards");
    let now = array.get(&mutator);
    for i in (0..LEN).step_by(256) {
        assert_eq!(now.get(&mutator, i).expect("set").value, i as u64);
    }
}

/// Objects without content, as many as fit a region: the last one's content begins in the next.
#[test]
fn objects_without_content_are_objects() {
    let heap = heap(MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut roots = Vec::new();
    for _ in 0..REGION_BYTES / 8 + 1 {
        let empty = mutator.alloc(Empty {}).expect("room");
        if roots.len() < 100 {
            roots.push(mutator.root(empty));
        }
        let _ = mutator.weak(empty);
    }
    let none = mutator.alloc_refs::<Empty>(0).expect("room");
    assert!(none.is_empty(&mutator));
    let (none, nothing) = (mutator.root(none), mutator.alloc_bytes(b"").expect("room"));
    assert!(nothing.bytes(&mutator).is_empty());
    let shapeless = mutator.alloc_record(0, 0).expect("room");
    assert_eq!(shapeless.shape(&mutator), (0, 0));
    let nothing = mutator.root(nothing);
    for kind in [Kind::Minor, Kind::Major, Kind::Grouping] {
        mutator.collect(kind);
        mutator.check().expect("the heap's invariants");
    }
    assert_eq!(none.get(&mutator).len(&mutator), 0);
    assert_eq!(nothing.get(&mutator).bytes(&mutator), b"");
    let all: std::collections::HashSet<_> =
        roots.iter().map(|root| place(root.get(&mutator))).collect();
    assert_eq!(all.len(), roots.len(), "they are different objects");
}

/// The timer did not expire while there was always another command.
#[test]
fn commands_do_not_keep_the_timer_from_expiring() {
    let config = HeapConfig {
        background_collection_wait: Some(Duration::from_millis(1)),
        ..HeapConfig::new(MIB)
    };
    let heap: Heap = heap_of(config);
    let is_done = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while is_done.load(Ordering::Relaxed) == 0 {
                    heap.collect(Kind::Minor).expect("no mutator here");
                }
            });
        }
        heap.background();
        let is_major = |heap: &Heap| {
            let reports = heap.stats().reports;
            reports.iter().any(|report| report.kind == Kind::Major)
        };
        while !is_major(&heap) {
            std::thread::yield_now();
        }
        is_done.store(1, Ordering::Relaxed);
    });
}

/// A mutator can be made on memory that is larger than needed, and not on memory that is smaller.
#[test]
fn memory_may_be_larger() {
    let config = HeapConfig::new(MIB);
    let memory = KernelMemory::new(config.address_bytes() + 4096).expect("memory");
    let heap = Heap::new(memory, config).expect("a heap");
    let mutator = heap.mutator().expect("the first of this thread");
    let record: Ref<'_, Record> = mutator.alloc_record(1, 1).expect("room");
    assert_eq!(record.shape(&mutator), (1, 1));
}

/// The regions of objects that Marvin may swap out kept their dead objects for as long as one in them lived, so that a
/// heap was full while an eighth of it lived.
#[test]
fn room_of_dead_objects_that_may_be_swapped_is_used_again() {
    let heap = heap(8 * MIB, Collector::Marvin(marvin()));
    let mut mutator = heap.mutator().expect("the first of this thread");
    let bytes = |number: usize| vec![number as u8; 1000 + number % 3000];
    let mut kept = Vec::new();
    for number in 0..40_000 {
        mutator.safepoint();
        let alloc = |mutator: &Mutator| {
            let object = mutator.alloc_bytes(&bytes(number));
            object.map(|object| mutator.root(object))
        };
        let root = alloc(&mutator).unwrap_or_else(|_| {
            mutator.collect(Kind::Major);
            alloc(&mutator).expect("an eighth of each 8 MiB lives")
        });
        if number % 8 == 0 {
            kept.push((number, root));
        }
        if kept.len() > 500 {
            kept.swap_remove(number % 500);
        }
        if number % 2000 == 0 {
            mutator.check().expect("the heap's invariants");
            heap.expire_timer();
        }
    }
    for (number, root) in &kept {
        assert_eq!(root.get(&mutator).bytes(&mutator), bytes(*number));
    }
    mutator.check().expect("the heap's invariants");
}
