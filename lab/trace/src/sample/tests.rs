use std::collections::{HashMap, HashSet};

use super::*;
use crate::synth::{SynthConfig, synthesize};
use crate::testing::{page, sample_trace, scratch};
use warmswap_page::LaunchKind;

fn big(dir: &std::path::Path) -> TraceReader {
    let (corpus, ..) = sample_trace(dir);
    let corpus = TraceReader::open(corpus).unwrap();
    let config = SynthConfig {
        scale: 0.05,
        ..SynthConfig::default()
    };
    let path = dir.join("big.wst");
    synthesize(&path, &config, Some(&corpus)).unwrap();
    TraceReader::open(path).unwrap()
}

fn taken(trace: &TraceReader, options: &SampleOptions) -> TraceReader {
    let path = trace.path().with_extension("sample.wst");
    sample(trace, &path, options).unwrap();
    let reader = TraceReader::open(path).unwrap();
    reader.verify(|_, _| {}).unwrap();
    reader
}

fn events(trace: &TraceReader) -> Vec<Event> {
    trace.events().map(Result::unwrap).collect()
}

fn page_of(event: &Event) -> Option<(AppId, u64)> {
    match event.kind {
        EventKind::Access {
            page: PageAddr::Anon { number },
            ..
        } => Some((event.app, number)),
        _ => None,
    }
}

#[test]
fn a_share_of_one_keeps_everything() {
    let dir = scratch();
    let (path, all, contents) = sample_trace(dir.path());
    let whole = TraceReader::open(path).unwrap();
    let copy = taken(&whole, &SampleOptions::default());
    assert!(events(&copy) == all);
    assert_eq!(copy.summary().contents, contents);
    assert_eq!((copy.apps(), copy.files()), (whole.apps(), whole.files()));
    assert_eq!(copy.description().extra["sample.share"], "1");
}

#[test]
fn whole_blocks_are_kept_in_the_asked_share_and_windows_stay() {
    let dir = scratch();
    let whole = big(dir.path());
    let part = taken(
        &whole,
        &SampleOptions {
            share: 0.25,
            ..SampleOptions::default()
        },
    );

    let (all, kept) = (events(&whole), events(&part));
    let pages = |events: &[Event]| events.iter().filter_map(page_of).collect::<HashSet<_>>();
    let (all_pages, kept_pages) = (pages(&all), pages(&kept));
    let share = kept_pages.len() as f64 / all_pages.len() as f64;
    assert!((share - 0.25).abs() < 0.03, "{share}");
    let blocks: HashSet<(AppId, u64)> = kept_pages
        .iter()
        .map(|&(app, n)| (app, n / SAMPLE_BLOCK_PAGES))
        .collect();
    let in_blocks = |e: &&Event| {
        page_of(e).is_none_or(|(app, n)| blocks.contains(&(app, n / SAMPLE_BLOCK_PAGES)))
    };
    let expected: Vec<&Event> = all.iter().filter(in_blocks).collect();
    assert_eq!(expected.len(), kept.len());
    let same = |(a, b): (&&Event, &Event)| {
        a.time_ns == b.time_ns && a.app == b.app && page_of(a) == page_of(b)
    };
    assert!(expected.iter().zip(&kept).all(same));
    let relaunches = |events: &[Event]| {
        events
            .iter()
            .filter(|e| e.kind == EventKind::LaunchBegin(LaunchKind::Relaunch))
            .count()
    };
    assert_eq!(relaunches(&all), 25);
    assert_eq!(relaunches(&kept), 25);
}

#[test]
fn contents_stay_with_their_pages() {
    let dir = scratch();
    let (path, all, contents) = sample_trace(dir.path());
    let whole = TraceReader::open(path).unwrap();
    let part = taken(
        &whole,
        &SampleOptions {
            share: 0.5,
            seed: 3,
            ..SampleOptions::default()
        },
    );
    assert!((1..contents).contains(&part.summary().contents));

    let key = |e: &Event| (e.time_ns, e.app, format!("{:?}", page_in(e)));
    let mut originals: HashMap<_, Vec<Option<ContentId>>> = HashMap::new();
    all.iter()
        .for_each(|e| originals.entry(key(e)).or_default().push(content_in(e)));
    let mut used = HashSet::new();
    let mut got = [0; PAGE_BYTES];
    for event in events(&part) {
        if let Some(id) = content_in(&event) {
            used.insert(id);
            part.content(id, &mut got).unwrap();
            let original = originals[&key(&event)]
                .iter()
                .flatten()
                .any(|id| page(id.0.into()) == got);
            assert!(original, "{event:?}");
        }
    }
    assert_eq!(used.len() as u64, part.summary().contents);
}

fn content_in(event: &Event) -> Option<ContentId> {
    match event.kind {
        EventKind::Access { content, .. } => content,
        EventKind::Content { content, .. } => Some(content),
        _ => None,
    }
}

fn page_in(event: &Event) -> Option<PageAddr> {
    match event.kind {
        EventKind::Access { page, .. }
        | EventKind::Content { page, .. }
        | EventKind::Free { page, .. } => Some(page),
        _ => None,
    }
}

