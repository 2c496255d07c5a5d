//! Settings of the kernel's reclaim and of its reading ahead, for as long as the daemon runs.
//!
//! The kernel's own are made for swap on a disk: they take pages of files first, bring back eight pages for one, and begin
//! to reclaim when hardly any memory is left. Over swap that is compressed in memory each of them costs time. A setting
//! that somebody chose is left alone, and nothing is set where any swap is on a disk.
//!
//! Readahead of files is lowered and never raised: the unused pages of a readahead window evict pages that are in use.

use warmswap_sys::readahead::Disk;
use warmswap_sys::tunable::{Tunable, TunableError, sysctl_path};
use warmswap_sys::undo::Undo;
use warmswap_sys::{Root, file, swap, vm};

use crate::config::sections::HostSection;

/// What was set. Dropping it sets all back to what it was.
#[derive(Debug, Default)]
pub struct KernelSettings {
    kept: Vec<Tunable>,
    /// The same in words.
    said: Vec<String>,
}

impl KernelSettings {
    /// Sets what suits the swap that is there now, as far as `host` wants it. Says in `notices` what, or why it cannot. Costs
    /// about 200 µs.
    pub fn for_swap(undo: &Undo, host: &HostSection, notices: &mut Vec<String>) -> Self {
        let mut settings = Self::default();
        if !is_all_zram(undo.root()) {
            return settings;
        }
        if host.kernel_settings {
            settings.set_reclaim(undo, notices);
        }
        if host.readahead_kib > 0 {
            settings.lower_readahead(undo, host.readahead_kib, notices);
        }
        if !settings.said.is_empty() {
            let said = settings.said.join(", ");
            notices.push(format!("sets {said}, as suits swap on zram"));
        }
        settings
    }

    fn set_reclaim(&mut self, undo: &Undo, notices: &mut Vec<String>) {
        let scaled = |settings| vm::scaled(undo.root(), settings);
        let (kernels, suits) = match (scaled(vm::KERNEL), scaled(vm::COMPRESSED)) {
            (Ok(kernels), Ok(suits)) => (kernels, suits),
            (Err(error), _) | (_, Err(error)) => {
                notices.push(format!("settings of the kernel stay as they are: {error}"));
                return;
            }
        };
        for (at, (name, value)) in suits.into_iter().enumerate() {
            // Whoever takes memory from a machine may have scaled them already.
            let kernels = [vm::KERNEL[at].1, kernels[at].1];
            match self.set(undo, name, kernels, value) {
                Ok(()) => {}
                // Kernels before 5.0 do not boost watermarks.
                Err(TunableError::File(error)) if error.is_gone() => {}
                Err(error) => notices.push(format!("{name} stays as it is: {error}")),
            }
        }
    }

    fn lower_readahead(&mut self, undo: &Undo, most_kib: u64, notices: &mut Vec<String>) {
        let disks = match Disk::all(undo.root()) {
            Ok(disks) => disks,
            Err(error) => {
                notices.push(format!("readahead stays as it is: {error}"));
                return;
            }
        };
        for disk in disks.iter().filter(|disk| disk.readahead_kib > most_kib) {
            let (name, now) = (&disk.name, disk.readahead_kib);
            match disk.read_ahead(undo, most_kib).and_then(Tunable::yielding) {
                Ok(tunable) => {
                    self.kept.push(tunable);
                    self.said
                        .push(format!("readahead of {name} to {most_kib} KiB (was {now})"));
                }
                Err(error) => notices.push(format!("readahead of {name} stays as it is: {error}")),
            }
        }
    }

    /// Sets one, unless it has another value than the kernel's own.
    fn set(
        &mut self,
        undo: &Undo,
        name: &str,
        kernels: [u64; 2],
        value: u64,
    ) -> Result<(), TunableError> {
        let now = file::read_u64(&sysctl_path(undo.root(), name))?;
        if kernels.contains(&now) {
            let tunable = Tunable::sysctl(undo, name, &value.to_string())?.yielding()?;
            self.kept.push(tunable);
            self.said.push(format!("{name} to {value} (was {now})"));
        }
        Ok(())
    }
}

/// Whether there is swap, and all of it is on zram. Where that cannot be read, nothing is known to be.
fn is_all_zram(root: &Root) -> bool {
    let areas = swap::areas(root).unwrap_or_default();
    !areas.is_empty() && areas.iter().all(|area| area.zram_id().is_some())
}

#[cfg(test)]
mod tests {
    use crate::config::keys::Section as _;
    use crate::config::size::Facts;

    use super::*;

    const NAMES: [&str; 4] = [
        "swappiness",
        "page-cluster",
        "watermark_scale_factor",
        "watermark_boost_factor",
    ];

