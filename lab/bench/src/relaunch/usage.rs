//! CPU time and faults of programs and of the kernel's threads.

use warmswap_sys::cpu_time::machine_busy_ns;
use warmswap_sys::process::Stat;
use warmswap_sys::{FileError, Root, file, tree};

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// Faults of a set of processes since they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    pub major: u64,
    pub minor: u64,
}

/// The sum over processes that live.
pub fn faults(root: &Root, pids: &[u32]) -> Faults {
    let stats = pids.iter().filter_map(|&pid| Stat::read(root, pid).ok());
    stats.fold(Faults::default(), |sum, stat| Faults {
        major: sum.major + stat.major_faults,
        minor: sum.minor + stat.minor_faults,
    })
}

/// Anonymous memory of a set of processes, in bytes; of what several share, each has its part. Those that end
/// meanwhile are left out.
pub fn anonymous_bytes(root: &Root, pids: &[u32]) -> u64 {
    // Before Linux 5.14 only the whole was said.
    sum_of(root, pids, &["Pss_Anon:", "Anonymous:"])
}

/// The same for all that they map.
pub fn footprint_bytes(root: &Root, pids: &[u32]) -> u64 {
    sum_of(root, pids, &["Pss:"])
}

/// The sum of the first of these fields of `smaps_rollup` that there is.
fn sum_of(root: &Root, pids: &[u32], fields: &[&str]) -> u64 {
    let of = |pid: u32| {
        let text = file::read(&root.proc_file(pid, "smaps_rollup")).ok()?;
        let value = |field: &&str| text.lines().find_map(|line| line.strip_prefix(field));
        let value = fields.iter().find_map(value)?;
        let kib = value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
        Some(kib * 1024)
    };
    pids.iter().filter_map(|&pid| of(pid)).sum()
}

/// Threads of the kernel.
pub fn kernel_threads(root: &Root) -> Result<Vec<u32>, FileError> {
    let all = tree::all(root)?;
    let threads = all.iter().filter(|stat| stat.parent == KTHREADD);
    Ok(threads.map(|stat| stat.pid).collect())
}

/// CPU time so far, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuNow {
    /// Children that ended count with the parent that waited for them.
    pub programs_ns: u64,
    pub kernel_threads_ns: u64,
    /// Of all processors, whatever they did but idle.
    pub machine_ns: u64,
}

impl CpuNow {
    /// Of these processes, and of all threads of the kernel.
    pub fn read(root: &Root, pids: &[u32]) -> Result<Self, FileError> {
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let mut now = Self {
            machine_ns: machine_busy_ns(root)?,
            ..Self::default()
        };
        for stat in tree::all(root)? {
            if pids.contains(&stat.pid) {
                now.programs_ns += (stat.cpu_ticks + stat.children_cpu_ticks) * tick_ns;
            } else if stat.parent == KTHREADD {
                now.kernel_threads_ns += stat.cpu_ticks * tick_ns;
            }
        }
        Ok(now)
    }

    /// What was used since `before`.
    pub fn since(self, before: Self) -> CpuUsed {
        let programs_ns = self.programs_ns.checked_sub(before.programs_ns);
        CpuUsed {
            programs_ns: programs_ns.filter(|&ns| ns > 0),
            kernel_threads_ns: self
                .kernel_threads_ns
                .saturating_sub(before.kernel_threads_ns),
            machine_ns: self.machine_ns.saturating_sub(before.machine_ns),
        }
    }
}

/// CPU time between two looks, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuUsed {
    /// None where it is not known: no program was found, or one ended whose time went with it.
    pub programs_ns: Option<u64>,
    pub kernel_threads_ns: u64,
    pub machine_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_faults_and_time() {
        let root = Root::machine();
        let own = [std::process::id()];
        let before = CpuNow::read(&root, &own).unwrap();

        // Reading it takes time itself, which is to be seen.
        while CpuNow::read(&root, &own)
            .unwrap()
            .since(before)
            .programs_ns
            .is_none()
        {}

        assert!(faults(&root, &own).minor > 0);
        let filled = std::hint::black_box(vec![1u8; 8 << 20]);
        assert!(anonymous_bytes(&root, &own) >= filled.len() as u64);
        assert!(footprint_bytes(&root, &own) >= filled.len() as u64);
        assert_eq!(anonymous_bytes(&root, &[i32::MAX as u32]), 0);
        assert_eq!(faults(&root, &[i32::MAX as u32]), Faults::default());
    }

    #[test]
    fn time_of_programs_that_went_or_were_not_found_is_not_known() {
        let root = Root::machine();
        let none = CpuNow::read(&root, &[]).unwrap();
        assert_eq!(none.since(none).programs_ns, None);
        let some = CpuNow {
            programs_ns: 30,
            ..none
        };
        assert_eq!(none.since(some).programs_ns, None);
        assert_eq!(some.since(none).programs_ns, Some(30));
    }
}
