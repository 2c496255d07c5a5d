use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use proptest::prelude::*;

use super::*;
use warmswap_page::Layout;

/// A small deterministic generator (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A length as pages compress in practice: mostly 200 to 2500 bytes, some tiny, some raw.
    fn object_bytes(&mut self) -> usize {
        match self.below(20) {
            0 => 4096,
            1 | 2 => 1 + self.below(200),
            _ => 200 + self.below(1200) + self.below(1200),
        }
    }
}

/// Bytes that belong to `seed` alone.
fn object(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed | 1 << 40);
    (0..len).map(|_| random.next() as u8).collect()
}

fn pool(limit_bytes: u64) -> Pool {
    pool_of(Layout::SizeClasses, limit_bytes)
}

fn pool_of(layout: Layout, limit_bytes: u64) -> Pool {
    let config = PoolConfig {
        limit_bytes,
        verify: true,
        layout,
        ..PoolConfig::default()
    };
    Pool::new(config).expect("a valid configuration")
}

fn check(pool: &Pool) {
    pool.objects.check();
}

fn bytes_of(pool: &Pool, handle: Handle) -> Vec<u8> {
    pool.load(handle, |content| match content {
        Content::Bytes(bytes) => bytes.to_vec(),
        Content::Filled(word) => word.to_ne_bytes().to_vec(),
    })
    .expect("stored")
}

#[derive(Clone, Debug)]
enum Step {
    Store { len: usize, pages: u32 },
    StoreFilled { word: u64 },
    Free { nth: usize },
    Compact { max_objects: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        1..300_usize,
        1..4097_usize,
        4000..4200_usize,
        1..MAX_OBJECT_BYTES + 1
    ];
    prop_oneof![
        6 => (len, 1..=MAX_PAGES).prop_map(|(len, pages)| Step::Store { len, pages }),
        1 => (any::<u64>(), 0..64_u32).prop_map(|(word, shift)| Step::StoreFilled { word: word >> shift }),
        5 => any::<usize>().prop_map(|nth| Step::Free { nth }),
        1 => (0..100_u64).prop_map(|max_objects| Step::Compact { max_objects }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_pool_is_a_map(
        steps in prop::collection::vec(step(), 1..200),
        limit_mib in 1..8_u64,
        layout in prop::sample::select(&Layout::ALL),
    ) {
        let pool = pool_of(layout, limit_mib << 20);
        let mut oracle: HashMap<Handle, (Vec<u8>, u32, bool)> = HashMap::new();
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Store { len, pages } => {
                    let bytes = object(i as u64, len);
                    match pool.store(&bytes, pages) {
                        Ok(handle) => {
                            prop_assert!(oracle.insert(handle, (bytes, pages, false)).is_none());
                        }
                        Err(refusal) => {
                            let expected = match refusal {
                                Refusal::Full { .. } => true,
                                Refusal::TooLarge { bytes } => bytes > pool.objects.max_bytes(),
                                _ => false,
                            };
                            prop_assert!(expected, "{refusal}");
                        }
                    }
                }
                Step::StoreFilled { word } => {
                    if let Ok(handle) = pool.store_filled(word, 1) {
                        let bytes = word.to_ne_bytes().to_vec();
                        prop_assert!(oracle.insert(handle, (bytes, 1, true)).is_none());
                    }
                }
                Step::Free { nth } => {
                    let mut handles: Vec<_> = oracle.keys().copied().collect();
                    handles.sort();
                    if !handles.is_empty() {
                        let handle = handles[nth % handles.len()];
                        prop_assert_eq!(pool.free(handle), Ok(()));
                        prop_assert_eq!(pool.free(handle), Err(LoadError::UnknownHandle(handle)));
                        oracle.remove(&handle);
                    }
                }
                Step::Compact { max_objects } => {
                    let report = pool.compact(max_objects);
                    prop_assert!(report.moved_objects <= max_objects);
                }
            }
            prop_assert!(pool.stats().memory_bytes <= limit_mib << 20);
        }
        for (&handle, (bytes, pages, is_filled)) in &oracle {
            prop_assert_eq!(&bytes_of(&pool, handle), bytes);
            let len = if *is_filled { 0 } else { bytes.len() };
            let info = pool.info(handle).expect("stored");
            prop_assert_eq!((info.pages, info.bytes, info.is_filled), (*pages, len, *is_filled));
            let has_page = layout != Layout::SizeClasses && !is_filled;
            prop_assert!(info.pool_page.is_some() || !has_page);
        }
        let stats = pool.stats();
        let stored = oracle.values();
        prop_assert_eq!(stats.stored_objects, oracle.len() as u64);
        prop_assert_eq!(stats.stored_pages, stored.clone().map(|o| u64::from(o.1)).sum::<u64>());
        prop_assert_eq!(stats.same_filled_objects, stored.clone().filter(|o| o.2).count() as u64);
        let data = stored.filter(|o| !o.2).map(|o| o.0.len() as u64).sum::<u64>();
        prop_assert_eq!(stats.compressed_bytes, data);
        check(&pool);
    }
}

