//! The steps of the thread, over recorded files of both versions of control groups.

use warmswap_sys::Root;

use super::ProgramUsage;
use super::bound::Bound;
use super::steer::{Grow, Steer, first_limit_bytes};
use crate::testing::Machine;

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// A machine with one zram device and a group.
struct Recorded {
    machine: Machine,
    is_v2: bool,
}

impl Recorded {
    /// The group uses 40 MiB; nothing is in swap.
    fn new(is_v2: bool) -> Self {
        let machine = Machine::with_groups();
        if !is_v2 {
            let mount = "none /cg cgroup rw,memory 0 0\n";
            machine.write("proc/self/mounts", mount);
        }
        let recorded = Self { machine, is_v2 };
        recorded.free_swap(900_000);
        recorded.write(
            "proc/meminfo",
            "MemTotal: 1000000 kB\nMemFree: 500000 kB\nSwapTotal: 900000 kB\nSwapFree: 800000 kB\n",
        );
        recorded.write("proc/vmstat", "pswpin 100\npswpout 200\n");
        recorded.holds(0, 0);
        recorded.swapped(0, 0);
        recorded.uses(40 * MIB, 0);
        recorded.hits(0);
        recorded
    }

    fn write(&self, path: &str, text: &str) {
        self.machine.write(path, text);
    }

    fn root(&self) -> Root {
        self.machine.root()
    }

    fn file(&self, v1: &str, v2: &str) -> String {
        format!("cg/p/{}", if self.is_v2 { v2 } else { v1 })
    }

    /// What the group has in memory and in swap.
    fn uses(&self, bytes: u64, swapped: u64) {
        self.write(
            &self.file("memory.usage_in_bytes", "memory.current"),
            &bytes.to_string(),
        );
        let both = if self.is_v2 { swapped } else { bytes + swapped };
        let name = self.file("memory.memsw.usage_in_bytes", "memory.swap.current");
        self.write(&name, &both.to_string());
    }

    /// What the kernel has on behalf of the group, and what its members have locked.
    fn holds(&self, kernel: u64, locked: u64) {
        self.write("cg/p/memory.kmem.usage_in_bytes", &kernel.to_string());
        let stat = format!(
            "total_rss 30000000\ntotal_cache 1\ntotal_pgmajfault 9\ntotal_unevictable {locked}\n\
             anon 30000000\nfile 1\npgmajfault 9\nkernel {kernel}\nunevictable {locked}\n"
        );
        self.write("cg/p/memory.stat", &stat);
    }

    /// KiB of the device that no page is in.
    fn free_swap(&self, kib: u64) {
        let line = format!("/dev/zram0 partition 900000 {} 5", 900_000 - kib);
        self.write("proc/swaps", &format!("F T S U P\n{line}\n"));
    }

    /// What the device holds, and takes for it.
    fn swapped(&self, stored: u64, pool: u64) {
        self.write(
            "sys/block/zram0/mm_stat",
            &format!("{stored} 1 {pool} 0 {pool} 0 0 0\n"),
        );
    }

    fn hits(&self, hits: u64) {
        let text = if self.is_v2 {
            format!("low 0\nhigh {hits}\nmax 7\noom_kill 0\n")
        } else {
            hits.to_string()
        };
        self.write(&self.file("memory.failcnt", "memory.events"), &text);
    }

    fn limit(&self) -> u64 {
        let path = self.file("memory.limit_in_bytes", "memory.high");
        self.machine.read(&path).parse().unwrap()
    }

    fn steer(&self, budget_bytes: u64) -> Steer {
        self.steer_with(budget_bytes, Box::new(|| None))
    }

    fn steer_with(&self, budget_bytes: u64, grow: Grow) -> Steer {
        let limit_bytes = first_limit_bytes(budget_bytes, u64::MAX);
        let name = self.file("memory.limit_in_bytes", "memory.high");
        self.write(&name, &limit_bytes.to_string());
        if self.is_v2 {
            self.write("cg/p/memory.max", "max");
        }
        let bound = Bound::new(self.machine.group("/p"));
        let usage = ProgramUsage {
            budget_bytes,
            limit_bytes,
            ..ProgramUsage::default()
        };
        Steer::new(&self.root(), bound, usage, grow).unwrap()
    }
}

