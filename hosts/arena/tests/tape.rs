//! A fresh engine that hears what a live one heard decides the same, decision for decision.

mod common;

use common::*;
use warmswap_arena::{Arena, ArenaConfig, Mechanism, TapeError, replay_tape};

/// Several programs' lives under pressure: first touches, faults from several threads, launches, advice, a region
/// that goes, a pool that is written back.
fn live(config: ArenaConfig) {
    let arena = Arena::new(config).expect("an arena");
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let arena = &arena;
            scope.spawn(move || {
                let mut random = Random(thread);
                let app = arena.application("app").expect("room");
                let region = app.region(3 * MIB).expect("a region");
                let pages = region.len() / PAGE;
                for round in 0..3 {
                    app.foreground();
                    let goes = app.region(MIB).expect("a region");
                    (0..64).for_each(|page| write_page(words(&goes), page, round));
                    for _ in 0..600 {
                        write_page(words(&region), random.below(pages), round);
                    }
                    app.launch_done();
                    app.background();
                    if round == 1 {
                        leave(&region);
                    }
                }
            });
        }
    });
    check_account(&arena);
}

#[test]
fn a_tape_is_answered_alike_by_a_fresh_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    for (i, scheme) in ["zram", "zswap", "ezswap", "asap", "ariadne", "warmswap"]
        .into_iter()
        .enumerate()
    {
        if !can_run(
            "a_tape_is_answered_alike_by_a_fresh_engine",
            Mechanism::Auto,
        ) {
            return;
        }
        let tape = folder.path().join(scheme);
        live(ArenaConfig {
            tape: Some(tape.clone()),
            backing: Some(folder.path().join(format!("backing-{i}"))),
            backing_limit_bytes: 64 << 20,
            pool_limit_bytes: Some(MIB as u64),
            ..config(4 * MIB, scheme)
        });
        let replayed = replay_tape(&tape).unwrap_or_else(|error| panic!("{scheme}: {error}"));
        assert!(replayed.calls > 5000, "{scheme}: {replayed:?}");
        assert!(replayed.decisions > 200, "{scheme}: {replayed:?}");
        is_noticed_when_changed(&tape);
    }
}

/// An answer that is not the engine's, and a line that is none.
fn is_noticed_when_changed(tape: &std::path::Path) {
    let text = std::fs::read_to_string(tape).expect("the tape");
    let (stored, answer) = (
        "\"Decision(Some(Decision { action: Store {",
        "\"Decision(None)\"]",
    );
    let at = text.find(stored).expect("something was stored");
    let line = text[..at].lines().count() as u64;
    let end = at + text[at..].find('\n').expect("a whole line");
    let changed = format!("{}{answer}{}", &text[..at], &text[end..]);
    std::fs::write(tape, changed).expect("written");
    match replay_tape(tape) {
        Err(TapeError::Differs { line: found, .. }) => assert_eq!(found, line),
        other => panic!("{other:?}"),
    }
    std::fs::write(tape, format!("{}?{}", &text[..at], &text[end..])).expect("written");
    assert!(matches!(replay_tape(tape), Err(TapeError::Line { .. })));
}
