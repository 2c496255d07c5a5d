//! The swap devices that the daemon makes. What was there before is never touched.
//!
//! A daemon that was killed leaves its devices, with the pages of programs in them, and a note of them in its
//! state folder. The next one goes on with those that were made for what its configuration still asks for. A new device
//! stands before an old one goes, and an old one whose pages have no room stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warmswap_sys::swap::room::NoRoom;
use warmswap_sys::undo::{Inherited, Undo, UndoError};
use warmswap_sys::zram::{ZramConfig, ZramError, ZramSwap};
use warmswap_sys::{Root, swap};

use crate::config::keys::Section as _;
use crate::config::sections::ZramSection;

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

/// The devices, each with the section that it was made for. Dropping this swaps them off, which brings all their pages
/// back, and removes them.
#[derive(Debug)]
pub struct Devices {
    undo: Undo,
    sections: BTreeMap<String, ZramSection>,
    made: Vec<(String, ZramSwap)>,
}

impl Devices {
    /// Makes the devices of `sections`, and says in `notices` what it did; `inherited` is what a killed daemon
    /// left. Takes some 10 ms a device; as long as its pages take to come back for one that is removed.
    ///
    /// # Errors
    /// [`DeviceError`]. What a killed daemon left stays on then; what was made before it is removed.
    pub fn set_up(
        sections: &BTreeMap<String, ZramSection>,
        undo: &Undo,
        inherited: Vec<Inherited>,
        notices: &mut Vec<String>,
    ) -> Result<Self, DeviceError> {
        let mut left = adopt(undo, inherited, notices);
        let mut devices = Self {
            undo: undo.clone(),
            sections: sections.clone(),
            made: Vec::new(),
        };
        for (name, section) in sections {
            let asked = asked(section);
            if let Some(at) = left
                .iter()
                .position(|device| device.asked() == Some(asked.as_str()))
            {
                let device = left.swap_remove(at);
                notices.push(format!("goes on with {}", device.device().display()));
                devices.made.push((name.clone(), device));
            }
        }
        let adopted = devices.made.len();
        if let Err(error) = devices.make_missing(&left, notices) {
            // They hold pages of programs, and the next start may have another configuration.
            let adopted = devices.made.drain(..adopted).map(|(_, device)| device);
            adopted.chain(left).for_each(ZramSwap::leave);
            return Err(error);
        }
        for device in left {
            let path = device.device();
            notices.push(match device.remove() {
                Ok(()) => format!("removed {}, which is configured no more", path.display()),
                Err(error) => error.to_string(),
            });
        }
        Ok(devices)
    }

    /// Makes what is configured and not there. `leaving` are ours, too, and go afterwards.
    fn make_missing(
        &mut self,
        leaving: &[ZramSwap],
        notices: &mut Vec<String>,
    ) -> Result<(), DeviceError> {
        for (name, section) in &self.sections {
            if self.made.iter().any(|(made, _)| made == name) {
                continue;
            }
            if section.only_without_swap && self.has_other_swap(leaving) {
                notices.push(format!("[{name}]: no device, since there is swap"));
                continue;
            }
            let device = create(&self.undo, section).map_err(|source| DeviceError {
                section: name.clone(),
                source,
            })?;
            notices.push(format!("made {} for [{name}]", device.device().display()));
            self.made.push((name.clone(), device));
        }
        Ok(())
    }

    /// Swap of the machine changed: what is to be there only without other swap goes if there is some, and comes if there
    /// is none.
    pub fn follow(&mut self, notices: &mut Vec<String>) {
        let is_bound = |name: &String| {
            let section = self.sections.get(name);
            section.is_some_and(|section| section.only_without_swap)
        };
        if !self.has_other_swap(&[]) {
            if let Err(error) = self.make_missing(&[], notices) {
                notices.push(error.to_string());
            }
            return;
        }
        let (going, staying): (Vec<_>, Vec<_>) = std::mem::take(&mut self.made)
            .into_iter()
            .partition(|(name, _)| is_bound(name));
        self.made = staying;
        for (name, device) in going {
            let path = device.device();
            if let Err(error) = swap::room::check(self.undo.root(), &path) {
                notices.push(format!("[{name}]: {} stays: {error}", path.display()));
                self.made.push((name, device));
                continue;
            }
            notices.push(match device.remove() {
                Ok(()) => format!("[{name}]: removed {}, since there is swap", path.display()),
                Err(error) => error.to_string(),
            });
        }
    }

