//! A compressed block device of our own (zram), used as swap.
//!
//! The kernel adds it and removes it; a device that exists is never used (admin-guide/blockdev/zram.rst).

mod backing;
mod device;
mod error;

pub use device::{Device, Upkeep};
pub use error::ZramError;

use std::path::{Path, PathBuf};

use crate::swap::{self, Owner, Uuid};
use crate::undo::{Action, Inherited, Pending, Undo, UndoError};
use crate::{FileError, Root, file};

/// How a device is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZramConfig {
    /// Capacity in uncompressed bytes.
    pub disk_bytes: u64,
    /// Compression algorithm, by the kernel's name ("lz4", "lzo-rle", "zstd").
    pub algorithm: String,
    /// The one by which idle pages can be compressed anew, where the kernel can (`CONFIG_ZRAM_MULTI_COMP`).
    pub second_algorithm: Option<String>,
    /// The block device to which pages can be written (`CONFIG_ZRAM_WRITEBACK`). It is taken if its first mebibyte is
    /// empty, or if it was taken before, and is in no other use.
    pub backing_device: Option<PathBuf>,
    /// Most memory that the compressed pages may take; `None` for no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Swap priority, 0 to 32767; the highest is used first.
    pub priority: u16,
}

/// An active zram swap device of our own. Dropping it swaps off, which brings all pages back, and
/// removes the device.
#[derive(Debug)]
pub struct ZramSwap {
    id: u32,
    root: Root,
    uuid: Uuid,
    asked: Option<String>,
    pending: Pending,
}

/// `mm_stat` of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZramStats {
    /// Bytes stored, before compression, without same-filled pages' share.
    pub original_bytes: u64,
    /// Bytes after compression.
    pub compressed_bytes: u64,
    /// Memory really used, allocator overhead included.
    pub memory_bytes: u64,
    /// Most memory ever used.
    pub memory_peak_bytes: u64,
    /// Pages that hold one repeated word, stored without memory.
    pub same_filled_pages: u64,
    /// Pages that did not get smaller.
    pub incompressible_pages: u64,
}

/// `io_stat` and the block layer's counts of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZramIo {
    /// Reads that failed.
    pub failed_reads: u64,
    /// Writes that failed (the memory limit was reached, or memory ran out).
    pub failed_writes: u64,
    /// Pages whose swap slot was freed.
    pub freed_pages: u64,
}

/// Whether a zram device can be made, without making one.
///
/// # Errors
/// [`ZramError::Missing`], [`ZramError::NotRoot`], [`ZramError::NotAllowed`], [`ZramError::ReadOnly`].
pub fn probe(root: &Root) -> Result<(), ZramError> {
    let control = root.path("/sys/class/zram-control");
    if !control.is_dir() {
        return Err(ZramError::Missing { path: control });
    }
    if !crate::is_root() {
        return Err(ZramError::NotRoot);
    }
    crate::probe::swapon().map_err(ZramError::NotAllowed)?;
    // A device is added by reading, which no read-only mount refuses.
    let path = control.join("hot_remove");
    match rustix::fs::access(&path, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(_) => Err(ZramError::ReadOnly { path }),
    }
}

impl ZramSwap {
    /// Adds a device, sets it up as swap and switches it on. Takes about 10 ms.
    ///
    /// # Errors
    /// [`ZramError`]; nothing is left behind. Between the kernel's adding of the device and its entry in the
    /// state file lie some microseconds in which a SIGKILL would leave an unused device of no memory.
    pub fn create(undo: &Undo, config: &ZramConfig) -> Result<Self, ZramError> {
        let root = undo.root().clone();
        probe(&root)?;
        let uuid = Uuid::random()?;
        let pending = undo.register(Action::Nothing)?;
        let add = root.path("/sys/class/zram-control/hot_add");
        let id = pending.make(|| {
            let id = file::read_u64(&add)?;
            let id =
                u32::try_from(id).map_err(|_| FileError::unexpected(&add, "no device number"))?;
            let action = Action::RemoveZram {
                id,
                uuid: uuid.clone(),
                serial: serial(&root, id),
                asked: None,
            };
            Ok::<_, ZramError>((id, action))
        })?;
        let device = Self {
            id,
            root,
            uuid,
            asked: None,
            pending,
        };
        device.set_up(config)?;
        Ok(device)
    }

