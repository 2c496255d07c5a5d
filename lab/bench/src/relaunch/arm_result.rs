//! What an arm comes to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_kernel::Counters;

use super::limit::Conditions;
use super::options::Arm;
use super::preload::ArenaCounts;
use super::quantiles::Quantiles;
use super::switch_use::SwitchUse;

/// CPU time of an arm, all blocks, without warm-up, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuParts {
    /// The applications, with what the kernel does in them: faults and direct reclaim. Without the arenas' threads. None where
    /// it could not be measured in one of the blocks.
    pub programs_ns: Option<u64>,
    /// Threads of the kernel.
    pub kernel_threads_ns: u64,
    /// The thread that keeps the limit, in which the kernel reclaims when it falls.
    pub limit_ns: u64,
    /// The kernel host's thread; or the daemon's process; or the arenas' threads, those that bring pages ahead included, and the one that
    /// tells them of switches.
    pub host_ns: u64,
    /// The kernel host's prefetch threads.
    pub prepage_ns: u64,
    /// Of all processors of the machine, whatever they did but idle, other programs' too.
    pub machine_ns: u64,
}

impl Default for CpuParts {
    /// Nothing yet.
    fn default() -> Self {
        Self {
            programs_ns: Some(0),
            kernel_threads_ns: 0,
            limit_ns: 0,
            host_ns: 0,
            prepage_ns: 0,
            machine_ns: 0,
        }
    }
}

impl CpuParts {
    /// The kernel's own threads, and the one in which it reclaims when the limit falls.
    #[must_use]
    pub fn reclaim_ns(&self) -> u64 {
        self.kernel_threads_ns + self.limit_ns
    }

    /// All that the arm is known to have caused; none where a part of it is not known.
    #[must_use]
    pub fn total_ns(&self) -> Option<u64> {
        let others = self.kernel_threads_ns + self.limit_ns + self.host_ns + self.prepage_ns;
        Some(self.programs_ns? + others)
    }
}

/// What the kernel host, the daemon, or the arenas together, did; all blocks, without warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostPart {
    /// Pages brought back ahead of use.
    pub prefetched: u64,
    /// Of these, touched in their launch window; not known of arenas.
    pub prefetch_used: Option<u64>,
    /// Pages that arenas paged out.
    pub paged_out: u64,
    /// Pages that the kernel paged out beside arenas.
    pub left_by_kernel: u64,
}

/// The arenas of one application; all blocks, without warm-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArenaPart {
    /// The application.
    pub app: String,
    /// Memory that each of its programs has for frames, pool and state.
    pub budget_bytes: u64,
    /// Its programs that are paged; one within its budget is not. This and the sizes: at the end of the last block.
    pub paged_programs: u64,
    /// What counts against the budgets.
    pub used_bytes: u64,
    /// Frames.
    pub resident_bytes: u64,
    /// Pools.
    pub pool_bytes: u64,
    /// Faults that brought a page from the pool.
    pub pool_faults: u64,
    /// Pages that came back ahead of use.
    pub prefetched: u64,
    /// All pages that came back.
    pub in_pages: u64,
    /// Pages that left.
    pub out_pages: u64,
}

/// One application in one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppResult {
    /// Its name.
    pub app: String,
    /// Nanoseconds.
    pub latency: Quantiles,
    /// Of a relaunch.
    pub major_faults: Quantiles,
}

