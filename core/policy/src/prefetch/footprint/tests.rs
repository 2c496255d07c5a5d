//! The policy: whose window counts, what is planned, and when a plan ends.

use super::*;
use std::ops::Range;

const APP: AppId = AppId(1);

fn anon(number: u64) -> PageAddr {
    PageAddr::Anon { number }
}

fn file(number: u64) -> PageAddr {
    PageAddr::File {
        file: FileId(0),
        number,
    }
}

fn launch(policy: &mut Footprint, kind: LaunchKind, pages: &[PageAddr]) -> Vec<Batch<FileId>> {
    policy.launch_begin(APP, kind);
    let batches = std::iter::from_fn(|| policy.next_batch()).collect();
    for &page in pages {
        policy.window_access(APP, page, Access::Fault);
    }
    policy.launch_end(APP);
    batches
}

fn relaunch(policy: &mut Footprint, pages: &[PageAddr]) -> Vec<Batch<FileId>> {
    launch(policy, LaunchKind::Relaunch, pages)
}

#[test]
fn a_page_of_two_switches_comes_back_at_the_third() {
    let mut policy = Footprint::new(Config::default());
    launch(&mut policy, LaunchKind::Cold, &[anon(1), anon(2)]);
    assert_eq!(relaunch(&mut policy, &[anon(1)]), []);
    assert_eq!(relaunch(&mut policy, &[anon(1)]), []);
    assert_eq!(relaunch(&mut policy, &[]), [Batch::Anon(vec![1])]);
}

#[test]
fn with_cold_launches_learned_it_comes_back_at_the_second() {
    let mut policy = Footprint::parse("cold=learn").unwrap();
    launch(&mut policy, LaunchKind::Cold, &[anon(1), anon(2)]);
    assert_eq!(relaunch(&mut policy, &[anon(1)]), []);
    assert_eq!(relaunch(&mut policy, &[]), [Batch::Anon(vec![1])]);
}

#[test]
fn launches_in_which_no_file_was_seen_make_no_profile() {
    let mut policy = Footprint::parse("profile=2").unwrap();
    for _ in 0..5 {
        relaunch(&mut policy, &[anon(1)]);
        assert!(policy.file(APP).is_none());
    }
    relaunch(&mut policy, &[file(3)]);
    assert!(policy.file(APP).is_none(), "one of two");
    relaunch(&mut policy, &[file(3)]);
    let profile = policy.file(APP).expect("two were profiled").profile();
    assert_eq!(profile.map(profile::table_pages), Some(1));
}

#[test]
fn files_come_back_once_profiled_and_faulted() {
    let mut policy = Footprint::parse("profile=2").unwrap();
    assert_eq!(relaunch(&mut policy, &[file(3), file(4)]), []);
    assert_eq!(relaunch(&mut policy, &[file(3)]), []);
    let profile = policy
        .file(APP)
        .expect("two switches were profiled")
        .profile();
    assert_eq!(profile.map(profile::table_pages), Some(1));
    assert_eq!(relaunch(&mut policy, &[file(3), file(4)]), []);
    let read = Batch::Read {
        file: FileId(0),
        extent: Extent::page(3),
    };
    let metadata = Batch::Metadata {
        file: FileId(0),
        page: 3,
    };
    assert_eq!(relaunch(&mut policy, &[]), [metadata, read]);
    assert!(policy.expects(APP, file(3)) && !policy.expects(APP, file(4)));
}

#[test]
fn workers_for_files_and_anonymous_pages_take_turns() {
    let mut policy = Footprint::parse("profile=1").unwrap();
    let pages: Vec<_> = (0..20).map(anon).chain([file(1), file(1000)]).collect();
    for _ in 0..2 {
        relaunch(&mut policy, &pages);
    }
    let kinds = relaunch(&mut policy, &[]);
    let kinds: String = kinds
        .iter()
        .map(|batch| match batch {
            Batch::Anon(_) => 'a',
            Batch::Metadata { .. } => 'm',
            Batch::Read { .. } => 'r',
        })
        .collect();
    assert_eq!(kinds, "mamarr");
}

#[test]
fn the_end_of_a_window_and_of_the_process_end_the_plan() {
    let mut policy = Footprint::new(Config::default());
    (0..2).for_each(|_| drop(relaunch(&mut policy, &[anon(1)])));
    policy.launch_begin(APP, LaunchKind::Relaunch);
    policy.launch_end(APP);
    assert_eq!(policy.next_batch(), None);
    policy.exit(APP);
    assert_eq!(
        relaunch(&mut policy, &[]),
        [],
        "addresses of a process that ended"
    );
}

