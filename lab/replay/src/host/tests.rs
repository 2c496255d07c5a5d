use super::*;
use crate::contents::Contents;
use crate::store::{AssumedStore, Assumption, CompressedStore};
use std::sync::Arc;
use warmswap_engine::Place;
use warmswap_engine::Refusal;
use warmswap_page::FileId;
use warmswap_policy::{ChunkId, PageId};
use warmswap_trace::synth::{SynthConfig, SynthEvents};

/// Contents of three kinds: zeros, words that repeat, and noise that no codec shrinks.
fn contents() -> Arc<Contents> {
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let page = |kind: u64| {
        let mut page = [0; PAGE_BYTES];
        for (i, byte) in page.iter_mut().enumerate() {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            *byte = match kind % 3 {
                0 => 0,
                1 => (i / 16) as u8 ^ kind as u8,
                _ => noise as u8,
            };
        }
        page
    };
    let pages: Vec<_> = (0..300).map(page).collect();
    Arc::new(Contents::from_pages(&pages))
}

fn config(scheme: &str, budget_pages: u64, backing_pages: u64) -> ReplayConfig {
    let budget_bytes = budget_pages * 4096;
    ReplayConfig {
        scheme: SchemeSpec::parse(scheme).unwrap(),
        limits: Limits {
            budget_bytes,
            pool_limit_bytes: budget_bytes / 2,
            backing_limit_bytes: backing_pages * 4096,
        },
        device: DeviceModel::default(),
        pressure: Pressure::Budget,
        file_pages: true,
        sight: Sight::All,
        reclaim: None,
    }
}

/// Three small applications, three relaunches each.
fn trace() -> Vec<Event> {
    let config = SynthConfig {
        relaunches: 3,
        ..SynthConfig::default()
    }
    .with_apps(3)
    .with_pages(3000);
    SynthEvents::new(&config, 300).unwrap().collect()
}

fn run(config: ReplayConfig, events: &[Event]) -> ReplayResult {
    let (limit_bytes, layout) = (config.limits.pool_limit_bytes, config.scheme.layout);
    let store = CompressedStore::with_layout(contents(), limit_bytes, layout).unwrap();
    let is_unlimited = config.scheme.build().unwrap().reclaim.is_unlimited();
    let mut replay = Replay::new(config, store, NoObserver).unwrap();
    for event in events {
        replay.feed(event).unwrap();
        let engine = replay.engine();
        let (usage, counters) = (engine.usage(), engine.counters());
        if !is_unlimited && counters.budget_exceeded == 0 {
            assert_eq!(
                engine.exceeded_bytes(),
                0,
                "at {event:?}: {usage:?} {counters:?}"
            );
        }
    }
    replay.engine().check().unwrap();
    replay.finish((0..3).map(|n| format!("app{n}")), true).0
}

/// What must not differ between two replays: all but measured nanoseconds.
fn decided(result: &ReplayResult) -> impl PartialEq + std::fmt::Debug + use<> {
    let relaunches: Vec<_> = result
        .relaunches()
        .map(|r| {
            (
                r.touched_pages,
                r.pool_faults,
                r.backing_faults,
                r.buffer_hits,
                r.hot_used,
                r.latency.modelled_ns,
            )
        })
        .collect();
    (
        result.counters,
        relaunches,
        result.totals.compressed_bytes,
        result.totals.flash_written_bytes,
    )
}

#[test]
fn every_scheme_gives_every_page_back_and_decides_the_same_twice() {
    let events = trace();
    for (name, _) in SchemeSpec::all_names() {
        let config = config(&name, 1600, 4000);
        let result = run(config.clone(), &events);
        assert_eq!(
            result.relaunches().count(),
            9,
            "{name}: {:?}",
            result.counters
        );
        if name != "dram" {
            assert!(
                result.counters.pool_faults + result.counters.backing_faults > 0,
                "{name}"
            );
        }
        assert_eq!(decided(&result), decided(&run(config, &events)), "{name}");
    }
}

#[test]
fn dram_costs_nothing_but_memory_and_swap_costs_flash() {
    let events = trace();
    let total = |name, backing| {
        let result = run(config(name, 1600, backing), &events);
        (
            result
                .relaunches()
                .map(|r| r.latency.total_ns())
                .sum::<u64>(),
            result.totals,
        )
    };
    let (dram_ns, dram) = total("dram", 0);
    let (zram_ns, zram) = total("zram", 0);
    let (swap_ns, swap) = total("swap", 8000);
    assert!(
        dram_ns < zram_ns && zram_ns < swap_ns,
        "{dram_ns} {zram_ns} {swap_ns}"
    );
    assert_eq!(dram.cpu.total_ns(), 0);
    assert_eq!(swap.cpu.total_ns(), 0);
    assert!(zram.cpu.total_ns() > 0 && zram.flash_written_bytes == 0);
    assert!(swap.flash_written_bytes > 0 && swap.flash_read_bytes > 0);
}

