//! The swap devices that the daemon makes. What was there before is never touched.
//!
//! A daemon that was killed leaves its devices, with the pages of programs in them, and a note of them in its
//! state folder. The next one goes on with those that its configuration still asks for, and removes the others.

use std::path::Path;

use warmswap_sys::undo::{Inherited, Undo, UndoError};
use warmswap_sys::zram::{ZramConfig, ZramError, ZramSwap};
use warmswap_sys::{Root, swap};

use crate::config::sections::ZramSection;
use crate::config::size::Size;

/// Algorithms for a device that names none, the first that the kernel has.
const ALGORITHMS: [&str; 2] = ["lz4", "lzo-rle"];

/// A device cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("[{section}]: {source}")]
pub struct DeviceError {
    /// Its section.
    pub section: String,
    /// Why.
    #[source]
    pub source: ZramError,
}

/// The devices. Dropping this swaps them off, which brings all their pages back, and removes them.
#[derive(Debug, Default)]
pub struct Devices(Vec<ZramSwap>);

impl Devices {
    /// Makes the devices of `sections`, and says in `notices` what it did; `inherited` is what a killed daemon
    /// left. Takes some 10 ms a device; as long as its pages take to come back for one that is removed.
    ///
    /// # Errors
    /// [`DeviceError`]; devices that were made before it are removed.
    pub fn set_up<'a>(
        sections: impl IntoIterator<Item = (&'a String, &'a ZramSection)>,
        undo: &Undo,
        inherited: Vec<Inherited>,
        notices: &mut Vec<String>,
    ) -> Result<Self, DeviceError> {
        let mut left = adopt(undo, inherited, notices);
        let mut devices = Self::default();
        let mut missing = Vec::new();
        for (name, section) in sections {
            match left.iter().position(|device| fits(device, section)) {
                Some(at) => {
                    let device = left.swap_remove(at);
                    notices.push(format!("goes on with {}", device.device().display()));
                    devices.0.push(device);
                }
                None => missing.push((name, section)),
            }
        }
        for device in left {
            let path = device.device();
            notices.push(match device.remove() {
                Ok(()) => format!("removed {}, which is configured no more", path.display()),
                Err(error) => error.to_string(),
            });
        }
        for (name, section) in missing {
            if section.only_without_swap && has_swap(undo.root()) {
                notices.push(format!("[{name}]: no device, since there is swap"));
                continue;
            }
            let device = create(undo, section).map_err(|source| DeviceError {
                section: name.clone(),
                source,
            })?;
            notices.push(format!("made {} for [{name}]", device.device().display()));
            devices.0.push(device);
        }
        Ok(devices)
    }

    /// Their paths.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let paths = self.0.iter().map(ZramSwap::device);
        paths.map(|path| path.display().to_string()).collect()
    }

    /// Removes them.
    ///
    /// # Errors
    /// The first [`UndoError`], such as for want of memory for their pages; that device stays, and the next
    /// daemon goes on with it.
    pub fn remove(self) -> Result<(), UndoError> {
        let mut result = Ok(());
        // All of them, also after one that failed.
        for device in self.0 {
            let removed = device.remove();
            result = result.and(removed);
        }
        result
    }
}

/// Devices that can be gone on with; everything else that was left is taken back.
fn adopt(undo: &Undo, inherited: Vec<Inherited>, notices: &mut Vec<String>) -> Vec<ZramSwap> {
    let mut devices = Vec::new();
    for left in inherited {
        match ZramSwap::adopt(undo, left) {
            Ok(device) => devices.push(device),
            Err(other) => {
                if let Err(error) = other.take_back() {
                    notices.push(error.to_string());
                }
            }
        }
    }
    devices
}

fn fits(device: &ZramSwap, section: &ZramSection) -> bool {
    let algorithm = device.algorithm();
    let algorithm = algorithm.as_deref().ok();
    bytes(&section.zram_size) == device.disk_bytes().ok()
        && section.recompression_algorithm == device.second_algorithm()
        && (section.compression_algorithm.is_none()
            || section.compression_algorithm.as_deref() == algorithm)
}

fn bytes(size: &Option<Size>) -> Option<u64> {
    size.as_ref().map(|size| size.bytes)
}

/// Whether any swap is switched on; where that cannot be read, there is none.
fn has_swap(root: &Root) -> bool {
    swap::areas(root).is_ok_and(|areas| !areas.is_empty())
}

fn create(undo: &Undo, section: &ZramSection) -> Result<ZramSwap, ZramError> {
    let config = |algorithm: &str| ZramConfig {
        disk_bytes: bytes(&section.zram_size).unwrap_or(0),
        algorithm: algorithm.to_owned(),
        second_algorithm: section.recompression_algorithm.clone(),
        memory_limit_bytes: bytes(&section.zram_resident_limit),
        priority: u16::try_from(section.swap_priority).unwrap_or(u16::MAX),
    };
    if let Some(algorithm) = &section.compression_algorithm {
        return ZramSwap::create(undo, &config(algorithm));
    }
    let [first, second] = ALGORITHMS;
    match ZramSwap::create(undo, &config(first)) {
        Err(ZramError::Algorithm { .. }) => ZramSwap::create(undo, &config(second)),
        result => result,
    }
}

/// Where the daemon whose socket is at `socket` keeps the note of its changes.
#[must_use]
pub fn state_folder(socket: &Path) -> std::path::PathBuf {
    socket.with_extension("state")
}