#[test]
fn the_limit_is_the_budget_without_the_programs_part_of_the_pool() {
    for is_v2 in [false, true] {
        let recorded = Recorded::new(is_v2);
        let mut steer = recorded.steer(64 * MIB);
        steer.step(SECOND);
        assert_eq!(recorded.limit(), 64 * MIB);

        // Half of what the device holds is another program's.
        recorded.swapped(96 * MIB, 32 * MIB);
        recorded.uses(40 * MIB, 48 * MIB);
        recorded.write("proc/vmstat", "pswpin 150\npswpout 300\n");
        steer.step(2 * SECOND);
        assert_eq!(recorded.limit(), 48 * MIB);
        steer.account();
        let usage = &steer.usage;
        assert_eq!(
            (usage.pool_bytes, usage.swapped_bytes),
            (16 * MIB, 48 * MIB)
        );
        assert_eq!(usage.used_peak_bytes, 56 * MIB);
        assert_eq!(usage.needed_peak_bytes, 30_000_000 + 48 * MIB);
        assert_eq!((usage.in_pages, usage.out_pages), (50, 100));

        // A pool that takes it all leaves an eighth, what cannot be reclaimed, and room.
        recorded.swapped(96 * MIB, 128 * MIB);
        recorded.uses(8 * MIB, 96 * MIB);
        recorded.holds(3 * MIB, 2 * MIB);
        steer.step(3 * SECOND);
        // A call goes no further than a MiB below what was charged when it was last looked at.
        assert_eq!(recorded.limit(), 21 * MIB);
        assert_eq!(steer.usage.floor_bytes, 21 * MIB);
        // More processes.
        recorded.holds(30 * MIB, 2 * MIB);
        steer.step(3 * SECOND + 20_000_000);
        assert_eq!(recorded.limit(), 48 * MIB);
        recorded.holds(0, 0);
        recorded.swapped(0, 0);
        recorded.uses(8 * MIB, 0);
        steer.step(4 * SECOND);
        assert_eq!(recorded.limit(), 64 * MIB);
    }
}

#[test]
fn the_limit_falls_a_mib_at_a_time() {
    for is_v2 in [false, true] {
        let recorded = Recorded::new(is_v2);
        let mut steer = recorded.steer(64 * MIB);
        recorded.swapped(96 * MIB, 32 * MIB);
        recorded.uses(60 * MIB, 96 * MIB);
        let wait = steer.step(SECOND);
        assert_eq!(recorded.limit(), 59 * MIB);
        recorded.uses(59 * MIB, 96 * MIB);
        assert!(steer.step(SECOND + 1_000_000) == wait, "{wait:?}");
        assert_eq!(recorded.limit(), 58 * MIB);
    }
}

#[test]
fn a_budget_below_what_any_program_needs_is_exceeded() {
    for is_v2 in [false, true] {
        let recorded = Recorded::new(is_v2);
        let mut steer = recorded.steer(MIB);
        steer.step(SECOND);
        assert!(recorded.limit() > 8 * MIB);
        assert_eq!(steer.usage.floor_bytes, 8 * MIB + MIB / 8);
    }
}

#[test]
fn the_limit_rises_when_members_wait_and_each_time_by_more() {
    let recorded = Recorded::new(false);
    let mut steer = recorded.steer(16 * MIB);
    let starve = |is: u32| {
        let text = format!("oom_kill_disable 1\nunder_oom {is}\noom_kill 0\n");
        recorded.write("cg/p/memory.oom_control", &text);
    };
    starve(0);
    recorded.uses(16 * MIB, 0);
    steer.step(SECOND);
    assert_eq!((recorded.limit(), steer.usage.raised_limits), (16 * MIB, 0));

    starve(1);
    steer.step(2 * SECOND);
    assert_eq!((recorded.limit(), steer.usage.raised_limits), (32 * MIB, 1));
    recorded.uses(32 * MIB, 0);
    steer.step(2 * SECOND + 5_000_000);
    assert_eq!((recorded.limit(), steer.usage.raised_limits), (64 * MIB, 2));

    // It stays for a while.
    starve(0);
    steer.step(2 * SECOND + 500_000_000);
    assert_eq!(recorded.limit(), 64 * MIB);
    recorded.uses(20 * MIB, 0);
    steer.step(5 * SECOND);
    assert_eq!(recorded.limit(), 34 * MIB);
    assert_eq!(steer.usage.oom_kills, Some(0));
}

#[test]
fn swap_grows_before_it_is_full() {
    let recorded = Recorded::new(false);
    let swaps = recorded.machine.path("proc/swaps");
    // A swap file of 1 GiB.
    let grow = move || {
        let text = std::fs::read_to_string(&swaps).unwrap();
        std::fs::write(&swaps, format!("{text}/more file 1048576 0 4\n")).unwrap();
        Some("zram0 and zram1".to_owned())
    };
    let mut steer = recorded.steer_with(64 * MIB, Box::new(grow));
    recorded.free_swap(70_000);
    steer.step(SECOND);
    assert_eq!(steer.usage.added_devices, 0);

    recorded.free_swap(60_000);
    steer.step(2 * SECOND);
    let usage = &steer.usage;
    assert_eq!((usage.added_devices, usage.lifted_limits), (1, 0));
    assert_eq!(usage.device, "zram0 and zram1");
    steer.step(4 * SECOND);
    assert_eq!(steer.usage.added_devices, 1);
}