#[test]
fn zram_kills_when_nothing_fits_and_the_relaunch_says_so() {
    let result = run(config("zram", 700, 0), &trace());
    assert!(result.totals.kills > 0);
    let cold = result
        .apps
        .iter()
        .flat_map(|app| &app.relaunches)
        .filter(|r| r.was_killed)
        .count();
    assert!(cold > 0);
    assert_eq!(result.relaunches().count(), 9);
    let with_backing = run(config("zswap", 700, 8000), &trace());
    assert_eq!(
        with_backing.totals.kills, 0,
        "a backing file keeps them alive"
    );
}

/// The application is launched at 1 s, and has touched its page after 300 ms. It is killed, and relaunched.
fn killed_and_relaunched(cold: Option<u64>) -> ReplayResult {
    let event = |time_ms: u64, app, kind| Event {
        time_ns: time_ms * 1_000_000,
        app: AppId(app),
        kind,
    };
    let access = |number| EventKind::Access {
        page: PageAddr::Anon { number },
        write: true,
        // Noise: it does not shrink.
        content: Some(ContentId(2)),
    };
    let mut events = Vec::new();
    if let Some(cold_ms) = cold {
        events.push(event(1000, 0, EventKind::LaunchBegin(LaunchKind::Cold)));
        events.push(event(1001, 0, access(0)));
        events.push(event(1000 + cold_ms, 0, EventKind::LaunchEnd));
    } else {
        events.push(event(1001, 0, access(0)));
    }
    events.push(event(2000, 0, EventKind::Background));
    events.push(event(3000, 1, EventKind::LaunchBegin(LaunchKind::Cold)));
    events.extend((0..400).map(|number| event(3000 + 2 * number, 1, access(number))));
    events.push(event(4000, 1, EventKind::LaunchEnd));
    events.push(event(5000, 1, EventKind::Background));
    events.push(event(6000, 0, EventKind::LaunchBegin(LaunchKind::Relaunch)));
    events.push(event(6001, 0, access(0)));
    events.push(event(6002, 0, access(0)));
    events.push(event(6003, 0, EventKind::LaunchEnd));
    run(config("zram", 256, 0), &events)
}

#[test]
fn a_relaunch_after_a_kill_costs_what_the_recorded_cold_launch_took() {
    let device = DeviceModel::default();
    for cold_ms in [300, 700] {
        let result = killed_and_relaunched(Some(cold_ms));
        assert_eq!(result.apps[0].kills, 1, "{:?}", result.counters);
        let relaunches: Vec<_> = result.relaunches().collect();
        assert_eq!(relaunches.len(), 1);
        assert!(relaunches[0].was_killed);
        assert_eq!(relaunches[0].cold_launch_ns, cold_ms * 1_000_000);
        // The first touch is part of the cold launch, the second one finds its page.
        let expected_ns = cold_ms * 1_000_000 + device.page_access_ns;
        assert_eq!(relaunches[0].latency.modelled_ns, expected_ns);
    }
}

#[test]
fn where_no_cold_launch_was_recorded_a_relaunch_after_a_kill_costs_its_touches() {
    let device = DeviceModel::default();
    let result = killed_and_relaunched(None);
    let relaunch = result.relaunches().next().expect("one relaunch");
    assert_eq!((relaunch.was_killed, relaunch.cold_launch_ns), (true, 0));
    let expected_ns = 2 * device.page_access_ns + device.first_touch_ns;
    assert_eq!(relaunch.latency.modelled_ns, expected_ns);
}

#[test]
fn full_pressure_puts_everything_in_the_pool_but_the_excluded_hot_list() {
    let events = trace();
    let full = |scheme| {
        let mut config = config(scheme, 8000, 0);
        config.pressure = Pressure::Full;
        let result = run(config, &events);
        let hits: u64 = result
            .relaunches()
            .map(|r| r.touched_known_pages - r.pool_faults.min(r.touched_known_pages))
            .sum();
        (
            hits,
            result
                .relaunches()
                .map(|r| r.touched_known_pages)
                .sum::<u64>(),
        )
    };
    let (resident, touched) = full("zram");
    assert_eq!(resident, 0, "of {touched}");
    let (resident, touched) = full("ariadne-ehl-1k-2k-16k+prefetch=none");
    assert!(resident * 2 > touched, "{resident} of {touched} stayed");
}

