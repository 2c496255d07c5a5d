//! Settings of the kernel that an arm over the whole machine runs with, those that a result tells, and parts of the kernel
//! that are on.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_sys::tunable::{Tunable, TunableError, sysctl_path};
use warmswap_sys::undo::Undo;
use warmswap_sys::zones::Zones;
use warmswap_sys::{FileError, Root, file};

use super::options::Arm;
use crate::BenchError;

/// Swap that is compressed in memory by itself, before it comes to zram.
const ZSWAP: &str = "/sys/module/zswap/parameters/enabled";

/// Low and high watermark are so many ten-thousandths of memory apart; see [`scaled`].
const WATERMARK_SCALE: &str = "vm.watermark_scale_factor";

/// What the kernel sets by itself (`mm/vmscan.c`, `mm/swap.c`, `mm/page_alloc.c`).
const KERNEL: [(&str, u64); 4] = [
    ("vm.swappiness", 60),
    ("vm.page-cluster", 3),
    (WATERMARK_SCALE, 10),
    ("vm.watermark_boost_factor", 15_000),
];

/// What suits swap that is compressed in memory, where a page comes back in microseconds and its neighbours cost as
/// much again: as distributions set it (Pop!_OS, and others after it; ArchWiki, "zram").
const COMPRESSED: [(&str, u64); 4] = [
    ("vm.swappiness", 180),
    ("vm.page-cluster", 0),
    (WATERMARK_SCALE, 125),
    ("vm.watermark_boost_factor", 0),
];

/// A setting of the kernel, or a part of it that is on or off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its name, such as `vm.swappiness`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The settings of an arm. Whatever the machine had before comes back when they are dropped.
#[derive(Debug)]
pub struct Settings {
    kept: Vec<Tunable>,
    names: Vec<&'static str>,
}

impl Settings {
    /// Sets them for a machine from which so much was taken away.
    pub fn set(undo: &Undo, arm: Arm, taken_bytes: u64) -> Result<Self, BenchError> {
        let root = undo.root();
        let mut settings = Self {
            kept: Vec::new(),
            names: Vec::new(),
        };
        for (name, value) in scaled(root, taken_bytes, values(arm))? {
            match Tunable::sysctl(undo, name, &value.to_string()) {
                Ok(tunable) => settings.kept.push(tunable),
                // Kernels before 5.0 do not boost watermarks.
                Err(TunableError::File(error)) if error.is_gone() => continue,
                Err(error) => return Err(error.into()),
            }
            settings.names.push(name);
        }
        Ok(settings)
    }

    /// Them as they are now, the daemon's own changes included.
    pub fn now(&self, root: &Root) -> Vec<Setting> {
        let setting = |name: &&str| Setting {
            name: (*name).to_owned(),
            value: file::read(&sysctl_path(root, name))
                .map_or("none".to_owned(), |text| text.trim().to_owned()),
        };
        self.names.iter().map(setting).collect()
    }
}

