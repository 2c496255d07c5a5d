//! What was learned in one run is known in the next.

mod common;

use common::*;
use std::ops::Range;
use std::path::Path;
use warmswap_arena::{Application, Arena, ArenaConfig, Mechanism, Region};

const PAGES: usize = 256;
const USED: Range<usize> = 64..128;
const NAME: &str = "an editor/1";

/// An arena whose applications' tables are kept in a folder, and an application with a region.
fn start(scheme: &str, folder: Option<&Path>) -> (Arena, Application, Region) {
    let arena = Arena::new(ArenaConfig {
        learned_folder: folder.map(Path::to_owned),
        ..config(8 * MIB, scheme)
    })
    .expect("an arena");
    let app = arena.application(NAME).expect("room");
    let region = app.region(PAGES * PAGE).expect("a region");
    app.foreground();
    app.launch_done();
    (0..PAGES).for_each(|page| write_page(words(&region), page, 1));
    (arena, app, region)
}

/// Pages that come back by themselves in a relaunch, which uses some of them.
fn relaunch((arena, app, region): &(Arena, Application, Region)) -> u64 {
    app.background();
    leave(region);
    let before = arena.stats().engine.prepaged;
    app.foreground();
    let mut tries = 0;
    while arena.stats().is_prepaging && tries < 10_000 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        tries += 1;
    }
    let prepaged = arena.stats().engine.prepaged - before;
    USED.for_each(|page| check_page(words(region), page, 1));
    app.launch_done();
    prepaged
}

#[test]
fn a_footprint_is_known_after_a_restart_and_damage_costs_only_that() {
    if !can_run("a_footprint_is_known_after_a_restart", Mechanism::Auto) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let first = start("asap", Some(folder));
    assert_eq!([relaunch(&first), relaunch(&first)], [0, 0]);
    // Regions may go before the application goes to the background.
    drop(first);
    let used = USED.len() as u64;
    let second = start("asap", Some(folder));
    assert_eq!(relaunch(&second), used, "the first relaunch already");
    second.1.background();
    let learned = warmswap_learned::load(folder, NAME).expect("a whole file");
    assert_eq!(learned.expect("a file").anon_targets.len() as u64, used);
    drop(second);

    let file = warmswap_learned::path_of(folder, NAME);
    let mut bytes = std::fs::read(&file).expect("the file");
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let third = start("asap", Some(folder));
    assert!(third.1.load_learned(folder).is_err());
    assert_eq!(relaunch(&third), 0, "nothing of a damaged file is used");
    relaunch(&third);
    third.1.background();
    let learned = warmswap_learned::load(folder, NAME).expect("a whole file again");
    assert_eq!(learned.expect("a file").anon_targets.len() as u64, used);
}

#[test]
fn a_hot_list_is_known_after_a_restart() {
    if !can_run("a_hot_list_is_known_after_a_restart", Mechanism::Auto) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let first = start("ariadne-al-256-2k-32k", None);
    relaunch(&first);
    let hot = first.1.hot_pages();
    assert!(hot >= USED.len() as u64 && hot < PAGES as u64, "{hot}");
    first.1.save_learned(folder).expect("saved");
    drop(first);
    let arena = Arena::new(config(8 * MIB, "ariadne-al-256-2k-32k")).expect("an arena");
    let app = arena.application(NAME).expect("room");
    assert!(app.load_learned(folder).expect("a whole file"));
    assert!(!app.load_learned(&folder.join("none")).expect("no file"));
    let region = app.region(PAGES * PAGE).expect("a region");
    // Not in a launch window: what is hot now was so before.
    (0..PAGES).for_each(|page| write_page(words(&region), page, 1));
    assert_eq!(app.hot_pages(), hot);
}

#[test]
fn a_tape_says_what_was_taught() {
    if !can_run("a_tape_says_what_was_taught", Mechanism::Auto) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let first = start("asap", Some(folder));
    relaunch(&first);
    relaunch(&first);
    drop(first);
    let tape = folder.join("tape");
    let arena = Arena::new(ArenaConfig {
        learned_folder: Some(folder.to_owned()),
        tape: Some(tape.clone()),
        ..config(8 * MIB, "asap")
    })
    .expect("an arena");
    let app = arena.application(NAME).expect("room");
    let region = app.region(PAGES * PAGE).expect("a region");
    (0..PAGES).for_each(|page| write_page(words(&region), page, 1));
    app.foreground();
    app.launch_done();
    let second = (arena, app, region);
    assert_eq!(relaunch(&second), USED.len() as u64);
    drop(second);
    warmswap_arena::replay_tape(&tape).expect("the same answers");
}
