//! Files as memory: what is read there is what the file holds, wherever its pages are.

mod common;

use common::*;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use warmswap_arena::{Advice, Arena, ArenaConfig, ArenaError, FileRegion, Mechanism};

/// The bytes of a page of a file: a few words that do not compress, then a repetition.
fn page_of(page: usize, version: u64) -> [u8; PAGE] {
    let mut random = Random((page as u64) << 8 | version);
    let mut bytes = [page as u8; PAGE];
    for word in bytes.as_chunks_mut::<8>().0.iter_mut().take(8) {
        *word = random.next().to_le_bytes();
    }
    bytes
}

fn file(folder: &Path, pages: usize) -> std::path::PathBuf {
    let path = folder.join("data");
    let mut file = std::fs::File::create(&path).expect("a file");
    for page in 0..pages {
        file.write_all(&page_of(page, 1)).expect("written");
    }
    path
}

#[track_caller]
fn check(region: &FileRegion, page: usize, version: u64) {
    let found = &bytes(region)[page * PAGE..][..PAGE];
    assert!(found == page_of(page, version), "page {page}");
}

/// Sends all pages away and waits until they are.
fn send_away(region: &FileRegion) {
    let all = 0..region.len();
    while region.resident_pages(all.clone()).expect("in the region") > 0 {
        region.advise(all.clone(), Advice::Cold).expect("in it");
        std::thread::yield_now();
    }
}

#[test]
fn random_touch_of_a_file_beside_anonymous_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = 8 * MIB / PAGE;
    let path = file(folder.path(), pages);
    for scheme in [
        "zram",
        "asap",
        "ezswap",
        "ezswap-apa",
        "warmswap+file-pages=on",
    ] {
        for (i, way) in ALL_WAYS.into_iter().enumerate() {
            if !can_run("random_touch_of_a_file", way.0) {
                continue;
            }
            let arena = Arena::new(ArenaConfig {
                mechanism: way.0,
                fault_mode: way.1,
                // Where a pool evicts, anonymous pages of it need a place to go.
                backing: Some(folder.path().join(format!("{scheme}-{i}"))),
                backing_limit_bytes: 64 << 20,
                ..config(4 * MIB, scheme)
            })
            .expect("an arena");
            let app = arena.application("app").expect("room");
            let map = app.map_file(&path).expect("a map");
            let region = app.region(2 * MIB).expect("a region");
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (map, region) = (&map, &region);
                    scope.spawn(move || {
                        let mut random = Random(thread);
                        for _ in 0..1500 {
                            check(map, random.below(pages), 1);
                            let own = random.below(128) * 4 + thread as usize;
                            write_page(words(region), own, 1);
                            check_page(words(region), own, 1);
                        }
                    });
                }
            });
            (0..pages).for_each(|page| check(&map, page, 1));
            let stats = arena.stats();
            let counters = &stats.engine;
            if scheme == "zram" || scheme == "asap" {
                assert_eq!(counters.stored_files, 0, "{scheme} {way:?}");
                assert!(counters.discarded > 0, "{scheme} {way:?}: {stats:#?}");
            } else {
                assert!(counters.stored_files > 0, "{scheme} {way:?}: {stats:#?}");
            }
            check_account(&arena);
            drop(map);
            (0..512).for_each(|page| {
                words(&region)[page * 512].load(std::sync::atomic::Ordering::Relaxed);
            });
            check_account(&arena);
        }
    }
}

