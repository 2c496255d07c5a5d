//! The machine under recording: its swap device, settings and events.

use warmswap_sys::lock::MachineLock;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::mount::Mounted;
use warmswap_sys::perf::{DEFAULT_BUFFER_PAGES, FaultKind, PageFaults};
use warmswap_sys::tunable::Tunable;
use warmswap_sys::undo::{Undo, UndoError};
use warmswap_sys::zram::{ZramConfig, ZramSwap, probe};
use warmswap_sys::{Root, file};
use warmswap_trace::Description;

use crate::config::RecordConfig;
use crate::error::RecordError;
use crate::faults::FaultLog;

/// What the zram device compresses by.
const ZRAM_ALGORITHM: &str = "lz4";

/// Everything that was set up; dropping it sets the machine back.
#[derive(Debug)]
pub(crate) struct Machine {
    zram: ZramSwap,
    _settings: Vec<Tunable>,
    /// One page per fault of a file, where the kernel lets us ask for it.
    fault_around: Option<(Tunable, Mounted)>,
    /// Last, so that it is held until the settings are back.
    _lock: MachineLock,
}

impl Machine {
    /// Sets the machine up and opens the page-fault events.
    pub(crate) fn set_up(undo: &Undo) -> Result<(Self, FaultLog), RecordError> {
        warmswap_sys::check_page_size()?;
        let root = undo.root();
        probe(root)?;
        let lock = MachineLock::take(&root.path(MachineLock::default_path()))?;
        let faults = PageFaults::open(root, FaultKind::All, DEFAULT_BUFFER_PAGES)?;
        let mut settings = vec![Tunable::sysctl(undo, "vm.page-cluster", "0")?];
        let huge_pages = root.path("/sys/kernel/mm/transparent_hugepage/enabled");
        if huge_pages.exists() {
            settings.push(Tunable::set(undo, &huge_pages, "never")?);
        }
        let zram = ZramSwap::create(
            undo,
            &ZramConfig {
                disk_bytes: Meminfo::read(root)?.total_bytes,
                algorithm: ZRAM_ALGORITHM.to_owned(),
                second_algorithm: None,
                backing_device: None,
                memory_limit_bytes: None,
                priority: 32767,
            },
        )?;
        let machine = Self {
            zram,
            _settings: settings,
            fault_around: no_fault_around(undo),
            _lock: lock,
        };
        Ok((machine, FaultLog::new(faults)))
    }

    /// Whether a fault of a file maps one page only.
    pub(crate) fn exact_file_faults(&self) -> bool {
        self.fault_around.is_some()
    }

    /// Removes the swap device; the settings go back as this is dropped.
    pub(crate) fn tear_down(self) -> Result<(), UndoError> {
        self.zram.remove()
    }
}

/// Switches fault-around off by debugfs. A locked-down or small kernel does not offer it: `None`.
fn no_fault_around(undo: &Undo) -> Option<(Tunable, Mounted)> {
    let fallback =
        Undo::default_folder(undo.root()).join(format!("debugfs-{}", std::process::id()));
    let debugfs = Mounted::find_or_mount(undo, "debugfs", &fallback).ok()?;
    let tunable = Tunable::set(undo, &debugfs.path().join("fault_around_bytes"), "4096").ok()?;
    Some((tunable, debugfs))
}

/// The trace's description of where it comes from.
pub(crate) fn describe(root: &Root, config: &RecordConfig, exact_file_faults: bool) -> Description {
    let mut description = Description::new(
        "page faults (perf) after page-out to zram; contents from /proc/PID/mem; see warmswap-record",
    );
    let first = |path: &str, field: &str| {
        let text = file::read(&root.path(path)).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(field))
            .unwrap_or_default();
        line.trim_start_matches([':', '\t', ' ']).to_owned()
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = Meminfo::read(root).unwrap_or_default().total_bytes >> 20;
    description.machine = format!(
        "{}, {cpus} CPUs, {memory} MiB",
        first("/proc/cpuinfo", "model name")
    );
    description.kernel = format!("Linux {}", first("/proc/sys/kernel/osrelease", ""));
    let facts = [
        ("size", format!("{:?}", config.size).to_lowercase()),
        ("relaunches", config.relaunches.to_string()),
        ("order", "Shuffled".to_owned()),
        ("seed", config.seed.to_string()),
        ("foreground_ms", config.foreground_ms.to_string()),
        ("repage_interval_ms", config.repage_interval_ms.to_string()),
        ("zram_algorithm", ZRAM_ALGORITHM.to_owned()),
        ("cold_files", config.cold_files.to_string()),
        (
            "fault_around",
            if exact_file_faults {
                "off"
            } else {
                "as the kernel has it"
            }
            .to_owned(),
        ),
    ];
    description.extra = facts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    description
}
