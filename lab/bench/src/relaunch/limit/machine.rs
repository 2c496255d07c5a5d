//! Memory that is taken away from the whole machine, so that the kernel reclaims as on a small one: no control group,
//! and kswapd works.
//!
//! Programs that run beside the applications count as on any machine: what they hold when an arm begins is left to
//! them, and what they take meanwhile is missing to the applications.

use warmswap_apps::RunningApp;
use warmswap_sys::cpu_time::CpuClock;
use warmswap_sys::memcg::own_limit_bytes;
use warmswap_sys::meminfo::{Meminfo, VmstatFile};
use warmswap_sys::taken::{Left, TakenMemory};
use warmswap_sys::undo::Undo;
use warmswap_sys::{Root, swap, tree};

use std::cell::RefCell;
use std::sync::Arc;

use super::watch::{Seen, Watch};
use super::{Conditions, Guest, MemoryLimit};
use crate::BenchError;
use crate::relaunch::kernel_settings::Settings;
use crate::relaunch::limit_keeper::Kept;
use crate::relaunch::options::Arm;
use crate::relaunch::swap::Swap;

/// A machine with less memory.
#[derive(Debug)]
pub struct MachineLimit {
    undo: Undo,
    usable_bytes: u64,
    available_bytes: u64,
    /// What was seen since it began.
    seen: RefCell<Seen>,
    // Dropped in this order: memory comes back first, so that there is room for what comes back from the swap.
    settings: Option<Settings>,
    watch: Option<Watch>,
    taken: Option<Arc<TakenMemory>>,
    swap: Option<Swap>,
}

/// Whether memory can be taken away here, and what is measured then is what is said.
///
/// # Errors
/// [`BenchError`] with the reason.
pub fn check_machine(root: &Root, total_bytes: Option<u64>) -> Result<(), BenchError> {
    if let Some(area) = swap::areas(root)?.first() {
        return Err(BenchError::SwapOfOthers {
            path: area.path.clone(),
        });
    }
    if let Some(limit_bytes) = own_limit_bytes(root)
        && total_bytes.is_none_or(|total| limit_bytes < total)
    {
        return Err(BenchError::LimitedHere { limit_bytes });
    }
    Ok(())
}

impl MachineLimit {
    /// Takes memory away until `left` is left; what the swap takes of that is its pool's.
    pub fn create(undo: &Undo, arm: Arm, left: Left, swap: Swap) -> Result<Self, BenchError> {
        let taken = Arc::new(TakenMemory::take(undo.root(), left)?);
        Ok(Self {
            undo: undo.clone(),
            usable_bytes: taken.usable_bytes(),
            available_bytes: taken.available_bytes(),
            seen: RefCell::default(),
            settings: Some(Settings::set(undo, arm, taken.taken_bytes())?),
            watch: Some(Watch::start(undo.root(), Arc::clone(&taken))),
            taken: Some(taken),
            swap: Some(swap),
        })
    }

    /// Takes over what was seen since the last time.
    fn look(&self) -> Seen {
        let new = self.watch.as_ref().map(Watch::take_seen);
        let new = new.unwrap_or_default();
        let mut all = self.seen.borrow_mut();
        *all = all.and(new);
        new
    }
}

impl MemoryLimit for MachineLimit {
    fn admit(&self) -> Result<Option<Guest>, BenchError> {
        Ok(None)
    }

    fn impose(&mut self) {}

    fn programs(&self, apps: &[RunningApp]) -> Result<Vec<u32>, BenchError> {
        let mut living = tree::all(self.undo.root())?;
        living.retain(|stat| stat.state != 'Z');
        let families = apps.iter().map(|app| tree::family(&living, app.process()));
        Ok(families.flatten().map(|stat| stat.pid).collect())
    }

    fn used_bytes(&self) -> Result<u64, BenchError> {
        let available = Meminfo::read(self.undo.root())?.available_bytes;
        Ok(self.available_bytes.saturating_sub(available))
    }

    fn file_bytes(&self) -> Result<u64, BenchError> {
        Ok(Meminfo::read(self.undo.root())?.file_bytes)
    }

    fn major_faults(&self) -> Result<u64, BenchError> {
        Ok(VmstatFile::open(self.undo.root())?.read()?.major_faults)
    }

    fn take_kept(&self) -> Kept {
        let seen = self.look();
        if seen.looks == 0 {
            return Kept::default();
        }
        let used = |available: u64| self.available_bytes.saturating_sub(available);
        Kept {
            mean_bytes: used(seen.mean_available_bytes()),
            peak_bytes: used(seen.least_available_bytes),
            cpu_ns: seen.cpu_ns,
        }
    }

    fn clock(&self) -> Option<CpuClock> {
        None
    }

    fn conditions(&self) -> Conditions {
        self.look();
        let seen = self.seen.borrow();
        Conditions {
            usable_bytes: Some(self.usable_bytes),
            available_bytes: Some(self.available_bytes),
            least_available_bytes: (seen.looks > 0).then_some(seen.least_available_bytes),
            most_stall_percent: (seen.looks > 0).then_some(seen.most_stall_percent),
            settings: self
                .settings
                .as_ref()
                .map(|settings| settings.now(self.undo.root()))
                .unwrap_or_default(),
            ..Conditions::default()
        }
    }

    fn check(&self) -> Result<(), BenchError> {
        let taken = self.taken.as_deref();
        Ok(taken.map_or(Ok(()), TakenMemory::check)?)
    }

    fn lift(&mut self) -> Result<(), BenchError> {
        self.look();
        self.settings = None;
        self.watch = None;
        self.taken = None;
        Ok(())
    }

    fn remove(mut self: Box<Self>) -> Result<(), BenchError> {
        self.lift()?;
        self.swap.take().map_or(Ok(()), Swap::remove)
    }
}