    /// Notes what it was made for: [`Self::asked`] of a later process that adopts it.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn note(&mut self, asked: &str) -> Result<(), UndoError> {
        self.asked = Some(asked.to_owned());
        self.pending.amend(Action::RemoveZram {
            id: self.id,
            uuid: self.uuid.clone(),
            serial: serial(&self.root, self.id),
            asked: self.asked.clone(),
        })
    }

    /// What it was made for, as its maker noted.
    #[must_use]
    pub fn asked(&self) -> Option<&str> {
        self.asked.as_deref()
    }

    /// Leaves the device as it is, swapped on, for the next process that opens the registry.
    pub fn leave(self) {
        self.pending.leave();
    }

    /// Goes on with a device that an ended process left ([`Undo::inherit`]), if it is one that is swapped on
    /// and holds the swap area that the process made.
    ///
    /// # Errors
    /// What was given, when it is anything else; dropping that takes it back.
    pub fn adopt(undo: &Undo, left: Inherited) -> Result<Self, Inherited> {
        let root = undo.root().clone();
        let Action::RemoveZram {
            id, uuid, asked, ..
        } = &left.action
        else {
            return Err(left);
        };
        let (id, uuid, asked) = (*id, uuid.clone(), asked.clone());
        let device = device_path(&root, id);
        let is_ours = is_active(&root, id).unwrap_or(false)
            && swap::owner(&device, &uuid).is_ok_and(|owner| owner == Owner::Asked);
        if !is_ours {
            return Err(left);
        }
        Ok(Self {
            id,
            root,
            uuid,
            asked,
            pending: left.pending,
        })
    }

    fn set_up(&self, config: &ZramConfig) -> Result<(), ZramError> {
        let algorithm = self.control("comp_algorithm");
        check_is_offered(&file::read(&algorithm)?, &config.algorithm)?;
        file::write(&algorithm, &config.algorithm)?;
        if let Some(second) = &config.second_algorithm {
            let path = self.control("recomp_algorithm");
            if !path.exists() {
                return Err(ZramError::NoSecondAlgorithm {
                    asked: second.clone(),
                });
            }
            // Its file names none before one is chosen; all that are offered can be either.
            check_is_offered(&file::read(&algorithm)?, second)?;
            file::write(&path, &format!("algo={second} priority=1"))?;
        }
        if let Some(asked) = &config.backing_device {
            let path = self.control("backing_dev");
            if !path.exists() {
                let asked = asked.clone();
                return Err(ZramError::NoBackingDevice { asked });
            }
            backing::take(asked)?;
            file::write(&path, &asked.to_string_lossy())?;
        }
        file::write(&self.control("disksize"), &config.disk_bytes.to_string())?;
        if let Some(limit) = config.memory_limit_bytes {
            file::write(&self.control("mem_limit"), &limit.to_string())?;
        }
        swap::format(&self.device(), config.disk_bytes, &self.uuid)?;
        swap::on(&self.device(), config.priority)?;
        Ok(())
    }

    /// The device's number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The device file.
    #[must_use]
    pub fn device(&self) -> PathBuf {
        device_path(&self.root, self.id)
    }

    /// Its capacity in uncompressed bytes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn disk_bytes(&self) -> Result<u64, FileError> {
        file::read_u64(&self.control("disksize"))
    }

    /// The compression algorithm, by the kernel's name.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn algorithm(&self) -> Result<String, FileError> {
        let path = self.control("comp_algorithm");
        chosen(&file::read(&path)?)
            .map(str::to_owned)
            .ok_or_else(|| FileError::unexpected(&path, "no algorithm is chosen"))
    }

    /// The algorithm by which idle pages can be compressed anew, if any.
    #[must_use]
    pub fn second_algorithm(&self) -> Option<String> {
        let text = file::read(&self.control("recomp_algorithm")).ok()?;
        chosen(text.lines().next()?).map(str::to_owned)
    }

    /// What the device holds and uses.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn stats(&self) -> Result<ZramStats, FileError> {
        read_stats(&self.control("mm_stat"))
    }

    /// What went wrong and what was freed.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn io(&self) -> Result<ZramIo, FileError> {
        let path = self.control("io_stat");
        let n = numbers(&path, 4)?;
        Ok(ZramIo {
            failed_reads: n[0],
            failed_writes: n[1],
            freed_pages: n[3],
        })
    }

    /// Swaps off and removes the device now.
    ///
    /// # Errors
    /// [`UndoError`]; the next run tries again.
    pub fn remove(self) -> Result<(), UndoError> {
        self.pending.finish()
    }

    fn control(&self, name: &str) -> PathBuf {
        block_folder(&self.root, self.id).join(name)
    }
}

fn block_folder(root: &Root, id: u32) -> PathBuf {
    root.path(format!("/sys/block/zram{id}"))
}

fn device_path(root: &Root, id: u32) -> PathBuf {
    root.path(format!("/dev/zram{id}"))
}

fn numbers(path: &Path, least: usize) -> Result<Vec<u64>, FileError> {
    let text = file::read(path)?;
    // mm_stat prints one field signed in old kernels; what is no unsigned number counts as 0.
    let n: Vec<u64> = text
        .split_ascii_whitespace()
        .map(|f| f.parse().unwrap_or(0))
        .collect();
    if n.len() < least {
        Err(FileError::unexpected(path, "too few numbers"))
    } else {
        Ok(n)
    }
}

