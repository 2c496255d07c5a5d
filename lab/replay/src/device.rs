//! What faults, frames and flash cost on the modelled machine.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::num::NonZeroU64;
use warmswap_engine::Outcome;
use warmswap_page::PAGE_BYTES;

/// Costs that a replay does not measure but takes as given, in nanoseconds, and flash speeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    /// Name of the preset, or where the numbers come from.
    pub name: String,
    /// Reading a resident page once: 4 KiB from DRAM.
    #[serde(deserialize_with = "cost_ns")]
    pub page_access_ns: u64,
    /// The first touch of a page: fault, zeroed frame.
    #[serde(deserialize_with = "cost_ns")]
    pub first_touch_ns: u64,
    /// A fault on a stored page: entry, look-up, exit, without decompression and installation.
    #[serde(deserialize_with = "cost_ns")]
    pub fault_ns: u64,
    /// Putting a decompressed page in its place.
    #[serde(deserialize_with = "cost_ns")]
    pub install_ns: u64,
    /// Taking a page out of its place.
    #[serde(deserialize_with = "cost_ns")]
    pub remove_ns: u64,
    /// Time from a random read of flash to its first byte.
    #[serde(deserialize_with = "cost_ns")]
    pub flash_read_ns: u64,
    /// Bytes of a read for each microsecond.
    #[serde(deserialize_with = "speed")]
    pub flash_read_bytes_per_us: u64,
    /// Time from a write of flash to its acknowledgement, without the data.
    #[serde(deserialize_with = "cost_ns")]
    pub flash_write_ns: u64,
    /// Bytes of a write for each microsecond.
    #[serde(deserialize_with = "speed")]
    pub flash_write_bytes_per_us: u64,
}

/// A longer cost is no cost of a device, and sums of many would not fit.
const MOST_NS: u64 = 1_000_000_000;

fn cost_ns<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let ns = u64::deserialize(from)?;
    match ns <= MOST_NS {
        true => Ok(ns),
        false => Err(D::Error::custom(format!("{ns} ns are more than a second"))),
    }
}

fn speed<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(NonZeroU64::deserialize(from)?.get())
}

/// Flash of one kind: name, read latency in ns, read bytes/µs, write latency in ns, write bytes/µs.
const FLASH: [(&str, [u64; 4]); 3] = [
    // Random 4 KiB reads at queue depth 1, sequential bandwidth, as data sheets of the classes give them.
    ("ufs-3.1", [90_000, 2_100, 60_000, 1_200]),
    ("emmc-5.1", [180_000, 250, 200_000, 125]),
    ("nvme", [70_000, 3_500, 20_000, 3_000]),
];

impl DeviceModel {
    /// The names of the presets.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        FLASH.iter().map(|(name, _)| *name)
    }

    /// A preset: flash of that kind, and memory costs as measured on the machine of BENCHMARKS.md with
    /// a 4 KiB page: DRAM 0.4 µs, first touch 2.5 µs, zram fault 7.5 µs with 1.5 µs of decompression,
    /// half of the rest being the fault and half the frame.
    pub fn preset(name: &str) -> Option<Self> {
        let (name, flash) = FLASH.iter().find(|(preset, _)| *preset == name)?;
        let [
            flash_read_ns,
            flash_read_bytes_per_us,
            flash_write_ns,
            flash_write_bytes_per_us,
        ] = *flash;
        Some(Self {
            name: (*name).to_owned(),
            page_access_ns: 400,
            first_touch_ns: 2_500,
            fault_ns: 3_000,
            install_ns: 3_000,
            remove_ns: 1_300,
            flash_read_ns,
            flash_read_bytes_per_us,
            flash_write_ns,
            flash_write_bytes_per_us,
        })
    }

    /// Nanoseconds of a touch with this outcome, without what is measured and without waits for a load.
    pub fn touch_ns(&self, outcome: Outcome) -> u64 {
        self.page_access_ns
            + match outcome {
                Outcome::Hit | Outcome::Prepaged => 0,
                Outcome::FirstTouch => self.first_touch_ns,
                Outcome::FileRead => self.flash_read(PAGE_BYTES as u64),
                Outcome::BufferHit => self.install_ns,
                Outcome::Fault(_) | Outcome::InFlight => self.fault_ns,
            }
    }

    /// Nanoseconds to read `bytes` of flash at once.
    pub fn flash_read(&self, bytes: u64) -> u64 {
        self.flash_read_ns + bytes * 1000 / self.flash_read_bytes_per_us.max(1)
    }

    /// Nanoseconds to write `bytes` of flash at once.
    pub fn flash_write(&self, bytes: u64) -> u64 {
        self.flash_write_ns + bytes * 1000 / self.flash_write_bytes_per_us.max(1)
    }
}

impl Default for DeviceModel {
    /// UFS 3.1, as in the phone of the Ariadne paper (Table 4).
    fn default() -> Self {
        Self::preset("ufs-3.1").expect("the default preset is in the table")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_differ_and_unknown_names_give_none() {
        assert_eq!(DeviceModel::presets().count(), 3);
        assert!(DeviceModel::preset("floppy").is_none());
        let (ufs, emmc) = (
            DeviceModel::default(),
            DeviceModel::preset("emmc-5.1").unwrap(),
        );
        assert!(emmc.flash_read(4096) > ufs.flash_read(4096));
        assert_eq!(ufs.flash_read(2100), 91_000);
    }
}
