//! How much memory there is to be, and how much of it is missing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use warmswap_sys::cpu_time::ThreadTime;
use warmswap_sys::memcg::Group;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::psi::MemoryPressure;
use warmswap_sys::zones::Zones;
use warmswap_sys::zram::Device;
use warmswap_sys::{FileError, Root};

use crate::error::HostError;
use crate::status::SwapStatus;

/// When applications are paged out, and how far. All that is given must hold; with nothing given, nothing is
/// ever paged out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Goal {
    /// Most memory for the applications and the compressed pool together, in bytes.
    pub budget_bytes: Option<u64>,
    /// The memory control group whose use counts as the applications', page cache included: near a limit the kernel
    /// reclaims anonymous memory along with it, and does not know what is hot. Without a group, their resident
    /// anonymous memory counts. If the group has a limit of its own, the host keeps clear of it, so that the kernel
    /// need not reclaim.
    pub group: Option<PathBuf>,
    /// Least memory that is to be available on the machine, in bytes.
    pub free_bytes: Option<u64>,
    /// Pages are to leave before the kernel begins to reclaim by itself, which takes what is in use along with what is not:
    /// the mark below which it does bounds what the whole machine uses, as a limit bounds a group.
    pub ahead_of_kernel: bool,
    /// Most of the time, in percent of the last 10 s, that tasks may wait for memory (PSI, "some"); no effect
    /// where the kernel does not keep it.
    pub pressure_percent: Option<f64>,
    /// What is kept free below budget and limit for the next launch, in bytes; by default what the last
    /// launches needed.
    pub headroom_bytes: Option<u64>,
}

impl Goal {
    /// True when it can never ask for a page-out.
    #[must_use]
    pub fn is_none(&self) -> bool {
        let given = self.budget_bytes.is_some()
            || self.group.is_some()
            || self.free_bytes.is_some()
            || self.ahead_of_kernel
            || self.pressure_percent.is_some();
        !given
    }
}

/// What is missing to a goal, and what there is beyond it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// To be paged out, in bytes.
    pub missing_bytes: u64,
    /// A bound is exceeded, or little of the headroom below it is left: soon programs would wait while the kernel
    /// reclaims.
    pub is_urgent: bool,
    /// What could be brought back before budget or limit are exceeded, in bytes.
    pub spare_bytes: u64,
    /// There are bounds, and all are far: an eighth is unused, or holds parts of files that nobody used lately.
    pub is_ample: bool,
}

/// The least share of every bound that is unused where memory is ample.
const AMPLE: f64 = 1.0 / 8.0;

/// The part of the headroom of which less is left when it is urgent.
const LITTLE_HEADROOM: u64 = 4;

/// The part of a machine's memory that is kept free above the mark where the kernel reclaims. Mean relaunches and pages out
/// with 620 MiB for six programs that want 1520, two seeds: told of switches 62 and 66 ms, 208,000 and 215,000 pages; with a 32nd 64 ms
/// and 259,000, with a 128th 78 and 82 ms. Not told 79 and 64 ms, 195,000 and 208,000; with a 32nd 84 and 75 ms, 223,000 and 229,000.
const MACHINE_HEADROOM: u64 = 64;

/// Reads the machine for a goal.
#[derive(Debug)]
pub(crate) struct Gauge {
    root: Root,
    goal: Goal,
    group: Option<Group>,
    devices: Vec<Device>,
    /// The threads of the kernel that reclaim ahead of need.
    kswapd: Vec<ThreadTime>,
}

/// What it costs that memory is short, in microseconds since some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// How long programs waited for memory; where these threads are seen, with their time.
    pub waited_us: u64,
    /// CPU time of the kernel's threads that reclaim. The kernel counts them among those that wait while they work beside
    /// the programs.
    pub kswapd_us: u64,
}

impl Gauge {
    pub fn new(root: &Root, goal: &Goal) -> Result<Self, HostError> {
        let group = goal
            .group
            .as_deref()
            .map(|path| Group::open(root, path))
            .transpose()?;
        let mut gauge = Self {
            root: root.clone(),
            goal: goal.clone(),
            group,
            devices: Vec::new(),
            // Where they are not seen, their time counts as waiting of programs.
            kswapd: ThreadTime::of_kernel(root, "kswapd").unwrap_or_default(),
        };
        gauge.find_devices();
        Ok(gauge)
    }