fn read_stats(path: &Path) -> Result<ZramStats, FileError> {
    let n = numbers(path, 7)?;
    Ok(ZramStats {
        original_bytes: n[0],
        compressed_bytes: n[1],
        memory_bytes: n[2],
        memory_peak_bytes: n[4],
        same_filled_pages: n[5],
        incompressible_pages: n.get(7).copied().unwrap_or(0),
    })
}

fn check_is_offered(offered: &str, asked: &str) -> Result<(), ZramError> {
    let mut names = offered.split_ascii_whitespace();
    if names.any(|name| name.trim_matches(['[', ']']) == asked) {
        return Ok(());
    }
    Err(ZramError::Algorithm {
        asked: asked.to_owned(),
        offered: offered.trim().replace(['[', ']'], ""),
    })
}

/// Of a list such as `lzo [lz4] zstd`, the one in brackets.
fn chosen(offered: &str) -> Option<&str> {
    let mut names = offered.split_ascii_whitespace();
    names.find_map(|name| name.strip_prefix('[')?.strip_suffix(']'))
}

/// Whether device `id` is swapped on.
fn is_active(root: &Root, id: u32) -> Result<bool, FileError> {
    let device = Path::new("/dev").join(format!("zram{id}"));
    Ok(swap::areas(root)?
        .iter()
        .any(|area| Path::new(&area.path) == device))
}

/// The kernel's serial number of device `id`: another device with its number has another one. None before Linux 5.15.
fn serial(root: &Root, id: u32) -> Option<u64> {
    file::read_u64(&block_folder(root, id).join("diskseq")).ok()
}

/// Swaps off and removes device `id`, unless it is gone or has become another program's.
pub(crate) fn remove(
    root: &Root,
    id: u32,
    uuid: &Uuid,
    made: Option<u64>,
) -> Result<(), FileError> {
    let folder = block_folder(root, id);
    if !folder.exists() {
        return Ok(());
    }
    // It was removed by hand, and its number given to another.
    if made.is_some() && serial(root, id) != made {
        return Ok(());
    }
    let device = device_path(root, id);
    if file::read_u64(&folder.join("disksize"))? > 0 {
        if swap::owner(&device, uuid)? == Owner::Another {
            return Ok(());
        }
        if is_active(root, id)? {
            swap::off(root, &device)?;
        }
        crate::undo::while_busy(|| file::write(&folder.join("reset"), "1"))?;
    }
    crate::undo::while_busy(|| {
        file::write(
            &root.path("/sys/class/zram-control/hot_remove"),
            &id.to_string(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_statistics_are_understood() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mm_stat");
        std::fs::write(
            &path,
            " 1626112   371712   475136        0   479232       12        0       31        7\n",
        )
        .unwrap();

        let stats = read_stats(&path).unwrap();

        assert_eq!(
            (
                stats.original_bytes,
                stats.compressed_bytes,
                stats.memory_bytes
            ),
            (1_626_112, 371_712, 475_136)
        );
        assert_eq!(
            (
                stats.memory_peak_bytes,
                stats.same_filled_pages,
                stats.incompressible_pages
            ),
            (479_232, 12, 31)
        );
        std::fs::write(&path, "1 2 3\n").unwrap();
        assert!(read_stats(&path).is_err());
    }

    #[test]
    fn the_algorithm_in_brackets_is_the_chosen_one() {
        assert_eq!(chosen("lzo-rle lzo [lz4] zstd \n"), Some("lz4"));
        assert_eq!(chosen("lzo lz4\n"), None);
    }

    #[test]
    fn a_kernel_without_zram_is_told_with_the_way_out() {
        let dir = tempfile::tempdir().unwrap();

        let error = probe(&Root::at(dir.path())).unwrap_err();

        assert!(error.to_string().contains("modprobe zram"), "{error}");
    }

    #[test]
    fn a_device_that_is_gone_needs_no_removal() {
        let dir = tempfile::tempdir().unwrap();

        remove(&Root::at(dir.path()), 3, &Uuid::random().unwrap(), None).unwrap();
    }

    #[test]
    fn a_device_that_was_given_its_number_later_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/block/zram3");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(dir.path().join("sys/class/zram-control")).unwrap();
        std::fs::write(folder.join("disksize"), "0\n").unwrap();
        std::fs::write(folder.join("diskseq"), "18\n").unwrap();
        let root = Root::at(dir.path());
        let uuid = Uuid::random().unwrap();
        let removed = dir.path().join("sys/class/zram-control/hot_remove");
        std::fs::write(&removed, "").unwrap();
        std::fs::write(folder.join("reset"), "").unwrap();

        remove(&root, 3, &uuid, Some(17)).unwrap();
        assert_eq!(std::fs::read_to_string(&removed).unwrap(), "", "another's");
        remove(&root, 3, &uuid, Some(18)).unwrap();

        assert_eq!(std::fs::read_to_string(removed).unwrap().trim(), "3");
    }
}
