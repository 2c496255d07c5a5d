//! Pages come back as they were, whatever happens meanwhile.

mod common;

use common::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use warmswap_arena::{Arena, ArenaConfig, ArenaStats, FaultMode, Mechanism, Region};
use warmswap_sys::Root;
use warmswap_sys::advise::{Advice, PageRange, advise};
use warmswap_sys::process::Process;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramSwap, probe};
use warmswap_testkit::skip;

const THREADS: usize = 8;

/// Threads touch pages of a shared region at random: each page is written by one thread only, with a version
/// that its first word tells to all, and is verified by everybody. With a scheme that prefetches, the
/// application is launched again and again meanwhile.
fn random_touch(config: ArenaConfig, data_bytes: usize, rounds: usize) {
    random_touch_while(1, config, data_bytes, rounds, None);
}

/// The same, with this as the first version of each page. Where that is [`NOISE`], pages that shrink well go
/// before: as many as the pool can hold are written and read, so that what is hit in it sets a standard. Again and
/// again `meanwhile` does something with the region.
fn random_touch_while(
    first: u64,
    config: ArenaConfig,
    data_bytes: usize,
    rounds: usize,
    meanwhile: Option<&(dyn Fn(&Region) + Sync)>,
) -> ArenaStats {
    let name = format!(
        "{} {:?} {:?}",
        config.scheme.name, config.mechanism, config.fault_mode
    );
    let has_launches = config.scheme.prefetch != "none";
    let arena = Arena::new(config).expect("an arena");
    let app = arena.application("test").expect("an application");
    let region = app.region(data_bytes).expect("a region");
    let pages = data_bytes / PAGE;
    let memory = words(&region);
    let versions: Vec<_> = (0..pages).map(|_| AtomicU64::new(0)).collect();
    let (at_work, is_set) = (AtomicUsize::new(THREADS), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        let (app, at_work) = (&app, &at_work);
        let region = &region;
        if let Some(meanwhile) = meanwhile {
            scope.spawn(move || {
                while at_work.load(Ordering::Relaxed) > 0 {
                    meanwhile(region);
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
        }
        if has_launches {
            scope.spawn(move || {
                while at_work.load(Ordering::Relaxed) > 0 {
                    app.foreground();
                    std::thread::sleep(Duration::from_millis(2));
                    app.launch_done();
                    app.background();
                }
            });
        }
        for thread in 0..THREADS {
            let (versions, is_set) = (&versions, &is_set);
            scope.spawn(move || {
                let mut random = Random(thread as u64);
                let mine = |n: usize| n / THREADS * THREADS + thread;
                if first == NOISE {
                    let some = || (thread..pages / 2).step_by(THREADS);
                    some().for_each(|page| write_page(memory, page, 1));
                    some().for_each(|page| check_page(memory, page, 1));
                    is_set.wait();
                }
                for page in (thread..pages).step_by(THREADS) {
                    write_page(memory, page, first);
                    versions[page].store(first, Ordering::Relaxed);
                }
                for _ in 0..rounds {
                    let page = mine(random.below(pages - THREADS));
                    let version = versions[page].load(Ordering::Relaxed);
                    check_page(memory, page, version);
                    if random.below(3) == 0 {
                        write_page(memory, page, version + 1);
                        versions[page].store(version + 1, Ordering::Relaxed);
                    }
                    // Another thread's page is only read; its owner may be writing.
                    let other = random.below(pages);
                    std::hint::black_box(memory[other * 512 + 9].load(Ordering::Relaxed));
                }
                at_work.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    for (page, version) in versions.iter().enumerate() {
        check_page(memory, page, version.load(Ordering::Relaxed));
    }
    let stats = arena.stats();
    assert!(stats.faults > pages as u64, "{name}: {stats:#?}");
    assert!(
        stats.pager.compressed + stats.engine.stored_raw > 0,
        "{name}: {stats:#?}"
    );
    check_account(&arena);
    assert_eq!(stats.pager.overcommits, 0, "{name}: {stats:#?}");
    stats
}

fn config_of(scheme: &str, way: (Mechanism, FaultMode)) -> ArenaConfig {
    ArenaConfig {
        mechanism: way.0,
        fault_mode: way.1,
        ..config(4 * MIB, scheme)
    }
}

fn each_way(test: &str, scheme: &str) {
    for way in ALL_WAYS {
        if can_run(test, way.0) {
            random_touch(config_of(scheme, way), 16 * MIB, 1000);
        }
    }
}

#[test]
fn random_touch_zram() {
    each_way("random_touch_zram", "zram");
}

#[test]
fn random_touch_asap() {
    each_way("random_touch_asap", "asap");
}

#[test]
fn random_touch_ariadne() {
    each_way("random_touch_ariadne", "ariadne");
}

#[test]
fn random_touch_warmswap() {
    each_way("random_touch_warmswap", "warmswap");
}

#[test]
fn random_touch_zswap_with_a_backing_file() {
    let directory = tempfile::tempdir().expect("a directory");
    for (i, way) in ALL_WAYS.into_iter().enumerate() {
        if !can_run("random_touch_zswap_with_a_backing_file", way.0) {
            continue;
        }
        let config = ArenaConfig {
            backing: Some(directory.path().join(format!("backing-{i}"))),
            backing_limit_bytes: 64 << 20,
            pool_limit_bytes: Some(MIB as u64),
            ..config_of("zswap", way)
        };
        random_touch(config, 16 * MIB, 1000);
    }
}

#[test]
fn gaps_in_the_pool_are_closed_while_frames_are_few() {
    let way = ALL_WAYS[0];
    if !can_run("gaps_in_the_pool_are_closed_while_frames_are_few", way.0) {
        return;
    }
    let few = random_touch_while(1, config_of("zram", way), 16 * MIB, 1000, None);
    assert!(few.pool.compactions > 0, "{few:#?}");

    let arena = Arena::new(config(64 * MIB, "zram")).expect("an arena");
    let app = arena.application("test").expect("an application");
    let region = app.region(16 * MIB).expect("a region");
    (0..16 * MIB / PAGE).for_each(|page| write_page(words(&region), page, 1));
    leave(&region);
    let plenty = arena.stats();
    assert!(plenty.pool.stores > 1000, "{plenty:#?}");
    assert_eq!(plenty.pool.compactions, 0, "{plenty:#?}");
}

/// Some of the pages do not shrink; of the others, most fit in the pool.
fn full_pool(test: &str, scheme: &str, data_bytes: usize) -> Vec<ArenaStats> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut all = Vec::new();
    for (i, way) in ALL_WAYS.into_iter().enumerate() {
        if !can_run(test, way.0) {
            continue;
        }
        let config = ArenaConfig {
            backing: Some(directory.path().join(format!("backing-{i}"))),
            backing_limit_bytes: 64 << 20,
            pool_limit_bytes: Some(3 * MIB as u64 / 2),
            ..config_of(scheme, way)
        };
        let stats = random_touch_while(NOISE, config, data_bytes, 1000, None);
        assert!(stats.engine.written_back_chunks > 0, "{way:?}: {stats:#?}");
        all.push(stats);
    }
    all
}

#[test]
fn random_touch_ezswap_with_a_backing_file() {
    let test = "random_touch_ezswap_with_a_backing_file";
    for stats in full_pool(test, "ezswap", 12 * MIB) {
        assert!(stats.engine.sampled_chunks > 0, "{stats:#?}");
        assert!(stats.engine.not_admitted > 0, "{stats:#?}");
        assert!(stats.engine.stored_raw > 0, "{stats:#?}");
    }
}

#[test]
fn random_touch_parts_of_ezswap() {
    for scheme in ["ezswap-apa-ca", "ezswap-ca-sa", "ezswap-zswap+layout=zbud"] {
        full_pool("random_touch_parts_of_ezswap", scheme, 12 * MIB);
    }
}

#[test]
fn random_touch_warmswap_with_the_slots_of_others() {
    let scheme = "warmswap+admission=selective+eviction=lottery+prefetch=both+layout=z3fold";
    let test = "random_touch_warmswap_with_the_slots_of_others";
    full_pool(test, scheme, 12 * MIB);
}

/// Where memory is short, the kernel takes pages from the arena, too: out of their places, and out of staging on their
/// way.
#[test]
fn random_touch_while_the_kernel_swaps_by_itself() {
    let test = "random_touch_while_the_kernel_swaps_by_itself";
    let root = Root::machine();
    if let Err(reason) = probe(&root) {
        skip!(test, "{reason}");
    }
    let folder = tempfile::tempdir().expect("a directory");
    let undo = Undo::open(&root, folder.path()).expect("a record of what is changed");
    let swap = ZramConfig {
        disk_bytes: 64 << 20,
        algorithm: "lz4".to_owned(),
        second_algorithm: None,
        backing_device: None,
        memory_limit_bytes: None,
        priority: 32767,
    };
    let swap = ZramSwap::create(&undo, &swap).expect("a device");
    let own = Process::open(std::process::id()).expect("this process");
    let page_out = |region: &Region| {
        let all = PageRange {
            first: region.as_mut_ptr() as u64 / PAGE as u64,
            count: (region.len() / PAGE) as u64,
        };
        // It says nothing of pages that are away, or on their way.
        let _ = advise(&own, Advice::PageOut, &[all]);
    };
    for way in ALL_WAYS {
        if can_run(test, way.0) {
            let config = config_of("warmswap", way);
            random_touch_while(1, config, 16 * MIB, 1000, Some(&page_out));
        }
    }
    let io = swap.io().expect("its counts");
    assert!(io.freed_pages > 1000, "it swapped: {io:?}");
}