#[test]
fn the_hot_list_predicts_as_well_as_the_trace_repeats_itself() {
    // Synthetic relaunches repeat 70 % of their hot set, and reuse 98 % of it at once or soon.
    let result = run(config("ariadne", 1600, 4000), &trace());
    let later: Vec<_> = result
        .apps
        .iter()
        .flat_map(|app| &app.relaunches[1..])
        .collect();
    let mean = |f: fn(&Relaunch) -> Option<f64>| {
        later.iter().filter_map(|r| f(r)).sum::<f64>() / later.len() as f64
    };
    let (coverage, accuracy) = (mean(Relaunch::coverage), mean(Relaunch::accuracy));
    assert!((0.6..=0.8).contains(&coverage), "coverage {coverage}");
    assert!((0.9..=1.0).contains(&accuracy), "accuracy {accuracy}");
}

#[test]
fn without_contents_everything_is_assumed_and_nothing_measured() {
    let config = config("warmswap", 1600, 4000);
    let store = AssumedStore::new(Assumption::default(), config.limits.pool_limit_bytes);
    let mut replay = Replay::new(config, store, NoObserver).unwrap();
    replay.feed_all(&trace()).unwrap();
    replay.engine().check().unwrap();
    let (result, _) = replay.finish(std::iter::empty(), false);
    assert!(result.counters.stored > 0);
    let ratio = result.totals.data_ratio().unwrap();
    assert!((ratio - 4096.0 / 1230.0).abs() < 1e-9);
    let windows = |app: &AppResult| -> u64 {
        let measured = app
            .relaunches
            .iter()
            .map(|relaunch| relaunch.latency.measured_ns);
        measured.sum::<u64>() + app.execution.measured_ns
    };
    assert_eq!(result.apps.iter().map(windows).sum::<u64>(), 0);
    assert!(result.totals.cpu.total_ns() > 0, "it is assumed");
}

#[test]
fn pages_of_files_are_read_again_after_they_left() {
    let page = |number| PageAddr::File {
        file: FileId(0),
        number,
    };
    let access = |time_ns, number, write| Event {
        time_ns,
        app: AppId(0),
        kind: EventKind::Access {
            page: page(number),
            write,
            content: None,
        },
    };
    let events: Vec<_> = (0..600)
        .map(|n| access(n * 1000, n % 300, n == 0))
        .collect();
    let result = run(config("zram", 256, 0), &events);
    assert!(
        result.counters.file_reads > 300,
        "{}",
        result.counters.file_reads
    );
    assert_eq!(result.counters.discarded_dirty, 1);
    assert_eq!(result.totals.flash_written_bytes, 4096);
    let mut without = config("zram", 256, 0);
    without.file_pages = false;
    assert_eq!(run(without, &events).counters.file_reads, 0);
}

fn file_page(number: u32) -> PageAddr {
    PageAddr::File {
        file: FileId(0),
        number: number.into(),
    }
}

/// Pages of a file that hold something, read in turn, and half of them written past the memory.
fn file_events() -> Vec<Event> {
    let event = |time_ns, kind| Event {
        time_ns,
        app: AppId(0),
        kind,
    };
    let mut events = Vec::new();
    for round in 0..4_u32 {
        for number in 0..300_u32 {
            let time_ns = u64::from(round * 300 + number) * 1_000_000;
            // Contents that shrink well: one of three kinds.
            let content = ContentId((number * 3 + 1) % 300);
            let page = file_page(number);
            events.push(event(
                time_ns,
                EventKind::Access {
                    page,
                    write: false,
                    content: (round == 0).then_some(content),
                },
            ));
            if round == 1 && number % 2 == 0 {
                let content = ContentId((number * 3 + 4) % 300);
                let page = file_page((number + 150) % 300);
                events.push(event(time_ns, EventKind::Content { page, content }));
            }
        }
    }
    events
}

#[test]
fn clean_pages_of_files_come_back_from_the_pool_and_leave_it_when_their_file_is_written() {
    let events = file_events();
    let without = run(config("ezswap-zswap", 256, 1000), &events);
    assert_eq!(without.counters.stored, 0);
    assert_eq!(without.counters.file_reads, 1200);
    let with = run(config("ezswap-apa", 256, 1000), &events);
    let counters = with.counters;
    assert!(counters.pool_faults > 500, "{counters:?}");
    assert_eq!(counters.stored_files, counters.stored);
    assert_eq!(counters.pool_faults + counters.file_reads, 1200);
    assert_eq!(with.totals.flash_written_bytes, 0, "they are never written");
    assert!(with.totals.flash_read_bytes < without.totals.flash_read_bytes);
    // Those that were written while they were in the pool are read again.
    let unwritten: Vec<_> = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Access { .. }))
        .copied()
        .collect();
    let reads = run(config("ezswap-apa", 256, 1000), &unwritten)
        .counters
        .file_reads;
    assert!(
        reads < counters.file_reads,
        "{reads} of {}",
        counters.file_reads
    );
}

