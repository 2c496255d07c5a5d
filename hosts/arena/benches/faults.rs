//! What a page costs on its way back and out: in-thread faults, bulk restore, swap-out.
#![allow(unsafe_code)] // Regions are reached through raw pointers.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use warmswap_arena::{Advice, Application, Arena, ArenaConfig, Region};
use warmswap_policy::SchemeSpec;

const PAGE: usize = 4096;
const PAGES: usize = 2048;

struct Subject {
    arena: Arena,
    app: Application,
    region: Region,
}

/// A region filled with data that lz4 shrinks to about a third, with memory enough for all of it.
fn subject(scheme: &str) -> Subject {
    let spec = SchemeSpec::parse(scheme).expect("a scheme");
    let arena = Arena::new(ArenaConfig {
        verify: false,
        ..ArenaConfig::new(256 << 20, spec)
    })
    .expect("an arena");
    let app = arena.application("bench").expect("room");
    let region = app.region(PAGES * PAGE).expect("a region");
    let subject = Subject { arena, app, region };
    let mut random = 1u64;
    for i in 0..PAGES * PAGE / 8 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let word = if i % 4 == 0 {
            random >> 16
        } else {
            i as u64 / 64
        };
        // SAFETY: within the region, which lives.
        unsafe { subject.region.as_mut_ptr().cast::<u64>().add(i).write(word) };
    }
    subject
}

impl Subject {
    fn leave(&self) {
        let all = 0..self.region.len();
        while self
            .region
            .resident_pages(all.clone())
            .expect("in the region")
            > 0
        {
            self.region
                .advise(all.clone(), Advice::Cold)
                .expect("in the region");
            std::thread::sleep(Duration::from_micros(200));
        }
        // Waits for the pager's lock.
        let _ = self.arena.stats();
    }

    /// Reads a byte of every page, in an order that looks random.
    fn touch_all(&self) {
        for i in 0..PAGES {
            let page = i * 769 % PAGES;
            // SAFETY: within the region, which lives.
            unsafe { self.region.as_mut_ptr().add(page * PAGE).read_volatile() };
        }
    }
}

fn timed(iterations: u64, mut prepare: impl FnMut(), mut run: impl FnMut()) -> Duration {
    (0..iterations)
        .map(|_| {
            prepare();
            let begin = Instant::now();
            run();
            begin.elapsed()
        })
        .sum()
}

fn faults(c: &mut Criterion) {
    let mut group = c.benchmark_group("2048 pages of 4 KiB");
    group.throughput(Throughput::Elements(PAGES as u64));
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(2));
    for (name, scheme) in [
        ("touch at random, a page a chunk", "zram"),
        (
            "touch at random, 64 KiB chunks",
            "zram+sizing=adaptive:64k-64k-64k",
        ),
    ] {
        let subject = subject(scheme);
        group.bench_function(name, |b| {
            b.iter_custom(|n| timed(n, || subject.leave(), || subject.touch_all()));
        });
    }
    let bulk = subject("zram");
    group.bench_function("bulk restore, a page a chunk", |b| {
        let restore = || {
            let all = 0..bulk.region.len();
            bulk.region
                .advise(all, Advice::WorkingSet)
                .expect("in the region");
        };
        b.iter_custom(|n| timed(n, || bulk.leave(), restore));
    });
    let chunked = subject("zram+sizing=adaptive:64k-64k-64k");
    group.bench_function("bulk restore, 64 KiB chunks", |b| {
        let restore = || {
            let all = 0..chunked.region.len();
            chunked
                .region
                .advise(all, Advice::WorkingSet)
                .expect("in the region");
        };
        b.iter_custom(|n| timed(n, || chunked.leave(), restore));
    });
    let out = subject("zram");
    group.bench_function("swap-out, a page a chunk", |b| {
        b.iter_custom(|n| timed(n, || out.touch_all(), || out.leave()));
    });
    drop(out.app);
    group.finish();
}

criterion_group!(benches, faults);
criterion_main!(benches);
