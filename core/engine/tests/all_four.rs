//! Each part of `all-four` has something to do on a small run, and nothing does it when the part is taken out.

mod common;

use common::{Event, Host, Pace, Shape, anon, file, host_with, pages};
use std::collections::{BTreeMap, BTreeSet};
use warmswap_engine::Action;
use warmswap_page::{LaunchKind, PageAddr};
use warmswap_policy::SchemeSpec;

const APPS: u16 = 3;

/// What `all-four` compresses cold pages in.
const COLD_CHUNK_BYTES: u32 = 16 << 10;

/// Three applications take turns: a launch with its anonymous pages and some of a file, then other work.
fn run(scheme: &str) -> Host {
    let spec = SchemeSpec::parse(scheme).unwrap_or_else(|error| panic!("{error}"));
    let mut host = Host::new(&spec, pages(420, 60, 5000), Shape::Mixed, Pace::AtOnce);
    for round in 0..8 {
        for app in 0..APPS {
            turn(&mut host, app, round);
        }
    }
    host.check();
    host
}

fn turn(host: &mut Host, app: u16, round: u64) {
    let kind = if round == 0 {
        LaunchKind::Cold
    } else {
        LaunchKind::Relaunch
    };
    host.apply(Event::LaunchBegin(app, kind));
    host.apply(Event::Idle);
    touch(host, app, anon(0), 40, true);
    // These are used in every second launch only: no list holds them to be hot then.
    touch(host, app, anon(400 + round % 2 * 30), 30, false);
    touch(host, app, file(u64::from(app) * 20), 20, false);
    host.apply(Event::LaunchEnd(app));
    touch(
        host,
        app,
        anon(60 + round % 2 * 40),
        60,
        round.is_multiple_of(3),
    );
    touch(host, app, anon(200 + round * 20), 20, true);
    host.apply(Event::Background(app));
}

fn touch(host: &mut Host, app: u16, from: PageAddr, pages: u64, write: bool) {
    host.apply(Event::Touch {
        app,
        from,
        pages,
        write,
    });
}

/// How often each part did its work, but for the order of write-backs.
fn work(host: &Host) -> BTreeMap<&'static str, u64> {
    let counters = host.engine.counters();
    let drawn = host.engine.evicted_pool_pages().unwrap_or_default();
    let hot = |app| host.engine.hot_pages(common::app(app));
    BTreeMap::from([
        ("HotnessOrg", (0..APPS).map(hot).sum()),
        ("AdaptiveComp", chunk_sizes(host) - 1),
        ("PreDecomp", counters.buffer_hits - counters.prepaged_used),
        ("selective admission", counters.not_admitted),
        ("lottery", drawn.0.iter().sum()),
        ("pages of files", counters.stored_files),
        ("footprints", counters.prepaged_used),
    ])
}

/// How many sizes of chunks were stored.
fn chunk_sizes(host: &Host) -> u64 {
    let bytes = |action: Action| match action {
        Action::Store { plan, .. } => Some(plan.chunk_bytes()),
        _ => None,
    };
    let stored = host
        .log
        .iter()
        .filter_map(|decision| bytes(decision.action));
    stored.collect::<BTreeSet<_>>().len() as u64
}

#[test]
fn nothing_does_the_work_of_a_part_that_is_taken_out() {
    for (part, count) in work(&run("all-four")) {
        assert!(count > 0, "{part}");
    }
    for (part, change) in [
        ("HotnessOrg", "reclaim=kernel-lru"),
        ("AdaptiveComp", "sizing=page"),
        ("PreDecomp", "prefetch=footprint"),
        ("selective admission", "admission=all"),
        ("lottery", "eviction=coldest"),
        ("pages of files", "file-pages=off"),
        ("footprints", "prefetch=next"),
    ] {
        let without = work(&run(&format!("all-four+{change}")));
        assert_eq!(without[part], 0, "{part}");
    }
}

/// Sizes of the chunks that are written back when warm pages leave for the pool, and then more cold ones than it holds.
fn written_back_bytes(scheme: &str) -> Vec<u32> {
    let mut host = host_with(scheme, pages(300, 32, 1000));
    for (app, pages, touches) in [(0, 60, 2), (1, 120, 1)] {
        (0..touches).for_each(|_| touch(&mut host, app, anon(0), pages, true));
        host.shrink(app);
    }
    let mut sizes = BTreeMap::new();
    let mut written = Vec::new();
    for action in host.take_log() {
        match action {
            Action::Store { chunk, plan } => drop(sizes.insert(chunk, plan.chunk_bytes())),
            Action::WriteBack { chunk } => written.push(sizes[&chunk]),
            _ => {}
        }
    }
    written
}

#[test]
fn cold_chunks_are_written_back_first_until_that_is_taken_out() {
    let is_cold = |&bytes: &u32| bytes == COLD_CHUNK_BYTES;
    let written = written_back_bytes("all-four");
    assert!(
        !written.is_empty() && written.iter().all(is_cold),
        "{written:?}"
    );
    let written = written_back_bytes("all-four+eviction=lottery");
    assert!(!written.iter().all(is_cold), "{written:?}");
}
