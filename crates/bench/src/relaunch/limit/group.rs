//! Memory that is limited, or only counted, in a control group of the applications.
//!
//! The kernel does not charge a zram device's memory to the group, so a thread keeps `limit + pool = total`.

use warmswap_apps::RunningApp;
use warmswap_sys::cpu_time::CpuClock;
use warmswap_sys::memcg::{Group, Memcg};
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{Device, ZramSwap};

use super::{Conditions, Guest, MemoryLimit};
use crate::BenchError;
use crate::relaunch::keeper::{Keeper, Kept};

/// A control group of an arm.
#[derive(Debug)]
pub struct GroupLimit {
    undo: Undo,
    group: Group,
    total_bytes: Option<u64>,
    // Dropped in this order: nothing keeps the limit of a group that is gone, nor needs the swap.
    keeper: Option<Keeper>,
    memcg: Memcg,
    zram: Option<ZramSwap>,
}

impl GroupLimit {
    /// Makes the group `name`, which has `total_bytes` together with what `zram` takes; `None` for no limit.
    pub fn create(
        undo: &Undo,
        name: &str,
        total_bytes: Option<u64>,
        zram: Option<ZramSwap>,
    ) -> Result<Self, BenchError> {
        let memcg = Memcg::create(undo, &format!("relaunch-{name}"))?;
        Ok(Self {
            undo: undo.clone(),
            group: memcg.group(),
            total_bytes,
            keeper: None,
            memcg,
            zram,
        })
    }
}

impl MemoryLimit for GroupLimit {
    fn admit(&self) -> Result<Option<Guest>, BenchError> {
        Guest::join(self.undo.root(), &self.memcg).map(Some)
    }

    fn impose(&mut self) {
        let device = self.zram.as_ref();
        let device = device.map(|zram| Device::new(self.undo.root(), zram.id()));
        let keeper = Keeper::start(self.group.clone(), device, self.total_bytes);
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
        self.keeper.as_ref().map(Keeper::take).unwrap_or_default()
    }

    fn clock(&self) -> Option<CpuClock> {
        self.keeper.as_ref().and_then(Keeper::clock)
    }

    fn group(&self) -> Option<&Group> {
        Some(&self.group)
    }

    fn conditions(&self) -> Conditions {
        Conditions::default()
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
        Ok(self.zram.map_or(Ok(()), ZramSwap::remove)?)
    }
}
