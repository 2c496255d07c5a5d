//! Every safepoint is a collection, of each kind in turn, and the heap is checked after each.

use crate::common::{MIB, Random, alloc, check, fleet, heap_of, marvin};
use warmswap_heap::{Collector, HeapConfig, Root};

const STEPS: usize = if cfg!(miri) { 12 } else { 400 };

fn survives_stress(collector: Collector) {
    let config = HeapConfig {
        stress: true,
        background_collection_wait: Some(crate::common::NEVER),
        // Marvin's objects are not moved: each collection begins new regions for them.
        ..HeapConfig::new(64 * MIB).with(collector)
    };
    let heap = heap_of(config);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut random = Random(1);
    let mut roots: Vec<(usize, usize, Root<_>)> = Vec::new();
    for number in 0..STEPS {
        let words = [1, 7, 60, 300][random.below(4)];
        let record = alloc(&mutator, number, 2, words).expect("room");
        for slot in 0..2 {
            if !roots.is_empty() {
                let (_, _, other) = &roots[random.below(roots.len())];
                record.set(&mutator, slot, Some(other.get(&mutator)));
                // Old objects refer to young ones, too.
                other.get(&mutator).set(&mutator, slot, Some(record));
            }
        }
        let root = mutator.root(record);
        roots.push((number, words, root));
        if roots.len() > 60 {
            roots.swap_remove(random.below(60));
        }
        match number % 16 {
            3 => heap.background(),
            5 | 6 => mutator.blocking(|| heap.expire_timer()),
            9 => heap.foreground(),
            12 => heap.launch_done(),
            _ => {}
        }
        mutator.safepoint();
        for (number, words, root) in &roots {
            check(&mutator, root.get(&mutator), *number, (2, *words));
        }
    }
    assert!(heap.stats().collections >= STEPS as u64);
}

#[test]
fn native_survives_stress() {
    survives_stress(Collector::Native);
}

#[test]
fn fleet_survives_stress() {
    survives_stress(Collector::Fleet(fleet()));
}

#[test]
fn marvin_survives_stress() {
    survives_stress(Collector::Marvin(marvin()));
}
