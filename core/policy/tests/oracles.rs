//! The list-based policies against slow models of themselves, made of plain vectors.

mod models;

use models::Model;
use models::hotness::HotnessModel;
use models::literature;
use models::lottery::{ColdestLotteryModel, LotteryModel, PoolModel};
use models::lru::ExactLru;
use models::simple::{OfPages, Simple};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use warmswap_page::{AppId, FileId, LaunchKind, PageAddr};
use warmswap_policy::eviction::{Coldest, ColdestLottery, Eviction, Lottery, LruChunks, LruPages};
use warmswap_policy::reclaim::{Arrival, HotnessOrg, Reclaim, Urgency};
use warmswap_policy::{
    ChunkId, Hotness, PageId, PageState, PageTable, StoredChunk, entry, reclaim,
};

/// What happens to a reclaim policy.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// The application touches one of its pages, or one of a file's.
    Touch {
        app: u16,
        page: u64,
        file: bool,
    },
    /// A page comes into a frame without having been asked for.
    Arrive {
        app: u16,
        page: u64,
    },
    LaunchBegin(u16, LaunchKind),
    LaunchEnd(u16),
    Victims(usize, Urgency),
    VictimsOf(u16),
    /// A resident page is freed.
    Free {
        app: u16,
        page: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let (app, page) = (0..3_u16, 0..12_u64);
    prop_oneof![
        12 => (app.clone(), page.clone(), prop::bool::weighted(0.2))
            .prop_map(|(app, page, file)| Op::Touch { app, page, file }),
        2 => (app.clone(), page.clone()).prop_map(|(app, page)| Op::Arrive { app, page }),
        2 => (app.clone(), prop_oneof![Just(LaunchKind::Cold), Just(LaunchKind::Relaunch)])
            .prop_map(|(app, kind)| Op::LaunchBegin(app, kind)),
        2 => app.clone().prop_map(Op::LaunchEnd),
        3 => (1..12_usize, prop_oneof![Just(Urgency::Background), Just(Urgency::Direct)])
            .prop_map(|(want, urgency)| Op::Victims(want, urgency)),
        1 => app.clone().prop_map(Op::VictimsOf),
        1 => (app, page).prop_map(|(app, page)| Op::Free { app, page }),
    ]
}

/// Does the same to policy and model, as the engine would, and compares every victim and every class.
fn compare(policy: &mut dyn Reclaim, model: &mut dyn Model, ops: &[Op]) {
    let mut table = PageTable::default();
    let mut known: BTreeMap<PageId, u16> = BTreeMap::new();
    let leave = |table: &mut PageTable, pages: &[PageId]| {
        for &page in pages {
            table[page].state = PageState::Stored;
        }
    };
    for &op in ops {
        match op {
            Op::Touch { app, page, file } => {
                let addr = address(page, file);
                let page = table.find_or_insert(AppId(app), addr);
                let owner = table.owner(page).0;
                known.insert(page, owner);
                let resident = table[page].state == PageState::Resident;
                model.touch(page, owner, file, resident);
                if resident {
                    policy.touch(&mut table, page);
                } else {
                    table[page].state = PageState::Resident;
                    policy.insert(&mut table, page, Arrival::Touched);
                }
            }
            Op::Arrive { app, page } => {
                let page = table.find_or_insert(AppId(app), address(page, false));
                if table[page].state != PageState::Resident {
                    known.insert(page, app);
                    table[page].state = PageState::Resident;
                    model.arrive(page, app, false);
                    policy.insert(&mut table, page, Arrival::Untouched);
                }
            }
            Op::LaunchBegin(app, kind) => {
                policy.launch_begin(&mut table, AppId(app), kind);
                model.launch_begin(app, kind);
            }
            Op::LaunchEnd(app) => {
                policy.launch_end(AppId(app));
                model.launch_end(app);
            }
            Op::Victims(want, urgency) => {
                let mut out = Vec::new();
                policy.victims(&mut table, want, urgency, &mut out);
                assert_eq!(out, model.victims(want, urgency), "{op:?}");
                leave(&mut table, &out);
            }
            Op::VictimsOf(app) => {
                let mut out = Vec::new();
                policy.victims_of(&mut table, AppId(app), &mut out);
                assert_eq!(out, model.victims_of(app), "{op:?}");
                leave(&mut table, &out);
            }
            Op::Free { app, page } => {
                let page = table.find_or_insert(AppId(app), address(page, false));
                if known.remove(&page).is_some() {
                    if table[page].state == PageState::Resident {
                        policy.remove(&mut table, page);
                    }
                    policy.forget(&table, page);
                    table[page].reset();
                    model.free(page);
                }
            }
        }
        for &page in known.keys() {
            assert_eq!(
                policy.hotness(&table, page),
                model.hotness(page),
                "{page:?} after {op:?}"
            );
        }
        for app in 0..3 {
            if let Some(expected) = model.hot_pages(app) {
                assert_eq!(
                    policy.hot_pages(AppId(app)),
                    expected,
                    "app {app} after {op:?}"
                );
            }
        }
    }
}