#[test]
fn anonymous_pages_that_are_not_used_rest_and_those_that_are_may_be_more() {
    let mut policy = Footprint::parse("likely=60,only=anon").unwrap();
    let pages: Vec<_> = (0..2304).map(anon).collect();
    // Launches in which all that is brought back, and nothing else of it, is touched or is not.
    let mut launch = |is_used: bool, faults: &[PageAddr]| {
        policy.launch_begin(APP, LaunchKind::Relaunch);
        let mut brought = Vec::new();
        while let Some(batch) = policy.next_batch() {
            let Batch::Anon(numbers) = batch else {
                panic!("{batch:?}")
            };
            // The first ones are in memory, and none of what may be brought back.
            for number in numbers.into_iter().filter(|&number| number >= 304) {
                policy.fetched(APP, anon(number));
                brought.push(number);
            }
        }
        for &number in brought.iter().filter(|_| is_used) {
            policy.window_access(APP, anon(number), Access::InPlace);
        }
        for &page in faults {
            policy.window_access(APP, page, Access::Fault);
        }
        policy.launch_end(APP);
        brought.len()
    };
    for _ in 0..3 {
        launch(true, &pages);
    }
    assert_eq!(launch(true, &pages), 1024, "256 were used before");
    assert_eq!(launch(true, &pages), 2000);
    assert_eq!(launch(false, &[]), 2000);
    assert_eq!(launch(true, &pages), 0, "it rests");
    assert_eq!(launch(true, &pages), 256);
}

#[test]
fn while_files_rest_nothing_is_learned_of_them_but_before_they_are_tried_again() {
    let mut policy = Footprint::parse("likely=60,profile=1").unwrap();
    let pages: Vec<_> = (0..100).map(file).collect();
    // Whether something is learned in a launch that faults on all pages, and uses none that is brought back.
    let mut launch = || {
        policy.launch_begin(APP, LaunchKind::Relaunch);
        let learns = policy.watches_files(APP, true);
        let mut brought = 0;
        while let Some(batch) = policy.next_batch() {
            let numbers = match batch {
                Batch::Anon(_) => panic!("{batch:?}"),
                Batch::Metadata { page, .. } => page..page + 1,
                Batch::Read { extent, .. } => extent.first..extent.end(),
            };
            brought += numbers.clone().count();
            numbers.for_each(|page| policy.fetched(APP, file(page)));
        }
        if learns && brought == 0 {
            for &page in &pages {
                policy.window_access(APP, page, Access::Fault);
            }
        }
        policy.launch_end(APP);
        (learns, brought > 0)
    };
    let launches: Vec<_> = (0..9).map(|_| launch()).collect();
    let (profile, trial, before_it, rests) =
        ((true, false), (true, true), (true, false), (false, false));
    let expected = [
        profile, before_it, trial, before_it, trial, rests, before_it, trial, rests,
    ];
    assert_eq!(launches, expected);
    let only_anon = Footprint::parse("only=anon").unwrap();
    assert!(!only_anon.watches_files(APP, true));
}

#[test]
fn only_launches_before_which_files_were_dropped_are_looked_at_unless_as_published() {
    for (scheme, watches) in [("likely=60", false), ("", true)] {
        let policy = Footprint::parse(scheme).unwrap();
        assert_eq!(policy.watches_files(APP, false), watches, "{scheme}");
        assert!(policy.watches_files(APP, true));
    }
}

/// A launch that touches these pages of a file; those in `missing` are not in memory. How many are read.
fn launch_of_files(
    policy: &mut Footprint,
    kind: LaunchKind,
    pages: Range<u64>,
    missing: Range<u64>,
) -> u64 {
    policy.launch_begin(APP, kind);
    let mut wanted = Vec::new();
    while let Some(batch) = policy.next_batch() {
        if let Batch::Read { extent, .. } = batch {
            wanted.extend(extent.first..extent.end());
        }
    }
    // As a host does that learns what is there with the whole plan at hand.
    wanted
        .iter()
        .for_each(|&page| policy.fetched(APP, file(page)));
    let gone = wanted.iter().filter(|page| missing.contains(page)).count() as u64;
    let most = policy.files_to_read(APP, gone, wanted.len() as u64 - gone);
    let mut read = Vec::new();
    for &page in &wanted {
        if !missing.contains(&page) {
            policy.unseen(APP, &mut |addr| addr == file(page));
        } else if (read.len() as u64) < most {
            read.push(page);
        } else {
            policy.file_left(APP, FileId(0), page);
        }
    }
    for page in pages.filter(|page| missing.contains(page)) {
        let access = match read.contains(&page) {
            true => Access::InPlace,
            false => Access::Fault,
        };
        policy.window_access(APP, file(page), access);
    }
    policy.launch_end(APP);
    read.len() as u64
}