#[test]
fn another_programs_full_device_says_nothing_of_the_rest() {
    let recorded = Recorded::new(false);
    let mut steer = recorded.steer(64 * MIB);
    let full = "1048576 1 1048576 1048576 1048576 0 0 0\n";
    recorded.write("sys/block/zram1/mm_stat", full);
    let line = "/dev/zram1 partition 900000 1024 5\n";
    recorded.write(
        "proc/swaps",
        &format!("F T S U P\n{line}/dev/zram0 partition 900000 0 6\n"),
    );
    steer.step(SECOND);
    assert_eq!((recorded.limit(), steer.usage.lifted_limits), (64 * MIB, 0));
    // Behind it nothing is reached.
    recorded.write(
        "proc/swaps",
        &format!("F T S U P\n{line}/dev/zram0 partition 900000 0 4\n"),
    );
    steer.step(2 * SECOND);
    assert_eq!(steer.usage.lifted_limits, 1);
}

impl Recorded {
    /// A process that has so many KiB of memory.
    fn process(&self, pid: u32, parent: u32, state: &str, kib: u64) {
        let rest = "77 77 0 -1 4194560 1 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0";
        let stat = format!("{pid} (x) {state} {parent} {rest}\n");
        self.write(&format!("proc/{pid}/stat"), &stat);
        let status = format!("RssAnon:\t{kib} kB\nRssFile:\t0 kB\nVmSwap:\t0 kB\n");
        self.write(&format!("proc/{pid}/status"), &status);
    }

    fn members(&self, pids: &str) {
        self.write("cg/p/cgroup.procs", pids);
    }
}

#[test]
fn a_process_that_leaves_the_group_is_told_from_one_that_ended() {
    let recorded = Recorded::new(true);
    let mut steer = recorded.steer(64 * MIB);
    steer.process = 77;
    recorded.members("77\n");
    recorded.process(77, 1, "S", 400);
    steer.account();
    assert!(!steer.usage.has_left_group);
    recorded.members("");
    recorded.process(77, 1, "Z", 0);
    steer.account();
    assert!(!steer.usage.has_left_group);
    // It gave its memory up and left its group, and is no zombie yet.
    recorded.process(77, 1, "R", 0);
    steer.account();
    assert!(!steer.usage.has_left_group);
    recorded.process(77, 1, "S", 400);
    steer.account();
    assert!(steer.usage.has_left_group);
}

#[test]
fn a_member_that_leaves_the_group_is_told_though_its_parents_ended() {
    let recorded = Recorded::new(true);
    let mut steer = recorded.steer(64 * MIB);
    steer.process = 77;
    recorded.process(77, 1, "S", 400);
    recorded.process(79, 1, "S", 400);
    recorded.members("77\n79\n");
    steer.account();
    assert!(!steer.usage.has_left_group);

    recorded.members("77\n");
    steer.account();

    assert!(steer.usage.has_left_group);
}

#[test]
fn a_descendant_that_was_never_seen_in_the_group_has_left_it() {
    let recorded = Recorded::new(false);
    let mut steer = recorded.steer(64 * MIB);
    steer.process = 77;
    recorded.process(77, 1, "S", 400);
    recorded.process(78, 77, "S", 400);
    // Of another family.
    recorded.process(90, 1, "S", 400);
    recorded.members("77\n78\n");
    steer.step(SECOND);
    assert!(!steer.usage.has_left_group);

    recorded.process(79, 78, "S", 400);
    steer.step(SECOND + 50_000_000);
    assert!(!steer.usage.has_left_group, "the next look comes later");
    // Looks that take long are rarer.
    steer.step(60 * SECOND);
    assert!(steer.usage.has_left_group);
}

#[test]
fn shared_memory_is_needed_wherever_it_is() {
    for is_v2 in [false, true] {
        let recorded = Recorded::new(is_v2);
        let mut steer = recorded.steer(64 * MIB);
        let stat = format!(
            "total_rss {0}\ntotal_cache {1}\ntotal_shmem {1}\ntotal_pgmajfault 9\n\
             anon {0}\nfile {1}\nshmem {1}\npgmajfault 9\n",
            MIB,
            50 * MIB
        );
        recorded.write("cg/p/memory.stat", &stat);
        recorded.swapped(10 * MIB, 5 * MIB);
        recorded.uses(52 * MIB, 10 * MIB);
        steer.step(SECOND);
        steer.account();
        assert_eq!(steer.usage.needed_peak_bytes, 61 * MIB);
    }
}