    /// Looks for zram devices that were swapped on or off.
    pub fn find_devices(&mut self) {
        self.devices = Device::in_swap(&self.root).unwrap_or_default();
    }

    /// Swap and pool as they are now. Costs about 50 µs.
    pub fn swap(&self) -> Result<SwapStatus, FileError> {
        let memory = Meminfo::read(&self.root)?;
        let mut status = SwapStatus {
            total_bytes: memory.swap_total_bytes,
            free_bytes: memory.swap_free_bytes,
            pool_bytes: memory.zswap_pool_bytes,
            stored_bytes: memory.zswap_stored_bytes,
        };
        for device in &self.devices {
            // A device that was just removed holds nothing.
            let Ok(stats) = device.stats() else { continue };
            status.pool_bytes += stats.memory_bytes;
            status.stored_bytes += stats.original_bytes;
            if let Ok(Some(limit)) = device.memory_limit_bytes() {
                // A page may need all of its size.
                let room = limit.saturating_sub(stats.memory_bytes);
                status.free_bytes = status.free_bytes.min(room);
            }
        }
        Ok(status)
    }

    /// The memory that there is for the applications: of the machine, of the group, and of the budget, the least.
    pub fn memory_bytes(&self) -> Result<u64, FileError> {
        let machine = Meminfo::read(&self.root)?.usable_bytes();
        let limit = match &self.group {
            Some(group) => group.limit_bytes()?,
            None => None,
        };
        let bounds = limit.into_iter().chain(self.goal.budget_bytes);
        Ok(bounds.fold(machine, u64::min))
    }

    /// Whether page cache counts as the applications' use.
    pub fn counts_page_cache(&self) -> bool {
        self.group.is_some() || self.goal.ahead_of_kernel
    }

    /// The kernel holds all bounds by itself, if nobody pages out before: there is no other than a group's limit, which a
    /// budget may not be below, and the mark at which it reclaims.
    pub fn is_held_by_kernel(&self) -> bool {
        let goal = &self.goal;
        let limit = self
            .group
            .as_ref()
            .and_then(|group| group.limit_bytes().ok()?);
        let is_any = goal.ahead_of_kernel || limit.is_some();
        let is_other = goal.free_bytes.is_some() || goal.pressure_percent.is_some();
        let is_budget_held = |budget| limit.is_some_and(|limit| limit <= budget);
        is_any && !is_other && goal.budget_bytes.is_none_or(is_budget_held)
    }

    /// What it costs that memory is short: programs of the group where the kernel tells, else all of the machine; `None`
    /// where it tells nothing. Costs about 5 µs.
    pub fn shortage(&self) -> Result<Option<Shortage>, FileError> {
        if let Some(group) = &self.group
            && let Some(pressure) = MemoryPressure::of_group(group.path())?
        {
            return Ok(Some(Shortage {
                waited_us: pressure.some.total_us,
                kswapd_us: 0,
            }));
        }
        let kswapd = self.kswapd.iter().filter_map(ThreadTime::read_ns);
        let kswapd_us = kswapd.sum::<u64>() / 1000;
        let pressure = MemoryPressure::read(&self.root)?;
        Ok(pressure.map(|pressure| Shortage {
            waited_us: pressure.some.total_us,
            kswapd_us,
        }))
    }

