//! Programs that are returned to after a hog took their memory, at their smallest: what is measured, and that nothing is
//! left behind.

mod common;

use common::{Machine, missing, options};
use warmswap_bench::relaunch::SwapKind;
use warmswap_bench::returns::{HogKind, ReturnArm};
use warmswap_bench::{BenchError, ReturnOptions, returns};
use warmswap_kernel::HostConfig;
use warmswap_testkit::skip;

fn return_options(swap: SwapKind) -> ReturnOptions {
    let of = options(&[]);
    ReturnOptions {
        apps: of.apps,
        size: of.size,
        directories: of.directories,
        arms: vec![ReturnArm::Kernel],
        swaps: vec![swap],
        waits_ms: vec![500],
        hog: HogKind::Anonymous,
        hog_ms: 2000,
        hog_stays: false,
        pause_ms: 10,
        warm_up: 2,
        blocks: 1,
        seed: 3,
        algorithm: "lz4".to_owned(),
        is_machine: false,
        host: HostConfig::default(),
        command: None,
        allow_busy: true,
    }
}

#[test]
fn programs_leave_for_a_hog_and_come_back() {
    let name = "programs_leave_for_a_hog_and_come_back";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    let machine = Machine::alone();

    let report = returns(&return_options(SwapKind::Zram), &machine.undo, &mut |_| {}).unwrap();

    machine.assert_restored();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.total_bytes > report.footprint_bytes && report.footprint_bytes > 0);
    // Two programs, one of them twice, in two arms.
    assert_eq!(report.values.len(), 2 * 3);
    let seconds = report.values.iter().filter(|value| value.is_second);
    assert_eq!(seconds.count(), 2);
    let row = |arm| {
        let row = report.rows.iter().find(|row| row.arm == arm);
        row.unwrap_or_else(|| panic!("{arm:?} was measured"))
    };
    let (without, kernel) = (row(ReturnArm::NoLimit), row(ReturnArm::Kernel));
    assert!(without.swapped_bytes < kernel.swapped_bytes);
    assert!(without.added_ns.abs() < 1.0 && without.added_ratio.is_none());
    // The programs come back by faults alone.
    assert!(kernel.major_faults > without.major_faults, "{kernel:?}");
    assert!(kernel.out_pages > 0.0 && kernel.in_pages > 0.0);
    for row in &report.rows {
        assert_eq!((row.answer.count, row.use_time.count), (2, 2));
        assert!(row.again_ns > Some(0.0), "{row:?}");
        assert!(row.hog_ns > 0.0 && row.cpu_ns > Some(0.0), "{row:?}");
    }
}

#[test]
fn what_zswap_holds_left_and_came_back_too() {
    let name = "what_zswap_holds_left_and_came_back_too";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    let machine = Machine::alone();

    let report = match returns(&return_options(SwapKind::Zswap), &machine.undo, &mut |_| {}) {
        Err(error @ (BenchError::SwapFile(_) | BenchError::NoZswap { .. })) => {
            skip!(name, "{error}")
        }
        report => report.unwrap(),
    };

    machine.assert_restored();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    let row = &report.rows[1];
    assert_eq!(row.swap, Some(SwapKind::Zswap));
    assert!(row.out_pages > 0.0 && row.in_pages > 0.0, "{row:?}");
}

#[test]
fn a_daemon_is_a_command_and_without_one_nothing_is_left_behind() {
    let name = "a_daemon_is_a_command_and_without_one_nothing_is_left_behind";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    let machine = Machine::alone();
    let options = ReturnOptions {
        arms: vec![ReturnArm::DaemonUntold],
        ..return_options(SwapKind::Zram)
    };

    let error = returns(&options, &machine.undo, &mut |_| {}).unwrap_err();

    machine.assert_restored();
    assert!(matches!(error, BenchError::NoCommand), "{error}");
}

#[test]
fn a_hog_that_stays_is_ended_after_the_returns() {
    let name = "a_hog_that_stays_is_ended_after_the_returns";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    let machine = Machine::alone();
    let options = ReturnOptions {
        arms: vec![ReturnArm::Kernel],
        hog_stays: true,
        hog_ms: 0,
        waits_ms: vec![0],
        ..return_options(SwapKind::File)
    };

    let report = match returns(&options, &machine.undo, &mut |_| {}) {
        Err(BenchError::SwapFile(error)) => {
            skip!(
                name,
                "the folder for temporary files cannot be swapped to: {error}"
            )
        }
        report => report.unwrap(),
    };

    machine.assert_restored();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(report.rows.len(), 2);
    assert!(report.rows[1].swap == Some(SwapKind::File) && report.rows[1].out_pages > 0.0);
}
