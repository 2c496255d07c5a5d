//! Real applications in all arms, at their smallest: what is measured, and that nothing is left behind.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{Machine, as_child, missing, options, stop_in_the_middle};
use rustix::process::Signal;
use warmswap_bench::relaunch::{Arm, Preload, Total};
use warmswap_bench::{BenchError, RelaunchOptions, relaunch};
use warmswap_sys::readahead::Disk;
use warmswap_sys::undo::Undo;
use warmswap_sys::{Root, swap};
use warmswap_testkit::{preload_library, skip};
use warmswap_uffd::{Features, Reach, Uffd};

/// Why this machine cannot run tests of the library.
fn missing_for_library() -> Option<String> {
    let uffd = || Uffd::open(Reach::Everything, Features::NONE).err();
    missing().or_else(|| Some(uffd()?.to_string()))
}

#[test]
fn all_arms_answer_and_leave_nothing_behind() {
    let name = "all_arms_answer_and_leave_nothing_behind";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    let options = options(&[Arm::Dram, Arm::Zram, Arm::Kernel]);
    let machine = Machine::alone();
    let disks = Disk::all(&Root::machine()).unwrap_or_default();

    let report = relaunch(&options, &machine.undo, &mut |_| {}).unwrap();

    assert_eq!(report.values.len(), 3 * 2 * 2);
    assert!(report.values.iter().all(|value| value.latency_ns > 0));
    let arm = |arm| report.arm(arm).expect("it was measured");
    let total = report.total_bytes.unwrap();
    for limited in [Arm::Zram, Arm::Kernel] {
        let result = arm(limited);
        // Not 0 without a limit where the machine itself pages out what rests for long.
        assert!(arm(Arm::Dram).out_pages < result.out_pages);
        let is_within = result.mean_bytes <= total + total / 10;
        assert!(is_within, "{} of {total}", result.mean_bytes);
        assert!(result.cpu.programs_ns > Some(0) && result.latency.count == 4);
    }
    assert!(arm(Arm::Kernel).cpu.host_ns > 0);
    let as_they_are: Vec<_> = disks
        .into_iter()
        .map(|disk| (disk.name, disk.readahead_kib.to_string()))
        .collect();
    for of in [Arm::Dram, Arm::Zram, Arm::Kernel] {
        let found = arm(of).conditions.readahead_kib.iter();
        let found = found.map(|disk| (disk.name.clone(), disk.value.clone()));
        assert_eq!(found.collect::<Vec<_>>(), as_they_are, "{of:?}");
    }
    machine.assert_restored();
}

/// With the library, which may be in cpython only; switches are sampled.
fn preloaded(arms: &[Arm], library: &Path) -> RelaunchOptions {
    let mut options = options(arms);
    for app in &mut options.apps {
        app.start.preload = app.name == "cpython";
    }
    RelaunchOptions {
        preload: Some(Preload {
            codec: None,
            library: library.to_owned(),
            scheme: "warmswap+codec=lz4".to_owned(),
        }),
        sample_every: Some(Duration::from_millis(5)),
        ..options
    }
}

#[test]
fn programs_under_the_library_are_paged_by_their_arenas_in_the_same_memory() {
    let name = "programs_under_the_library_are_paged_by_their_arenas_in_the_same_memory";
    if let Some(reason) = missing_for_library() {
        skip!(name, "{reason}");
    }
    let machine = Machine::alone();
    let options = preloaded(&[Arm::Zram, Arm::Dram, Arm::Preload], preload_library());

    let report = relaunch(&options, &machine.undo, &mut |_| {}).unwrap();

    let preload = report.arm(Arm::Preload).expect("it was measured");
    let [arena] = preload.arenas.as_slice() else {
        panic!("one application allows it: {:?}", preload.arenas);
    };
    let total = report.total_bytes.unwrap();
    assert_eq!(arena.app, "cpython");
    assert!(arena.budget_bytes > 0 && arena.budget_bytes < total);
    assert_eq!(arena.paged_programs, 1, "{arena:?}");
    assert!(arena.pool_bytes > 0 && arena.out_pages > 0, "{arena:?}");
    assert!(arena.pool_faults > 0 && arena.prefetched > 0, "{arena:?}");
    assert!(arena.in_pages >= arena.pool_faults, "{arena:?}");
    assert!(preload.mean_bytes <= total + total / 10, "{preload:?}");
    assert!(preload.cpu.host_ns > 0 && preload.out_pages >= arena.out_pages);
    let values = || report.values.iter().filter(|v| v.arm == Arm::Preload);
    let of = |app: &'static str| values().filter(move |v| v.app == app);
    let in_pages = |app| of(app).map(|v| v.arena_in_pages.unwrap()).sum::<u64>();
    assert!(in_pages("cpython") > 0 && in_pages("sqlite") == 0);
    assert!(of("cpython").any(|v| v.major_faults > 0));
    for result in &report.arms {
        let switches = result.switches.as_ref().expect("they were sampled");
        assert!(switches.cpu > 0.0 && switches.cpu < 1.1, "{switches:?}");
        assert_eq!(switches.timeline.len(), 10);
    }
    for value in &report.values {
        let answer = value.slices.iter().rfind(|slice| !slice.is_after_answer);
        let answer_ns = answer.expect("it was sampled").end_ns;
        assert!(answer_ns >= value.latency_ns, "{value:?}");
    }
    machine.assert_restored();
}

