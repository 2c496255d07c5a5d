//! The heap beside a plain graph: whatever is done to both, both are the same afterwards.

use crate::common::{Model, Plain, alloc, fleet, heap, kinds, marvin};
use proptest::prelude::*;
use warmswap_heap::{Collector, Heap, Mutator};

const ROOTS: usize = 8;

#[derive(Clone, Debug)]
enum Step {
    /// Allocates an object and keeps it in a root, referring to what the root kept.
    Alloc {
        root: usize,
        references: usize,
        words: usize,
    },
    /// Lets an object refer to another.
    Link {
        from: (usize, Vec<u8>),
        slot: usize,
        to: (usize, Vec<u8>),
    },
    /// Takes a reference away.
    Unlink {
        from: (usize, Vec<u8>),
        slot: usize,
    },
    /// Makes a root refer to what it leads to.
    Move {
        root: usize,
        path: Vec<u8>,
    },
    DropRoot {
        root: usize,
    },
    Collect {
        kind: usize,
    },
    /// The application goes away and comes back, with the timers' work done or not.
    Background {
        expires: bool,
    },
    Foreground {
        expires: bool,
    },
    LaunchDone,
    Check,
}

fn path() -> impl Strategy<Value = (usize, Vec<u8>)> {
    (0..ROOTS, prop::collection::vec(0..4u8, 0..5))
}

fn step() -> impl Strategy<Value = Step> {
    // Small ones, ones that Marvin swaps, and large ones.
    let words = prop_oneof![8 => 0..40usize, 4 => 40..700usize, 1 => 17_000..150_000usize];
    prop_oneof![
        12 => (0..ROOTS, 0..5usize, words)
            .prop_map(|(root, references, words)| Step::Alloc { root, references, words }),
        10 => (path(), 0..5usize, path())
            .prop_map(|(from, slot, to)| Step::Link { from, slot, to }),
        2 => (path(), 0..5usize).prop_map(|(from, slot)| Step::Unlink { from, slot }),
        2 => path().prop_map(|(root, path)| Step::Move { root, path }),
        1 => (0..ROOTS).prop_map(|root| Step::DropRoot { root }),
        3 => (0..5usize).prop_map(|kind| Step::Collect { kind }),
        1 => any::<bool>().prop_map(|expires| Step::Background { expires }),
        1 => any::<bool>().prop_map(|expires| Step::Foreground { expires }),
        1 => Just(Step::LaunchDone),
        1 => Just(Step::Check),
    ]
}

fn run(heap: &Heap, mutator: &mut Mutator, model: &mut Model, step: Step, collector: Collector) {
    match step {
        Step::Alloc {
            root,
            references,
            words,
        } => {
            let number = model.objects.len();
            let Ok(record) = alloc(mutator, number, references, words) else {
                return;
            };
            let mut plain = Plain {
                references: vec![None; references],
                words,
            };
            if let Some((before, kept)) = model.roots[root].take()
                && references > 0
            {
                record.set(mutator, 0, Some(kept.get(mutator)));
                plain.references[0] = Some(before);
            }
            model.roots[root] = Some((number, mutator.root(record)));
            model.objects.push(plain);
        }
        Step::Link { from, slot, to } => {
            let from = model.walk(mutator, from.0, &from.1);
            let to = model.walk(mutator, to.0, &to.1);
            if let (Some((from, record)), Some((to, target))) = (from, to)
                && slot < model.objects[from].references.len()
            {
                record.set(mutator, slot, Some(target));
                model.objects[from].references[slot] = Some(to);
            }
        }
        Step::Unlink { from, slot } => {
            if let Some((from, record)) = model.walk(mutator, from.0, &from.1)
                && slot < model.objects[from].references.len()
            {
                record.set(mutator, slot, None);
                model.objects[from].references[slot] = None;
            }
        }
        Step::Move { root, path } => {
            if let Some((number, record)) = model.walk(mutator, root, &path) {
                model.roots[root] = Some((number, mutator.root(record)));
            }
        }
        Step::DropRoot { root } => model.roots[root] = None,
        Step::Collect { kind } => {
            let kinds = kinds(collector);
            mutator.collect(kinds[kind % kinds.len()]);
        }
        Step::Background { expires } => {
            heap.background();
            if expires {
                mutator.blocking(|| heap.expire_timer());
                mutator.blocking(|| heap.expire_timer());
            }
        }
        Step::Foreground { expires } => {
            heap.foreground();
            if expires {
                mutator.blocking(|| heap.expire_timer());
                mutator.blocking(|| heap.expire_timer());
            }
        }
        Step::LaunchDone => heap.launch_done(),
        Step::Check => {
            model.check(mutator);
        }
    }
}

fn behaves_as_the_model(collector: Collector, steps: Vec<Step>) {
    let heap = heap(24 << 20, collector);
    let mut mutator = heap.mutator().expect("the first of this thread");
    let mut model = Model::default();
    model.roots.resize_with(ROOTS, || None);
    for step in steps {
        let collects = matches!(step, Step::Collect { .. } | Step::Background { .. });
        run(&heap, &mut mutator, &mut model, step, collector);
        mutator.safepoint();
        if collects {
            mutator.check().expect("the heap's invariants");
        }
    }
    model.check(&mutator);
    let checked = mutator.check().expect("the heap's invariants");
    for kind in kinds(collector) {
        mutator.collect(*kind);
        assert_eq!(model.check(&mutator), checked.reachable);
    }
    mutator.collect(warmswap_heap::Kind::Major);
    mutator.collect(warmswap_heap::Kind::Major);
    let after = mutator.check().expect("the heap's invariants");
    assert_eq!(
        after.reachable, checked.reachable,
        "nothing reachable is lost"
    );
    model.roots.clear();
    mutator.collect(warmswap_heap::Kind::Major);
    let after = mutator.check().expect("the heap's invariants");
    assert_eq!(after.reachable, 0);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn native_behaves_as_the_model(steps in steps()) {
        behaves_as_the_model(Collector::Native, steps);
    }

    #[test]
    fn fleet_behaves_as_the_model(steps in steps()) {
        behaves_as_the_model(Collector::Fleet(fleet()), steps);
    }

    #[test]
    fn marvin_behaves_as_the_model(steps in steps()) {
        behaves_as_the_model(Collector::Marvin(marvin()), steps);
    }
}
