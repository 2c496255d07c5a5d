//! What the footprint estimators cost for each page of a footprint: one switch, from its beginning to its
//! end, with all that is asked of an estimator between.
//!
//! `cargo bench -p warmswap-policy`. Criterion's elements are pages of the footprint.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use warmswap_policy::prefetch::footprint::plan::{anon_batches, files_largest_first};
use warmswap_policy::prefetch::footprint::{AnonEstimator, Extent, FileEstimator, Profiler};

/// Footprints of a small and of a large application.
const PAGES: [u64; 3] = [1_000, 10_000, 100_000];

/// Page `n` of a footprint: runs of eight neighbours, strewn over the address space.
fn page(n: u64) -> u64 {
    (n / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 & !7 | (n % 8)
}

/// One switch: what is to come back, four of five pages in place, the others by fault, and a tenth of the
/// pages different from switch to switch.
fn anon_switch(estimator: &mut AnonEstimator, pages: u64, switch: u64) {
    estimator.window_begin();
    let targets = estimator.targets();
    black_box(anon_batches::<u32>(&targets).count());
    for n in 0..pages {
        let n = if n % 10 == 0 { n + pages * switch } else { n };
        estimator.accessed(page(n), n % 5 == 0);
    }
    black_box(estimator.window_end());
}

fn file_switch(estimator: &mut FileEstimator<u32>, pages: u64) {
    estimator.window_begin();
    for plan in files_largest_first(estimator.targets()) {
        for extent in &plan.extents {
            estimator.fetched(plan.file, *extent);
        }
    }
    for n in 0..pages {
        let page = n + n / 100 * 50;
        estimator.accessed((n % 7) as u32, page);
        if n % 5 == 0 {
            estimator.faulted((n % 7) as u32, Extent::page(page));
        }
    }
    black_box(estimator.window_end());
}

fn switches(c: &mut Criterion) {
    let mut group = c.benchmark_group("switch");
    for pages in PAGES {
        group.throughput(Throughput::Elements(pages));
        group.bench_with_input(BenchmarkId::new("anonymous", pages), &pages, |b, &pages| {
            let mut estimator = AnonEstimator::default();
            let mut switch = 0;
            b.iter(|| {
                switch += 1;
                anon_switch(&mut estimator, pages, switch);
            });
        });
        group.bench_with_input(BenchmarkId::new("file", pages), &pages, |b, &pages| {
            let mut profiler = Profiler::default();
            for n in 0..pages {
                profiler.accessed((n % 7) as u32, n + n / 100 * 50);
            }
            profiler.window_end();
            let mut estimator = FileEstimator::new(profiler.table());
            b.iter(|| file_switch(&mut estimator, pages));
        });
    }
    group.finish();
}

criterion_group!(benches, switches);
criterion_main!(benches);
