//! Real applications in all arms, at their smallest: what is measured, and that nothing is left behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use warmswap_apps::{Place, Size, check, load_all};
use warmswap_bench::relaunch::{Arm, Total};
use warmswap_bench::{BenchError, RelaunchOptions, relaunch};
use warmswap_kernel::HostConfig;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::probe;
use warmswap_sys::{Root, swap};
use warmswap_testkit::skip;

fn options(arms: &[Arm]) -> RelaunchOptions {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let mut apps = load_all(&folder).expect("the shipped definitions");
    let place = Place::default();
    apps.retain(|app| ["cpython", "sqlite"].contains(&app.name.as_str()));
    apps.retain(|app| check(app, &place.cache).is_none());
    RelaunchOptions {
        apps,
        size: Size::Small,
        place,
        arms: arms.to_vec(),
        total: Total::Share(0.5),
        blocks: 1,
        relaunches: 2,
        warm_up: 2,
        rest_ms: 20,
        seed: 3,
        algorithm: "lz4".to_owned(),
        host: HostConfig::default(),
        allow_busy: true,
    }
}

/// Swap areas, block devices and groups of this machine.
fn machine_state() -> (usize, BTreeSet<PathBuf>, usize) {
    let list = |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_ours = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("warmswap-relaunch")
    };
    let groups = list("/sys/fs/cgroup").chain(list("/sys/fs/cgroup/memory"));
    (
        swap::areas(&Root::machine()).expect("the list").len(),
        list("/sys/block").map(|entry| entry.path()).collect(),
        groups.filter(is_ours).count(),
    )
}

#[test]
fn all_arms_answer_and_leave_nothing_behind() {
    let name = "all_arms_answer_and_leave_nothing_behind";
    let root = Root::machine();
    if let Err(reason) = probe(&root) {
        skip!(name, "{reason}");
    }
    let options = options(&[Arm::Dram, Arm::Zram, Arm::Kernel]);
    if options.apps.len() < 2 {
        skip!(name, "python3 and sqlite3 are not both installed");
    }
    let before = machine_state();
    let folder = tempfile::tempdir().unwrap();
    let undo = Undo::open(&root, folder.path()).unwrap();

    let report = relaunch(&options, &undo, &mut |_| {}).unwrap();

    assert_eq!(report.values.len(), 3 * 2 * 2);
    assert!(report.values.iter().all(|value| value.latency_ns > 0));
    let arm = |arm| report.arm(arm).expect("it was measured");
    let total = report.total_bytes.unwrap();
    assert_eq!(arm(Arm::Dram).out_pages, 0);
    for limited in [Arm::Zram, Arm::Kernel] {
        let result = arm(limited);
        let is_within = result.mean_bytes <= total + total / 10;
        assert!(is_within, "{} of {total}", result.mean_bytes);
        assert!(result.cpu.programs_ns > 0 && result.latency.count == 4);
    }
    assert!(arm(Arm::Kernel).cpu.host_ns > 0);
    assert_eq!(report.targets.len(), 4);
    assert_eq!(machine_state(), before);
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
