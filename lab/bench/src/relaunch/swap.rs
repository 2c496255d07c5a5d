//! What the memory of an arm in a control group is swapped to, and what that takes itself.

use std::path::Path;

use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::swap::file::SwapFile;
use warmswap_sys::tunable::{Tunable, TunableError};
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{Device, ZramConfig, ZramSwap};
use warmswap_sys::{Root, file};

use super::kernel_settings::Setting;
use super::options::SwapKind;
use crate::BenchError;

/// Before all other areas.
const PRIORITY: u16 = 32767;

/// A swap file holds so many times the memory of the arm, and this much at least.
const TIMES_MEMORY: u64 = 4;
const LEAST_FILE_BYTES: u64 = 1 << 30;

/// The kernel's own share of memory for the pool of zswap.
const ZSWAP_POOL_PERCENT: f64 = 20.0;

const ZSWAP: &str = "/sys/module/zswap/parameters";

/// A swap area, and the settings that belong to it. Dropping it takes it back.
#[derive(Debug)]
pub struct Swap {
    area: Area,
    // Restored after the area is gone: pages that are in zswap come back first.
    _settings: Vec<Tunable>,
}

#[derive(Debug)]
enum Area {
    Zram(ZramSwap),
    File { file: SwapFile, is_compressed: bool },
}

/// Where the pages are that are swapped out and still take memory.
#[derive(Debug)]
pub enum Pool {
    /// Nowhere: they are in a file.
    Nothing,
    Zram(Device),
    /// All of the machine's: nothing else should swap.
    Zswap(Root),
}

impl Pool {
    /// Bytes of memory that it takes; 0 of one that is just being removed.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Zram(device) => device.stats().map_or(0, |stats| stats.memory_bytes),
            Self::Zswap(root) => Meminfo::read(root).map_or(0, |memory| memory.zswap_pool_bytes),
        }
    }
}

impl Swap {
    /// Sets it up for an arm that has `total_bytes`, larger than it needs. `folder` is for a file; `algorithm` is the kernel's name of what compresses.
    pub fn create(
        undo: &Undo,
        kind: SwapKind,
        (folder, algorithm): (&Path, &str),
        total_bytes: u64,
    ) -> Result<Self, BenchError> {
        let memory = Meminfo::read(undo.root())?;
        let settings = match kind {
            SwapKind::Zswap => zswap(undo, algorithm, total_bytes, memory.total_bytes)?,
            SwapKind::Zram | SwapKind::File => without_zswap(undo)?,
        };
        let area = match kind {
            SwapKind::Zram => Area::Zram(ZramSwap::create(
                undo,
                &ZramConfig {
                    disk_bytes: memory.total_bytes / 2,
                    algorithm: algorithm.to_owned(),
                    second_algorithm: None,
                    backing_device: None,
                    memory_limit_bytes: None,
                    priority: PRIORITY,
                },
            )?),
            SwapKind::File | SwapKind::Zswap => Area::File {
                file: SwapFile::create(
                    undo,
                    folder,
                    (TIMES_MEMORY * total_bytes).max(LEAST_FILE_BYTES),
                    PRIORITY,
                )?,
                is_compressed: kind == SwapKind::Zswap,
            },
        };
        Ok(Self {
            area,
            _settings: settings,
        })
    }

    /// What of the machine's memory its pages take.
    pub fn pool(&self, root: &Root) -> Pool {
        match &self.area {
            Area::Zram(zram) => Pool::Zram(Device::new(root, zram.id())),
            Area::File {
                is_compressed: true,
                ..
            } => Pool::Zswap(root.clone()),
            Area::File { .. } => Pool::Nothing,
        }
    }

    /// What zswap compresses by, where it is used.
    pub fn setting(&self, root: &Root) -> Option<Setting> {
        let path = root.path(Path::new(ZSWAP)).join("compressor");
        let is_compressed = matches!(
            self.area,
            Area::File {
                is_compressed: true,
                ..
            }
        );
        let text = is_compressed.then(|| file::read(&path).ok()).flatten()?;
        Some(Setting {
            name: "zswap.compressor".to_owned(),
            value: text.trim().to_owned(),
        })
    }

    /// Takes it back now.
    pub fn remove(self) -> Result<(), BenchError> {
        match self.area {
            Area::Zram(zram) => zram.remove()?,
            Area::File { file, .. } => file.remove()?,
        }
        Ok(())
    }
}

/// Compressed swap of the kernel's before any area.
fn zswap(
    undo: &Undo,
    algorithm: &str,
    total_bytes: u64,
    machine_bytes: u64,
) -> Result<Vec<Tunable>, BenchError> {
    let folder = undo.root().path(Path::new(ZSWAP));
    if !folder.is_dir() {
        return Err(BenchError::NoZswap { path: folder });
    }
    let percent = ZSWAP_POOL_PERCENT * total_bytes as f64 / machine_bytes.max(1) as f64;
    let percent = percent.round().max(1.0).to_string();
    let set = |name: &str, value: &str| Tunable::set(undo, &folder.join(name), value);
    let mut settings = Vec::new();
    match set("compressor", algorithm) {
        Ok(compressor) => settings.push(compressor),
        // The kernel's zram has compressors of its own, which zswap may lack: then its own default has to do.
        Err(TunableError::File(error)) if error.is_gone() => {}
        Err(error) => return Err(error.into()),
    }
    // On last, and so off first.
    let values = [("max_pool_percent", percent.as_str()), ("enabled", "Y")];
    for (name, value) in values {
        settings.push(set(name, value)?);
    }
    settings.reverse();
    Ok(settings)
}

/// Pages would be compressed before they come to the area of an arm.
fn without_zswap(undo: &Undo) -> Result<Vec<Tunable>, BenchError> {
    let path = undo.root().path(Path::new(ZSWAP)).join("enabled");
    let is_on = file::read(&path).is_ok_and(|text| text.trim() == "Y");
    let off = is_on.then(|| Tunable::set(undo, &path, "N")).transpose()?;
    Ok(off.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(enabled: &str) -> (tempfile::TempDir, Undo) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let folder = dir.path().join(&ZSWAP[1..]);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, value) in [
            ("enabled", enabled),
            ("compressor", "lzo"),
            ("max_pool_percent", "20"),
        ] {
            std::fs::write(folder.join(name), value).unwrap();
        }
        let undo = Undo::open(&root, &dir.path().join("undo")).unwrap();
        (dir, undo)
    }

    fn now(dir: &tempfile::TempDir) -> [String; 3] {
        let folder = dir.path().join(&ZSWAP[1..]);
        ["enabled", "compressor", "max_pool_percent"].map(|name| {
            std::fs::read_to_string(folder.join(name))
                .unwrap()
                .trim()
                .to_owned()
        })
    }

    #[test]
    fn zswap_is_as_it_was_afterwards() {
        let (dir, undo) = machine("N");
        let settings = zswap(&undo, "lz4", 1 << 30, 4 << 30).unwrap();
        assert_eq!(now(&dir), ["Y", "lz4", "5"]);
        drop(settings);
        assert_eq!(now(&dir), ["N", "lzo", "20"]);
    }

    #[test]
    fn zswap_stands_before_no_other_area() {
        let (dir, undo) = machine("Y");
        let settings = without_zswap(&undo).unwrap();
        assert_eq!(now(&dir)[0], "N");
        drop(settings);
        assert_eq!(now(&dir)[0], "Y");
    }
}