    /// Whether any swap is switched on besides ours; where that cannot be read, there is none.
    fn has_other_swap(&self, leaving: &[ZramSwap]) -> bool {
        let made = self.made.iter().map(|(_, device)| device);
        let ours: Vec<u32> = made.chain(leaving).map(ZramSwap::id).collect();
        let is_ours = |area: &swap::Area| area.zram_id().is_some_and(|id| ours.contains(&id));
        swap::areas(self.undo.root()).is_ok_and(|areas| !areas.iter().all(is_ours))
    }

    /// Their paths.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let paths = self.made.iter().map(|(_, device)| device.device());
        paths.map(|path| path.display().to_string()).collect()
    }

    /// Removes them. One whose pages have no room stays, and is told in `notices`: the next daemon goes on with it.
    ///
    /// # Errors
    /// The first [`UndoError`] of another kind; that device stays as well.
    pub fn remove(self, notices: &mut Vec<String>) -> Result<(), UndoError> {
        let mut result = Ok(());
        // All of them, also after one that failed.
        for (_, device) in self.made {
            let path = device.device();
            match device.remove() {
                Err(UndoError::Action { source, .. }) if NoRoom::is_cause_of(&source) => {
                    notices.push(format!(
                        "leaves {} on, and the next start goes on with it: {source}",
                        path.display()
                    ));
                }
                removed => result = result.and(removed),
            }
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

/// What a section asks for: its values as they are written, since what they come to may change with the machine. A device
/// that is there only without other swap is made alike.
fn asked(section: &ZramSection) -> String {
    let keys = ZramSection::KEYS.iter();
    let keys = keys.filter(|key| key.name != "only-without-swap");
    let values: Vec<String> = keys
        .map(|key| format!("{} = {}", key.name, (key.show)(section)))
        .collect();
    values.join("\n")
}

fn create(undo: &Undo, section: &ZramSection) -> Result<ZramSwap, ZramError> {
    let limit = section.zram_resident_limit.as_ref();
    let config = |algorithm: &str| ZramConfig {
        disk_bytes: section.zram_size.bytes,
        algorithm: algorithm.to_owned(),
        second_algorithm: section.recompression_algorithm.clone(),
        backing_device: section.writeback_device.as_ref().map(PathBuf::from),
        memory_limit_bytes: limit.map(|size| size.bytes),
        priority: u16::try_from(section.swap_priority).unwrap_or(u16::MAX),
    };
    let mut device = match &section.compression_algorithm {
        Some(algorithm) => ZramSwap::create(undo, &config(algorithm))?,
        None => {
            let [first, second] = ALGORITHMS;
            match ZramSwap::create(undo, &config(first)) {
                Err(ZramError::Algorithm { .. }) => ZramSwap::create(undo, &config(second))?,
                result => result?,
            }
        }
    };
    device.note(&asked(section))?;
    Ok(device)
}

/// Where the daemon whose socket is at `socket` keeps the note of its changes.
#[must_use]
pub fn state_folder(socket: &Path) -> std::path::PathBuf {
    socket.with_extension("state")
}

/// Whether the machine has no swap at all; where that cannot be read, it has some.
#[must_use]
pub fn is_without_swap(root: &Root) -> bool {
    swap::areas(root).is_ok_and(|areas| areas.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::size::Facts;

    fn section(text: &str, ram_mib: u64) -> ZramSection {
        let mut config = Config::defaults(Facts {
            ram_bytes: ram_mib << 20,
        });
        let text = format!("[zram0]\n{text}\n");
        config.merge(&text, Path::new("/test")).unwrap();
        config.zram["zram0"].clone()
    }

    #[test]
    fn what_was_asked_for_tells_wishes_apart_and_not_what_they_come_to() {
        let wish = section("zram-size = \"ram / 4\"", 4096);
        assert_eq!(
            asked(&wish),
            asked(&section("zram-size = \"ram / 4\"", 2048))
        );
        assert_eq!(
            asked(&wish),
            asked(&section(
                "zram-size = \"ram / 4\"\nonly-without-swap = true",
                4096
            ))
        );
        for other in [
            "zram-size = 1024",
            "zram-size = \"ram / 4\"\nswap-priority = 7",
            "zram-size = \"ram / 4\"\nzram-resident-limit = 16",
            "zram-size = \"ram / 4\"\ncompression-algorithm = \"zstd\"",
            "zram-size = \"ram / 4\"\nrecompression-algorithm = \"zstd\"",
        ] {
            assert_ne!(asked(&wish), asked(&section(other, 4096)), "{other}");
        }
    }
}