/// The kernel over files and zswap, and the published schemes by the library.
#[test]
fn other_swap_and_published_schemes_answer_and_leave_nothing_behind() {
    let name = "other_swap_and_published_schemes_answer_and_leave_nothing_behind";
    if let Some(reason) = missing_for_library() {
        skip!(name, "{reason}");
    }
    let machine = Machine::alone();
    let mut arms = vec![Arm::Dram, Arm::Swap, Arm::AriadneEhl];
    arms.extend([Arm::AriadneAl, Arm::Ezswap]);
    if Path::new("/sys/module/zswap/parameters/enabled").exists() {
        arms.push(Arm::Zswap);
    }
    let options = preloaded(&arms, preload_library());

    let report = match relaunch(&options, &machine.undo, &mut |_| {}) {
        Err(BenchError::SwapFile(error)) => {
            machine.assert_restored();
            skip!(
                name,
                "the folder for temporary files cannot be swapped to: {error}"
            )
        }
        report => report.unwrap(),
    };

    let total = report.total_bytes.unwrap();
    for &arm in &arms[1..] {
        let result = report.arm(arm).expect("it was measured");
        assert_eq!(result.latency.count, 4, "{arm:?}");
        assert_eq!(result.kills, 0, "{arm:?}");
        assert!(result.out_pages > 0, "{arm:?}: {result:?}");
        let is_within = result.mean_bytes <= total + total / 8;
        assert!(is_within, "{arm:?}: {} of {total}", result.mean_bytes);
        assert_eq!(result.arenas.len(), usize::from(arm.is_preloaded()));
    }
    machine.assert_restored();
}

#[test]
fn the_arm_preload_needs_a_library_and_another_arm() {
    let folder = tempfile::tempdir().unwrap();
    let undo = Undo::open(&Root::machine(), folder.path()).unwrap();
    let nowhere = Path::new("/nonexistent/library.so");
    let without = RelaunchOptions {
        preload: None,
        ..preloaded(&[Arm::Dram, Arm::Preload], nowhere)
    };
    let alone = RelaunchOptions {
        total: Total::Bytes(1 << 30),
        ..preloaded(&[Arm::Preload], nowhere)
    };
    if without.apps.is_empty() {
        skip!(
            "the_arm_preload_needs_a_library_and_another_arm",
            "neither python3 nor sqlite3 is installed"
        );
    }

    let error = relaunch(&without, &undo, &mut |_| {}).unwrap_err();
    assert!(matches!(error, BenchError::NoLibrary), "{error}");
    let error = relaunch(&alone, &undo, &mut |_| {}).unwrap_err();
    assert!(matches!(error, BenchError::NoFootprints), "{error}");
}

#[test]
fn nothing_to_measure_is_an_error_before_anything_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let undo = Undo::open(&Root::machine(), folder.path()).unwrap();
    let no_apps = RelaunchOptions {
        apps: Vec::new(),
        ..options(&[Arm::Dram])
    };

    let error = relaunch(&no_apps, &undo, &mut |_| {}).unwrap_err();

    assert!(matches!(error, BenchError::NothingToMeasure), "{error}");
    let no_total = options(&[Arm::Zram]);
    if !no_total.apps.is_empty() {
        let error = relaunch(&no_total, &undo, &mut |_| {}).unwrap_err();
        assert!(matches!(error, BenchError::NoTotal), "{error}");
    }
}

/// Not a test of its own: run by the one below in a process of its own. It says when the kernel host's arm is under
/// way, and then goes on for a long time, or panics.
#[test]
fn child() {
    let areas = || swap::areas(&Root::machine()).expect("the list").len();
    let before = areas();
    as_child(
        || areas() > before,
        |undo, step| {
            let options = RelaunchOptions {
                blocks: 1000,
                ..options(&[Arm::Kernel, Arm::Dram])
            };
            relaunch(&options, undo, &mut |_| step()).unwrap();
        },
    );
}

#[test]
fn an_interruption_and_a_panic_leave_nothing_behind() {
    let name = "an_interruption_and_a_panic_leave_nothing_behind";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    stop_in_the_middle(Some(Signal::INT), Some(130));
    stop_in_the_middle(Some(Signal::TERM), Some(143));
    stop_in_the_middle(None, Some(101));
}
