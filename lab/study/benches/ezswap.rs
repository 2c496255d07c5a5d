//! What ezswap's decisions cost: the estimate of a page's size and an admission beside compressing the page with
//! lz4, and the choice of a victim among 10^3 to 10^7 pages of the pool.
//!
//! The pages are those of the shipped trace. Prints the means and the shares, admissions for a full pool of such pages
//! that serves so many of the page-ins; with criterion's numbers below, for each number of pages.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use warmswap_codec::{ChunkPlan, Codec, Scratch, encode_contiguous};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::admission::SAMPLE_BYTES;
use warmswap_policy::admission::{Admission, Candidate, Selective, estimate_bytes, estimate_for};
use warmswap_policy::eviction::{Eviction, Lottery};
use warmswap_policy::{ChunkId, Hotness, StoredChunk};
use warmswap_trace::{ContentId, TraceReader};

type Page = [u8; PAGE_BYTES];

fn pages() -> Vec<Page> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mixed.wst");
    let trace = TraceReader::open(path).expect("the shipped trace");
    let count = trace.summary().contents;
    let mut pages = vec![[0; PAGE_BYTES]; count as usize];
    for (id, page) in (0..).zip(&mut pages) {
        trace.content(ContentId(id), page).expect("a page of it");
    }
    pages
}

fn head(page: &Page) -> &[u8; SAMPLE_BYTES] {
    page.first_chunk().expect("a page is longer")
}

/// CPU time of this thread: what other programs do meanwhile does not count.
fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Nanoseconds of CPU time a page of the fastest of `passes` passes.
fn ns_per_page(pages: &[Page], passes: u32, mut work: impl FnMut(&Page)) -> f64 {
    let pass = |_| {
        let begin = thread_time();
        pages.iter().for_each(&mut work);
        (thread_time() - begin).as_secs_f64() * 1e9 / pages.len() as f64
    };
    (0..passes).map(pass).fold(f64::INFINITY, f64::min)
}

fn estimate(criterion: &mut Criterion) {
    let pages = pages();
    let plan = ChunkPlan::page(Codec::Lz4);
    let mut scratch = Scratch::new();
    let mut out = vec![0; plan.max_encoded_bytes(1)];
    let mut compress = |page: &Page| {
        let encoded = encode_contiguous(&mut scratch, plan, page, &mut out);
        encoded.expect("lz4 takes any page").bytes as u32
    };
    let sizes: Vec<u32> = pages.iter().map(&mut compress).collect();
    let compression_ns = ns_per_page(&pages, 20, |page| {
        black_box(compress(page));
    });
    let estimate_ns = ns_per_page(&pages, 200, |page| {
        black_box(estimate_bytes(head(page)));
    });
    println!(
        "{} pages: estimate {estimate_ns:.0} ns, lz4 {compression_ns:.0} ns a page: {:.1} %",
        pages.len(),
        100.0 * estimate_ns / compression_ns
    );
    for hit_percent in [25, 50, 75, 100] {
        admission(&pages, &sizes, hit_percent, compression_ns);
    }
    let mut group = criterion.benchmark_group("admission");
    group.throughput(Throughput::Elements(pages.len() as u64));
    group.bench_function("estimate of every page of the trace", |bencher| {
        bencher.iter(|| {
            pages
                .iter()
                .map(|page| estimate_bytes(head(black_box(page))))
                .sum::<u32>()
        });
    });
    group.finish();
}

/// What a decision on an anonymous page costs beside a full pool of these pages that serves so many of the page-ins.
fn admission(pages: &[Page], sizes: &[u32], hit_percent: u32, compression_ns: f64) {
    let mut policy = Selective::default();
    for &bytes in sizes {
        policy.entered(StoredChunk {
            hotness: Hotness::Cold,
            is_file: false,
            pages: 1,
            bytes,
        });
    }
    (0..256).for_each(|n| policy.page_in(n % 100 < hit_percent));
    let pool_bytes = sizes.iter().map(|&bytes| u64::from(bytes)).sum();
    let candidate = Candidate {
        hotness: Hotness::Cold,
        is_file: false,
    };
    let suffices = |bytes| policy.admits(candidate, bytes, pool_bytes);
    let admitted = pages
        .iter()
        .filter(|page| suffices(estimate_bytes(head(page))));
    let admitted = admitted.count();
    let decision_ns = ns_per_page(pages, 200, |page| {
        black_box(estimate_for(head(page), suffices));
    });
    println!(
        "{hit_percent} % hits: {:.0} % admitted, decision {decision_ns:.0} ns a page: {:.1} %",
        100.0 * admitted as f64 / pages.len() as f64,
        100.0 * decision_ns / compression_ns
    );
}

/// A lottery over that many pages of the pool, of all categories that one chunk makes.
fn lottery(pages: u32) -> Lottery {
    let mut lottery = Lottery::new(1);
    for n in 0..pages {
        lottery.placed(ChunkId(n), Some(n));
        lottery.insert(ChunkId(n), stored(n));
    }
    lottery
}

fn stored(n: u32) -> StoredChunk {
    StoredChunk {
        hotness: Hotness::Cold,
        is_file: n.is_multiple_of(3),
        pages: 1,
        bytes: 500 + n.wrapping_mul(2_654_435_761) % 3500,
    }
}

fn choice(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lottery: choose, remove, insert");
    for pages in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
        let mut lottery = lottery(pages);
        group.bench_function(BenchmarkId::from_parameter(pages), |bencher| {
            bencher.iter(|| {
                let victim = lottery.victim().expect("there are pages");
                lottery.remove(victim);
                lottery.placed(victim, Some(victim.0));
                lottery.insert(victim, stored(victim.0));
                victim
            });
        });
    }
    group.finish();
}

criterion_group!(benches, estimate, choice);
criterion_main!(benches);
