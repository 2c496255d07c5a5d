//! Threads that change a shared graph while collections run back to back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{MIB, Random, fleet, heap, kinds, marvin};
use warmswap_heap::{
    AllocError, Bytes, Collector, Field, Heap, HeapConfig, Kind, Mutator, Ref, Root, Weak, object,
};

const THREADS: usize = 4;
const STACKS: usize = 8;

object! {
    /// Carries its number, in two ways, and a body of bytes that follows from it.
    struct Node {
        number: u64,
        next: Field<Node>,
        body: Field<Bytes>,
        check: AtomicU64,
    }
}

fn mix(number: u64) -> u64 {
    Random(number).next()
}

fn body_of(number: u64) -> Vec<u8> {
    let len = match number % 64 {
        0 => 3000,
        1..8 => 300,
        _ => (number % 40) as usize,
    };
    (0..len).map(|i| (mix(number) >> (i % 8)) as u8).collect()
}

fn verify(mutator: &Mutator, node: Ref<'_, Node>) -> u64 {
    assert_eq!(
        node.check.load(Ordering::Relaxed),
        mix(node.number),
        "node {}",
        node.number
    );
    let body = node.body.get(mutator).expect("every node has one");
    assert_eq!(
        body.bytes(mutator),
        body_of(node.number),
        "node {}",
        node.number
    );
    node.number
}

