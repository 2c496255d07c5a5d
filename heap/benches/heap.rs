//! What the heap costs its mutators: allocation beside `bumpalo`, the write barrier beside plain stores, and how long
//! they wait for collections of a heap with 200 MB alive.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bumpalo::Bump;
use criterion::{Criterion, criterion_group, criterion_main};
use warmswap_heap::{Field, Heap, HeapConfig, KernelMemory, Kind, Mutator, Ref, Root, object};

const MIB: usize = 1 << 20;
/// Objects that are written to for one measurement.
const OBJECTS: usize = 100_000;
/// Objects that are allocated for one measurement.
const ALLOCATED: usize = 30_000;
/// Alternating runs of two sides; the medians are compared.
const RUNS: usize = 15;

object! {
    /// What programs have most of: two references and some data.
    struct Node {
        left: Field<Node>,
        right: Field<Node>,
        data: [u64; 4],
    }
}

/// The same in a vector.
struct Unguarded {
    _header: u64,
    left: AtomicU32,
    right: AtomicU32,
    data: [u64; 4],
}

/// The same in an arena.
struct Plain<'a> {
    _left: Option<&'a Plain<'a>>,
    _right: Option<&'a Plain<'a>>,
    _data: [u64; 4],
}

fn heap(max_bytes: usize) -> Heap {
    let config = HeapConfig::new(max_bytes);
    let memory = KernelMemory::new(config.address_bytes()).expect("memory");
    Heap::new(memory, config).expect("a heap")
}

fn node(number: u64) -> Node {
    Node {
        left: Field::null(),
        right: Field::null(),
        data: [number; 4],
    }
}

fn alloc_node(mutator: &mut Mutator, number: u64) -> Root<Node> {
    mutator.safepoint();
    if let Ok(node) = mutator.alloc(node(number)) {
        return mutator.root(node);
    }
    mutator.collect(Kind::Major);
    let node = mutator.alloc(node(number)).expect("room");
    mutator.root(node)
}

/// Nanoseconds an operation of each side: medians of alternating runs.
fn compare(
    operations: usize,
    mut ours: impl FnMut() -> Duration,
    mut other: impl FnMut() -> Duration,
) -> (f64, f64) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        a.push(ours().as_nanos() as f64 / operations as f64);
        b.push(other().as_nanos() as f64 / operations as f64);
    }
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    (a[RUNS / 2], b[RUNS / 2])
}

/// Allocation with a safepoint for each object, in memory that was used before, on both sides: no more than is kept for
/// reuse after a collection.
fn allocation(_: &mut Criterion) {
    let heap = heap(64 * MIB);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let ours = || {
        mutator.collect(Kind::Major);
        let begin = Instant::now();
        for number in 0..ALLOCATED as u64 {
            mutator.safepoint();
            black_box(mutator.alloc(node(number)).expect("room"));
        }
        begin.elapsed()
    };
    let mut bump = Bump::new();
    let other = || {
        bump.reset();
        let begin = Instant::now();
        for number in 0..ALLOCATED as u64 {
            black_box(bump.alloc(Plain {
                _left: None,
                _right: None,
                _data: [number; 4],
            }));
        }
        begin.elapsed()
    };
    let (ours, other) = compare(ALLOCATED, ours, other);
    println!(
        "allocation: {ours:.2} ns an object, bumpalo {other:.2} ns, {:.2} times",
        ours / other
    );
}

/// A program that walks a list, computes a little and stores one reference for each object, with and without barriers.
fn barriers(_: &mut Criterion) {
    let heap = heap(64 * MIB);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let first = alloc_node(&mut mutator, 0);
    let mut last = alloc_node(&mut mutator, 0);
    first
        .get(&mutator)
        .right
        .set(&mutator, Some(last.get(&mutator)));
    for number in 1..OBJECTS as u64 {
        let next = alloc_node(&mut mutator, number);
        last.get(&mutator)
            .right
            .set(&mutator, Some(next.get(&mutator)));
        last = next;
    }
    // Old and tracked: each store marks a card.
    mutator.collect(Kind::Major);
    let ours = || {
        let begin = Instant::now();
        let mut at: Option<Ref<'_, Node>> = Some(first.get(&mutator));
        while let Some(node) = at {
            black_box(work(&node.data));
            let next = node.right.get(&mutator);
            node.left.set(&mutator, next);
            at = next;
        }
        begin.elapsed()
    };
    // The same layout and order without barriers: numbers of places in place of references.
    let objects: Vec<Unguarded> = (0..=OBJECTS as u32)
        .map(|number| Unguarded {
            _header: 0,
            left: AtomicU32::new(0),
            right: AtomicU32::new(number + 1),
            data: [number.into(); 4],
        })
        .collect();
    let other = || {
        let begin = Instant::now();
        let mut at = objects.first();
        while let Some(object) = at {
            black_box(work(&object.data));
            let next = object.right.load(Ordering::Acquire);
            object.left.store(next, Ordering::Release);
            at = objects.get(next as usize);
        }
        begin.elapsed()
    };
    let (ours, other) = compare(OBJECTS, ours, other);
    println!(
        "an object loaded and stored to: {ours:.2} ns, without barriers {other:.2} ns, {:.3} times",
        ours / other
    );
}

/// About what a program does with an object: 60 ns of hashing.
#[inline(never)]
fn work(data: &[u64; 4]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in data.iter().flat_map(|word| word.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash
}

/// Collections beside mutators that leave the collector a processor, and beside ones that allocate as fast as they can:
/// on a machine with fewer processors than threads these wait for a processor each time they go on.
fn pauses(_: &mut Criterion) {
    for rest in [Some(Duration::from_micros(400)), None] {
        pauses_beside(rest);
    }
}

/// Four mutators with 200 MB alive between them, while the heap is collected again and again.
fn pauses_beside(rest: Option<Duration>) {
    const MUTATORS: usize = 4;
    /// Objects between two rests: about 50 us of work.
    const BATCH: usize = 500;
    const ALIVE: usize = 200_000_000 / 56;
    let heap = heap(1 << 30);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..MUTATORS {
            threads.spawn(|| {
                let mut mutator = heap.mutator().expect("the first of this thread");
                let table = mutator.alloc_refs::<Node>(ALIVE / MUTATORS).expect("room");
                let table = mutator.root(table);
                let mut number = 0;
                while !is_done.load(Ordering::Relaxed) {
                    let slot = number * 7919 % (ALIVE / MUTATORS);
                    let node = alloc_node(&mut mutator, number as u64);
                    table
                        .get(&mutator)
                        .set(&mutator, slot, Some(node.get(&mutator)));
                    number += 1;
                    if let Some(rest) = rest
                        && number.is_multiple_of(BATCH)
                    {
                        mutator.blocking(|| std::thread::sleep(rest));
                    }
                }
            });
        }
        for kind in [Kind::Major, Kind::Minor, Kind::Grouping, Kind::Background].repeat(25) {
            std::thread::sleep(Duration::from_millis(50));
            heap.collect(kind).expect("no mutator here");
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let stats = heap.stats();
    println!(
        "mutators that rest for {rest:?}: {} collections, {} MiB in use\npauses: {:?}\nstops: {:?}\nstalls: {:?}",
        stats.collections,
        stats.used_bytes / MIB,
        stats.pauses,
        stats.stops,
        stats.stalls
    );
}

criterion_group!(benches, allocation, barriers, pauses);
criterion_main!(benches);
