//! What an arena is made with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use warmswap_backing::BackingConfig;
use warmswap_page::Mechanism;
use warmswap_policy::SchemeSpec;

/// Which thread resolves a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultMode {
    /// The thread that makes it, in a handler of SIGBUS: fast. System calls that are given a page that is not
    /// there fail with EFAULT; see [`Arena::touch_for_kernel`](crate::Arena::touch_for_kernel).
    #[default]
    Signal,
    /// Threads of the arena. Slower by two switches between threads; with the right to it, system calls are
    /// served too.
    Thread,
}

/// What an arena is made with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArenaConfig {
    /// Memory for frames, pool, engine and page words together, in bytes.
    pub budget_bytes: u64,
    /// Of it, at most this for the pool and for what describes pages and chunks. `None`: three quarters with a backing
    /// file, and all but an eighth without, where nothing can leave the pool.
    pub pool_limit_bytes: Option<u64>,
    /// The scheme.
    pub scheme: SchemeSpec,
    /// The backing file, which must not exist or be empty; removed in the end.
    pub backing: Option<PathBuf>,
    /// Its size in bytes.
    pub backing_limit_bytes: u64,
    /// How frames come and go.
    pub mechanism: Mechanism,
    /// Which thread resolves a fault.
    pub fault_mode: FaultMode,
    /// Threads that serve faults in [`FaultMode::Thread`].
    pub handler_threads: usize,
    /// Threads that bring an application's hot set and footprint back, at least one.
    pub restore_threads: usize,
    /// Faults that are served at the same time; each takes about 1 MiB, which the budget does not count.
    pub service_slots: usize,
    /// Addresses for all regions together, in bytes. They cost nothing until they are used.
    pub address_space_bytes: usize,
    /// Where to write down all that the engine hears and decides, for [`replay_tape`](crate::replay_tape); about
    /// 100 bytes a page that comes or goes. `None`: nowhere.
    #[serde(default)]
    pub tape: Option<PathBuf>,
    /// Where what is learned about applications (hot lists and footprints) survives a restart, a file for each
    /// name; written when an application goes to the background or gives up a region after a launch, and at the end
    /// of a program whose whole memory this is. `None`: nowhere.
    #[serde(default)]
    pub learned_folder: Option<PathBuf>,
    /// Whether each object of the pool carries a checksum that is checked when it is loaded.
    pub verify: bool,
}

/// Threads that restore, where there are many processors: each brings back a gigabyte and more a second, and every forked
/// child of a paged program starts as many.
const MOST_RESTORERS: usize = 4;

impl ArenaConfig {
    /// An arena with this budget and scheme, and otherwise: no backing file (4 GiB if one is named), frames
    /// moved where possible, faults served by SIGBUS, 64 GiB of addresses, checksums on.
    #[must_use]
    pub fn new(budget_bytes: u64, scheme: SchemeSpec) -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            budget_bytes,
            pool_limit_bytes: None,
            scheme,
            backing: None,
            backing_limit_bytes: 4 << 30,
            mechanism: Mechanism::Auto,
            fault_mode: FaultMode::Signal,
            handler_threads: 2,
            restore_threads: processors.div_ceil(2).min(MOST_RESTORERS),
            service_slots: (2 * processors).clamp(4, 32),
            address_space_bytes: 64 << 30,
            tape: None,
            learned_folder: None,
            verify: true,
        }
    }

    /// What its backing file is made with.
    #[must_use]
    pub fn backing_config(&self) -> BackingConfig {
        BackingConfig {
            capacity_bytes: self.backing_limit_bytes,
            ..BackingConfig::default()
        }
    }
}