    /// A machine with these values of the settings, whose swap is on these devices.
    fn machine(values: [u64; 4], swaps: &[&str]) -> (tempfile::TempDir, Undo) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (name, value) in NAMES.into_iter().zip(values) {
            write(&format!("proc/sys/vm/{name}"), &format!("{value}\n"));
        }
        write(
            "proc/meminfo",
            "MemTotal: 8388608 kB\nHugetlb: 4194304 kB\n",
        );
        write("proc/zoneinfo", "Node 0, zone Normal\n managed 2097152\n");
        let mut text = "Filename Type Size Used Priority\n".to_owned();
        for swap in swaps {
            text += &format!("{swap} partition 1024 0 100\n");
        }
        write("proc/swaps", &text);
        write(READAHEAD, "8192\n");
        write("sys/dev/block/253:0/queue/rotational", "0\n");
        let undo = Undo::open(&Root::at(dir.path()), &dir.path().join("state")).unwrap();
        (dir, undo)
    }

    const READAHEAD: &str = "sys/class/bdi/253:0/read_ahead_kb";

    fn readahead_kib(dir: &tempfile::TempDir) -> u64 {
        file::read_u64(&dir.path().join(READAHEAD)).unwrap()
    }

    fn as_shipped() -> HostSection {
        HostSection::defaults(Facts { ram_bytes: 8 << 30 })
    }

    fn reclaim_only() -> HostSection {
        HostSection {
            readahead_kib: 0,
            ..as_shipped()
        }
    }

    fn values(dir: &tempfile::TempDir) -> [u64; 4] {
        NAMES.map(|name| {
            let path = dir.path().join("proc/sys/vm").join(name);
            file::read_u64(&path).unwrap()
        })
    }

    #[test]
    fn the_kernels_own_are_set_for_as_long_as_the_daemon_runs() {
        let (dir, undo) = machine([60, 3, 10, 15_000], &["/dev/zram0", "/dev/zram1"]);
        let mut notices = Vec::new();
        let settings = KernelSettings::for_swap(&undo, &reclaim_only(), &mut notices);
        // Half of this machine's memory is reserved.
        assert_eq!(values(&dir), [180, 0, 63, 0]);
        let [notice] = &notices[..] else {
            panic!("{notices:?}")
        };
        assert!(notice.contains("vm.swappiness to 180 (was 60)"), "{notice}");
        drop(settings);
        assert_eq!(values(&dir), [60, 3, 10, 15_000]);
    }

    #[test]
    fn what_somebody_chose_stays() {
        for chosen in [[100, 3, 10, 0], [60, 1, 500, 15_000]] {
            let (dir, undo) = machine(chosen, &["/dev/zram0"]);
            let settings = KernelSettings::for_swap(&undo, &reclaim_only(), &mut Vec::new());
            let kernels = vm::KERNEL.map(|(_, value)| value);
            for ((now, before), kernels) in values(&dir).into_iter().zip(chosen).zip(kernels) {
                assert_eq!(now == before, before != kernels, "{chosen:?}");
            }
            drop(settings);
            assert_eq!(values(&dir), chosen);
        }
    }

    #[test]
    fn swap_on_a_disk_or_none_at_all_changes_nothing() {
        let kernels = vm::KERNEL.map(|(_, value)| value);
        for swaps in [&["/dev/zram0", "/dev/sda2"][..], &[]] {
            let (dir, undo) = machine(kernels, swaps);
            let mut notices = Vec::new();
            let _settings = KernelSettings::for_swap(&undo, &as_shipped(), &mut notices);
            assert_eq!(values(&dir), kernels);
            assert_eq!(readahead_kib(&dir), 8192);
            assert!(notices.is_empty(), "{notices:?}");
        }
    }

    #[test]
    fn readahead_is_lowered_where_it_is_more() {
        for (most_kib, expected) in [(128, 128), (0, 8192), (16384, 8192)] {
            let (dir, undo) = machine([60, 3, 10, 15_000], &["/dev/zram0"]);
            let host = HostSection {
                kernel_settings: false,
                readahead_kib: most_kib,
                ..as_shipped()
            };
            let mut notices = Vec::new();
            let settings = KernelSettings::for_swap(&undo, &host, &mut notices);
            assert_eq!(readahead_kib(&dir), expected);
            assert_eq!(values(&dir), [60, 3, 10, 15_000]);
            let said = "sets readahead of 253:0 to 128 KiB (was 8192), as suits swap on zram";
            assert_eq!(notices.iter().any(|notice| notice == said), expected == 128);
            drop(settings);
            assert_eq!(readahead_kib(&dir), 8192);
        }
    }

    #[test]
    fn one_that_cannot_be_set_is_told_and_one_that_is_missing_is_not() {
        let (dir, undo) = machine([60, 3, 10, 15_000], &["/dev/zram0"]);
        let vm = dir.path().join("proc/sys/vm");
        std::fs::remove_file(vm.join("watermark_boost_factor")).unwrap();
        std::fs::write(vm.join("page-cluster"), "many\n").unwrap();
        let mut notices = Vec::new();
        let _settings = KernelSettings::for_swap(&undo, &reclaim_only(), &mut notices);
        let [failed, set] = &notices[..] else {
            panic!("{notices:?}")
        };
        assert!(
            failed.starts_with("vm.page-cluster stays as it is"),
            "{failed}"
        );
        assert!(set.contains("vm.swappiness to 180"), "{set}");
    }
}
