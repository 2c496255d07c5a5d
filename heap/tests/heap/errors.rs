//! What cannot be, and how it is said.

use crate::common::{MIB, heap, heap_of};
use warmswap_heap::{
    AllocError, Bytes, Collector, Heap, HeapConfig, HeapError, KernelMemory, Kind,
};

fn error_of(config: HeapConfig, bytes: usize) -> HeapError {
    let memory = KernelMemory::new(bytes).expect("memory");
    Heap::new(memory, config).expect_err("not possible")
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let good = HeapConfig::new(MIB);
    for bytes in [0, MIB - 1, (8 << 30) + 1, usize::MAX] {
        let config = HeapConfig {
            max_bytes: bytes,
            ..good
        };
        let error = error_of(config, 4096);
        assert!(
            matches!(error, HeapError::Size { bytes: b, .. } if b == bytes),
            "{error}"
        );
    }
    for factor in [0.0, 0.99, -1.0, f64::NAN, f64::NEG_INFINITY] {
        let foreground = HeapConfig {
            foreground_factor: factor,
            ..good
        };
        let background = HeapConfig {
            background_factor: factor,
            ..good
        };
        for config in [foreground, background] {
            let error = error_of(config, 4096);
            assert!(matches!(error, HeapError::Factor { .. }), "{error}");
        }
    }
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let config = HeapConfig::new(MIB);
    let error = error_of(config, config.address_bytes() - 4096);
    let HeapError::Memory { needed, bytes } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (needed, bytes),
        (config.address_bytes(), config.address_bytes() - 4096)
    );
    let text = HeapError::Memory { needed, bytes }.to_string();
    assert!(
        text.contains(&needed.to_string()) && text.contains(&bytes.to_string()),
        "{text}"
    );
}

#[test]
fn a_thread_has_one_mutator_of_a_heap_and_does_not_wait_for_itself() {
    let (one, two) = (heap(MIB, Collector::Native), heap(MIB, Collector::Native));
    let mutator = one.mutator().expect("the first of this thread");
    assert!(matches!(one.mutator(), Err(HeapError::Attached)));
    assert!(matches!(one.collect(Kind::Minor), Err(HeapError::Attached)));
    two.collect(Kind::Minor)
        .expect("of the other heap there is none");
    let of_two = two.mutator().expect("another heap");
    drop(mutator);
    one.collect(Kind::Minor).expect("it is gone");
    assert!(matches!(two.collect(Kind::Minor), Err(HeapError::Attached)));
    let again = one.mutator().expect("it is gone");
    drop((again, of_two));
}

#[test]
fn objects_that_are_too_large_are_refused() {
    let heap = heap(4 * MIB, Collector::Native);
    let mutator = heap.mutator().expect("the first of this thread");
    for len in [usize::MAX, usize::MAX / 4, 1 << 32, 2 << 20] {
        let error = mutator.alloc_refs::<Bytes>(len).expect_err("too large");
        assert!(
            matches!(error, AllocError::TooLarge { .. }),
            "{len}: {error}"
        );
    }
    let max = usize::MAX;
    let u32_max = u32::MAX as usize;
    for (references, data) in [
        (max, max),
        (0, max),
        (max, 0),
        (u32_max, u32_max),
        (u32_max + 1, 0),
        (0, u32_max),
    ] {
        let error = mutator
            .alloc_record(references, data)
            .expect_err("too large");
        assert!(
            matches!(error, AllocError::TooLarge { .. }),
            "{references}, {data}: {error}"
        );
    }
    // What fits in size, but not in the room that there is.
    let error = mutator
        .alloc_refs::<Bytes>(MIB - 8)
        .and_then(|_| mutator.alloc_refs::<Bytes>(MIB / 4));
    assert!(matches!(error, Err(AllocError::Full { .. })), "{error:?}");
    // Nothing has changed: there is no room for it, and the heap is sound.
    assert_eq!(heap.stats().roots, 0);
}

/// The length in a header has 32 bits, and was cut off.
#[test]
#[cfg(not(miri))]
fn bytes_of_more_than_4_gib_are_refused() {
    let heap = heap(6 << 30, Collector::Native);
    let mutator = heap.mutator().expect("the first of this thread");
    let zeros = vec![0; (4 << 30) + 8]; // never touched
    let error = mutator.alloc_bytes(&zeros).expect_err("too large");
    assert!(
        matches!(error, AllocError::TooLarge { bytes } if bytes == zeros.len()),
        "{error}"
    );
}

#[test]
fn a_full_heap_says_so_and_has_room_when_garbage_is_collected() {
    let heap = heap(4 * MIB, Collector::Native);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut kept = Vec::new();
    let full = loop {
        match mutator.alloc_bytes(&[1; 5000]) {
            Ok(bytes) => kept.push(mutator.root(bytes)),
            Err(error) => break error,
        }
    };
    assert_eq!(full, AllocError::Full { bytes: 5008 });
    // All of it is live: it stays full, whatever is collected, and all of it stays.
    for kind in Kind::ALL {
        mutator.collect(kind);
        mutator.check().expect("the heap's invariants");
    }
    for bytes in &kept {
        assert_eq!(bytes.get(&mutator).bytes(&mutator), [1; 5000]);
    }
    assert!((0..1000).any(|_| mutator.alloc_bytes(&[1; 5000]).is_err()));
    // Half of it is garbage.
    let before = kept.len();
    let mut i = 0;
    kept.retain(|_| (i += 1, i % 2 == 0).1);
    mutator.collect(Kind::Major);
    mutator.collect(Kind::Major);
    for _ in 0..before / 3 {
        let bytes = mutator.alloc_bytes(&[2; 5000]).expect("room again");
        kept.push(mutator.root(bytes));
    }
    mutator.check().expect("the heap's invariants");
}

#[test]
fn many_mutators_find_a_heap_full_and_go_on() {
    let config = HeapConfig {
        background_collection_wait: None,
        ..HeapConfig::new(4 * MIB)
    };
    let heap = heap_of(config);
    std::thread::scope(|threads| {
        for thread in 0..4u8 {
            let heap = &heap;
            threads.spawn(move || {
                let mut mutator = heap.mutator().expect("the first of this thread");
                let mut allocated = 0;
                while allocated < if cfg!(miri) { 50 } else { 20_000 } {
                    match mutator.alloc_bytes(&[thread; 1000]) {
                        Ok(bytes) => {
                            assert_eq!(bytes.bytes(&mutator), [thread; 1000]);
                            allocated += 1;
                        }
                        Err(error) => assert!(matches!(error, AllocError::Full { .. }), "{error}"),
                    }
                    mutator.safepoint();
                }
            });
        }
    });
    heap.check().expect("the heap's invariants");
}
