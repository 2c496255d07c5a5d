//! What can be configured.

use std::path::PathBuf;

use super::keys::section;
use super::size::Size;
use super::value::within;

/// The longest idle time that can be configured, in seconds: thirty days.
const MOST_AGE_S: u64 = 30 * 24 * 3600;

/// Bytes of the smallest device: a swap area has ten pages at least.
const LEAST_DEVICE_BYTES: u64 = 64 << 10;

section! {
    /// The daemon itself.
    DaemonSection {
        /// The control socket, which `warmswap status` and `warmswap switch` speak to.
        "socket" socket: PathBuf = |_| PathBuf::from(warmswap_protocol::DAEMON_SOCKET);
        /// The group whose members may use the socket, besides root. A member sees and steers applications whose
        /// processes are all the member's own. Empty: root alone.
        "socket-group" socket_group: Option<String> = |_| None;
        /// Where hot lists and footprints are kept over a restart.
        "state-folder" state_folder: PathBuf = |_| PathBuf::from("/var/lib/warmswap");
    }
}

section! {
    /// What comes back, and when.
    HostSection {
        /// Whether pages that were swapped out or dropped come back when memory is free again, in idle time, before
        /// programs use them.
        "bring-back" bring_back: bool = |_| true;
        /// Whether what a program is going to use is read ahead when it comes to the foreground: all of it where memory
        /// is free; where it is short, only from disks.
        "prefetch" prefetch: bool = |_| true;
        /// Whether pages of programs in the background that their last two sessions did not use are written from zram to
        /// the disk that their device has for it (writeback-device below, or zram-generator's). What launches touch stays in
        /// memory. Kernels without CONFIG_ZRAM_WRITEBACK cannot.
        "write-back" write_back: bool = |_| true;
        /// Pages in zram that were not used for so long are compressed anew, by the stronger algorithm that their
        /// device has (recompression-algorithm below, or another program's setting), at idle priority; 0: never.
        /// Kernels without CONFIG_ZRAM_MULTI_COMP, or without CONFIG_ZRAM_TRACK_ENTRY_ACTIME, cannot.
        "recompress-after-seconds" recompress_after_s: u64 = |_| 0, if within(0, MOST_AGE_S);
    }
}

section! {
    /// A compressed swap device that the daemon makes, and removes at its end; keys as in zram-generator. The number in
    /// the section's name only tells several apart. Without such a section the swap that is there is used, and never
    /// changed.
    ZramSection {
        /// What it holds, before compression. A size.
        "zram-size" zram_size: Size = |facts| Size::known("min(ram / 2, 4096)", facts), if device;
        /// Memory that its compressed pages may take. A size; 0: no limit.
        "zram-resident-limit" zram_resident_limit: Option<Size> = |_| None;
        /// Such as lz4, lzo-rle or zstd. Empty: the first of lz4 and lzo-rle that the kernel has.
        "compression-algorithm" compression_algorithm: Option<String> = |_| None, if algorithm;
        /// The stronger algorithm by which idle pages are compressed anew (recompress-after-seconds above), such as
        /// zstd. Empty: none. The kernel must have CONFIG_ZRAM_MULTI_COMP.
        "recompression-algorithm" recompression_algorithm: Option<String> = |_| None, if algorithm;
        /// A partition or another block device to which cold pages are written (write-back above). Its first MiB must be
        /// zeros, unless the daemon had it before. The systemd unit lets the daemon open no such device: a drop-in adds
        /// DeviceAllow=DEVICE rw. Empty: none. The kernel must have CONFIG_ZRAM_WRITEBACK.
        "writeback-device" writeback_device: Option<String> = |_| None;
        /// Swap of the highest priority is used first; 0 to 32767.
        "swap-priority" swap_priority: u64 = |_| 100, if within(0, 32_767);
        /// Have the device only while no other swap is switched on: it comes when the last one goes, and goes when
        /// another one comes.
        "only-without-swap" only_without_swap: bool = |_| false;
    }
}

fn device(size: &Size) -> Result<(), String> {
    match size.bytes < LEAST_DEVICE_BYTES {
        true => Err(format!("{:?} comes to less than 64 KiB", size.text)),
        false => Ok(()),
    }
}

/// One algorithm, or none.
fn algorithm(value: &Option<String>) -> Result<(), String> {
    match value {
        Some(value) if value.contains(char::is_whitespace) => {
            Err(format!("{value:?} is more than one algorithm"))
        }
        _ => Ok(()),
    }
}

section! {
    /// How the daemon learns what its user looks at, besides `warmswap agent`, `warmswap switch` and `warmswap launch`.
    SignalsSection {
        /// Whether an application that begins to work after it rested counts as switched to, where no agent says what
        /// is looked at.
        "activity" activity: bool = |_| true;
    }
}

/// What is left alone unless another list is written.
const EXCLUDED: [&str; 20] = [
    "init",
    "systemd*",
    "dbus*",
    "Xorg",
    "Xwayland",
    "Xvfb",
    "sway",
    "i3",
    "gnome-shell",
    "kwin*",
    "plasmashell",
    "mutter*",
    "weston",
    "pipewire*",
    "wireplumber",
    "pulseaudio",
    "sshd",
    "login",
    "agetty",
    "warmswap",
];

section! {
    /// Applications that have no section of their own: processes of one executable, large enough to matter.
    DiscoverSection {
        /// Whether they are looked for.
        "enable" enable: bool = |_| true;
        /// Memory, swapped out or not, from which on an application is looked after. A size.
        "min-size" min_size: Size = |facts| Size::known("32", facts);
        /// Names of executables that are left alone; * stands for any characters.
        "exclude" exclude: Vec<String> = |_| EXCLUDED.map(str::to_owned).to_vec();
    }
}

section! {
    /// An application and how its processes are found: by one of the two keys. Without any, only
    /// `warmswap launch NAME -- COMMAND` gives it processes.
    AppSection {
        /// Name or, with a slash, whole path of the executable; * stands for any characters.
        "executable" executable: Option<String> = |_| None;
        /// Control group, as in /proc/PID/cgroup; the groups below it count too.
        "cgroup" cgroup: Option<String> = |_| None, if cgroup;
    }
}

fn cgroup(value: &Option<String>) -> Result<(), String> {
    match value {
        Some(value) if !value.starts_with('/') => {
            Err(format!("{value:?} is no control group that begins with /"))
        }
        _ => Ok(()),
    }
}

/// The name of a section of a device: `zram` and a number.
#[must_use]
pub fn is_zram(section: &str) -> bool {
    let number = section.strip_prefix("zram");
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}