    /// Compares the machine with the goal, where the applications have `resident_bytes` of anonymous memory. Of idle page
    /// cache this share counts as used, from 0 to 1; the rest is left to the kernel.
    pub fn room(
        &self,
        pool_bytes: u64,
        resident_bytes: u64,
        headroom_bytes: u64,
        idle_share: f64,
    ) -> Result<Room, FileError> {
        let headroom = self.goal.headroom_bytes.unwrap_or(headroom_bytes);
        let mut room = Room {
            spare_bytes: u64::MAX,
            ..Room::default()
        };
        // How much more than now every bound allows at least, headroom included, as a share of the bound.
        let mut slack: Option<f64> = None;
        let mut bound = |all: u64, idle: u64, most: u64, headroom: u64| {
            let used = all - (idle.min(all) as f64 * (1.0 - idle_share)) as u64;
            room.missing_bytes = room
                .missing_bytes
                .max((used + headroom).saturating_sub(most));
            room.is_urgent |= used + headroom / LITTLE_HEADROOM > most;
            room.spare_bytes = room.spare_bytes.min(most.saturating_sub(used));
            let unused = most.saturating_sub(all + headroom - idle.min(all));
            narrow(&mut slack, unused, most);
        };
        let (mut used, mut idle) = (resident_bytes, 0);
        if let Some(group) = &self.group {
            let stats = group.stats()?;
            (used, idle) = (stats.usage_bytes, stats.inactive_file_bytes);
            if let Some(limit) = group.limit_bytes()? {
                bound(used, idle, limit, headroom);
            }
        }
        if let Some(budget) = self.goal.budget_bytes {
            bound(used + pool_bytes, idle, budget, headroom);
        }
        if self.goal.ahead_of_kernel {
            let memory = Meminfo::read(&self.root)?;
            let zones = Zones::read(&self.root)?;
            let usable = memory.usable_bytes();
            let most = usable.saturating_sub(zones.reclaim_begins_bytes);
            // What processors hold for themselves is free, too: they give it back when the kernel reclaims.
            let used = usable.saturating_sub(memory.free_bytes + zones.on_processors_bytes);
            let headroom = self.goal.headroom_bytes;
            let headroom = headroom.unwrap_or(usable / MACHINE_HEADROOM);
            bound(used, memory.inactive_file_bytes, most, headroom);
        }
        if let Some(free) = self.goal.free_bytes {
            let memory = Meminfo::read(&self.root)?;
            let available = memory.available_bytes;
            room.missing_bytes = room.missing_bytes.max(free.saturating_sub(available));
            room.is_urgent |= available < free;
            room.spare_bytes = room.spare_bytes.min(available.saturating_sub(free));
            let unused = available.saturating_sub(free);
            narrow(&mut slack, unused, memory.usable_bytes());
        }
        room.is_ample = slack.is_some_and(|slack| slack >= AMPLE);
        if let Some(most) = self.goal.pressure_percent
            && let Some(pressure) = MemoryPressure::read(&self.root)?
            && pressure.some.avg10_percent > most
        {
            // It says that too little is free, and not how much: a little more at each look.
            room.missing_bytes = room.missing_bytes.max(resident_bytes / 64);
            room.is_ample = false;
        }
        Ok(room)
    }
}