#[test]
fn a_full_pool_drops_pages_of_files_and_writes_back_the_others() {
    let mut config = config("ezswap-apa-ca", 1600, 4000);
    config.limits.pool_limit_bytes = 60 * 4096;
    let with = run(config, &trace());
    assert!(with.counters.written_back_chunks > 0);
    let mut small = self::config("ezswap-apa-ca", 128, 1000);
    small.limits.pool_limit_bytes = 20 * 4096;
    let files = run(small, &file_events()).counters;
    assert!(files.evicted_files > 100, "{files:?}");
    assert_eq!(files.written_back_chunks, 0);
}

#[test]
fn selective_admission_keeps_what_does_not_shrink_out_of_a_pool_that_is_hit() {
    let limits = |scheme| {
        let mut config = config(scheme, 1600, 4000);
        config.limits.pool_limit_bytes = 200 * 4096;
        config
    };
    let all = run(limits("ezswap-zswap"), &trace());
    let some = run(limits("ezswap-ca-sa"), &trace());
    let counters = some.counters;
    assert!(counters.not_admitted > 0 && counters.stored_raw >= counters.not_admitted);
    assert_eq!(all.counters.sampled_chunks, 0, "no sample was asked for");
    assert!(counters.sampled_chunks >= counters.stored + counters.not_admitted);
    let (estimating, not) = (some.totals.cpu, all.totals.cpu);
    assert!(estimating.estimate_ns > 0, "its time is charged");
    let codec_ns = estimating.compress_ns() + estimating.decompress_ns();
    assert_eq!(estimating.total_ns(), codec_ns + estimating.estimate_ns);
    assert_eq!(not.estimate_ns, 0);
    assert!(some.totals.data_ratio() > all.totals.data_ratio());
}

#[test]
fn a_wrong_page_stops_the_replay() {
    /// Gives back a page that changed behind the store's back.
    struct Broken(CompressedStore);
    impl Store for Broken {
        fn holds(&self, page: PageId, content: ContentId) -> bool {
            self.0.holds(page, content)
        }
        fn set_content(&mut self, page: PageId, content: ContentId) {
            self.0.set_content(page, content);
        }
        fn sample(&self, page: PageId) -> Result<[u8; 512], ReplayError> {
            self.0.sample(page)
        }
        fn store(
            &mut self,
            engine: &Engine,
            chunk: ChunkId,
            plan: warmswap_codec::ChunkPlan,
        ) -> Result<Result<crate::store::StoredObject, Refusal>, ReplayError> {
            let stored = self.0.store(engine, chunk, plan);
            let page = engine.chunk_pages(chunk)[0];
            self.0.set_content(page, ContentId(1));
            stored
        }
        fn load(
            &mut self,
            engine: &Engine,
            chunk: ChunkId,
            place: Place,
        ) -> Result<u64, ReplayError> {
            self.0.load(engine, chunk, place)
        }
        fn write_back(&mut self, engine: &Engine, chunk: ChunkId) -> Result<u64, ReplayError> {
            self.0.write_back(engine, chunk)
        }
        fn store_raw(&mut self, engine: &Engine, chunk: ChunkId) {
            self.0.store_raw(engine, chunk);
        }
        fn free(&mut self, chunk: ChunkId, place: Place, bytes: u32) -> Result<(), ReplayError> {
            self.0.free(chunk, place, bytes)
        }
        fn tidy(&mut self) {}
        fn pool_bytes(&self) -> u64 {
            self.0.pool_bytes()
        }
        fn backing_bytes(&self) -> u64 {
            self.0.backing_bytes()
        }
        fn pool_load(&self) -> (u64, u64) {
            self.0.pool_load()
        }
        fn chunk_bytes(&self, engine: &Engine, chunk: ChunkId) -> u64 {
            self.0.chunk_bytes(engine, chunk)
        }
    }
    let config = config("zram", 1600, 0);
    let store = CompressedStore::new(contents(), config.limits.pool_limit_bytes).unwrap();
    let mut replay = Replay::new(config, Broken(store), NoObserver).unwrap();
    let result = replay.feed_all(&trace());
    assert!(
        matches!(result, Err(ReplayError::WrongContent { .. })),
        "{result:?}"
    );
}

#[test]
fn what_one_replay_encoded_serves_the_next_with_the_same_results() {
    let contents = contents();
    let counts = [(); 2].map(|()| {
        let config = config("ariadne", 1600, 4000);
        let store = CompressedStore::new(contents.clone(), config.limits.pool_limit_bytes).unwrap();
        let mut replay = Replay::new(config, store, NoObserver).unwrap();
        replay.feed_all(&trace()).unwrap();
        let (result, _) = replay.finish(std::iter::empty(), true);
        assert!(result.totals.cpu.compress_ns() > 0 && result.totals.cpu.decompress_ns() > 0);
        (result.counters, result.totals.compressed_bytes)
    });
    assert!(counts[0].0.stored > 0 && counts[0].0.pool_faults > 0);
    assert_eq!(counts[0], counts[1]);
}