/// A new node; what a full heap gives up, it has again after some safepoints.
fn make(mutator: &mut Mutator, number: u64) -> Root<Node> {
    for _ in 0..100 {
        mutator.safepoint();
        let body = match mutator.alloc_bytes(&body_of(number)) {
            Ok(body) => body,
            Err(AllocError::Full { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let node = Node {
            number,
            next: Field::null(),
            body: Field::null(),
            check: AtomicU64::new(mix(number)),
        };
        let Ok(node) = mutator.alloc(node) else {
            continue;
        };
        node.body.set(mutator, Some(body));
        return mutator.root(node);
    }
    panic!("the heap stays full");
}

fn push(mutator: &Mutator, stack: Ref<'_, Head>, node: Ref<'_, Node>) {
    loop {
        let top = stack.top.get(mutator);
        node.next.set(mutator, top);
        if stack.top.compare_and_set(mutator, top, Some(node)) {
            return;
        }
    }
}

fn pop<'m>(mutator: &'m Mutator, stack: Ref<'m, Head>) -> Option<Ref<'m, Node>> {
    loop {
        // No node is pushed twice, so that this has no ABA problem.
        let top = stack.top.get(mutator)?;
        let next = top.next.get(mutator);
        if stack.top.compare_and_set(mutator, Some(top), next) {
            return Some(top);
        }
    }
}

object! {
    struct Head {
        top: Field<Node>,
    }
}

/// Numbers in the stacks: pushed by some thread, not yet popped. Sums and counts are enough to miss none.
#[derive(Default)]
struct Expected {
    pushed: AtomicU64,
    popped: AtomicU64,
    pushed_sum: AtomicU64,
    popped_sum: AtomicU64,
    died: AtomicUsize,
    finalised: AtomicUsize,
}

fn work(
    heap: &Heap,
    thread: usize,
    rounds: usize,
    stacks: &[Root<Head>],
    expected: &Arc<Expected>,
    handed: &Mutex<VecDeque<Root<Node>>>,
) {
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut random = Random(thread as u64);
    let mut own: Vec<(u64, Root<Node>)> = Vec::new();
    let mut weaks: Vec<(u64, Weak<Node>)> = Vec::new();
    for round in 0..rounds {
        let number = (thread * rounds + round) as u64;
        let node = make(&mut mutator, number);
        let stack = &stacks[random.below(STACKS)];
        match random.below(8) {
            // Shared structures, changed by all threads.
            0..3 => {
                push(&mutator, stack.get(&mutator), node.get(&mutator));
                expected.pushed.fetch_add(1, Ordering::Relaxed);
                expected.pushed_sum.fetch_add(number, Ordering::Relaxed);
            }
            3..5 => {
                if let Some(node) = pop(&mutator, stack.get(&mutator)) {
                    let number = verify(&mutator, node);
                    expected.popped.fetch_add(1, Ordering::Relaxed);
                    expected.popped_sum.fetch_add(number, Ordering::Relaxed);
                }
            }
            // The thread's own list.
            5 => {
                if let Some((_, before)) = own.last() {
                    node.get(&mutator)
                        .next
                        .set(&mutator, Some(before.get(&mutator)));
                }
                own.push((number, node));
                if own.len() > 200 {
                    own.clear();
                }
            }
            // From thread to thread.
            6 => {
                handed.lock().expect("not poisoned").push_back(node);
                let other = handed.lock().expect("not poisoned").pop_front();
                if let Some(other) = other {
                    verify(&mutator, other.get(&mutator));
                }
            }
            _ => {
                let finalised = Arc::clone(expected);
                mutator.finaliser(node.get(&mutator), move || {
                    finalised.finalised.fetch_add(1, Ordering::Relaxed);
                });
                expected.died.fetch_add(1, Ordering::Relaxed);
                weaks.push((number, mutator.weak(node.get(&mutator))));
            }
        }
        if round % 64 == 0 {
            for (number, node) in &own {
                assert_eq!(verify(&mutator, node.get(&mutator)), *number);
            }
            // A node that is still there is whole; one that is gone stays gone.
            weaks.retain(|(number, weak)| {
                let node = weak.get(&mutator);
                node.inspect(|&node| assert_eq!(verify(&mutator, node), *number))
                    .is_some()
            });
        }
    }
    // Each list from its end leads to all before it that are still linked.
    if let Some((last, node)) = own.last() {
        assert_eq!(verify(&mutator, node.get(&mutator)), *last);
        let mut node = Some(node.get(&mutator));
        let mut count = 0;
        while let Some(here) = node {
            verify(&mutator, here);
            count += 1;
            node = here.next.get(&mutator);
        }
        assert!(count >= own.len());
    }
}

fn runs_with(collector: Collector, rounds: usize, max_bytes: usize) {
    let heap = heap(max_bytes, collector);
    let expected = Arc::new(Expected::default());
    let handed = Mutex::new(VecDeque::new());
    let is_done = AtomicBool::new(false);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let stacks: Vec<Root<Head>> = (0..STACKS)
        .map(|_| {
            let head = mutator.alloc(Head { top: Field::null() }).expect("room");
            mutator.root(head)
        })
        .collect();
    let collections = mutator.blocking(|| {
        std::thread::scope(|threads| {
            let collects = threads.spawn(|| {
                let kinds = kinds(collector);
                let mut count = 0;
                while !is_done.load(Ordering::Relaxed) {
                    heap.collect(kinds[count % kinds.len()])
                        .expect("no mutator here");
                    count += 1;
                    match count % 8 {
                        0 => heap.foreground(),
                        2 => heap.launch_done(),
                        4 => heap.background(),
                        5.. => heap.expire_timer(),
                        _ => {}
                    }
                }
                count
            });
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (heap, stacks, expected, handed) = (&heap, &stacks, &expected, &handed);
                    threads.spawn(move || work(heap, thread, rounds, stacks, expected, handed))
                })
                .collect();
            let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            is_done.store(true, Ordering::Relaxed);
            for result in results {
                result.expect("a worker that fails has said why");
            }
            collects
                .join()
                .expect("the collecting thread does not fail")
        })
    });
    assert!(collections > 0);
    mutator.check().expect("the heap's invariants");
    // What is live fits some times over: objects that cannot move do not spread over all regions.
    let used_bytes = heap.stats().used_bytes;
    assert!(used_bytes < max_bytes * 3 / 4, "{used_bytes} in use");
    let (mut count, mut sum) = (0, 0);
    for stack in &stacks {
        let mut node = stack.get(&mutator).top.get(&mutator);
        while let Some(here) = node {
            sum += verify(&mutator, here);
            count += 1;
            node = here.next.get(&mutator);
        }
    }
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!(count, load(&expected.pushed) - load(&expected.popped));
    assert_eq!(sum, load(&expected.pushed_sum) - load(&expected.popped_sum));
    for node in handed.lock().expect("not poisoned").drain(..) {
        verify(&mutator, node.get(&mutator));
    }
    // Nothing refers to the nodes with finalisers any more.
    mutator.collect(Kind::Major);
    mutator.collect(Kind::Grouping);
    let (died, finalised) = (&expected.died, &expected.finalised);
    assert_eq!(
        finalised.load(Ordering::Relaxed),
        died.load(Ordering::Relaxed)
    );
}

const ROUNDS: usize = if cfg!(miri) { 40 } else { 40_000 };

#[test]
fn native_keeps_what_threads_share() {
    runs_with(Collector::Native, ROUNDS, 32 * MIB);
}

#[test]
fn fleet_keeps_what_threads_share() {
    runs_with(Collector::Fleet(fleet()), ROUNDS, 32 * MIB);
}

#[test]
fn marvin_keeps_what_threads_share() {
    runs_with(Collector::Marvin(marvin()), ROUNDS, 48 * MIB);
}

/// Objects that die and objects that live, with a finaliser and a weak reference each.
#[test]
fn finalisers_run_once_for_what_died_and_never_for_what_lives() {
    const OBJECTS: usize = if cfg!(miri) { 50 } else { 2000 };
    let config = HeapConfig::new(32 * MIB);
    let heap = crate::common::heap_of(config);
    let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..OBJECTS).map(|_| AtomicUsize::new(0)).collect());
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut live: Vec<Option<Root<Node>>> = Vec::new();
    let mut weaks = Vec::new();
    for i in 0..OBJECTS {
        let node = make(&mut mutator, i as u64);
        let runs = Arc::clone(&runs);
        mutator.finaliser(node.get(&mutator), move || {
            runs[i].fetch_add(1, Ordering::Relaxed);
        });
        weaks.push(mutator.weak(node.get(&mutator)));
        live.push(Some(node));
    }
    let mut random = Random(7);
    let kinds = [
        Kind::Minor,
        Kind::Major,
        Kind::Grouping,
        Kind::Background,
        Kind::Separating,
    ];
    for round in 0..20 {
        for _ in 0..OBJECTS / 25 {
            live[random.below(OBJECTS)] = None;
        }
        mutator.collect(kinds[round % kinds.len()]);
        for (i, (live, weak)) in live.iter().zip(&weaks).enumerate() {
            let count = runs[i].load(Ordering::Relaxed);
            if let Some(live) = live {
                assert_eq!(count, 0, "object {i} lives");
                assert_eq!(weak.get(&mutator), Some(live.get(&mutator)));
                verify(&mutator, live.get(&mutator));
            } else {
                assert!(count <= 1, "object {i} died once");
                assert_eq!(weak.get(&mutator).is_none(), count == 1, "object {i}");
            }
        }
    }
    mutator.collect(Kind::Major);
    mutator.collect(Kind::Grouping);
    for (i, live) in live.iter().enumerate() {
        assert_eq!(
            runs[i].load(Ordering::Relaxed),
            usize::from(live.is_none()),
            "object {i}"
        );
    }
}