/// Takes in one more bound: `unused` bytes of `most`.
fn narrow(slack: &mut Option<f64>, unused: u64, most: u64) {
    let share = unused as f64 / most.max(1) as f64;
    *slack = Some(slack.map_or(share, |slack| slack.min(share)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A machine with 100 MiB available, 40 MiB of free swap and one zram device; pressure 12 %.
    fn machine(limit: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mounts", "none /cg cgroup2 rw 0 0\n");
        write("cg/cgroup.controllers", "memory\n");
        write("cg/apps/memory.current", &(300 * MIB).to_string());
        write("cg/apps/memory.max", limit);
        let stat = format!("anon 0\nfile 0\ninactive_file {}\npgmajfault 0\n", 30 * MIB);
        write("cg/apps/memory.stat", &stat);
        write(
            "proc/meminfo",
            "MemTotal: 1048576 kB\nMemAvailable: 102400 kB\nSwapTotal: 81920 kB\nSwapFree: 40960 kB\n\
             Zswap: 1024 kB\nZswapped: 4096 kB\n",
        );
        write(
            "proc/swaps",
            "F T S U P\n/dev/zram3 partition 81920 40960 5\n",
        );
        let mm_stat = format!("{} 1 {} {} 0 0 0\n", 40 * MIB, 10 * MIB, 30 * MIB);
        write("sys/block/zram3/mm_stat", &mm_stat);
        write(
            "proc/pressure/memory",
            "some avg10=12.00 avg60=0 total=1\nfull avg10=0 avg60=0 total=0\n",
        );
        let root = Root::at(dir.path());
        (dir, root)
    }

    fn room(goal: &Goal, limit: &str) -> Room {
        let (_dir, root) = machine(limit);
        let gauge = Gauge::new(&root, goal).unwrap();
        let pool = gauge.swap().unwrap().pool_bytes;
        gauge.room(pool, 640 * MIB, 20 * MIB, 1.0).unwrap()
    }

    #[test]
    fn idle_page_cache_counts_but_for_what_is_left_to_the_kernel() {
        let (_dir, root) = machine("max");
        let goal = Goal {
            budget_bytes: Some(310 * MIB),
            group: Some("/apps".into()),
            ..Goal::default()
        };
        let gauge = Gauge::new(&root, &goal).unwrap();
        assert!(gauge.counts_page_cache());
        // 300 MiB of which 30 are idle files, 11 MiB of pool and 20 MiB of headroom.
        let missing = |idle_share| {
            let room = gauge.room(11 * MIB, 0, 20 * MIB, idle_share).unwrap();
            (
                room.missing_bytes / MIB,
                room.spare_bytes / MIB,
                room.is_urgent,
            )
        };
        assert_eq!(missing(1.0), (21, 0, true));
        assert_eq!(missing(0.5), (6, 14, false));
        assert_eq!(missing(0.0), (0, 29, false));
    }

    #[test]
    fn the_time_of_the_kernels_threads_is_told_along_but_for_a_group() {
        let (dir, root) = machine("max");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let stat = |pid: u32, name: &str, parent: u32| {
            let zeros = "0 ".repeat(40);
            write(
                &format!("proc/{pid}/stat"),
                &format!("{pid} ({name}) S {parent} {zeros}"),
            );
            write(&format!("proc/{pid}/schedstat"), "7000000 5 6\n");
        };
        // Two nodes, a program that calls itself so, and another thread of the kernel.
        stat(40, "kswapd0", 2);
        stat(41, "kswapd1", 2);
        stat(900, "kswapd0", 1);
        stat(42, "kcompactd0", 2);
        write(
            "proc/pressure/memory",
            "some avg10=0.00 avg60=0 total=20000\nfull avg10=0 avg60=0 total=0\n",
        );
        let on_machine = Gauge::new(&root, &Goal::default()).unwrap();
        let group = Goal {
            group: Some("/apps".into()),
            ..Goal::default()
        };
        let expected = Shortage {
            waited_us: 20_000,
            kswapd_us: 14_000,
        };
        assert_eq!(on_machine.shortage().unwrap(), Some(expected));
        write(
            "cg/apps/memory.pressure",
            "some avg10=0.00 avg60=0 total=900\nfull avg10=0 avg60=0 total=0\n",
        );
        let in_group = Gauge::new(&root, &group).unwrap().shortage();
        let expected = Shortage {
            waited_us: 900,
            kswapd_us: 0,
        };
        assert_eq!(in_group.unwrap(), Some(expected));
    }

    #[test]
    fn the_pool_counts_and_its_limit_bounds_the_swap() {
        let (_dir, root) = machine("max");

        let swap = Gauge::new(&root, &Goal::default()).unwrap().swap().unwrap();

        assert_eq!(swap.pool_bytes, 11 * MIB, "zram and zswap");
        assert_eq!(swap.stored_bytes, 44 * MIB);
        assert_eq!(swap.free_bytes, 20 * MIB, "30 MiB limit, 10 MiB used");
    }

    #[test]
    fn without_a_goal_nothing_is_missing() {
        let goal = Goal::default();
        assert!(goal.is_none());
        assert_eq!(room(&goal, "max").missing_bytes, 0);
    }

    #[test]
    fn a_budget_holds_group_pool_and_headroom() {
        let goal = Goal {
            budget_bytes: Some(320 * MIB),
            group: Some("/apps".into()),
            ..Goal::default()
        };
        let expected = Room {
            missing_bytes: 11 * MIB,
            is_urgent: false,
            spare_bytes: 9 * MIB,
            is_ample: false,
        };
        assert_eq!(room(&goal, "max"), expected);
        let limited = room(&goal, &(310 * MIB).to_string());
        assert_eq!(
            (limited.missing_bytes, limited.spare_bytes),
            (11 * MIB, 9 * MIB)
        );
        let tight = room(&goal, &(301 * MIB).to_string());
        assert_eq!((tight.missing_bytes, tight.spare_bytes), (19 * MIB, MIB));
        assert!(tight.is_urgent, "1 MiB is left of a headroom of 20");
        assert!(!room(&goal, &(305 * MIB).to_string()).is_urgent);
        assert!(room(&goal, &(304 * MIB).to_string()).is_urgent);
        assert!(room(&goal, &(299 * MIB).to_string()).is_urgent);
    }

    #[test]
    fn free_memory_and_pressure_ask_too() {
        let free = Goal {
            free_bytes: Some(150 * MIB),
            ..Goal::default()
        };
        assert_eq!(room(&free, "max").missing_bytes, 50 * MIB);
        assert_eq!(room(&free, "max").spare_bytes, 0);
        let less = Goal {
            free_bytes: Some(40 * MIB),
            ..Goal::default()
        };
        assert_eq!(room(&less, "max").spare_bytes, 60 * MIB);
        let pressure = |percent| Goal {
            pressure_percent: Some(percent),
            ..Goal::default()
        };
        assert_eq!(room(&pressure(10.0), "max").missing_bytes, 10 * MIB);
        assert_eq!(room(&pressure(15.0), "max").missing_bytes, 0);
    }

    #[test]
    fn the_kernels_own_reclaim_is_a_bound_of_the_machine() {
        let (dir, root) = machine("max");
        let missing = |free_mib: u64, idle_mib: u64, idle_share: f64| {
            let memory = format!(
                "MemTotal: 1048576 kB\nMemFree: {} kB\nMemAvailable: 1 kB\nInactive(file): {} kB\nHugetlb: 65536 kB\n",
                (free_mib - 2) << 10,
                idle_mib << 10
            );
            std::fs::write(dir.path().join("proc/meminfo"), memory).unwrap();
            // 30 MiB, of which 10 are kept from what other zones can give; processors hold 2.
            let zones = "  low 5120\n  managed 245760\n  protection: (0, 2560)\n  cpu: 0\n  count: 500\n  cpu: 1\n  count: 12\n";
            std::fs::write(dir.path().join("proc/zoneinfo"), zones).unwrap();
            let goal = Goal {
                ahead_of_kernel: true,
                ..Goal::default()
            };
            assert!(!goal.is_none());
            let gauge = Gauge::new(&root, &goal).unwrap();
            assert!(gauge.counts_page_cache());
            let room = gauge.room(0, 0, 0, idle_share).unwrap();
            (room.missing_bytes / MIB, room.spare_bytes / MIB)
        };
        // A 64th of the 960 MiB that are no huge pages is kept free above that: 15.
        assert_eq!(missing(60, 0, 0.0), (0, 30));
        assert_eq!(missing(42, 0, 0.0), (3, 12));
        assert_eq!(missing(20, 0, 0.0), (25, 0));
        // The kernel drops idle files first.
        assert_eq!(missing(42, 40, 0.0), (0, 52));
        assert_eq!(missing(42, 40, 1.0), (3, 12));
    }

    #[test]
    fn memory_is_ample_where_every_bound_is_far() {
        assert!(!room(&Goal::default(), "max").is_ample, "no bound");
        // 300 MiB with 30 MiB of idle files, 11 MiB of pool and 20 MiB of headroom: 301 MiB of so many.
        let budget = |mib| Goal {
            budget_bytes: Some(mib * MIB),
            group: Some("/apps".into()),
            ..Goal::default()
        };
        assert!(room(&budget(345), "max").is_ample);
        assert!(!room(&budget(342), "max").is_ample);
        assert!(!room(&budget(345), &(320 * MIB).to_string()).is_ample);
        // 100 MiB of 1 GiB are available.
        let free = |mib| Goal {
            free_bytes: Some(mib * MIB),
            ..Goal::default()
        };
        assert!(!room(&free(1), "max").is_ample);
    }

    #[test]
    fn a_group_that_is_not_there_is_an_error() {
        let (_dir, root) = machine("max");
        let goal = Goal {
            group: Some("/absent".into()),
            ..Goal::default()
        };
        assert!(Gauge::new(&root, &goal).is_err());
    }
}
