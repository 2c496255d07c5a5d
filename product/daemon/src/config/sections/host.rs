//! `[host]`, the section with most keys.

use warmswap_kernel::{HostConfig, config::AUTO};
use warmswap_policy::SchemeSpec;
use warmswap_sys::readahead::KERNELS_KIB;

use crate::config::keys::{
    Key, Section, number, optional_size, show_size, show_yes_no, size_comes_to, yes_no,
};
use crate::config::size::{Facts, Size};

/// The longest idle time that can be configured, in seconds: thirty days.
const MOST_AGE_S: u64 = 30 * 24 * 3600;

/// `[host]`: when and how the kernel's swap is steered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSection {
    /// The engine's scheme.
    pub scheme: String,
    /// Whether cold pages are paged out before the kernel reclaims.
    pub ahead_of_kernel: bool,
    /// Below so much available memory, cold pages are paged out.
    pub keep_available: Option<Size>,
    /// Memory that applications may hold, the pool's included.
    pub budget: Option<Size>,
    /// Most of the time that tasks may wait for memory, in percent; 0 for no matter.
    pub pressure_percent: u64,
    /// Whether what a relaunch will need is brought back early.
    pub prefetch: bool,
    /// Whether all is left to the kernel while programs wait no longer for memory without the daemon.
    pub stand_aside: bool,
    /// Whether pages of files that programs had to read again are locked in memory.
    pub mlock_files: bool,
    /// Idle time after which pages in zram are compressed anew, in seconds; 0 for never.
    pub recompress_after_s: u64,
    /// Idle time after which pages in zram are written back, in seconds; 0 for never.
    pub write_back_after_s: u64,
    /// Page-outs at most, in MiB a second.
    pub page_out_mib_per_second: u64,
    /// When a relaunch counts as over unless it is told, in ms.
    pub launch_window_ms: u64,
    /// Whether settings of the kernel's reclaim are set to what suits swap on zram.
    pub kernel_settings: bool,
    /// Upper bound of the readahead of non-rotational disks, in KiB; 0 leaves it.
    pub readahead_kib: u64,
}

impl Section for HostSection {
    const DOC: &'static str = "When pages leave, and what comes back early.";