fn values(arm: Arm) -> [(&'static str, u64); 4] {
    match arm {
        Arm::ZramTuned => COMPRESSED,
        _ => KERNEL,
    }
}

/// The kernel computes watermarks from all memory that it manages, what was taken away included, so that the factor is
/// lessened for the watermarks of a machine that has no more than what is left.
fn scaled(
    root: &Root,
    taken_bytes: u64,
    settings: [(&'static str, u64); 4],
) -> Result<[(&'static str, u64); 4], FileError> {
    let managed = Zones::read(root)?.managed_bytes;
    if managed == 0 {
        let path = root.path("/proc/zoneinfo");
        return Err(FileError::unexpected(&path, "no managed pages"));
    }
    let left = managed.saturating_sub(taken_bytes) as f64 / managed as f64;
    Ok(settings.map(|(name, value)| match name {
        WATERMARK_SCALE => (name, ((value as f64 * left).round() as u64).max(1)),
        _ => (name, value),
    }))
}

/// Parts of the kernel that reclaim by themselves, or tell which pages are used.
#[must_use]
pub fn features(root: &Root) -> Vec<Setting> {
    let text = |path: &str| {
        let text = file::read(&root.path(Path::new(path))).ok()?;
        Some(text.trim().to_owned())
    };
    let chosen = |text: String| {
        let mut words = text.split_ascii_whitespace();
        let word = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        word.unwrap_or(&text).to_owned()
    };
    let sources = [
        ("lru_gen (MGLRU)", "/sys/kernel/mm/lru_gen/enabled"),
        (
            "damon_reclaim",
            "/sys/module/damon_reclaim/parameters/enabled",
        ),
        (
            "damon_lru_sort",
            "/sys/module/damon_lru_sort/parameters/enabled",
        ),
        ("zswap", ZSWAP),
        (
            "transparent huge pages",
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ),
        ("vm.min_free_kbytes", "/proc/sys/vm/min_free_kbytes"),
        ("vm.overcommit_memory", "/proc/sys/vm/overcommit_memory"),
    ];
    let setting = |name: &str, value: String| Setting {
        name: name.to_owned(),
        value,
    };
    let mut found: Vec<_> = sources
        .into_iter()
        .map(|(name, path)| setting(name, text(path).map_or("none".to_owned(), chosen)))
        .collect();
    let has_damon = root.path("/sys/kernel/mm/damon/admin").is_dir();
    found.push(setting(
        "DAMON",
        if has_damon { "sysfs" } else { "none" }.to_owned(),
    ));
    let pressure = text("/proc/pressure/memory").is_some();
    found.push(setting(
        "PSI",
        if pressure { "on" } else { "none" }.to_owned(),
    ));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A machine of 8 GiB, with all settings at values of its own.
    fn machine() -> (tempfile::TempDir, Undo) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/sys/vm/swappiness", "133\n");
        write("proc/sys/vm/page-cluster", "1\n");
        write("proc/sys/vm/watermark_scale_factor", "77\n");
        write("proc/sys/vm/watermark_boost_factor", "99\n");
        let pages = 8 * GIB / 4096;
        write(
            "proc/zoneinfo",
            &format!("Node 0, zone Normal\n managed {pages}\n"),
        );
        write("sys/module/zswap/parameters/enabled", "Y\n");
        let undo = Undo::open(&Root::at(dir.path()), &dir.path().join("state")).unwrap();
        (dir, undo)
    }

    fn value(dir: &tempfile::TempDir, path: &str) -> String {
        let text = std::fs::read_to_string(dir.path().join(path)).unwrap();
        text.trim().to_owned()
    }

    fn vm(dir: &tempfile::TempDir) -> [String; 4] {
        [
            "proc/sys/vm/swappiness",
            "proc/sys/vm/page-cluster",
            "proc/sys/vm/watermark_scale_factor",
            "proc/sys/vm/watermark_boost_factor",
        ]
        .map(|path| value(dir, path))
    }

    #[test]
    fn every_arm_has_its_settings_for_what_is_left_and_the_machine_its_own_again() {
        let (dir, undo) = machine();
        for (arm, expected) in [
            (Arm::ZramDefault, ["60", "3", "3", "15000"]),
            (Arm::ZramTuned, ["180", "0", "31", "0"]),
            (Arm::Daemon, ["60", "3", "3", "15000"]),
        ] {
            let settings = Settings::set(&undo, arm, 6 * GIB).unwrap();

            assert_eq!(vm(&dir), expected, "{arm:?}");
            let now: Vec<_> = settings
                .now(undo.root())
                .into_iter()
                .map(|s| s.value)
                .collect();
            assert_eq!(now, expected);
            // The swap of the arm decides whether zswap stands before it.
            assert_eq!(value(&dir, "sys/module/zswap/parameters/enabled"), "Y");
            drop(settings);
            assert_eq!(vm(&dir), ["133", "1", "77", "99"], "{arm:?}");
        }
    }

    #[test]
    fn a_signal_or_a_panic_in_between_restores_them() {
        let (dir, undo) = machine();
        let outcome = std::panic::catch_unwind(|| {
            let _settings = Settings::set(&undo, Arm::ZramTuned, 6 * GIB).unwrap();
            panic!("on purpose");
        });
        assert!(outcome.is_err());
        assert_eq!(vm(&dir), ["133", "1", "77", "99"]);

        let settings = Settings::set(&undo, Arm::ZramTuned, 6 * GIB).unwrap();
        undo.run_all().unwrap();
        assert_eq!(vm(&dir), ["133", "1", "77", "99"]);
        drop(settings);
        assert_eq!(vm(&dir), ["133", "1", "77", "99"]);
    }

    #[test]
    fn a_setting_that_this_kernel_does_not_have_is_left_out_and_another_error_undoes_the_rest() {
        let (dir, undo) = machine();
        std::fs::remove_file(dir.path().join("proc/sys/vm/watermark_boost_factor")).unwrap();
        let settings = Settings::set(&undo, Arm::ZramTuned, 6 * GIB).unwrap();
        assert_eq!(settings.now(undo.root()).len(), 3);
        drop(settings);

        let cluster = dir.path().join("proc/sys/vm/page-cluster");
        std::fs::remove_file(&cluster).unwrap();
        std::fs::create_dir(&cluster).unwrap();
        Settings::set(&undo, Arm::ZramTuned, 6 * GIB).unwrap_err();
        assert_eq!(value(&dir, "proc/sys/vm/swappiness"), "133");
    }

    #[test]
    fn features_say_what_there_is() {
        let (dir, undo) = machine();
        let thp = dir
            .path()
            .join("sys/kernel/mm/transparent_hugepage/enabled");
        std::fs::create_dir_all(thp.parent().unwrap()).unwrap();
        std::fs::write(thp, "always [madvise] never\n").unwrap();
        let found = features(undo.root());
        let value = |name: &str| {
            let setting = found.iter().find(|setting| setting.name == name);
            setting.unwrap().value.clone()
        };
        assert_eq!(value("transparent huge pages"), "madvise");
        assert_eq!(value("zswap"), "Y");
        assert_eq!(
            (value("PSI"), value("DAMON")),
            ("none".to_owned(), "none".to_owned())
        );
    }
}
