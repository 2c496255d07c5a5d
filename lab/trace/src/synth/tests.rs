use std::collections::HashSet;

use super::*;
use crate::testing::{page, sample_trace, scratch};
use warmswap_page::{LaunchKind, PageAddr};

/// One visit of an application: pages of its launch window and of the rest, in order of access.
#[derive(Default)]
struct Visit {
    app: usize,
    relaunch: bool,
    launch: Vec<u64>,
    execution: Vec<u64>,
}

fn visits(events: impl Iterator<Item = Event>) -> Vec<Visit> {
    let mut visits: Vec<Visit> = Vec::new();
    let mut launching = false;
    for event in events {
        match event.kind {
            EventKind::LaunchBegin(kind) => {
                let relaunch = kind == LaunchKind::Relaunch;
                visits.push(Visit {
                    app: event.app.0.into(),
                    relaunch,
                    ..Visit::default()
                });
                launching = true;
            }
            EventKind::LaunchEnd => launching = false,
            EventKind::Access {
                page: PageAddr::Anon { number },
                ..
            } => {
                let visit = visits.last_mut().expect("an access belongs to a visit");
                assert_eq!(visit.app, usize::from(event.app.0));
                if launching {
                    visit.launch.push(number)
                } else {
                    visit.execution.push(number)
                }
            }
            EventKind::Background => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    visits
}

fn of_app(visits: &[Visit], app: usize) -> Vec<&Visit> {
    visits.iter().filter(|v| v.app == app).collect()
}

fn set(pages: &[u64]) -> HashSet<u64> {
    pages.iter().copied().collect()
}

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{what}: {found:.3}, expected {expected} +- {tolerance}"
    );
}

fn config() -> SynthConfig {
    SynthConfig {
        scale: 0.4,
        relaunches: 6,
        ..SynthConfig::default()
    }
}

#[test]
fn volumes_are_those_of_table_1() {
    let config = config();
    let visits = visits(SynthEvents::new(&config, 0).unwrap());
    for (app, profile) in config.apps.iter().enumerate() {
        let own = of_app(&visits, app);
        let mb = |pages: &HashSet<u64>| pages.len() as f64 * 4096.0 / 1e6 / config.scale;
        let mut pages = set(&own[0].launch);
        pages.extend(&own[0].execution);
        near(&profile.name, mb(&pages), profile.initial_mb, 0.1);
        own.iter()
            .for_each(|v| pages.extend(v.launch.iter().chain(&v.execution)));
        near(&profile.name, mb(&pages), profile.full_mb, 0.1);
    }
}

#[test]
fn hot_sets_are_similar_and_reused_as_in_figure_5() {
    let config = config();
    let visits = visits(SynthEvents::new(&config, 0).unwrap());
    for (app, profile) in config.apps.iter().enumerate() {
        let own = of_app(&visits, app);
        let (mut similar, mut reused) = (0.0, 0.0);
        for pair in own.windows(2) {
            let (before, after) = (set(&pair[0].launch), set(&pair[1].launch));
            let warm = set(&pair[1].execution);
            let share = config.hot_share * profile.initial_mb * 1e6 * config.scale / 4096.0;
            near("hot pages", after.len() as f64 / share, 1.0, 0.05);
            assert_eq!(
                after.len(),
                pair[1].launch.len(),
                "a launch touches a page once"
            );
            similar += before.intersection(&after).count() as f64 / after.len() as f64;
            let used = before
                .iter()
                .filter(|&page| after.contains(page) || warm.contains(page))
                .count();
            reused += used as f64 / before.len() as f64;
        }
        let pairs = (own.len() - 1) as f64;
        near("similarity", similar / pairs, config.hot_similarity, 0.02);
        near("reuse", reused / pairs, config.reuse, 0.01);
    }
}

