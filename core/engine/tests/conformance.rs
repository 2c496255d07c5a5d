//! Every scheme, and every policy by itself, keeps every page and the budget, whatever happens.
//!
//! `PROPTEST_CASES=1000` looks further, from a new seed each time.

mod common;

use common::{Event, Host, Pace, Setup, Shape, anon, events, events_with_parts, setup};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use warmswap_engine::Limits;
use warmswap_policy::SchemeSpec;
use warmswap_policy::scheme::policies;

/// The same cases on every run, unless `PROPTEST_CASES` asks for others.
fn runner(cases: u32) -> TestRunner {
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return TestRunner::new(config);
    }
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(Config { cases, ..config }, rng)
}

fn run(spec: &SchemeSpec, setup: Setup, events: &[Event], pace: Pace) -> Host {
    let mut host = Host::of(spec, setup, pace);
    events.iter().for_each(|&event| host.apply(event));
    host.finish_all();
    host.check();
    host
}

fn conforms(
    spec: &SchemeSpec,
    events: impl Strategy<Value = Vec<Event>>,
    pace: impl Fn(u64) -> Pace,
) {
    let check = |(setup, events): (Setup, Vec<Event>)| {
        let once = run(spec, setup, &events, pace(setup.seed));
        let again = run(spec, setup, &events, pace(setup.seed));
        if once.log != again.log || once.engine.counters() != again.engine.counters() {
            return Err(TestCaseError::fail("two runs differ"));
        }
        Ok(())
    };
    if let Err(error) = runner(CASES).run(&(setup(), events), check) {
        panic!("{}: {error}", spec.name);
    }
}

/// Every scheme by name, `warmswap` and `zram` with each policy of each slot in turn, and mixtures that
/// no name stands for.
fn all_specs() -> Vec<SchemeSpec> {
    let named = SchemeSpec::all_names().into_iter().map(|(name, _)| name);
    let exchanged = ["warmswap", "zram"].into_iter().flat_map(|base| {
        policies()
            .into_iter()
            .map(move |row| format!("{base}+{}={}", row.slot, row.name))
    });
    let more = [
        "warmswap+file-pages=on",
        "warmswap+file-pages=on+admission=selective+eviction=lottery",
        "ariadne-al-1k-2k-16k+file-pages=on+admission=selective",
        "ezswap+keep-copies=on",
        "ezswap+layout=size-classes",
        "ariadne+layout=zbud",
    ];
    // Windows of random runs are few: these learn from each, and at once.
    let quick = [
        "footprint:profile=1,cold=learn",
        "both:profile=1,cold=learn,timeout=2",
    ];
    let learning = ["warmswap", "zram", "ariadne-al-1k-2k-16k", "ezswap"]
        .into_iter()
        .flat_map(|base| quick.map(|prefetch| format!("{base}+prefetch={prefetch}")));
    named
        .chain(exchanged)
        .chain(more.map(str::to_owned))
        .chain(learning)
        .map(|text| SchemeSpec::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
        .collect()
}

const CASES: u32 = 24;
const EVENTS: usize = 60;

#[test]
fn every_scheme_and_policy_conforms_when_decisions_are_carried_out_at_once() {
    for spec in all_specs() {
        conforms(&spec, events(EVENTS), |_| Pace::AtOnce);
    }
}

#[test]
fn every_scheme_and_policy_conforms_with_decisions_under_way() {
    for spec in all_specs() {
        conforms(&spec, events(EVENTS), Pace::Later);
    }
}

/// The pages of a batch that the pool refuses come back one by one, and each finds too little memory.
#[test]
fn an_application_is_killed_once_while_a_batch_is_refused() {
    let spec = SchemeSpec::parse("ariadne+layout=zbud").unwrap();
    let setup = Setup {
        limits: Limits {
            budget_bytes: 286_720,
            pool_limit_bytes: 36_864,
            backing_limit_bytes: 12_288,
        },
        shape: Shape::Mixed,
        fail_every: 0,
        seed: 0,
    };
    let touch = |app, pages, write| Event::Touch {
        app,
        from: anon(0),
        pages,
        write,
    };
    let events = [
        touch(3, 26, false),
        touch(3, 1, false),
        touch(0, 46, true),
        touch(3, 18, false),
    ];
    run(&spec, setup, &events, Pace::AtOnce);
}

#[test]
fn every_scheme_and_policy_conforms_where_parts_of_address_spaces_end() {
    for spec in all_specs() {
        conforms(&spec, events_with_parts(EVENTS), Pace::Later);
    }
}