#[test]
fn pages_out_and_in_are_the_groups_own_where_it_counts_them() {
    let recorded = Recorded::new(true);
    let counts = |counts: &str| {
        let stat = format!("anon 1\nfile 1\npgmajfault 9\n{counts}");
        recorded.write("cg/p/memory.stat", &stat);
    };
    counts("pswpin 1\npswpout 2\n");
    let mut steer = recorded.steer(64 * MIB);
    recorded.write("proc/vmstat", "pswpin 5000\npswpout 9000\n");
    counts("pswpin 31\npswpout 42\nswpin_zero 3\nswpout_zero 4\n");
    steer.account();
    let usage = &steer.usage;
    assert!(usage.is_own_traffic);
    assert_eq!((usage.in_pages, usage.out_pages), (33, 44));

    // Version 1 counts nothing by group.
    let recorded = Recorded::new(false);
    let mut steer = recorded.steer(64 * MIB);
    let vmstat = "pswpin 110\npswpout 220\nswpin_zero 1\nswpout_zero 2\n";
    recorded.write("proc/vmstat", vmstat);
    steer.account();
    let usage = &steer.usage;
    assert!(!usage.is_own_traffic);
    assert_eq!((usage.in_pages, usage.out_pages), (11, 22));
}

#[test]
fn without_an_account_of_swap_the_pool_counts_from_the_beginning() {
    let recorded = Recorded::new(false);
    recorded.swapped(30 * MIB, 10 * MIB);
    let file = "cg/p/memory.memsw.usage_in_bytes";
    std::fs::remove_file(recorded.machine.path(file)).unwrap();
    let mut steer = recorded.steer(64 * MIB);
    recorded.swapped(60 * MIB, 20 * MIB);
    steer.step(SECOND);
    assert_eq!(steer.usage.pool_bytes, 10 * MIB);
    assert_eq!(recorded.limit(), 54 * MIB);
}

#[test]
fn no_limit_holds_while_swap_is_nearly_full() {
    for is_v2 in [false, true] {
        let recorded = Recorded::new(is_v2);
        let mut steer = recorded.steer(64 * MIB);
        recorded.swapped(90 * MIB, 30 * MIB);
        recorded.uses(34 * MIB, 90 * MIB);
        steer.step(SECOND);
        assert_eq!(recorded.limit(), 34 * MIB);

        recorded.free_swap(9_000);
        steer.step(2 * SECOND);
        assert!(recorded.limit() >= 64 * MIB + 90 * MIB);
        assert_eq!(steer.usage.lifted_limits, 1);

        recorded.free_swap(800_000);
        steer.step(3 * SECOND);
        assert_eq!(recorded.limit(), 34 * MIB);
    }
}

#[test]
fn limits_above_the_group_hold() {
    let recorded = Recorded::new(true);
    recorded.write("proc/self/cgroup", "0::/own\n");
    recorded.write("cg/own/memory.max", &(100 * MIB).to_string());
    recorded.write("cg/p/cgroup.controllers", "memory\n");
    recorded.write("cg/memory.swap.max", &(80 * MIB).to_string());
    recorded.write("cg/memory.swap.current", "0");
    let mut steer = recorded.steer(64 * MIB);
    recorded.swapped(60 * MIB, 20 * MIB);
    recorded.uses(44 * MIB, 60 * MIB);
    steer.step(SECOND);
    assert_eq!(recorded.limit(), 44 * MIB);

    // Next to nothing may go to swap any more, whatever the machine has free.
    recorded.write("cg/memory.swap.current", &(70 * MIB).to_string());
    steer.step(2 * SECOND);

    assert_eq!(steer.usage.lifted_limits, 1);
    assert_eq!(recorded.limit(), 100 * MIB, "the limit of this process");
}

#[test]
fn a_group_that_cannot_swap_is_refused() {
    let recorded = Recorded::new(true);
    recorded.write("cg/p/cgroup.controllers", "memory\n");
    let group = recorded.machine.group("/p");
    let check = || super::check_swap(&recorded.root(), &group, 64 * MIB);
    check().unwrap();

    recorded.write("cg/p/memory.swap.max", "max");
    recorded.write("cg/memory.swap.max", &(15 * MIB).to_string());
    let error = check().unwrap_err().to_string();
    assert!(error.contains("only 15 MiB of swap"), "{error}");

    recorded.write("cg/memory.swap.max", "max");
    recorded.write("proc/sys/vm/swappiness", "0\n");
    let error = check().unwrap_err().to_string();
    assert!(error.contains("vm.swappiness=60"), "{error}");
}
