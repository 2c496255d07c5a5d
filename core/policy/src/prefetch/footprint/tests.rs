//! The policy: whose window counts, what is planned, and when a plan ends.

use super::*;

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

/// How many pages of files are to come back; without a profile.
fn targets(policy: &Footprint) -> u64 {
    profile::table_pages(policy.file(APP).unwrap().targets())
}

#[test]
fn without_a_profile_any_page_that_a_relaunch_had_to_read_comes_back() {
    let mut policy = Footprint::parse("profile=0").unwrap();
    let pages: Vec<_> = (0..100).map(file).collect();
    launch(&mut policy, LaunchKind::Cold, &pages);
    assert_eq!(targets(&policy), 0);
    relaunch(&mut policy, &pages);
    assert_eq!(targets(&policy), 100);
}

#[test]
fn tables_that_were_learned_without_a_profile_make_none() {
    let mut without = Footprint::parse("profile=0").unwrap();
    relaunch(&mut without, &[file(3), file(4)]);
    let mut learned = Learned::default();
    without.learned(APP, &mut learned);
    let mut with = Footprint::parse("profile=2").unwrap();
    with.teach(APP, &learned);
    assert!(with.file(APP).is_none(), "it makes one of its own");
    let mut again = Footprint::parse("profile=0").unwrap();
    again.teach(APP, &learned);
    assert_eq!(targets(&again), 2);
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