#[test]
fn consecutive_pages_are_as_likely_as_in_table_3() {
    // Run lengths scatter widely, so that only a large trace comes near the probabilities.
    let config = SynthConfig {
        scale: 2.0,
        ..config()
    };
    let visits = visits(SynthEvents::new(&config, 0).unwrap());
    for (app, profile) in config.apps.iter().enumerate() {
        let (mut two, mut four, mut all) = (0, 0, 0);
        for visit in of_app(&visits, app).iter().filter(|v| v.relaunch) {
            all += visit.launch.len();
            let follows = |w: &&[u64]| w.windows(2).all(|pair| pair[1] == pair[0] + 1);
            two += visit.launch.windows(2).filter(follows).count();
            four += visit.launch.windows(4).filter(follows).count();
        }
        near(
            &profile.name,
            two as f64 / all as f64,
            profile.two_consecutive,
            0.02,
        );
        near(
            &profile.name,
            four as f64 / all as f64,
            profile.four_consecutive,
            0.03,
        );
    }
}

#[test]
fn every_application_is_launched_once_and_relaunched_in_rounds_of_differing_order() {
    let config = config().with_apps(7);
    let config = SynthConfig {
        scale: 0.01,
        ..config
    };
    assert_eq!(config.apps[5].name, "Youtube-2");
    let visits = visits(SynthEvents::new(&config, 0).unwrap());
    assert_eq!(visits.len(), 7 * 7);
    let orders: Vec<Vec<usize>> = visits
        .chunks(7)
        .map(|round| round.iter().map(|v| v.app).collect())
        .collect();
    for (round, order) in orders.iter().enumerate() {
        assert_eq!(
            set(&order.iter().map(|&a| a as u64).collect::<Vec<_>>()).len(),
            7,
            "round {round}"
        );
        assert!(
            visits[round * 7..][..7]
                .iter()
                .all(|v| v.relaunch == (round > 0))
        );
    }
    assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn a_seed_decides_everything() {
    let small = SynthConfig {
        scale: 0.002,
        ..SynthConfig::default()
    };
    let events = |seed| {
        SynthEvents::new(
            &SynthConfig {
                seed,
                ..small.clone()
            },
            10,
        )
        .unwrap()
        .collect::<Vec<_>>()
    };
    assert!(events(1) == events(1));
    assert!(events(1) != events(2));
    assert!(
        events(1)
            .windows(2)
            .all(|pair| pair[0].time_ns <= pair[1].time_ns)
    );
}

#[test]
fn the_number_of_pages_can_be_asked_for() {
    for pages in [1_000, 100_000] {
        let config = SynthConfig::default().with_pages(pages);
        let touched: HashSet<(u16, PageAddr)> = SynthEvents::new(&config, 0)
            .unwrap()
            .filter_map(|e| match e.kind {
                EventKind::Access { page, .. } => Some((e.app.0, page)),
                _ => None,
            })
            .collect();
        near("pages", touched.len() as f64 / pages as f64, 1.0, 0.01);
    }
}

#[test]
fn contents_come_from_the_corpus() {
    let dir = scratch();
    let (corpus, _, contents) = sample_trace(dir.path());
    let corpus = TraceReader::open(corpus).unwrap();
    let known: HashSet<[u8; PAGE_BYTES]> = (0..contents).map(page).collect();
    let path = dir.path().join("synth.wst");
    let config = SynthConfig {
        scale: 0.002,
        ..SynthConfig::default()
    };

    let summary = synthesize(&path, &config, Some(&corpus)).unwrap();

    assert_eq!(summary.contents, contents);
    let made = TraceReader::open(&path).unwrap();
    made.verify(|_, _| {}).unwrap();
    let mut got = [0; PAGE_BYTES];
    for n in 0..contents {
        made.content(ContentId(n as u32), &mut got).unwrap();
        assert!(known.contains(&got));
    }
    let mut seen = HashSet::new();
    for event in made.events().map(Result::unwrap) {
        if let EventKind::Access { page, content, .. } = event.kind {
            assert!(
                !seen.insert((event.app, page)) || content.is_some(),
                "a first access has a content"
            );
        }
    }
}

#[test]
fn impossible_probabilities_are_refused_by_name() {
    type Change = fn(&mut AppProfile);
    let cases: [(&str, Change); 2] = [
        ("two_consecutive", |app| app.two_consecutive = 1.0),
        ("four_consecutive", |app| app.four_consecutive = 0.9),
    ];
    for (expected, change) in cases {
        let mut config = SynthConfig::default();
        change(&mut config.apps[0]);
        let error = SynthEvents::new(&config, 0).err().unwrap();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