#[test]
fn a_file_is_looked_up_in_the_pool_and_leaves_it_when_it_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), 64);
    for mechanism in [Mechanism::Move, Mechanism::Copy] {
        if !can_run("a_file_is_looked_up_in_the_pool", mechanism) {
            continue;
        }
        let arena = Arena::new(ArenaConfig {
            mechanism,
            ..config(8 * MIB, "ezswap-apa")
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let map = app.map_file(&path).expect("a map");
        (0..64).for_each(|page| check(&map, page, 1));
        let reads = arena.stats().file_reads;
        assert_eq!(reads, 64);
        send_away(&map);
        let writer = std::fs::File::options().write(true).open(&path);
        let writer = writer.expect("open");
        for page in 0..64 {
            writer
                .write_all_at(&page_of(page, 2), (page * PAGE) as u64)
                .expect("written");
        }
        // The arena was not told: the pool still has what was there.
        (0..32).for_each(|page| check(&map, page, 1));
        assert_eq!(arena.stats().file_reads, reads, "{mechanism:?}");
        // Half of them are in their places now, the others in the pool.
        map.file_written(16 * PAGE..48 * PAGE).expect("in the file");
        (0..16).for_each(|page| check(&map, page, 1));
        (16..48).for_each(|page| check(&map, page, 2));
        (48..64).for_each(|page| check(&map, page, 1));
        assert_eq!(arena.stats().file_reads, reads + 32, "{mechanism:?}");
        check_account(&arena);
        map.file_written(0..map.len()).expect("in the file");
        (0..64).for_each(|page| check(&map, page, 2));
        for page in 0..64 {
            writer
                .write_all_at(&page_of(page, 1), (page * PAGE) as u64)
                .expect("written");
        }
    }
}

#[test]
fn a_full_pool_gives_up_pages_of_files_and_they_are_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = 16 * MIB / PAGE;
    let path = file(folder.path(), pages);
    for way in ALL_WAYS {
        if !can_run("a_full_pool_gives_up_pages_of_files", way.0) {
            continue;
        }
        let arena = Arena::new(ArenaConfig {
            mechanism: way.0,
            fault_mode: way.1,
            pool_limit_bytes: Some(MIB as u64),
            ..config(4 * MIB, "ezswap")
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let map = app.map_file(&path).expect("a map");
        let mut random = Random(1);
        for _ in 0..3 {
            (0..pages).for_each(|page| check(&map, page, 1));
            (0..pages).for_each(|_| check(&map, random.below(pages), 1));
        }
        let stats = arena.stats();
        assert!(stats.engine.evicted_files > 0, "{way:?}: {stats:#?}");
        check_account(&arena);
    }
}

#[test]
fn the_pages_of_a_file_that_launches_use_come_back_ahead() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), 256);
    for mechanism in [Mechanism::Move, Mechanism::Copy] {
        if !can_run("the_pages_of_a_file_that_launches_use", mechanism) {
            continue;
        }
        let arena = Arena::new(ArenaConfig {
            mechanism,
            ..config(8 * MIB, "zram+prefetch=footprint:profile=2")
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let map = app.map_file(&path).expect("a map");
        let used = 40..104;
        let launch = || {
            app.background();
            send_away(&map);
            app.foreground();
            let mut tries = 0;
            while arena.stats().is_prepaging && tries < 10_000 {
                std::thread::sleep(std::time::Duration::from_millis(1));
                tries += 1;
            }
            let bytes = used.start * PAGE..used.end * PAGE;
            let in_place = map.resident_pages(bytes).expect("in the file");
            used.clone().for_each(|page| check(&map, page, 1));
            app.launch_done();
            in_place
        };
        app.foreground();
        app.launch_done();
        // Two make the profile, the third the targets.
        assert_eq!([launch(), launch(), launch()], [0; 3], "{mechanism:?}");
        assert_eq!(launch(), used.len(), "{mechanism:?}");
        (0..256).for_each(|page| check(&map, page, 1));
        check_account(&arena);
    }
}

#[test]
fn the_last_page_ends_with_zeros_and_what_cannot_be_mapped_is_named() {
    if !can_run("the_last_page_ends_with_zeros", Mechanism::Auto) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("short");
    std::fs::write(&path, [7; PAGE + 5]).expect("written");
    let arena = Arena::new(config(8 * MIB, "ezswap")).expect("an arena");
    let app = arena.application("app").expect("room");
    let map = app.map_file(&path).expect("a map");
    assert_eq!(map.len(), PAGE + 5);
    let (content, behind) = bytes(&map).split_at(map.len());
    assert_eq!(content, &[7; PAGE + 5]);
    assert!(behind.len() == PAGE - 5 && behind.iter().all(|&byte| byte == 0));
    let _pinned = map.pin(0..map.len()).expect("in the file");
    assert!(map.file_written(0..2 * PAGE + 1).is_err());
    std::fs::write(&path, []).expect("written");
    for bad in [path, folder.path().join("none")] {
        match app.map_file(&bad) {
            Err(ArenaError::File { path, .. }) => assert_eq!(path, bad),
            other => panic!("{other:?}"),
        }
    }
}
