//! How much memory a replay gets, and how it goes.

use serde::{Deserialize, Serialize};
use warmswap_engine::Limits;
use warmswap_policy::SchemeSpec;
use warmswap_replay::{DeviceModel, Pressure, ReclaimFactory, Sight};

use crate::footprint::Footprint;

/// An amount of memory, by itself or as a part of another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Hundredths of the whole that it is taken of.
    Percent(f64),
}

impl Amount {
    /// Bytes, where the whole has `whole_bytes`.
    pub fn of(self, whole_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (whole_bytes as f64 * percent / 100.0).round() as u64,
        }
    }
}

/// How traces are replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Memory for frames and pool; a percentage is one of the trace's footprint.
    pub budget: Amount,
    /// Of it, at most this for the pool; a percentage is one of the budget.
    pub pool_limit: Amount,
    /// The backing file; a percentage is one of the footprint. `None`: as large as the footprint for the
    /// schemes that use one, and none for the others.
    pub backing: Option<Amount>,
    /// Costs that are not measured.
    pub device: DeviceModel,
    /// What makes pages leave.
    pub pressure: Pressure,
    /// False: pages of files are passed over, as in the Ariadne paper.
    pub file_pages: bool,
    /// False: sizes and codec times are assumed even where the trace has contents.
    pub contents: bool,
    /// Which touches the engine hears of.
    pub sight: Sight,
    /// A reclaim policy in place of the scheme's.
    pub reclaim: Option<ReclaimFactory>,
}

impl Default for Options {
    /// Half of the footprint, all of it open to the pool, UFS 3.1, pressure by the budget, anonymous pages
    /// only, with contents.
    fn default() -> Self {
        Self {
            budget: Amount::Percent(50.0),
            pool_limit: Amount::Percent(100.0),
            backing: None,
            device: DeviceModel::default(),
            pressure: Pressure::Budget,
            file_pages: false,
            contents: true,
            sight: Sight::All,
            reclaim: None,
        }
    }
}

impl Options {
    /// As in the Ariadne paper's evaluation (section 5, scenarios AL and EHL): memory for everything, and
    /// an application that leaves gives up all that its scheme lets go. The budget is twice the footprint,
    /// so that the budget itself never makes a page leave.
    pub fn full_pressure() -> Self {
        Self {
            budget: Amount::Percent(200.0),
            pressure: Pressure::Full,
            ..Self::default()
        }
    }

    /// Pages of files too, a pool that is small enough to evict, and a backing file for all that it evicts.
    pub fn small_pool(budget_percent: f64, pool_percent: f64) -> Self {
        Self {
            budget: Amount::Percent(budget_percent),
            pool_limit: Amount::Percent(pool_percent),
            backing: Some(Amount::Percent(100.0)),
            file_pages: true,
            ..Self::default()
        }
    }

    /// The limits for a trace of that footprint under that scheme.
    pub fn limits(&self, footprint: Footprint, scheme: &SchemeSpec) -> Limits {
        let footprint_bytes = footprint.bytes(self.file_pages);
        let budget_bytes = self.budget.of(footprint_bytes);
        let backing = match self.backing {
            Some(amount) => amount,
            None if uses_backing(scheme) => Amount::Percent(100.0),
            None => Amount::Bytes(0),
        };
        Limits {
            budget_bytes,
            pool_limit_bytes: self.pool_limit.of(budget_bytes),
            backing_limit_bytes: backing.of(footprint_bytes),
        }
    }
}

/// Whether a scheme is made for a backing file: its pool evicts, or not every page enters the pool.
pub fn uses_backing(scheme: &SchemeSpec) -> bool {
    let policy = |slot: &str| slot.split(':').next().unwrap_or_default().to_owned();
    policy(&scheme.eviction) != "none" || policy(&scheme.admission) != "all"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_get_the_backing_file_that_they_use() {
        let footprint = Footprint {
            anon_pages: 1000,
            file_pages: 1000,
        };
        let limits = |name| Options::default().limits(footprint, &SchemeSpec::named(name).unwrap());
        for name in ["swap", "zswap", "ariadne", "warmswap"] {
            assert_eq!(limits(name).backing_limit_bytes, 4_096_000, "{name}");
        }
        for name in ["zram", "dram"] {
            assert_eq!(limits(name).backing_limit_bytes, 0, "{name}");
        }
        assert_eq!(limits("zram").budget_bytes, 2_048_000);
        assert_eq!(limits("zram").pool_limit_bytes, 2_048_000);
    }

    #[test]
    fn amounts_are_absolute_or_relative() {
        assert_eq!(Amount::Bytes(7).of(100), 7);
        assert_eq!(Amount::Percent(12.5).of(1000), 125);
        let options = Options {
            budget: Amount::Bytes(5000),
            backing: Some(Amount::Percent(10.0)),
            file_pages: true,
            ..Options::default()
        };
        let footprint = Footprint {
            anon_pages: 1,
            file_pages: 9,
        };
        let limits = options.limits(footprint, &SchemeSpec::named("zram").unwrap());
        assert_eq!(
            (limits.budget_bytes, limits.backing_limit_bytes),
            (5000, 4096)
        );
    }
}
