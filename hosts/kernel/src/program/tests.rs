//! The steps of the thread, over recorded files of both versions of control groups.

use std::path::Path;

use warmswap_sys::Root;
use warmswap_sys::memcg::Group;

use super::ProgramUsage;
use super::steer::Steer;

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// A machine with one zram device and a group.
struct Recorded {
    dir: tempfile::TempDir,
    is_v2: bool,
}

impl Recorded {
    /// The group uses 40 MiB; nothing is in swap.
    fn new(is_v2: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["proc/self", "sys/block/zram0", "cg/p"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let recorded = Self { dir, is_v2 };
        let mount = if is_v2 {
            "none /cg cgroup2 rw 0 0\n"
        } else {
            "none /cg cgroup rw,memory 0 0\n"
        };
        recorded.write("proc/self/mounts", mount);
        recorded.write("cg/cgroup.controllers", "memory\n");
        recorded.write(
            "proc/meminfo",
            "MemTotal: 1000000 kB\nMemFree: 500000 kB\nSwapTotal: 900000 kB\nSwapFree: 800000 kB\n",
        );
        recorded.write("proc/vmstat", "pswpin 100\npswpout 200\n");
        recorded.write("proc/swaps", "F T S U P\n/dev/zram0 partition 900000 0 5\n");
        recorded.write(
            "cg/p/memory.stat",
            "total_rss 30000000\ntotal_cache 1\ntotal_pgmajfault 9\nanon 30000000\nfile 1\npgmajfault 9\n",
        );
        recorded.swapped(0, 0);
        recorded.uses(40 * MIB, 0);
        recorded.hits(0);
        recorded
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.dir.path().join(path), text).unwrap();
    }

    fn root(&self) -> Root {
        Root::at(self.dir.path())
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

    /// What the device holds, and takes for it.
    fn swapped(&self, stored: u64, pool: u64) {
        self.write(
            "sys/block/zram0/mm_stat",
            &format!("{stored} 1 {pool} 0 {pool} 0 0 0\n"),
        );
    }

    fn hits(&self, hits: u64) {
        let text = if self.is_v2 {
            format!("low 0\nhigh 7\nmax {hits}\n")
        } else {
            hits.to_string()
        };
        self.write(&self.file("memory.failcnt", "memory.events"), &text);
    }

    fn limit(&self) -> u64 {
        let path = self.file("memory.limit_in_bytes", "memory.max");
        let text = std::fs::read_to_string(self.dir.path().join(path)).unwrap();
        text.parse().unwrap()
    }

    fn steer(&self, budget_bytes: u64) -> Steer {
        let name = self.file("memory.limit_in_bytes", "memory.max");
        self.write(&name, &budget_bytes.to_string());
        let group = Group::open(&self.root(), Path::new("/p")).unwrap();
        let usage = ProgramUsage {
            budget_bytes,
            limit_bytes: budget_bytes,
            ..ProgramUsage::default()
        };
        Steer::new(&self.root(), group, usage, true).unwrap()
    }
}

#[test]
fn the_limit_is_the_budget_without_the_programs_part_of_the_pool() {
    for is_v2 in [false, true] {
        let recorded = Recorded::new(is_v2);
        recorded.write("cg/p/memory.high", "max");
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

        // A pool that takes it all leaves an eighth.
        recorded.swapped(96 * MIB, 128 * MIB);
        recorded.uses(8 * MIB, 96 * MIB);
        steer.step(3 * SECOND);
        // A call goes no further than a MiB below what was charged when it was last looked at.
        assert_eq!(recorded.limit(), 39 * MIB);
        steer.step(3 * SECOND + 1);
        assert_eq!(recorded.limit(), 8 * MIB);
        recorded.swapped(0, 0);
        recorded.uses(8 * MIB, 0);
        steer.step(4 * SECOND);
        assert_eq!(recorded.limit(), 64 * MIB);
    }
}

#[test]
fn memory_is_made_free_once_the_limit_was_met() {
    for is_v2 in [false, true] {
        let recorded = Recorded::new(is_v2);
        recorded.write("cg/p/memory.reclaim", "");
        let mut steer = recorded.steer(64 * MIB);
        recorded.uses(64 * MIB, 0);
        steer.step(SECOND);
        assert_eq!(steer.usage.ahead_rounds, 0);

        // No processor is idle for it.
        recorded.write("proc/loadavg", "9.00 8.00 7.00 9999/10000 77\n");
        recorded.hits(1);
        steer.step(SECOND + 1);
        assert_eq!(steer.usage.ahead_rounds, 0);

        recorded.write("proc/loadavg", "9.00 8.00 7.00 1/10000 77\n");
        recorded.hits(2);
        steer.step(SECOND + 2);
        assert_eq!(steer.usage.ahead_rounds, 1);
        // The limit is what it was, and version 2 was asked for the rest.
        assert_eq!(recorded.limit(), 64 * MIB);
        if is_v2 {
            let path = recorded.dir.path().join("cg/p/memory.reclaim");
            let asked: u64 = std::fs::read_to_string(path).unwrap().parse().unwrap();
            assert!((MIB..4 * MIB).contains(&asked), "{asked}");
        }
    }
}

#[test]
fn without_an_account_of_swap_the_pool_counts_from_the_beginning() {
    let recorded = Recorded::new(false);
    recorded.swapped(30 * MIB, 10 * MIB);
    let file = recorded.dir.path().join("cg/p/memory.memsw.usage_in_bytes");
    std::fs::remove_file(file).unwrap();
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
        recorded.write("cg/p/memory.reclaim", "");
        let mut steer = recorded.steer(64 * MIB);
        recorded.swapped(90 * MIB, 30 * MIB);
        recorded.uses(34 * MIB, 90 * MIB);
        steer.step(SECOND);
        assert_eq!(recorded.limit(), 34 * MIB);

        let meminfo = |free: u64| {
            format!("MemTotal: 1000000 kB\nSwapTotal: 900000 kB\nSwapFree: {free} kB\n")
        };
        recorded.write("proc/meminfo", &meminfo(9_000));
        recorded.hits(5);
        steer.step(2 * SECOND);
        assert!(recorded.limit() >= 64 * MIB + 90 * MIB);
        assert_eq!(
            (steer.usage.lifted_limits, steer.usage.ahead_rounds),
            (1, 0)
        );

        recorded.write("proc/meminfo", &meminfo(800_000));
        steer.step(3 * SECOND);
        assert_eq!(recorded.limit(), 34 * MIB);
    }
}

#[test]
fn limits_above_the_group_hold() {
    let recorded = Recorded::new(true);
    recorded.write("proc/self/cgroup", "0::/own\n");
    std::fs::create_dir_all(recorded.dir.path().join("cg/own")).unwrap();
    recorded.write("cg/own/memory.max", &(100 * MIB).to_string());
    recorded.write("cg/p/memory.high", "max");
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
    let group = Group::open(&recorded.root(), Path::new("/p")).unwrap();
    let check = || super::check_swap(&recorded.root(), &group, 64 * MIB);
    check().unwrap();

    recorded.write("cg/p/memory.swap.max", "max");
    recorded.write("cg/memory.swap.max", &(15 * MIB).to_string());
    let error = check().unwrap_err().to_string();
    assert!(error.contains("only 15 MiB of swap"), "{error}");

    recorded.write("cg/memory.swap.max", "max");
    std::fs::create_dir_all(recorded.dir.path().join("proc/sys/vm")).unwrap();
    recorded.write("proc/sys/vm/swappiness", "0\n");
    let error = check().unwrap_err().to_string();
    assert!(error.contains("vm.swappiness=60"), "{error}");
}