/// Fills a pool of `objects` objects, frees `of_ten` tenths at random, and returns the handles
/// that are left.
fn churn(pool: &Pool, objects: usize, of_ten: usize) -> Vec<Handle> {
    let mut random = Random(42);
    let mut live = Vec::new();
    for round in 0..3 {
        while live.len() < objects {
            let bytes = object(live.len() as u64 + round, random.object_bytes());
            live.push(pool.store(&bytes, 1).expect("room"));
        }
        for _ in 0..objects * of_ten / 10 {
            let handle = live.swap_remove(random.below(live.len()));
            pool.free(handle).expect("stored");
        }
    }
    live
}

#[test]
fn compaction_brings_the_waste_of_churn_under_a_tenth() {
    for of_ten in [3, 5, 7] {
        let pool = pool(256 << 20);
        churn(&pool, 80_000, of_ten);
        let before = pool.stats();
        let report = pool.compact(u64::MAX);
        let after = pool.stats();
        assert!(
            before.waste() > 0.2,
            "churn wastes memory: {}",
            before.waste()
        );
        assert!(after.waste() < 0.1, "{} after {report:?}", after.waste());
        assert_eq!(
            before.memory_bytes - after.memory_bytes,
            report.released_bytes
        );
        assert_eq!(before.compressed_bytes, after.compressed_bytes);
        assert!(!report.out_of_budget);
        check(&pool);
        assert_eq!(
            pool.compact(u64::MAX).moved_objects,
            0,
            "nothing is left to gain"
        );
    }
}

#[test]
fn state_is_at_most_16_bytes_a_page() {
    let pool = pool(1 << 30);
    let live = churn(&pool, 150_000, 0);
    pool.compact(u64::MAX);
    let span_bytes = pool.objects.held_bytes();
    let fixed_bytes = Pool::new(pool.config.clone())
        .expect("valid")
        .stats()
        .memory_bytes;
    let state_bytes = pool.stats().memory_bytes - span_bytes - fixed_bytes;
    let per_page = state_bytes as f64 / live.len() as f64;
    assert!(per_page <= 16.0, "{per_page} bytes of state a page");
}

