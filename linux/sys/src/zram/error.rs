//! Why a zram swap device cannot be made or read.

use std::path::PathBuf;

use crate::FileError;
use crate::undo::UndoError;

/// A zram swap device could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum ZramError {
    /// The kernel has no zram, or its module is not loaded.
    #[error("zram is not available: {} is missing; run `modprobe zram`, or use a kernel built with CONFIG_ZRAM", path.display())]
    Missing {
        /// The control folder that was looked for.
        path: PathBuf,
    },
    /// Only root may add devices and swap.
    #[error("a zram swap device needs root: run the command with `sudo`")]
    NotRoot,
    /// The process is root's and has not the right, or a filter refuses it.
    #[error(
        "swap may not be switched on by this process ({0}): run it as root of the machine, outside of containers and \
         filters of system calls"
    )]
    NotAllowed(#[source] std::io::Error),
    /// Devices cannot be set up.
    #[error("{} cannot be written: /sys is mounted read-only; `mount -o remount,rw /sys`", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The kernel was built without this algorithm.
    #[error("zram has no algorithm {asked:?}; this kernel offers: {offered}")]
    Algorithm {
        /// What was asked for.
        asked: String,
        /// The kernel's list.
        offered: String,
    },
    /// The kernel cannot compress pages anew.
    #[error(
        "zram of this kernel has no second algorithm, and {asked:?} was asked for: leave it out, or take a kernel with \
         CONFIG_ZRAM_MULTI_COMP"
    )]
    NoSecondAlgorithm {
        /// What was asked for.
        asked: String,
    },
    /// The kernel cannot write pages back.
    #[error(
        "zram of this kernel writes nothing to a disk, and {} was asked for: leave it out, or take a kernel with \
         CONFIG_ZRAM_WRITEBACK",
        asked.display()
    )]
    NoBackingDevice {
        /// What was asked for.
        asked: PathBuf,
    },
    /// The device for pages that are written back is none that may be overwritten.
    #[error(
        "{} holds something, and pages of zram would overwrite it; if it may go: \
         `dd if=/dev/zero of={} bs=1M count=1`",
        device.display(), device.display()
    )]
    BackingDeviceHolds {
        /// The device.
        device: PathBuf,
    },
    /// A control file or the device failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change could not be registered.
    #[error(transparent)]
    Undo(#[from] UndoError),
}
