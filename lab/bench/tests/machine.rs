//! Arms over the whole machine, at their smallest: what is measured, that nothing is left behind on any way out, and what
//! is refused. Little is taken away: all but 2 GiB of what is available are left, so that programs that run beside notice
//! nothing.

mod common;

use common::{Machine, as_child, options, stop_in_the_middle};
use rustix::process::Signal;
use warmswap_apps::AppError;
use warmswap_bench::relaunch::{Arm, Total};
use warmswap_bench::{BenchError, RelaunchOptions, RelaunchReport, relaunch};
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::taken::TakeError;
use warmswap_sys::undo::Undo;
use warmswap_sys::{Root, file, swap};
use warmswap_testkit::skip;

const GIB: u64 = 1 << 30;

/// Memory that processes of this machine have locked.
fn locked_bytes() -> u64 {
    let text = file::read("/proc/meminfo".as_ref()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Mlocked:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap() * 1024
}

/// All but 2 GiB of what is available are left.
fn machine_options(arms: &[Arm]) -> RelaunchOptions {
    let memory = Meminfo::read(&Root::machine()).unwrap();
    RelaunchOptions {
        total: Total::Bytes(memory.available_bytes - 2 * GIB),
        ..options(arms)
    }
}

/// Measures with these options, which are made anew when others have taken so much meanwhile that less is available than
/// was to be left.
fn measure(
    make: impl Fn() -> RelaunchOptions,
    undo: &Undo,
    step: &mut dyn FnMut(),
) -> Result<RelaunchReport, BenchError> {
    loop {
        match relaunch(&make(), undo, &mut |_| step()) {
            Err(BenchError::Taken(TakeError::TooLittle { .. })) => {}
            done => return done,
        }
    }
}

/// Why this machine cannot run these tests.
fn missing() -> Option<String> {
    let root = Root::machine();
    if Meminfo::read(&root).unwrap().available_bytes < 5 * GIB {
        return Some("needs 5 GiB of available memory".to_owned());
    }
    if let Some(area) = swap::areas(&root).unwrap().first() {
        return Some(format!("{} is in use as swap", area.path));
    }
    common::missing()
}

#[test]
fn memory_is_taken_away_while_programs_run_and_given_back() {
    let name = "memory_is_taken_away_while_programs_run_and_given_back";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    let machine = Machine::alone();
    let memory = || Meminfo::read(&Root::machine()).unwrap();
    let before = locked_bytes();
    let mut taken = 0;

    let arms = [Arm::Dram, Arm::ZramDefault, Arm::ZramTuned];
    let report = measure(|| machine_options(&arms), &machine.undo, &mut || {
        taken = taken.max(locked_bytes().saturating_sub(before));
    })
    .unwrap();

    machine.assert_restored();
    assert!(taken > GIB, "{taken}");
    assert_eq!(report.values.len(), 3 * 2 * 2);
    assert!(!report.features.is_empty());
    let arm = |arm| report.arm(arm).expect("it was measured");
    assert_eq!(arm(Arm::Dram).conditions.available_bytes, None);
    for limited in [Arm::ZramDefault, Arm::ZramTuned] {
        let result = arm(limited);
        let conditions = &result.conditions;
        let (usable, available) = (conditions.usable_bytes, conditions.available_bytes);
        assert!(usable.unwrap() < memory().usable_bytes() && available < usable);
        assert!(
            conditions
                .least_available_bytes
                .is_some_and(|bytes| bytes > 0)
        );
        assert_eq!(conditions.settings.len(), 4);
        assert!(result.cpu.machine_ns > 0 && result.cpu.programs_ns > Some(0));
        assert!(result.latency.count == 4 && result.kills == 0);
    }
    let machine = |of| arm(of).conditions.usable_bytes.expect("it was limited");
    assert_eq!(machine(Arm::ZramDefault), machine(Arm::ZramTuned));
    let swappiness = |of| arm(of).conditions.settings[0].value.clone();
    assert_eq!(swappiness(Arm::ZramDefault), "60");
    assert_eq!(swappiness(Arm::ZramTuned), "180");
}

#[test]
fn a_program_that_fails_ends_the_run_and_leaves_nothing_behind() {
    let name = "a_program_that_fails_ends_the_run_and_leaves_nothing_behind";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    let machine = Machine::alone();
    let impatient = || {
        let mut options = machine_options(&[Arm::ZramTuned]);
        for app in &mut options.apps {
            app.requests.limit_s = 0;
        }
        options
    };

    let error = measure(impatient, &machine.undo, &mut || {}).unwrap_err();

    assert!(
        matches!(error, BenchError::App(AppError::Late { .. })),
        "{error}"
    );
    machine.assert_restored();
}

/// Not a test of its own: run by the one below in a process of its own.
#[test]
fn child() {
    let before = locked_bytes();
    as_child(
        || locked_bytes() > before + GIB,
        |undo, step| {
            let long = || RelaunchOptions {
                blocks: 1000,
                ..machine_options(&[Arm::ZramTuned])
            };
            measure(long, undo, step).unwrap();
        },
    );
}

#[test]
fn signals_a_panic_and_the_command_after_a_kill_restore_the_machine() {
    let name = "signals_a_panic_and_the_command_after_a_kill_restore_the_machine";
    if let Some(reason) = missing() {
        skip!(name, "{reason}");
    }
    stop_in_the_middle(Some(Signal::INT), Some(130));
    stop_in_the_middle(Some(Signal::TERM), Some(143));
    stop_in_the_middle(None, Some(101));
    stop_in_the_middle(Some(Signal::KILL), None);
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let undo = Undo::open(&Root::machine(), folder.path()).unwrap();
    let mixed = options(&[Arm::Dram, Arm::Zram, Arm::Daemon]);
    let no_command = options(&[Arm::Dram, Arm::DaemonUntold]);
    if mixed.apps.is_empty() {
        skip!(
            "what_cannot_be_compared_is_refused_before_anything_is_changed",
            "neither python3 nor sqlite3 is installed"
        );
    }

    let error = relaunch(&mixed, &undo, &mut |_| {}).unwrap_err();
    assert!(matches!(error, BenchError::MixedScopes { .. }), "{error}");
    let error = relaunch(&no_command, &undo, &mut |_| {}).unwrap_err();
    assert!(matches!(error, BenchError::NoCommand), "{error}");
}
