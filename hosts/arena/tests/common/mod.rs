//! What the live tests share: arenas of every kind, and pages that can be verified.
#![allow(unsafe_code, dead_code)] // Regions are reached through raw pointers; each test uses a part of this.

pub use warmswap_testkit::Random;

use std::sync::atomic::{AtomicU64, Ordering};

use warmswap_arena::{
    Advice, Arena, ArenaConfig, ArenaStats, FaultMode, FileRegion, Mechanism, Region,
};
use warmswap_policy::SchemeSpec;

pub const PAGE: usize = 4096;
pub const MIB: usize = 1 << 20;

/// A configuration of a scheme by name, for small tests.
pub fn config(budget_bytes: usize, scheme: &str) -> ArenaConfig {
    let spec = SchemeSpec::parse(scheme).expect("a scheme");
    ArenaConfig {
        address_space_bytes: 1 << 30,
        ..ArenaConfig::new(budget_bytes as u64, spec)
    }
}

/// Whether userfaultfd works here at all; if not, the test says by name that it is skipped.
pub fn can_run(test: &str, mechanism: Mechanism) -> bool {
    use warmswap_uffd::{Feature, Uffd};
    match Uffd::probe() {
        Err(error) => warmswap_testkit::record_skip(test, &error.to_string()),
        Ok(features) if mechanism == Mechanism::Move && !features.has(Feature::Move) => {
            warmswap_testkit::record_skip(test, "needs UFFDIO_MOVE (Linux 6.8)");
        }
        Ok(features) if !features.has(Feature::Sigbus) => {
            warmswap_testkit::record_skip(test, "needs UFFD_FEATURE_SIGBUS");
        }
        Ok(_) => return true,
    }
    false
}

pub const ALL_WAYS: [(Mechanism, FaultMode); 4] = [
    (Mechanism::Move, FaultMode::Signal),
    (Mechanism::Copy, FaultMode::Signal),
    (Mechanism::Move, FaultMode::Thread),
    (Mechanism::Copy, FaultMode::Thread),
];

/// The words of a region. Shared between threads as atomics.
pub fn words(region: &Region) -> &[AtomicU64] {
    // SAFETY: the region lives as long as the borrow, its memory is zero or was written through these
    // atomics, and it is aligned to a page.
    unsafe { std::slice::from_raw_parts(region.as_mut_ptr().cast(), region.len() / 8) }
}

/// The pages of a file, the last one up to its end.
pub fn bytes(region: &FileRegion) -> &[u8] {
    let len = region.len().next_multiple_of(PAGE);
    // SAFETY: the region lives as long as the borrow, its last page is mapped as a whole, and no thread writes to it.
    unsafe { std::slice::from_raw_parts(region.as_ptr(), len) }
}

/// Fills a page with a pattern of its number and version that compresses well, but is never the same.
pub fn write_page(words: &[AtomicU64], page: usize, version: u64) {
    for (i, word) in words[page * 512..][..512].iter().enumerate() {
        word.store(pattern(page, version, i), Ordering::Relaxed);
    }
}

/// Checks a page that no thread writes to now.
pub fn check_page(words: &[AtomicU64], page: usize, version: u64) {
    for (i, word) in words[page * 512..][..512].iter().enumerate() {
        let found = word.load(Ordering::Relaxed);
        let expected = pattern(page, version, i);
        assert_eq!(found, expected, "page {page}, word {i}, version {version}");
    }
}

/// In a version from here on every fourth page does not shrink, and the others shrink to a quarter.
pub const NOISE: u64 = 1 << 12;

fn pattern(page: usize, version: u64, word: usize) -> u64 {
    // Some words that do not compress, then a repetition.
    let random_words = match version {
        ..NOISE => 8,
        _ if page.is_multiple_of(4) => 512,
        _ => 128,
    };
    if word < random_words {
        Random((page as u64) << 32 | version << 16 | word as u64).next()
    } else {
        (page as u64) << 20 | version
    }
}

/// Checks the account of an arena where no thread is at work: frames add up, and the budget holds.
pub fn check_account(arena: &Arena) {
    // A fault may have been told twice, so that its second service is still under way.
    let adds_up = |stats: &ArenaStats| {
        stats.resident_frames + stats.staged_frames + stats.free_frames == stats.held_frames
    };
    let mut stats = arena.stats();
    for _ in 0..1000 {
        if adds_up(&stats) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        stats = arena.stats();
    }
    assert_eq!(
        stats.resident_frames + stats.staged_frames + stats.free_frames,
        stats.held_frames,
        "{stats:#?}"
    );
    assert!(
        stats.used_bytes() <= stats.budget_bytes,
        "{} of {} bytes used: {stats:#?}",
        stats.used_bytes(),
        stats.budget_bytes
    );
    arena.check().expect("the engine's invariants");
}

/// Sends all pages of a region away and waits until they are. Advice passes over pages that a prediction is
/// bringing back at that moment, so it is repeated.
pub fn leave(region: &Region) {
    let all = 0..region.len();
    while region.pages_in_frames(all.clone()).expect("in the region") > 0 {
        region
            .advise(all.clone(), Advice::Cold)
            .expect("in the region");
        std::thread::yield_now();
    }
}
