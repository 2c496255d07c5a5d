//! Tiny programs, what runs change on the machine, and runs that are stopped in the middle.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_child_subreaper};
use tempfile::TempDir;
use warmswap_apps::{Directories, Size, check, load_all};
use warmswap_bench::RelaunchOptions;
use warmswap_bench::relaunch::{Arm, Total};
use warmswap_kernel::HostConfig;
use warmswap_sys::readahead::Disk;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::probe;
use warmswap_sys::{Root, file, swap};

/// Two programs, if they are installed, at their smallest.
pub fn options(arms: &[Arm]) -> RelaunchOptions {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let mut apps = load_all(&folder).expect("the shipped definitions");
    let directories = Directories::default();
    apps.retain(|app| ["cpython", "sqlite"].contains(&app.name.as_str()));
    apps.retain(|app| check(app, &directories.cache).is_none());
    RelaunchOptions {
        apps,
        size: Size::Small,
        directories,
        arms: arms.to_vec(),
        total: Total::Share(0.5),
        blocks: 1,
        relaunches: 2,
        warm_up: 2,
        rest_ms: 20,
        seed: 3,
        algorithm: "lz4".to_owned(),
        readahead_kib: None,
        host: HostConfig::default(),
        preload: None,
        command: None,
        sample_every: None,
        allow_busy: true,
    }
}

/// Why this machine cannot measure live arms.
pub fn missing() -> Option<String> {
    if let Err(reason) = probe(&Root::machine()) {
        return Some(reason.to_string());
    }
    (options(&[]).apps.len() < 2).then(|| "python3 and sqlite3 are not both installed".to_owned())
}

/// One test at a time changes the machine.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A machine that one test at a time changes, and how it was before.
pub struct Machine {
    pub undo: Undo,
    _folder: TempDir,
    before: MachineState,
    _alone: MutexGuard<'static, ()>,
}

impl Machine {
    /// Waits until no other test changes it.
    pub fn alone() -> Self {
        let alone = alone();
        let before = machine_state();
        let folder = tempfile::tempdir().unwrap();
        Self {
            undo: Undo::open(&Root::machine(), folder.path()).unwrap(),
            _folder: folder,
            before,
            _alone: alone,
        }
    }

    /// Fails unless the machine is as it was.
    pub fn assert_restored(&self) {
        assert_eq!(machine_state(), self.before);
    }
}

/// What runs change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineState {
    pub swap_areas: usize,
    pub block_devices: BTreeSet<PathBuf>,
    pub groups: usize,
    /// Processes below this one.
    pub processes: usize,
    /// Values of the settings of [`SETTINGS`].
    pub settings: Vec<Option<String>>,
    /// What disks read ahead of files.
    pub disks: Vec<Disk>,
}

/// Settings that arms change.
const SETTINGS: [&str; 7] = [
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/page-cluster",
    "/proc/sys/vm/watermark_scale_factor",
    "/proc/sys/vm/watermark_boost_factor",
    "/sys/module/zswap/parameters/enabled",
    "/sys/module/zswap/parameters/compressor",
    "/sys/module/zswap/parameters/max_pool_percent",
];

/// The machine as it is.
pub fn machine_state() -> MachineState {
    let list = |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_ours = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("warmswap-")
    };
    let groups = list("/sys/fs/cgroup").chain(list("/sys/fs/cgroup/memory"));
    let root = Root::machine();
    let processes = warmswap_sys::tree::descendants(&root, std::process::id());
    MachineState {
        swap_areas: swap::areas(&root).expect("the list").len(),
        block_devices: list("/sys/block").map(|entry| entry.path()).collect(),
        groups: groups.filter(is_ours).count(),
        processes: processes.expect("the list").len(),
        settings: SETTINGS.map(|path| file::read(Path::new(path)).ok()).into(),
        disks: Disk::all(&root).unwrap_or_default(),
    }
}

/// The folder of a process that is to be stopped in the middle.
const CHILD_FOLDER: &str = "WARMSWAP_TEST_FOLDER";

/// What a child does whose run is to be stopped: `run` is given what notes changes, and what it is to call again and again
/// while it runs. That says when it is under way, by `is_under_way`, and then panics if it is to.
pub fn as_child(is_under_way: impl Fn() -> bool, run: impl FnOnce(&Undo, &mut dyn FnMut())) {
    let Some(folder) = std::env::var_os(CHILD_FOLDER).map(PathBuf::from) else {
        return;
    };
    let undo = Undo::open(&Root::machine(), &folder.join("state")).unwrap();
    undo.on_signals().unwrap();
    run(&undo, &mut || {
        if is_under_way() {
            std::fs::write(folder.join("under-way"), "").unwrap();
            assert!(!folder.join("panic").exists(), "on purpose");
        }
    });
}

/// Runs the test `child` of this file in a process of its own, and stops it when it is under way: by a signal, or by a
/// panic. Checks that it ends with `code` and leaves nothing behind; after a SIGKILL, once the next command has begun.
pub fn stop_in_the_middle(signal: Option<Signal>, code: Option<i32>) {
    let _alone = alone();
    // A process that loses its parent becomes a child of this one, and is seen.
    set_child_subreaper(Pid::from_raw(1)).unwrap();
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
        assert_ne!(
            machine_state().swap_areas,
            before.swap_areas,
            "its swap is there meanwhile"
        );
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
    }
    assert_eq!(child.wait().unwrap().code(), code);
    if code.is_none() {
        assert_ne!(machine_state(), before, "nothing could take it back");
        drop(Undo::open(&Root::machine(), &folder.path().join("state")).unwrap());
    }
    // What was killed may take a moment to be gone, and is this process's to bury.
    let begin = Instant::now();
    while machine_state() != before && begin.elapsed() < Duration::from_secs(10) {
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(machine_state(), before, "{signal:?}");
}