#[test]
fn without_a_profile_what_a_relaunch_had_to_read_comes_back_once_most_of_it_is_missing() {
    let mut policy = Footprint::parse("likely=60,profile=0").unwrap();
    let mut launch = |kind, pages: Range<u64>, missing| {
        let read = launch_of_files(&mut policy, kind, pages, missing);
        let targets = policy.file(APP).map(FileEstimator::target_pages);
        (read, targets)
    };
    let (cold, relaunch) = (LaunchKind::Cold, LaunchKind::Relaunch);
    assert_eq!(launch(cold, 0..100, 0..100), (0, Some(0)));
    assert_eq!(launch(relaunch, 0..100, 0..100), (0, Some(100)));
    // It touched what had been dropped, and all that is read is touched.
    assert_eq!(launch(relaunch, 0..100, 40..100), (60, Some(100)));
    // Less than half is missing: the launch does without it, so that it is forgotten.
    assert_eq!(launch(relaunch, 0..60, 60..100), (0, Some(60)));
    // Or the launch touches it all the same.
    assert_eq!(launch(relaunch, 0..60, 40..60), (0, Some(60)));
}

#[test]
fn as_published_what_is_not_read_stays_a_target() {
    for (scheme, targets) in [("profile=0", 100), ("profile=0,likely=60", 0)] {
        let mut policy = Footprint::parse(scheme).unwrap();
        let relaunch = LaunchKind::Relaunch;
        launch_of_files(&mut policy, relaunch, 0..100, 0..100);
        policy.launch_begin(APP, relaunch);
        while policy.next_batch().is_some() {}
        for page in 0..100 {
            policy.fetched(APP, file(page));
            policy.file_left(APP, FileId(0), page);
        }
        policy.launch_end(APP);
        let estimator = policy.file(APP).unwrap();
        assert_eq!(estimator.target_pages(), targets, "{scheme}");
    }
}

#[test]
fn tables_that_were_learned_without_a_profile_make_none() {
    let mut without = Footprint::parse("likely=60,profile=0").unwrap();
    launch_of_files(&mut without, LaunchKind::Relaunch, 0..10, 0..10);
    let mut learned = Learned::default();
    without.learned(APP, &mut learned);
    let mut with = Footprint::parse("profile=2").unwrap();
    with.teach(APP, &learned);
    assert!(with.file(APP).is_none(), "it makes one of its own");
    let mut again = Footprint::parse("likely=60,profile=0").unwrap();
    again.teach(APP, &learned);
    assert_eq!(again.file(APP).unwrap().target_pages(), 10);
}

#[test]
fn what_was_withheld_is_no_waste() {
    let mut policy = Footprint::parse("likely=60,profile=0").unwrap();
    let mut launch =
        |pages, missing| launch_of_files(&mut policy, LaunchKind::Relaunch, pages, missing);
    launch(0..200, 0..200);
    assert_eq!(launch(0..200, 0..20), 0);
    assert_eq!(launch(0..200, 0..200), 200, "it does not rest");
    // In vain: it rests.
    assert_eq!(launch(0..0, 0..200), 200);
    launch(0..200, 0..200);
    assert_eq!(launch(0..200, 0..200), 200);
}

#[test]
fn as_published_all_that_is_missing_is_read() {
    let mut policy = Footprint::parse("profile=0").unwrap();
    let relaunch = LaunchKind::Relaunch;
    launch_of_files(&mut policy, relaunch, 0..9000, 0..9000);
    assert_eq!(launch_of_files(&mut policy, relaunch, 0..9000, 0..9), 9);
    let read = launch_of_files(&mut policy, relaunch, 0..9000, 0..9000);
    assert_eq!(read, 9000);
}

#[test]
fn bad_arguments_are_named() {
    for bad in [
        "only=heap",
        "timeout=0",
        "profile=x",
        "cold=no",
        "only=anon,only=file",
    ] {
        assert!(Footprint::parse(bad).is_err(), "{bad}");
    }
}