fn address(number: u64, file: bool) -> PageAddr {
    if file {
        let file = FileId(0);
        PageAddr::File { file, number }
    } else {
        PageAddr::Anon { number }
    }
}

/// The same cases on every run, unless `PROPTEST_CASES` asks for others.
fn for_all<S: Strategy>(strategy: S, check: impl Fn(S::Value)) {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => TestRunner::new(config),
        None => {
            let config = Config {
                cases: 400,
                ..config
            };
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        }
    };
    let outcome = runner.run(&strategy, |value| {
        check(value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

// ---- HotnessOrg ----

#[test]
fn hotness_org_chooses_as_the_paper_says() {
    for (keep_hot, initial) in [(false, u64::MAX), (true, u64::MAX), (false, 5), (true, 0)] {
        let hot = if keep_hot { "keep" } else { "last" };
        let text = format!("hotness:hot={hot},initial-hot={initial}");
        for_all(prop::collection::vec(op(), 1..150), |ops| {
            let mut policy = entry::build("reclaim", reclaim::ENTRIES, &text).unwrap();
            let mut model = HotnessModel::new(keep_hot, initial);
            compare(&mut *policy, &mut model, &ops);
        });
    }
}

#[test]
fn hotness_org_forgets_old_launches_of_file_pages_when_its_launch_counter_wraps() {
    let file = |page| Op::Touch {
        app: 0,
        page,
        file: true,
    };
    let mut ops = vec![Op::LaunchBegin(0, LaunchKind::Cold), file(0), file(1)];
    ops.push(Op::Victims(2, Urgency::Direct));
    for _ in 0..255 {
        ops.push(Op::LaunchBegin(0, LaunchKind::Relaunch));
    }
    ops.push(file(1));
    let mut model = HotnessModel::new(false, u64::MAX);
    compare(&mut HotnessOrg::default(), &mut model, &ops);
}

// ---- the kernel's policies, and those of the literature ----

fn chooses_as<S: Simple + Default>(name: &str) {
    for_all(prop::collection::vec(op(), 1..150), |ops| {
        let mut policy = entry::build("reclaim", reclaim::ENTRIES, name).unwrap();
        compare(&mut *policy, &mut OfPages::new(S::default()), &ops);
    });
}

#[test]
fn lru_chooses_by_the_time_of_the_last_touch() {
    chooses_as::<ExactLru>("lru");
}

#[test]
fn sieve_chooses_as_algorithm_1_does() {
    chooses_as::<literature::Sieve>("sieve");
}

#[test]
fn lru_k_chooses_by_backward_distances() {
    chooses_as::<literature::LruK>("lru-k");
}

#[test]
fn the_kernels_lists_choose_with_refault_distances() {
    chooses_as::<literature::KernelLru>("kernel-lru");
}

#[test]
fn generations_leave_oldest_first() {
    chooses_as::<literature::Mglru>("mglru");
}

// ---- eviction ----

/// Chunks in the order of entry, each with its class.
type Entered = Vec<(ChunkId, Hotness)>;

fn compare_eviction(
    policy: &mut dyn Eviction,
    ops: &[(u32, usize)],
    expected: impl Fn(&Entered) -> Option<ChunkId>,
) {
    let mut entered = Entered::new();
    for &(chunk, class) in ops {
        let chunk = ChunkId(chunk);
        if entered.iter().any(|&(other, _)| other == chunk) {
            policy.remove(chunk);
            entered.retain(|&(other, _)| other != chunk);
        } else {
            let stored = StoredChunk {
                hotness: Hotness::ALL[class],
                is_file: false,
                pages: 1,
                bytes: 1000,
            };
            policy.insert(chunk, stored);
            entered.push((chunk, Hotness::ALL[class]));
        }
        assert_eq!(policy.victim(), expected(&entered), "{entered:?}");
    }
}

#[test]
fn evictions_name_the_oldest_and_the_oldest_of_the_coldest() {
    for_all(
        prop::collection::vec((0..40_u32, 0..3_usize), 1..300),
        |ops| {
            compare_eviction(&mut LruChunks::default(), &ops, |entered| {
                entered.first().map(|&(chunk, _)| chunk)
            });
            compare_eviction(&mut Coldest::default(), &ops, |entered| {
                let coldest = entered.iter().map(|&(_, class)| class).max()?;
                let oldest = entered.iter().find(|&&(_, class)| class == coldest)?;
                Some(oldest.0)
            });
        },
    );
}

/// A chunk that comes into the pool or, when it is there, leaves it: page of the pool, of a file or not,
/// bytes, class. Chunks of one page have neighbouring numbers.
type Change = (u32, bool, u32, Hotness);

fn change() -> impl Strategy<Value = Change> {
    (
        0..36_u32,
        any::<bool>(),
        prop_oneof![1 => Just(0), 9 => 1..1400_u32],
        prop::sample::select(Hotness::ALL.to_vec()),
    )
}

/// What is evicted by page: the same to policy and model, `by_page` or each chunk by itself, with evictions
/// between.
fn compare_by_page(
    policy: &mut dyn Eviction,
    model: &mut dyn PoolModel,
    changes: &[Change],
    by_page: bool,
) {
    for (step, &(number, is_file, bytes, hotness)) in changes.iter().enumerate() {
        let chunk = ChunkId(number);
        let page = by_page.then_some(number / 3);
        if model.contains(chunk) {
            policy.remove(chunk);
            model.remove(chunk);
        } else {
            let stored = StoredChunk {
                hotness,
                is_file,
                pages: 1,
                bytes,
            };
            policy.placed(chunk, page);
            policy.insert(chunk, stored);
            model.insert(chunk, page, stored);
        }
        if step % 3 == 0 {
            let victim = policy.victim();
            assert_eq!(victim, model.victim(), "step {step}");
            if let Some(victim) = victim {
                policy.remove(victim);
                model.remove(victim);
            }
        }
    }
}

#[test]
fn the_lottery_draws_as_the_paper_says() {
    for by_page in [true, false] {
        for_all(prop::collection::vec(change(), 1..300), |changes| {
            let mut model = LotteryModel::new(7);
            compare_by_page(&mut Lottery::new(7), &mut model, &changes, by_page);
        });
    }
}

#[test]
fn the_lottery_of_the_coldest_draws_class_by_class() {
    for by_page in [true, false] {
        for_all(prop::collection::vec(change(), 1..300), |changes| {
            let mut model = ColdestLotteryModel::new(7);
            compare_by_page(&mut ColdestLottery::new(7), &mut model, &changes, by_page);
        });
    }
}

#[test]
fn lru_by_page_names_the_chunks_of_the_page_that_changed_first() {
    for by_page in [true, false] {
        for_all(prop::collection::vec(change(), 1..300), |changes| {
            let mut model = LotteryModel::lru();
            compare_by_page(&mut LruPages::default(), &mut model, &changes, by_page);
        });
    }
}
