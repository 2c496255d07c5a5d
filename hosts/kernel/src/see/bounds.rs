//! Bounds of memory: the machine, and control groups with a limit.

use warmswap_page::PAGE_BYTES;
use warmswap_sys::memcg::Group;
use warmswap_sys::meminfo::{Meminfo, Reclaimed};
use warmswap_sys::psi::MemoryPressure;
use warmswap_sys::zones::Zones;
use warmswap_sys::{FileError, Root, monotonic_ns};

use crate::decide::Seen;

/// Looks at the machine; `memory` of it was just read. Costs about 130 µs.
///
/// # Errors
/// [`FileError`].
pub fn machine(root: &Root, memory: &Meminfo) -> Result<Seen, FileError> {
    let zones = Zones::read(root)?;
    let pressure = MemoryPressure::read(root)?;
    Ok(Seen {
        floor_bytes: zones.reclaim_begins_bytes,
        stalled_us: pressure.map(|pressure| pressure.some.total_us),
        ..with(root, memory)?
    })
}

/// The same without watermarks and stalls, which is enough while pages come back. Costs about 50 µs.
///
/// # Errors
/// [`FileError`].
pub fn brief(root: &Root) -> Result<Seen, FileError> {
    with(root, &Meminfo::read(root)?)
}

fn with(root: &Root, memory: &Meminfo) -> Result<Seen, FileError> {
    let reclaimed = Reclaimed::read(root)?;
    // A kernel that does not tell what left shows no difference between cache that is given up and pages of programs.
    let idle_bytes = |_| memory.idle_file_bytes();
    let left = |pages| pages + reclaimed.waited_pages;
    Ok(Seen {
        now_ns: monotonic_ns(),
        // Free pages that processors hold for themselves are left out: they are few while memory is short.
        free_bytes: memory.free_bytes + reclaimed.anonymous_pages.map_or(0, idle_bytes),
        total_bytes: memory.usable_bytes(),
        reclaims: reclaimed.pages,
        losses: reclaimed.anonymous_pages.map_or(reclaimed.pages, left),
        ..Seen::default()
    })
}

/// While more cache of a group than this was not used lately, reclaim at its limit begins with cache alone: 2 to the power of the
/// kernel's first priority, in pages.
const CACHE_FIRST_BYTES: u64 = (PAGE_BYTES as u64) << 12;