/// One arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ArmResult {
    /// Which.
    pub arm: Arm,
    /// Of all applications together, in nanoseconds.
    pub latency: Quantiles,
    /// Of the use after each relaunch, in nanoseconds.
    pub use_time: Quantiles,
    /// Of such a use.
    pub use_major_faults: Quantiles,
    /// Of a relaunch.
    pub major_faults: Quantiles,
    /// Of a relaunch.
    pub minor_faults: Quantiles,
    /// By application.
    pub apps: Vec<AppResult>,
    /// CPU time.
    pub cpu: CpuParts,
    /// Memory used, the pool included: mean over time and blocks, in bytes.
    pub mean_bytes: u64,
    /// The most.
    pub peak_bytes: u64,
    /// Applications that were killed for want of memory, and started again at their next relaunch.
    pub kills: u64,
    /// Processes of the whole machine that the kernel killed for want of memory, warm-up included.
    pub oom_kills: u64,
    /// What was limited, how, and with which settings of the kernel; of the last block.
    pub conditions: Conditions,
    /// Of it page cache, at the end of a block: mean over blocks, in bytes.
    pub file_bytes: u64,
    /// Pages written to swap, or to the arenas' pools.
    pub out_pages: u64,
    /// Pages read from there.
    pub in_pages: u64,
    /// Where there is a host, or arenas.
    pub host: Option<HostPart>,
    /// Applications that run under the preloaded library.
    pub arenas: Vec<ArenaPart>,
    /// Where switches were sampled.
    pub switches: Option<SwitchUse>,
}

impl ArmResult {
    /// Of an arm that has not run.
    pub(super) fn none(arm: Arm) -> Self {
        Self {
            arm,
            ..Self::default()
        }
    }

    /// Adds what the kernel host did in a block.
    pub(super) fn add_host(&mut self, before: &Counters, after: &Counters) {
        self.cpu.host_ns += after.host_cpu_ns - before.host_cpu_ns;
        self.cpu.prepage_ns += after.bring_cpu_ns - before.bring_cpu_ns;
        let host = self.host.get_or_insert_default();
        let brought = |counters: &Counters| {
            let idle = counters.brought_pages + counters.brought_shared_pages;
            idle + counters.brought_file_pages + counters.switch_pages
        };
        host.prefetched += brought(after) - brought(before);
        *host.prefetch_used.get_or_insert_default() += after.used_pages - before.used_pages;
    }

    /// Adds what the arenas of an application did in a block.
    pub(super) fn add_arena(&mut self, app: &str, budget_bytes: u64, now: ArenaCounts) {
        // Their threads are threads of the programs, which were counted as a whole, and in ticks.
        let programs_ns = self.cpu.programs_ns;
        self.cpu.programs_ns = programs_ns.map(|ns| ns.saturating_sub(now.cpu_ns));
        self.cpu.host_ns += now.cpu_ns;
        self.out_pages += now.out_pages;
        self.in_pages += now.in_pages;
        let host = self.host.get_or_insert_default();
        host.prefetched += now.prefetched;
        host.paged_out += now.out_pages;
        let at = self.arenas.iter().position(|part| part.app == app);
        let at = at.unwrap_or_else(|| {
            self.arenas.push(ArenaPart {
                app: app.to_owned(),
                ..ArenaPart::default()
            });
            self.arenas.len() - 1
        });
        let part = &mut self.arenas[at];
        part.budget_bytes = budget_bytes;
        part.paged_programs = now.paged_programs;
        part.used_bytes = now.used_bytes;
        part.resident_bytes = now.resident_bytes;
        part.pool_bytes = now.pool_bytes;
        part.pool_faults += now.pool_faults;
        part.prefetched += now.prefetched;
        part.in_pages += now.in_pages;
        part.out_pages += now.out_pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arenas_do_counts_for_them_and_not_for_their_programs() {
        let mut result = ArmResult::none(Arm::Preload);
        result.cpu.programs_ns = Some(100);
        let block = |resident_bytes| ArenaCounts {
            cpu_ns: 30,
            prefetched: 5,
            in_pages: 9,
            out_pages: 8,
            resident_bytes,
            ..ArenaCounts::default()
        };

        result.add_arena("a", 1000, block(700));
        result.add_arena("b", 2000, block(800));
        result.add_arena("a", 1000, block(600));

        assert_eq!((result.cpu.programs_ns, result.cpu.host_ns), (Some(10), 90));
        assert_eq!((result.in_pages, result.out_pages), (27, 24));
        let host = result.host.unwrap();
        assert_eq!((host.prefetched, host.prefetch_used), (15, None));
        let parts: Vec<_> = result.arenas.iter().collect();
        assert_eq!((parts[0].in_pages, parts[0].resident_bytes), (18, 600));
        assert_eq!((parts[1].in_pages, parts.len()), (9, 2));
    }
}
