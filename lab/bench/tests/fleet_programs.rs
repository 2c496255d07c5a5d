//! The programs of the Fleet benchmark show the same things whatever collector is below.

use std::sync::Arc;
use std::time::Duration;

use warmswap_bench::fleet::program::{Program, ProgramError};
use warmswap_bench::fleet::programs::{
    Corpus, Graph, Index, IndexOptions, ObjectShapes, Synthetic, SyntheticOptions,
};
use warmswap_heap::{
    Collector, FleetConfig, Heap, HeapConfig, KernelMemory, Kind, MarvinConfig, Mutator,
};

const MIB: usize = 1 << 20;
const NEVER: Duration = Duration::from_secs(1 << 30);

const FLEET: Collector = Collector::Fleet(FleetConfig {
    background_wait: NEVER,
    foreground_wait: NEVER,
    advice_interval: NEVER,
    hot_restores: false,
    background_collections: true,
    guided_swap: true,
    launch_depth: warmswap_heap::LaunchDepth::References(2),
    learned_launches: true,
    regroup_percent: 0,
});

const MARVIN: Collector = Collector::Marvin(MarvinConfig {
    least_bytes: 128,
    idle_passes: 1,
    pass_interval: NEVER,
});

fn heap(max_bytes: usize, collector: Collector, stress: bool) -> Heap {
    let config = HeapConfig {
        background_collection_wait: None,
        stress,
        ..HeapConfig::new(max_bytes).with(collector)
    };
    let memory = KernelMemory::new(config.address_bytes()).expect("memory");
    Heap::new(memory, config).expect("a heap")
}

/// All programs with data of about so many bytes.
fn programs(bytes: usize) -> Vec<Box<dyn Program>> {
    let corpus = Arc::new(Corpus::made_up(bytes / 2, 7));
    let shapes = Arc::new(ObjectShapes::made_up(bytes / 130, 3));
    vec![
        Box::new(Synthetic::new(SyntheticOptions::small(bytes, 1))),
        Box::new(Synthetic::new(SyntheticOptions::large(bytes, 1))),
        Box::new(Index::new(IndexOptions {
            corpus,
            text_bytes: bytes / 2,
            seed: 1,
        })),
        Box::new(Graph::new("made-up", shapes, 1)),
    ]
}

fn check(mutator: &mut Mutator, step: &str) {
    if let Err(error) = mutator.check() {
        panic!("after {step}: {error}");
    }
}

/// Drives a program through rounds of the foreground and the background; what it showed.
fn drive(program: &mut dyn Program, heap: &Heap, kinds: &[Kind], actions: usize) -> Vec<u64> {
    let mut mutator = heap.mutator().expect("a mutator");
    let mut shown = Vec::new();
    let mut next_kind = kinds.iter().cycle();
    let mut collect = |mutator: &mut Mutator| {
        if let Some(&kind) = next_kind.next() {
            mutator.collect(kind);
        }
    };
    program.start(&mut mutator).expect("start");
    collect(&mut mutator);
    check(&mut mutator, "start");
    for round in 0..3 {
        heap.foreground();
        shown.push(program.launch(&mut mutator).expect("launch"));
        heap.launch_done();
        check(&mut mutator, "launch");
        shown.push(program.use_it(&mut mutator, actions).expect("use"));
        collect(&mut mutator);
        check(&mut mutator, "use");
        heap.background();
        mutator.blocking(|| heap.expire_timer());
        collect(&mut mutator);
        program
            .work_in_background(&mut mutator, 2000 * actions, actions * round)
            .expect("work in the background");
        collect(&mut mutator);
        check(&mut mutator, "background");
    }
    shown.push(program.launch(&mut mutator).expect("launch"));
    shown
}

#[test]
fn all_collectors_show_the_same() {
    let arms: [(Collector, &[Kind]); 4] = [
        (Collector::Native, &[]),
        (Collector::Native, &[Kind::Minor, Kind::Major]),
        (FLEET, &Kind::ALL),
        (MARVIN, &[Kind::Minor, Kind::Major]),
    ];
    let of_arms: Vec<Vec<_>> = arms
        .iter()
        .map(|&(collector, kinds)| {
            let mut programs = programs(4 * MIB);
            let run = programs.iter_mut().map(|program| {
                let heap = heap(64 * MIB, collector, false);
                let shown = drive(&mut **program, &heap, kinds, 40);
                (program.name().to_owned(), shown)
            });
            run.collect()
        })
        .collect();
    for (name, shown) in &of_arms[0] {
        let mut different = shown.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), shown.len(), "{name} shows the same twice");
    }
    for (arm, shown) in arms.iter().zip(&of_arms) {
        assert_eq!(shown, &of_arms[0], "{arm:?}");
    }
}

