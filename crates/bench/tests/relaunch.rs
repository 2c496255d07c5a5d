//! Real applications in all arms, at their smallest: what is measured, and that nothing is left behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_child_subreaper};
use warmswap_apps::{Place, Size, check, load_all};
use warmswap_bench::relaunch::{Arm, Preload, Total};
use warmswap_bench::{BenchError, RelaunchOptions, relaunch};
use warmswap_kernel::HostConfig;
use warmswap_sys::uffd::{Features, Reach, Uffd};
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::probe;
use warmswap_sys::{Root, swap};
use warmswap_testkit::{preload_library, skip};

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
        preload: None,
        sample_every: None,
        allow_busy: true,
    }
}

/// One test at a time changes the machine.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Swap areas, block devices and groups of this machine, and applications of this process.
fn machine_state() -> (usize, BTreeSet<PathBuf>, usize, usize) {
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
        warmswap_sys::tree::descendants(&Root::machine(), std::process::id())
            .expect("the list")
            .len(),
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
    let _alone = alone();
    let before = machine_state();
    let folder = tempfile::tempdir().unwrap();
    let undo = Undo::open(&root, folder.path()).unwrap();

    let report = relaunch(&options, &undo, &mut |_| {}).unwrap();

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
        assert!(result.cpu.programs_ns > 0 && result.latency.count == 4);
    }
    assert!(arm(Arm::Kernel).cpu.host_ns > 0);
    assert_eq!(report.targets.len(), 4);
    assert_eq!(machine_state(), before);
}

/// With the library, which may be in cpython only; switches are sampled.
fn preloaded(arms: &[Arm], library: &Path) -> RelaunchOptions {
    let mut options = options(arms);
    for app in &mut options.apps {
        app.start.preload = app.name == "cpython";
    }
    RelaunchOptions {
        preload: Some(Preload {
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
    let root = Root::machine();
    if let Err(reason) = probe(&root) {
        skip!(name, "{reason}");
    }
    if let Err(reason) = Uffd::open(Reach::Everything, Features::NONE) {
        skip!(name, "{reason}");
    }
    let _alone = alone();
    let options = preloaded(&[Arm::Zram, Arm::Dram, Arm::Preload], preload_library());
    if options.apps.len() < 2 {
        skip!(name, "python3 and sqlite3 are not both installed");
    }
    let before = machine_state();
    let folder = tempfile::tempdir().unwrap();
    let undo = Undo::open(&root, folder.path()).unwrap();

    let report = relaunch(&options, &undo, &mut |_| {}).unwrap();

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
    assert_eq!(machine_state(), before);
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

/// The folder of a process that is to be stopped in the middle.
const CHILD_FOLDER: &str = "WARMSWAP_TEST_FOLDER";

/// Not a test of its own: run by the one below in a process of its own. It says when the kernel host's arm is under
/// way, and then goes on for a long time, or panics.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER).map(PathBuf::from) else {
        return;
    };
    let root = Root::machine();
    let areas = || swap::areas(&root).expect("the list").len();
    let before = areas();
    let undo = Undo::open(&root, &folder.join("state")).unwrap();
    undo.on_signals().unwrap();
    let options = RelaunchOptions {
        blocks: 1000,
        ..options(&[Arm::Kernel, Arm::Dram])
    };
    relaunch(&options, &undo, &mut |_| {
        if areas() > before {
            std::fs::write(folder.join("under-way"), "").unwrap();
            assert!(!folder.join("panic").exists(), "on purpose");
        }
    })
    .unwrap();
}

#[test]
fn an_interruption_and_a_panic_leave_nothing_behind() {
    let name = "an_interruption_and_a_panic_leave_nothing_behind";
    let root = Root::machine();
    if let Err(reason) = probe(&root) {
        skip!(name, "{reason}");
    }
    if options(&[]).apps.len() < 2 {
        skip!(name, "python3 and sqlite3 are not both installed");
    }
    let _alone = alone();
    // Whoever loses its parent becomes a child of this process, and is seen.
    set_child_subreaper(Pid::from_raw(1)).unwrap();
    let ways = [
        (Some(Signal::INT), 130),
        (Some(Signal::TERM), 143),
        (None, 101),
    ];
    for (signal, code) in ways {
        let folder = tempfile::tempdir().unwrap();
        if signal.is_none() {
            std::fs::write(folder.path().join("panic"), "").unwrap();
        }
        let before = machine_state();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--test-threads=1"])
            .env(CHILD_FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !folder.path().join("under-way").exists() {
            let ended = child.try_wait().unwrap();
            let is_under_way = folder.path().join("under-way").exists();
            assert!(ended.is_none() || is_under_way, "it ended: {ended:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(signal) = signal {
            assert_ne!(machine_state().0, before.0, "its swap is there meanwhile");
            kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(code));
        // What was killed may take a moment to be gone, and is this process's to bury.
        let begin = Instant::now();
        while machine_state() != before && begin.elapsed() < Duration::from_secs(10) {
            while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(machine_state(), before, "{signal:?}");
    }
}