/// Looks at a group that may have `bound_bytes`; `counts_cache`: cache of it that was not used lately is free. Costs about 15 µs,
/// and 50 µs more for one that met its limit before and counts cache.
///
/// # Errors
/// [`FileError`], also when the group is gone.
pub fn group(group: &Group, bound_bytes: u64, counts_cache: bool) -> Result<Seen, FileError> {
    let pressure = MemoryPressure::of_group(group.path())?;
    let hits = group.limit_hits()?;
    let seen = Seen {
        now_ns: monotonic_ns(),
        // No cache of it is given up.
        free_bytes: bound_bytes.saturating_sub(group.usage_bytes()?),
        total_bytes: bound_bytes,
        reclaims: hits,
        stalled_us: pressure.map(|pressure| pressure.some.total_us),
        ..Seen::default()
    };
    let is_told = counts_cache && hits > 0;
    let stats = if is_told { group.stats().ok() } else { None };
    let swapped_bytes = stats.and_then(|stats| stats.swapped_bytes);
    Ok(match (stats, swapped_bytes) {
        (Some(stats), Some(swapped_bytes)) => Seen {
            free_bytes: seen.free_bytes + stats.idle_file_bytes().saturating_sub(CACHE_FIRST_BYTES),
            swapped_bytes,
            ..seen
        },
        // What it gives up at its limit is not told apart. The kernel charges many pages at a time where it can, and meets the
        // limit with nearly each page where it cannot.
        _ => Seen {
            losses: hits,
            exchanged_bytes: hits * PAGE_BYTES as u64,
            ..seen
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;

    #[test]
    fn the_machine_is_seen_with_its_watermarks() {
        let machine = Machine::new();
        let meminfo = "MemTotal: 1048576 kB\nMemFree: 204800 kB\nMemAvailable: 512000 kB\n";
        machine.write("proc/meminfo", meminfo);
        machine.write("proc/vmstat", "pgsteal_kswapd 40\npgsteal_direct 2\n");
        let zone = "  low 100\n  managed 5000\n  protection: (0, 50)\n";
        machine.write("proc/zoneinfo", zone);
        let root = machine.root();

        let seen = || super::machine(&root, &Meminfo::read(&root).unwrap()).unwrap();
        let before = seen();

        let bytes = (before.free_bytes, before.total_bytes);
        assert_eq!(bytes, (200 << 20, 1 << 30));
        assert_eq!((before.floor_bytes, before.reclaims), (150 * 4096, 42));
        assert_eq!(before.stalled_us, None, "this kernel does not tell");
        let stall = "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n";
        machine.write("proc/pressure/memory", stall);
        assert_eq!(seen().stalled_us, Some(77));
    }

    #[test]
    fn cache_that_was_not_used_lately_is_free_where_the_kernel_tells_what_left() {
        let machine = Machine::new();
        let meminfo = "MemTotal: 1048576 kB\nMemFree: 204800 kB\nMemAvailable: 512000 kB\n\
                       Inactive(file): 61440 kB\nDirty: 8192 kB\nWriteback: 2048 kB\n";
        machine.write("proc/meminfo", meminfo);
        let root = machine.root();
        let seen = |vmstat: &str| {
            machine.write("proc/vmstat", vmstat);
            let seen = brief(&root).unwrap();
            (seen.free_bytes >> 20, seen.reclaims, seen.losses)
        };

        let old = "pgsteal_kswapd 40\npgsteal_direct 2\n";
        assert_eq!(seen(old), (200, 42, 42));
        assert_eq!(seen(&format!("{old}pgsteal_anon 5\n")), (250, 42, 7));
    }

    #[test]
    fn cache_of_a_group_that_was_not_used_lately_is_free_where_it_is_told_what_left() {
        let machine = Machine::with_groups();
        machine.write("cg/apps/memory.current", (300 << 20).to_string());
        let stat = format!(
            "anon 1\nfile 2\npgmajfault 3\ninactive_file {}\nfile_dirty {}\n",
            90 << 20,
            10 << 20
        );
        machine.write("cg/apps/memory.stat", stat);
        machine.write("cg/apps/memory.swap.current", "4096");
        let apps = machine.group("/apps");
        let seen = |events: &str| {
            machine.write("cg/apps/memory.events", events);
            [true, false].map(|counts_cache| {
                let seen = group(&apps, 320 << 20, counts_cache).unwrap();
                (seen.free_bytes >> 20, seen.swapped_bytes, seen.losses)
            })
        };

        assert_eq!(seen("high 0\nmax 0\n"), [(20, 0, 0); 2]);
        let [counted, other] = [(84, 4096, 0), (20, 0, 7)];
        assert_eq!(seen("high 0\nmax 7\n"), [counted, other]);
        std::fs::remove_file(machine.path("cg/apps/memory.swap.current")).unwrap();
        assert_eq!(seen("high 0\nmax 7\n"), [other; 2]);
    }

    #[test]
    fn a_group_has_what_its_bound_leaves() {
        let machine = Machine::with_groups();
        machine.write("cg/apps/memory.current", (300 << 20).to_string());
        machine.write("cg/apps/memory.events", "low 0\nhigh 1\nmax 9\n");
        let apps = machine.group("/apps");

        let seen = group(&apps, 400 << 20, false).unwrap();

        assert_eq!((seen.free_bytes, seen.total_bytes), (100 << 20, 400 << 20));
        assert_eq!((seen.reclaims, seen.exchanged_bytes), (10, 40 << 10));
        assert_eq!(group(&apps, 1 << 20, false).unwrap().free_bytes, 0);
    }
}