#[test]
fn collections_at_every_safepoint_change_nothing() {
    const BYTES: usize = MIB / 16;
    let mut reference = programs(BYTES);
    for (i, program) in reference.iter_mut().enumerate() {
        let expected = drive(
            &mut **program,
            &heap(16 * MIB, Collector::Native, false),
            &[],
            4,
        );
        for collector in [Collector::Native, FLEET, MARVIN] {
            let program = &mut programs(BYTES)[i];
            let shown = drive(&mut **program, &heap(16 * MIB, collector, true), &[], 4);
            assert_eq!(shown, expected, "{} under {collector:?}", program.name());
        }
    }
}

#[test]
fn the_seed_and_what_was_done_make_what_is_shown() {
    let make = |seed| {
        Synthetic::new(SyntheticOptions {
            seed,
            ..SyntheticOptions::small(MIB, 0)
        })
    };
    let run = |seed| {
        let heap = heap(16 * MIB, Collector::Native, false);
        drive(&mut make(seed), &heap, &[], 10)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_full_heap_is_an_error() {
    for mut program in programs(8 * MIB) {
        let heap = heap(4 * MIB, Collector::Native, false);
        let mut mutator = heap.mutator().expect("a mutator");
        match program.start(&mut mutator) {
            Err(ProgramError::Full(_)) => {}
            other => panic!("{}: {other:?}", program.name()),
        }
        check(&mut mutator, "a failure");
    }
}

/// The heap is full at every place where it can be, when what was done before made it so.
#[test]
fn a_heap_that_becomes_full_stays_whole() {
    for i in 0..4 {
        let mut errors = 0;
        for max_kib in (2048..6144).step_by(512) {
            let program = &mut programs(2 * MIB)[i];
            let heap = heap(max_kib << 10, Collector::Native, false);
            let mut mutator = heap.mutator().expect("a mutator");
            let mut all = || {
                program.start(&mut mutator)?;
                for _ in 0..10 {
                    program.use_it(&mut mutator, 10)?;
                    program.work_in_background(&mut mutator, 10_000, 20)?;
                    program.launch(&mut mutator)?;
                }
                Ok(())
            };
            match all() {
                Ok(()) => {}
                Err(ProgramError::Full(_)) => errors += 1,
                Err(error) => panic!("{}: {error}", program.name()),
            }
            check(&mut mutator, "all");
        }
        assert!(errors > 0, "program {i} always had room");
    }
}

/// Garbage is made in the foreground and the background, and old objects come to refer to new ones: else the programs
/// would not measure what they are for.
#[test]
fn programs_make_garbage_and_change_old_objects() {
    for mut program in programs(4 * MIB) {
        let heap = heap(64 * MIB, Collector::Native, false);
        let mut mutator = heap.mutator().expect("a mutator");
        program.start(&mut mutator).expect("start");
        for round in 0..2 {
            mutator.collect(Kind::Major);
            let before = mutator.check().expect("order");
            if round == 0 {
                program.use_it(&mut mutator, 100).expect("use");
            } else {
                program
                    .work_in_background(&mut mutator, 100_000, 20)
                    .expect("work");
            }
            let after = mutator.check().expect("order");
            let name = program.name();
            assert!(after.objects > before.objects, "{name} allocates nothing");
            assert!(after.objects > after.reachable, "{name} makes no garbage");
            // New objects that are referred to by old ones only survive if the cards of these are dirty.
            mutator.collect(Kind::Minor);
            let survived = mutator.check().expect("order");
            assert_eq!(survived.reachable, after.reachable, "{name}");
        }
    }
}

#[test]
fn texts_of_this_machine_are_loaded_in_the_same_order() {
    let folders = Corpus::default_folders();
    let (first, second) = match (Corpus::load(&folders, MIB), Corpus::load(&folders, MIB)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => warmswap_testkit::skip!(
            "texts_of_this_machine_are_loaded_in_the_same_order",
            "{error}"
        ),
    };
    assert_eq!(first.documents(), second.documents());
    assert!((MIB / 2..=MIB).contains(&first.bytes()));
}
