//! Page accesses a second of a replay without contents (scheme `zram`, budget of half the pages), and
//! how the time per access grows from 10^5 to 10^7 pages.
//!
//! The target is 5 million accesses a second on one core, and a growth of at most 1.5.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use warmswap_engine::Limits;
use warmswap_policy::SchemeSpec;
use warmswap_replay::store::Assumption;
use warmswap_replay::{
    AssumedStore, DeviceModel, NoObserver, Pressure, Replay, ReplayConfig, Sight,
};
use warmswap_trace::Event;
use warmswap_trace::synth::{SynthConfig, SynthEvents};

/// Replays the events; the engine's state in bytes.
fn replay(events: &[Event], scheme: &str, pages: u64) -> u64 {
    let budget_bytes = pages / 2 * 4096;
    let limits = Limits {
        budget_bytes,
        pool_limit_bytes: budget_bytes / 2,
        backing_limit_bytes: 0,
    };
    let config = ReplayConfig {
        scheme: SchemeSpec::named(scheme).expect("a known scheme"),
        limits,
        device: DeviceModel::default(),
        pressure: Pressure::Budget,
        file_pages: true,
        sight: Sight::All,
        reclaim: None,
    };
    let store = AssumedStore::new(Assumption::default(), limits.pool_limit_bytes);
    let mut replay = Replay::new(config, store, NoObserver).expect("limits that make sense");
    replay.feed_all(events).expect("no content can be wrong");
    replay.engine().state_bytes() as u64
}

fn accesses(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay without contents");
    group.sample_size(10);
    for pages in [100_000, 1_000_000, 10_000_000] {
        let config = SynthConfig::default().with_pages(pages);
        let events: Vec<_> = SynthEvents::new(&config, 0)
            .expect("a valid configuration")
            .collect();
        group.throughput(Throughput::Elements(events.len() as u64));
        for scheme in ["zram", "ariadne"] {
            let state_bytes = replay(&events, scheme, pages);
            println!(
                "{scheme}, {pages} pages: {:.1} bytes of state a page",
                state_bytes as f64 / pages as f64
            );
            group.bench_with_input(
                BenchmarkId::new(scheme, pages),
                &events,
                |bencher, events| {
                    bencher.iter(|| black_box(replay(events, scheme, pages)));
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, accesses);
criterion_main!(benches);