#[test]
fn applications_and_numbers_of_events_can_be_limited() {
    let dir = scratch();
    let (path, all, _) = sample_trace(dir.path());
    let whole = TraceReader::open(path).unwrap();
    let apps = Some(vec![AppId(1)]);
    let part = taken(
        &whole,
        &SampleOptions {
            apps,
            max_events: Some(30),
            ..SampleOptions::default()
        },
    );
    let expected: Vec<u64> = all
        .iter()
        .filter(|e| e.app == AppId(1))
        .map(|e| e.time_ns)
        .take(30)
        .collect();
    let found: Vec<u64> = events(&part).iter().map(|e| e.time_ns).collect();
    assert_eq!(found, expected);
    assert_eq!(part.apps().len(), 2);
}

#[test]
fn a_freed_range_stays_if_it_reaches_into_the_sample() {
    let options = SampleOptions {
        share: 0.01,
        ..SampleOptions::default()
    };
    let chosen = Chosen::new(&options, 0);
    let kept = (0..)
        .find(|&block| chosen.keeps_block(0, block, 0.01))
        .unwrap();
    let free = |number, pages| Event {
        time_ns: 0,
        app: AppId(0),
        kind: EventKind::Free {
            page: PageAddr::Anon { number },
            pages,
        },
    };
    let first = kept * SAMPLE_BLOCK_PAGES;
    assert!(kept > 0, "another seed is needed");
    assert!(!chosen.keeps(&free(0, first as u32)));
    assert!(chosen.keeps(&free(0, first as u32 + 1)));
    assert!(chosen.keeps(&free(first + 15, 1)));
    assert!(chosen.keeps(&free(0, u32::MAX)));
}

#[test]
fn an_application_can_have_a_share_of_its_own() {
    let dir = scratch();
    let whole = big(dir.path());
    let pages = |trace: &TraceReader, app| {
        let pages: HashSet<_> = events(trace).iter().filter_map(page_of).collect();
        pages
            .iter()
            .filter(|(owner, _)| *owner == AppId(app))
            .count() as f64
    };
    let options = SampleOptions {
        share: 0.1,
        app_shares: vec![(AppId(1), 1.0)],
        ..SampleOptions::default()
    };
    let part = taken(&whole, &options);
    assert_eq!(pages(&part, 1), pages(&whole, 1));
    assert!(pages(&part, 2) < 0.2 * pages(&whole, 2));
}

#[test]
fn a_sample_of_a_sample_multiplies_its_share_and_keeps_what_it_said() {
    let dir = scratch();
    let whole = big(dir.path());
    let options = |share, app_shares, apps| SampleOptions {
        share,
        app_shares,
        apps,
        ..SampleOptions::default()
    };
    let half = options(0.5, vec![(AppId(1), 0.8)], None);
    let first = taken(&whole, &half);
    let second = taken(
        &first,
        &options(0.5, Vec::new(), Some(vec![AppId(1), AppId(2)])),
    );
    let third = taken(
        &second,
        &options(0.5, vec![(AppId(2), 1.0)], Some(vec![AppId(2)])),
    );

    let pages = |trace: &TraceReader, app| {
        let pages: HashSet<_> = events(trace).iter().filter_map(page_of).collect();
        pages
            .iter()
            .filter(|(owner, _)| *owner == AppId(app))
            .count() as f64
    };
    for (app, share) in [(1, 0.4), (2, 0.25)] {
        let kept = pages(&second, app) / pages(&whole, app);
        assert!((kept - share).abs() < 0.07, "of application {app}: {kept}");
    }
    assert_eq!(pages(&second, 0), 0.0);
    let names = |apps: &[usize]| {
        let names = apps.iter().map(|&app| whole.apps()[app].name.as_str());
        names.collect::<Vec<_>>().join(",")
    };
    let said = |trace: &TraceReader, key: &str| trace.description().extra[key].clone();
    let (one, two) = (names(&[1]), names(&[2]));
    assert_eq!(said(&second, "sample.share"), "0.25");
    assert_eq!(said(&second, &format!("sample.share.{one}")), "0.4");
    assert_eq!(said(&second, "sample.apps"), names(&[1, 2]));
    assert_eq!(said(&third, "sample.share"), "0.125");
    assert_eq!(said(&third, &format!("sample.share.{two}")), "0.25");
    assert_eq!(said(&third, "sample.apps"), two);
    assert_eq!(said(&third, "sample.seed"), "0,0,0");
    let recorded = whole.summary();
    assert_eq!(
        said(&third, "sample.of_events"),
        recorded.events.to_string()
    );
    assert_eq!(
        said(&third, "sample.of_contents"),
        recorded.contents.to_string()
    );
}

#[test]
fn a_share_that_is_no_probability_is_refused() {
    let dir = scratch();
    let (path, ..) = sample_trace(dir.path());
    let whole = TraceReader::open(path).unwrap();
    for share in [-0.1, 1.1, f64::NAN] {
        let options = SampleOptions {
            share,
            ..SampleOptions::default()
        };
        let error = sample(&whole, dir.path().join("s.wst"), &options).unwrap_err();
        assert!(
            matches!(error, TraceError::Setting { name: "share", .. }),
            "{error}"
        );
    }
}