#[test]
fn the_limit_holds_and_stores_resume_only_after_hysteresis() {
    let limit_bytes = 4 << 20;
    let pool = pool(limit_bytes);
    let bytes = object(1, 3000);
    let mut live = Vec::new();
    let full = loop {
        match pool.store(&bytes, 1) {
            Ok(handle) => live.push(handle),
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(full, Refusal::Full { limit_bytes: at, .. } if at == limit_bytes));
    assert!(
        pool.stats().memory_bytes > limit_bytes * 9 / 10,
        "the limit is made use of"
    );
    assert!(
        pool.store_filled(0, 1).is_ok(),
        "a same-filled page needs no memory"
    );
    let mut frees = 0;
    while pool.store(&bytes, 1).is_err() {
        pool.free(live.pop().expect("resumes before it is empty"))
            .expect("stored");
        pool.compact(u64::MAX);
        frees += 1;
    }
    let stats = pool.stats();
    assert!(
        stats.memory_bytes <= limit_bytes * 9 / 10 + (256 << 10),
        "resumed at {stats:?}"
    );
    assert!(frees > 50, "resumed after {frees} frees only");
    assert!(stats.peak_memory_bytes <= limit_bytes);
    assert_eq!(stats.refused_full, frees + 1);
}

#[test]
fn empty_spans_of_other_classes_do_not_refuse_a_store() {
    let pool = pool(4 << 20);
    let live: Vec<_> = std::iter::from_fn(|| pool.store(&object(1, 2000), 1).ok()).collect();
    live.iter()
        .for_each(|&handle| pool.free(handle).expect("stored"));
    assert!(pool.stats().cached_bytes > 2 << 20, "spans are kept");
    let large = std::iter::from_fn(|| pool.store(&object(2, 100_000), 32).ok()).count();
    assert!(large > 30, "only {large} large objects fit");
}

#[test]
fn refusals_are_counted_by_reason() {
    let config = PoolConfig {
        accept_percent: 50,
        ..PoolConfig::default()
    };
    let pool = Pool::new(config).expect("valid");
    let too_large = vec![1; MAX_OBJECT_BYTES + 1];
    assert_eq!(
        pool.store(&[], 1),
        Err(Refusal::Invalid { bytes: 0, pages: 1 })
    );
    assert_eq!(
        pool.store(&[1], 0),
        Err(Refusal::Invalid { bytes: 1, pages: 0 })
    );
    assert_eq!(
        pool.store(&[1], 33),
        Err(Refusal::Invalid {
            bytes: 1,
            pages: 33
        })
    );
    assert_eq!(
        pool.store_filled(0, 0),
        Err(Refusal::Invalid { bytes: 0, pages: 0 })
    );
    assert_eq!(
        pool.store(&too_large, 32),
        Err(Refusal::TooLarge {
            bytes: too_large.len()
        })
    );
    assert_eq!(
        pool.store(&[1; 2049], 1),
        Err(Refusal::Incompressible {
            bytes: 2049,
            pages: 1
        })
    );
    pool.store(&[1; 2048], 1).expect("just half");
    let stats = pool.stats();
    assert_eq!(stats.refused_invalid, 4);
    assert_eq!(stats.refused_too_large, 1);
    assert_eq!(stats.refused_incompressible, 1);
    assert_eq!((stats.refusals(), stats.stores), (6, 1));
}

#[test]
fn raw_pages_are_stored_and_counted() {
    let pool = pool(1 << 30);
    let raw = pool.store(&object(1, 4096), 1).expect("room");
    let joined = pool.store(&object(2, 131_072), 32).expect("room");
    assert_eq!(pool.stats().raw_objects, 2);
    assert_eq!(bytes_of(&pool, raw), object(1, 4096));
    assert_eq!(bytes_of(&pool, joined), object(2, 131_072));
    pool.free(raw).expect("stored");
    pool.free(joined).expect("stored");
    assert_eq!(pool.stats().raw_objects, 0);
}

#[test]
fn overwritten_memory_is_noticed() {
    for layout in Layout::ALL {
        let pool = pool_of(layout, 1 << 30);
        let handle = pool.store(&object(1, 1000), 1).expect("room");
        let entry = pool.handles.entry(handle).expect("stored");
        let Entry::Placed(placed) = Entry::unpack(entry.load(Ordering::Acquire)) else {
            panic!("1000 bytes have a place");
        };
        pool.objects.flip_bit(placed, 500);
        let error = pool.load(handle, |_| ()).expect_err("a flipped bit");
        let is_corrupt = matches!(error, LoadError::Corrupt { bytes: 1000, .. });
        assert!(is_corrupt, "{error}");
        assert_eq!(pool.stats().corrupt_loads, 1);
    }
}

/// The pages that objects of these sizes go to, stored in this order.
fn pages_of(layout: Layout, sizes: &[usize]) -> Vec<u32> {
    let pool = pool_of(layout, 1 << 20);
    let page = |&bytes: &usize| {
        let handle = pool.store(&object(1, bytes), 1).expect("room");
        let info = pool.info(handle).expect("stored");
        info.pool_page.expect("pages have numbers")
    };
    sizes.iter().map(page).collect()
}

#[test]
fn pages_take_two_or_three_objects_and_the_tightest_fit_comes_first() {
    let small = [640; 6];
    assert_eq!(pages_of(Layout::Zbud, &small), [0, 0, 1, 1, 2, 2]);
    assert_eq!(pages_of(Layout::Z3fold, &small), [0, 0, 0, 1, 1, 1]);
    // 63 chunks a page: 3,000 bytes leave 16, 2,000 leave 31; 900 bytes are 15 chunks.
    let mixed = [3000, 2000, 900, 900, 900, 1100];
    assert_eq!(pages_of(Layout::Z3fold, &mixed), [0, 1, 0, 1, 1, 2]);
    assert_eq!(pages_of(Layout::Zbud, &mixed), [0, 1, 0, 1, 2, 2]);
}

#[test]
fn objects_beyond_a_page_are_refused_by_type_and_one_that_just_fits_is_not() {
    for layout in [Layout::Zbud, Layout::Z3fold] {
        let pool = pool_of(layout, 1 << 20);
        let largest = pool.store(&object(1, 4032), 1).expect("a page holds it");
        assert_eq!(bytes_of(&pool, largest), object(1, 4032));
        let bytes = 4033;
        let refused = pool.store(&object(1, bytes), 2);
        assert_eq!(refused, Err(Refusal::TooLarge { bytes }));
        assert_eq!(pool.stats().refused_too_large, 1);
    }
}

#[test]
fn a_freed_object_leaves_its_room_in_one_piece() {
    let pool = pool_of(Layout::Z3fold, 1 << 20);
    let store = |seed| pool.store(&object(seed, 1300), 1).expect("room");
    let [first, second, third] = [1, 2, 3].map(store);
    pool.free(first).expect("stored");
    pool.free(third).expect("stored");
    // 63 - 21 chunks are free, behind the one object that is left.
    let large = pool.store(&object(4, 42 * 64), 1).expect("room");
    let page = |handle| pool.info(handle).expect("stored").pool_page;
    assert_eq!(page(large), page(second));
    assert_eq!(bytes_of(&pool, second), object(2, 1300));
    assert_eq!(bytes_of(&pool, large), object(4, 42 * 64));
    check(&pool);
}

#[test]
fn bad_configurations_are_refused() {
    let zero = PoolConfig {
        resume_percent: 0,
        ..PoolConfig::default()
    };
    let field = "resume_percent";
    assert_eq!(
        Pool::new(zero).err(),
        Some(ConfigError::Percent { field, percent: 0 })
    );
    let tiny = PoolConfig {
        limit_bytes: 1000,
        ..PoolConfig::default()
    };
    let Some(ConfigError::LimitTooSmall { minimum_bytes, .. }) = Pool::new(tiny).err() else {
        panic!("1000 bytes hold no pool");
    };
    let least = PoolConfig {
        limit_bytes: minimum_bytes,
        ..PoolConfig::default()
    };
    let pool = Pool::new(least).expect("exactly enough");
    assert!(matches!(pool.store(&[1], 1), Err(Refusal::Full { .. })));
}

/// What a worker of the stress test keeps: handle, seed and length.
type Live = Vec<(Handle, u64, usize)>;

/// Stores, loads, verifies and frees `rounds` times.
fn work(pool: &Pool, worker: u64, rounds: usize) -> Live {
    let mut random = Random(worker * 977 + 1);
    let mut live = Live::new();
    for round in 0..rounds {
        let wants_store = live.len() < 10 || (live.len() < 800 && random.below(2) == 0);
        if wants_store {
            let (seed, len) = ((worker << 32) + round as u64, random.object_bytes());
            if let Ok(handle) = pool.store(&object(seed, len), 1) {
                live.push((handle, seed, len));
                continue;
            }
        }
        if !live.is_empty() {
            let nth = random.below(live.len());
            let (handle, seed, len) = live[nth];
            assert_eq!(bytes_of(pool, handle), object(seed, len));
            if random.below(3) > 0 {
                pool.free(handle).expect("own handle");
                live.swap_remove(nth);
            }
        }
    }
    live
}

#[test]
fn threads_keep_their_objects_while_others_compact() {
    let moved = threads_keep_their_objects(&pool(3 << 20));
    assert!(moved > 0);
}

#[test]
fn threads_keep_their_objects_in_every_layout() {
    threads_keep_their_objects(&pool_of(Layout::Zbud, 3 << 20));
    threads_keep_their_objects(&pool_of(Layout::Z3fold, 3 << 20));
}

/// Four threads store, load and free, and a fifth compacts. How many objects were moved.
fn threads_keep_their_objects(pool: &Pool) -> u64 {
    let done = AtomicBool::new(false);
    let peak_bytes = AtomicU64::new(0);
    let moved = thread::scope(|scope| {
        let workers: Vec<_> = (1..=4_u64)
            .map(|worker| scope.spawn(move || work(pool, worker, 8_000)))
            .collect();
        let compactor = scope.spawn(|| {
            let mut moved = 0;
            while !done.load(Ordering::Relaxed) {
                moved += pool.compact(37).moved_objects;
                peak_bytes.fetch_max(pool.stats().memory_bytes, Ordering::Relaxed);
                thread::yield_now();
            }
            moved
        });
        let live: Vec<Live> = workers
            .into_iter()
            .map(|worker| worker.join().expect("no assertion failed"))
            .collect();
        done.store(true, Ordering::Relaxed);
        let moved = compactor.join().expect("no assertion failed");
        let objects = live.iter().flatten();
        assert_eq!(pool.stats().stored_objects, objects.clone().count() as u64);
        for &(handle, seed, len) in objects {
            assert_eq!(bytes_of(pool, handle), object(seed, len));
            pool.free(handle).expect("stored");
        }
        moved
    });
    check(pool);
    let stats = pool.stats();
    assert_eq!(
        (
            stats.stored_objects,
            stats.compressed_bytes,
            stats.stored_pages
        ),
        (0, 0, 0)
    );
    assert!(peak_bytes.into_inner() <= 3 << 20);
    assert!(stats.peak_memory_bytes <= 3 << 20);
    moved
}

/// Loads of the same objects from several threads, while compaction moves each of them all the time.
#[test]
fn loads_race_with_moves_and_frees() {
    let pool = pool(64 << 20);
    let kept: Vec<_> = (0..64_u64)
        .map(|seed| (pool.store(&object(seed, 900), 1).expect("room"), seed))
        .collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for &(handle, seed) in &kept {
                        assert_eq!(bytes_of(&pool, handle), object(seed, 900));
                    }
                }
            });
        }
        // Fillers of the same class make and leave holes, so that each compaction moves.
        for _ in 0..40 {
            let fillers: Vec<_> = (0..200_u64)
                .map(|seed| pool.store(&object(seed, 900), 1).expect("room"))
                .collect();
            for handle in fillers {
                pool.free(handle).expect("stored");
                pool.compact(10);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(pool.stats().moved_objects > 0);
    check(&pool);
}