/// A thread that waits in a blocking section, comes and goes, or ends, holds nothing up.
#[test]
fn mutators_come_and_go_while_collections_run() {
    let heap = heap(8 * MIB, Collector::Native);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let collects = threads.spawn(|| {
            let mut count = 0;
            while !is_done.load(Ordering::Relaxed) {
                heap.collect(Kind::Major).expect("no mutator here");
                count += 1;
            }
            count
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let heap = &heap;
                threads.spawn(move || {
                    for i in 0..if cfg!(miri) { 5 } else { 300 } {
                        let mut mutator = heap.mutator().expect("the first of this thread");
                        let node = make(&mut mutator, (thread * 1000 + i) as u64);
                        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                            mutator.blocking(|| {
                                std::thread::yield_now();
                                if i % 4 == 0 {
                                    std::panic::resume_unwind(Box::new("in a blocking section"));
                                }
                            });
                        }));
                        assert_eq!(panics.is_err(), i % 4 == 0);
                        verify(&mutator, node.get(&mutator));
                        mutator.collect(Kind::Minor);
                        verify(&mutator, node.get(&mutator));
                    }
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_done.store(true, Ordering::Relaxed);
        for result in results {
            result.expect("a worker that fails has said why");
        }
        assert!(collects.join().expect("it does not fail") > 0);
    });
    assert_eq!(heap.stats().roots, 0);
}
