//! Files in a program's space. One test: the space closes its descriptors and opens them under the same numbers, which
//! no other caller may have got meanwhile.

mod common;

use common::*;
use std::path::Path;
use std::time::{Duration, Instant};
use warmswap_arena::{ArenaConfig, ArenaError};
use warmswap_policy::SchemeSpec;
use warmswap_program::{Over, Protection, Space};

const PAGES: usize = 4096;

/// How long something may take that will happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes of a page of the file.
fn page_of(page: usize) -> [u8; PAGE] {
    let mut random = Random(page as u64);
    let mut bytes = [page as u8; PAGE];
    for word in bytes.as_chunks_mut::<8>().0.iter_mut().take(8) {
        *word = random.next().to_le_bytes();
    }
    bytes
}

#[track_caller]
fn check(address: usize, page: usize) {
    let found = pages_at(address + page * PAGE, 1);
    assert!(found == page_of(page), "page {page}");
}

/// An adopted space of 4 MiB; `None` without the right to it.
fn space() -> Option<Space> {
    let scheme = SchemeSpec::parse("ezswap").expect("a scheme");
    let config = ArenaConfig {
        address_space_bytes: 1 << 30,
        ..ArenaConfig::new(4 << 20, scheme)
    };
    let space = match Space::new(config, "program", 64 << 30) {
        Ok(space) => space,
        Err(error @ (ArenaError::Memory(_) | ArenaError::UserOnly | ArenaError::CannotMove)) => {
            warmswap_testkit::record_skip("a_file_in_a_space", &error.to_string());
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    space.attach().expect("descriptors");
    space.adopt().expect("threads");
    Some(space)
}

fn make_file(path: &Path) {
    let bytes: Vec<u8> = (0..PAGES).flat_map(page_of).collect();
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn a_file_in_a_space() {
    let Some(space) = space() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    make_file(&path);
    let map = |content: usize, pages: usize| {
        let len = pages * PAGE;
        let mapped = space.map_file(twin(&path, pages), (content * PAGE, len), path.clone());
        mapped.expect("there is room")
    };
    // Four times the budget, with a page behind its end.
    let address = map(PAGES, PAGES + 1);
    assert!(space.is_file(address, PAGES * PAGE));
    assert!(space.is_foreign(address + PAGES * PAGE, PAGE));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let mut random = Random(thread);
                (0..2000).for_each(|_| check(address, random.below(PAGES)));
            });
        }
    });
    (0..PAGES).for_each(|page| check(address, page));
    let stats = space.stats();
    assert!(stats.engine.stored_files > 1000, "{stats:#?}");
    assert!(stats.used_bytes() <= stats.budget_bytes, "{stats:#?}");

    // Memory in the middle of it, and twice the same file.
    let middle = address + 1000 * PAGE;
    space.unmap(middle, 600 * PAGE).expect("mapped");
    assert!(space.is_free(middle, 600 * PAGE));
    let map_at = space.map_at(middle, 600 * PAGE, Protection::READ_WRITE, Over::Nothing);
    map_at.expect("free");
    write_at(middle, 600, 9);
    let second = map(PAGES, PAGES);
    for page in 0..PAGES {
        check(second, page);
        if (1000..1600).contains(&page) {
            let found = pages_at(address + page * PAGE, 1);
            assert!(found.iter().all(|&byte| byte == 9), "page {page}");
        } else {
            check(address, page);
        }
    }

    // More than reading makes a part the kernel's, and less does.
    let mapped = space.file_bytes();
    for (first, protection) in [(2000, Protection::READ_WRITE), (3000, Protection::NONE)] {
        let part = address + first * PAGE;
        let protected = space.protect(part, 700 * PAGE, protection);
        protected.expect("mapped");
        assert!(space.is_foreign(part, 700 * PAGE));
    }
    assert_eq!(space.file_bytes(), mapped - 1400 * PAGE as u64);
    write_at(address + 2000 * PAGE, 10, 7);
    (2010..3000).for_each(|page| check(address, page));
    (0..PAGES).for_each(|page| check(second, page));

    // What is unmapped can be used again, once it is recovered.
    space.unmap(address, (PAGES + 1) * PAGE).expect("mapped");
    assert!(!space.is_free(address, PAGES * PAGE));
    space.recover().expect("adopted");
    assert!(space.is_free(address, (PAGES + 1) * PAGE));
    let third = map(PAGES, PAGES);
    assert_eq!(third, address);
    (0..PAGES).for_each(|page| check(third, page));

    // It moves out, or does not.
    let refuse = |_| Err(std::io::ErrorKind::OutOfMemory.into());
    let refused = space.remap_file(third, PAGES * PAGE, refuse);
    assert!(refused.expect("ours").expect("a file").is_err());
    (0..PAGES).for_each(|page| check(third, page));
    let moved = space.remap_file(third, PAGES * PAGE, Ok).expect("ours");
    let moved = moved.expect("a file").expect("as told");
    assert!(!space.range().contains(&moved));
    (0..PAGES).for_each(|page| check(moved, page));

    // A file that becomes longer than the part that is mapped of it, and discarded content.
    // Every page is read again after that, by the first thread that needs it.
    let reads = space.stats().file_reads;
    space.discard(second, PAGES * PAGE).expect("mapped");
    (0..PAGES).for_each(|page| check(second, page));
    // The last ones are counted after the thread that waits for them goes on.
    let again = || space.stats().file_reads - reads;
    let begin = Instant::now();
    while again() < PAGES as u64 && begin.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert!(again() >= PAGES as u64, "{} of {PAGES}", again());
    space.unmap(second, PAGES * PAGE).expect("mapped");
    assert_eq!(space.file_bytes(), 0);
    // Its end is the process's.
    std::mem::forget(space);
}