    fn defaults(_: Facts) -> Self {
        Self {
            scheme: HostConfig::default().scheme,
            ahead_of_kernel: true,
            keep_available: None,
            budget: None,
            pressure_percent: 0,
            prefetch: true,
            stand_aside: true,
            mlock_files: true,
            recompress_after_s: 0,
            write_back_after_s: 0,
            page_out_mib_per_second: 200,
            launch_window_ms: 3000,
            kernel_settings: true,
            readahead_kib: KERNELS_KIB,
        }
    }

    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "scheme",
            doc: "What leaves first, and what is brought back: as `warmswap schemes` lists them; auto: what suits \
                  what can be seen of accesses here. The kernel's swap is the pool, whatever the scheme says of pools.",
            set: |to, value, _| {
                let build = || SchemeSpec::parse(value)?.build().map(drop);
                let checked = if value == AUTO { Ok(()) } else { build() };
                checked.map_err(|error| error.to_string())?;
                to.scheme = value.to_owned();
                Ok(())
            },
            show: |from| from.scheme.clone(),
            comes_to: None,
        },
        Key {
            name: "ahead-of-kernel",
            doc: "When little more memory is free than the kernel wants to be, below which it reclaims by itself, the \
                  coldest pages of background applications leave.",
            set: |to, value, _| yes_no(value).map(|yes| to.ahead_of_kernel = yes),
            show: |from| show_yes_no(from.ahead_of_kernel),
            comes_to: None,
        },
        Key {
            name: "keep-available",
            doc: "When less memory than this is available, they leave as well. A size in MiB; empty or 0: no such goal.",
            set: |to, value, facts| {
                optional_size(value, facts).map(|size| to.keep_available = size)
            },
            show: |from| show_size(&from.keep_available),
            comes_to: Some(|from| size_comes_to(&from.keep_available)),
        },
        Key {
            name: "budget",
            doc: "Memory that all applications may hold together, compressed pages included. What is beyond \
                  it leaves, even where memory is free. A size in MiB; empty: no such limit.",
            set: |to, value, facts| optional_size(value, facts).map(|size| to.budget = size),
            show: |from| show_size(&from.budget),
            comes_to: Some(|from| size_comes_to(&from.budget)),
        },
        Key {
            name: "pressure-percent",
            doc: "When tasks waited for memory for more than this part of the last 10 seconds, pages leave too; \
                  0: no matter. They wait for pages that come back, too, and the more leave, the more come back. \
                  Has no effect where the kernel keeps no pressure stall information.",
            set: |to, value, _| number(value, 0, 100).map(|percent| to.pressure_percent = percent),
            show: |from| from.pressure_percent.to_string(),
            comes_to: None,
        },
        Key {
            name: "prefetch",
            doc: "Whether what a relaunch will need is brought back as soon as the switch is seen.",
            set: |to, value, _| yes_no(value).map(|yes| to.prefetch = yes),
            show: |from| show_yes_no(from.prefetch),
            comes_to: None,
        },
        Key {
            name: "stand-aside",
            doc: "Whether all is left to the kernel while programs wait no longer for memory after a switch without the daemon than with it, or that is not worth its CPU time. Both are tried in turn, the worse one ever more seldom. Has no effect where budget, keep-available or pressure-percent is set, or the kernel keeps no pressure stall information.",
            set: |to, value, _| yes_no(value).map(|yes| to.stand_aside = yes),
            show: |from| show_yes_no(from.stand_aside),
            comes_to: None,
        },
        Key {
            name: "mlock-files",
            doc: "Whether pages of programs and other files that the kernel drops and programs read again are locked in memory: an eighth of it at most, while swap has room, as long as a program has the file mapped.",
            set: |to, value, _| yes_no(value).map(|yes| to.mlock_files = yes),
            show: |from| show_yes_no(from.mlock_files),
            comes_to: None,
        },
        Key {
            name: "recompress-after-seconds",
            doc: "Pages in zram that were not used for so long are compressed anew, by the stronger algorithm that their device has \
                  (recompression-algorithm below, or another program's setting), at idle priority; 0: never. Kernels without \
                  CONFIG_ZRAM_MULTI_COMP, or without CONFIG_ZRAM_TRACK_ENTRY_ACTIME, cannot.",
            set: |to, value, _| {
                number(value, 0, MOST_AGE_S).map(|age_s| to.recompress_after_s = age_s)
            },
            show: |from| from.recompress_after_s.to_string(),
            comes_to: None,
        },
        Key {
            name: "write-back-after-seconds",
            doc: "Pages in zram that were not used for so long are written to the disk that their device has for it \
                  (writeback-device of zram-generator); 0: never. Where both are set, the longer time counts for both. Kernels without CONFIG_ZRAM_WRITEBACK, or without \
                  CONFIG_ZRAM_TRACK_ENTRY_ACTIME, cannot.",
            set: |to, value, _| {
                number(value, 0, MOST_AGE_S).map(|age_s| to.write_back_after_s = age_s)
            },
            show: |from| from.write_back_after_s.to_string(),
            comes_to: None,
        },
        Key {
            name: "page-out-mib-per-second",
            doc: "Pages leave no faster than this.",
            set: |to, value, _| {
                number(value, 1, 100_000).map(|rate| to.page_out_mib_per_second = rate)
            },
            show: |from| from.page_out_mib_per_second.to_string(),
            comes_to: None,
        },
        Key {
            name: "launch-window-ms",
            doc: "How long after a switch an application's accesses count as those of its relaunch, at most: it ends when the \
                  application rests, or when its answer is told.",
            set: |to, value, _| number(value, 100, 60_000).map(|ms| to.launch_window_ms = ms),
            show: |from| from.launch_window_ms.to_string(),
            comes_to: None,
        },
        Key {
            name: "kernel-settings",
            doc: "Whether settings of the kernel's reclaim are set to what suits swap on zram while the daemon runs: \
                  vm.swappiness to 180, vm.page-cluster to 0, vm.watermark_scale_factor to 125 and \
                  vm.watermark_boost_factor to 0. One whose value is not the kernel's own stays as it is, and so do \
                  all where any swap is on a disk when the daemon starts.",
            set: |to, value, _| yes_no(value).map(|yes| to.kernel_settings = yes),
            show: |from| show_yes_no(from.kernel_settings),
            comes_to: None,
        },
        Key {
            name: "readahead-kib",
            doc: "Upper bound of the readahead of SSDs and other non-rotational disks while the daemon runs, for files that \
                  are opened then, of disks that are there when it starts; 0 leaves it as it is. The default is the kernel's own, where images and btrfs set \
                  MiB. A page fault on a mapped file reads that much around the page, and unused pages evict used ones. \
                  Nothing is changed where any swap is on a disk when the daemon starts.",
            set: |to, value, _| match number(value, 0, 1 << 20)? {
                // The kernel rounds down to pages.
                1..=3 => Err(format!("{value:?} is less than a page, 4")),
                kib => {
                    to.readahead_kib = kib;
                    Ok(())
                }
            },
            show: |from| from.readahead_kib.to_string(),
            comes_to: None,
        },
    ];
}
