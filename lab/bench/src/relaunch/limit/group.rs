//! Memory that is limited, or only counted, in a control group of the applications.
//!
//! The kernel does not charge the memory of a zram device, or of zswap in version 1, to the group, so a thread keeps
//! `limit + pool = total`.

use warmswap_apps::RunningApp;
use warmswap_sys::cpu_time::CpuClock;
use warmswap_sys::memcg::{Group, Memcg};
use warmswap_sys::undo::Undo;

use super::{Conditions, Guest, MemoryLimit};
use crate::BenchError;
use crate::relaunch::limit_keeper::{Kept, LimitKeeper};
use crate::relaunch::swap::{Pool, Swap};

/// A control group of an arm.
#[derive(Debug)]
pub struct GroupLimit {
    undo: Undo,
    group: Group,
    // Dropped in this order: nothing keeps the limit of a group that is gone, nor needs the swap.
    keeper: Option<LimitKeeper>,
    memcg: Memcg,
    /// Memory in all, and what is beyond it; none without a limit.
    limited: Option<(u64, Swap)>,
}

impl GroupLimit {
    /// Makes the group `name`, which has so many bytes together with what the swap takes of memory; `None` for no limit.
    pub fn create(
        undo: &Undo,
        name: &str,
        limited: Option<(u64, Swap)>,
    ) -> Result<Self, BenchError> {
        let memcg = Memcg::create(undo, name)?;
        Ok(Self {
            undo: undo.clone(),
            group: memcg.group(),
            keeper: None,
            memcg,
            limited,
        })
    }
}

impl MemoryLimit for GroupLimit {
    fn admit(&self) -> Result<Option<Guest>, BenchError> {
        Guest::join(self.undo.root(), &self.memcg).map(Some)
    }

    fn impose(&mut self) {
        let (total_bytes, pool) = match &self.limited {
            Some((total_bytes, swap)) => (Some(*total_bytes), swap.pool(self.undo.root())),
            None => (None, Pool::Nothing),
        };
        let keeper = LimitKeeper::start(self.group.clone(), pool, total_bytes);
        self.keeper = Some(keeper);
    }

    fn programs(&self, _: &[RunningApp]) -> Result<Vec<u32>, BenchError> {
        let mut pids = self.group.pids()?;
        pids.retain(|&pid| pid != std::process::id());
        Ok(pids)
    }

    fn used_bytes(&self) -> Result<u64, BenchError> {
        Ok(self.group.usage_bytes()?)
    }

    fn file_bytes(&self) -> Result<u64, BenchError> {
        Ok(self.group.stats()?.file_bytes)
    }

    fn major_faults(&self) -> Result<u64, BenchError> {
        Ok(self.group.stats()?.major_faults)
    }

    fn take_kept(&self) -> Kept {
        self.keeper
            .as_ref()
            .map(LimitKeeper::take)
            .unwrap_or_default()
    }

    fn clock(&self) -> Option<CpuClock> {
        self.keeper.as_ref().and_then(LimitKeeper::clock)
    }

    fn conditions(&self) -> Conditions {
        let swap = self.limited.as_ref().map(|(_, swap)| swap);
        Conditions {
            settings: swap
                .and_then(|swap| swap.setting(self.undo.root()))
                .into_iter()
                .collect(),
            ..Conditions::default()
        }
    }

    fn check(&self) -> Result<(), BenchError> {
        Ok(())
    }

    fn lift(&mut self) -> Result<(), BenchError> {
        self.keeper = None;
        // A group that stays limited ends its programs all the same, if slower.
        let _ = self.group.set_limit(None);
        Ok(())
    }

    fn remove(self: Box<Self>) -> Result<(), BenchError> {
        self.memcg.remove()?;
        self.limited.map_or(Ok(()), |(_, swap)| swap.remove())
    }
}
