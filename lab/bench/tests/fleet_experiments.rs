//! The experiments of the Fleet benchmark, as small as they can be.

use std::path::Path;

use warmswap_bench::fleet::launches::{LaunchesOptions, LaunchesReport, launches};
use warmswap_bench::fleet::working_set::{WorkingSetOptions, working_set};
use warmswap_bench::fleet::{Arm, FleetError, SwapTarget, mix};
use warmswap_heap::Kind;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramSwap};
use warmswap_sys::{Root, swap};
use warmswap_uffd::{Feature, Uffd};

const MIB: usize = 1 << 20;

/// Why arenas cannot be had here, if so.
fn missing() -> Option<String> {
    match Uffd::probe() {
        Err(error) => Some(error.to_string()),
        Ok(features) if !features.has(Feature::Sigbus) => Some("needs SIGBUS faults".to_owned()),
        Ok(_) => None,
    }
}

/// Three programs of 2 MiB, each of which works in the background for 1 MiB at a time.
fn options(arms: &[Arm]) -> LaunchesOptions {
    LaunchesOptions {
        subjects: vec![mix::synthetic(512, 2 * MIB); 3],
        arms: arms.into(),
        launches: 3,
        actions: 2,
        background_bytes: MIB,
        background_changes: 10,
        launch_bytes: 3 * MIB,
        forced_collections: false,
        budget_percent: 60,
        swap: SwapTarget::Pool,
        background_factor: 1.1,
        seed: 1,
        folder: Path::new("/var/tmp").to_owned(),
    }
}

fn run(options: &LaunchesOptions) -> LaunchesReport {
    launches(options, &|_, _| {}).expect("small programs")
}

#[test]
fn limits_begin_the_collections_of_every_arm_unless_they_are_forced() {
    let name = "limits_begin_the_collections_of_every_arm_unless_they_are_forced";
    if let Some(reason) = missing() {
        warmswap_testkit::skip!(name, "{reason}");
    }
    let limited = options(&[Arm::Native, Arm::Fleet]);
    for arm in run(&limited).arms {
        assert_eq!(arm.causes.forced, 0, "{arm:?}");
        assert!(arm.causes.limit > 0, "{arm:?}");
        assert!(arm.causes.in_launches > 0, "{arm:?}");
    }
    let forced = LaunchesOptions {
        forced_collections: true,
        ..limited
    };
    // At each step the two programs that are not launched.
    for arm in run(&forced).arms {
        assert_eq!(arm.causes.forced, 3 * 3 * 2, "{arm:?}");
    }
}

#[test]
fn every_arm_launches_the_same_programs() {
    let name = "every_arm_launches_the_same_programs";
    if let Some(reason) = missing() {
        warmswap_testkit::skip!(name, "{reason}");
    }
    let arms: Vec<Arm> = Arm::any_machine().collect();
    let report = run(&LaunchesOptions {
        background_bytes: MIB / 32,
        launch_bytes: MIB / 32,
        ..options(&arms)
    });
    let measured: Vec<Arm> = report.arms.iter().map(|arm| arm.arm).collect();
    assert_eq!(measured, arms);
    let groupings = |name: Arm| {
        let arm = report.arms.iter().find(|arm| arm.arm == name);
        let kinds = arm.into_iter().flat_map(|arm| &arm.collections);
        let groupings = kinds.filter(|of| of.kind == Kind::Grouping);
        groupings.map(|of| of.count).sum::<u64>()
    };
    // At the start, and after each launch.
    assert_eq!(groupings(Arm::Fleet), 3 + 9);
    assert!(groupings(Arm::SkipGrouping) < 3 + 9);
    for arm in &report.arms {
        let per_kib = arm.card_bytes * 1024 / arm.address_bytes;
        assert_eq!(per_kib, 2, "{arm:?}");
    }
}

#[test]
fn the_kernels_swap_is_an_arm_where_there_is_some() {
    let name = "the_kernels_swap_is_an_arm_where_there_is_some";
    let root = Root::machine();
    let kernel = options(&[Arm::Kernel]);
    if swap::areas(&root).expect("a file of /proc").is_empty() {
        let refused = launches(&kernel, &|_, _| {});
        assert!(matches!(refused, Err(FleetError::NoSwap)));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let undo = Undo::open(&root, folder.path()).expect("an undo list");
    let config = ZramConfig {
        disk_bytes: 256 << 20,
        algorithm: "lz4".to_owned(),
        second_algorithm: None,
        backing_device: None,
        memory_limit_bytes: None,
        priority: 32767,
    };
    let _device = match ZramSwap::create(&undo, &config) {
        Ok(device) => device,
        Err(error) => warmswap_testkit::skip!(name, "{error}"),
    };
    let arm = &run(&kernel).arms[0];
    assert_eq!(arm.launch_ns.concat().len(), 9);
    assert!(arm.pages_out > 0, "cold regions leave: {arm:?}");
    assert!(arm.faults > 0, "and some come back: {arm:?}");
}

#[test]
fn foreground_objects_die_in_the_background_too() {
    let name = "foreground_objects_die_in_the_background_too";
    if let Some(reason) = missing() {
        warmswap_testkit::skip!(name, "{reason}");
    }
    let options = WorkingSetOptions {
        subjects: vec![mix::synthetic(512, 2 * MIB)],
        old_changes: vec![0],
        background_bytes: MIB / 4,
        rounds: 1,
        seed: 1,
    };
    let report = working_set(&options, &|_, _| {}).expect("a small program");
    let alive = report.lifetimes[0].foreground_per_mille.last().copied();
    // What the use before the switch replaced is garbage at the switch.
    assert!((1..990).contains(&alive.unwrap_or(0)), "{alive:?}");
}
