//! Swap areas: writing their header, switching them on and off.

pub mod file;
mod off;
pub mod room;

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{FileError, Root};
use warmswap_page::PAGE_BYTES;

/// The identity of a swap area: 16 bytes of its header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uuid(String);

impl Uuid {
    /// A random identity, from the kernel.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn random() -> Result<Self, FileError> {
        let path = Path::new("/proc/sys/kernel/random/uuid");
        Ok(Self(crate::file::read(path)?.trim().to_owned()))
    }

    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut digits = self
            .0
            .bytes()
            .filter_map(|b| (b as char).to_digit(16))
            .map(|d| d as u8);
        for byte in &mut bytes {
            *byte = digits.next().unwrap_or(0) << 4 | digits.next().unwrap_or(0);
        }
        bytes
    }
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

// The header's first page, from the kernel's `union swap_header`: 1024 bytes for a boot block, version, number of
// the last page, number of bad pages, UUID, label; the signature ends the page.
const VERSION_AT: usize = 1024;
const LAST_PAGE_AT: usize = 1028;
const UUID_AT: usize = 1036;
const LABEL_AT: usize = 1052;
const SIGNATURE: &[u8; 10] = b"SWAPSPACE2";
const SIGNATURE_AT: usize = PAGE_BYTES - SIGNATURE.len();
const LABEL: &[u8] = b"warmswap";

/// The header page of a swap area of `pages` pages, the header included.
#[must_use]
pub fn header(pages: u32, uuid: &Uuid) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    page[VERSION_AT..VERSION_AT + 4].copy_from_slice(&1u32.to_ne_bytes());
    page[LAST_PAGE_AT..LAST_PAGE_AT + 4].copy_from_slice(&(pages - 1).to_ne_bytes());
    page[UUID_AT..UUID_AT + 16].copy_from_slice(&uuid.bytes());
    page[LABEL_AT..LABEL_AT + LABEL.len()].copy_from_slice(LABEL);
    page[SIGNATURE_AT..].copy_from_slice(SIGNATURE);
    page
}

/// Makes the device at `path` a swap area of `bytes` bytes. What it held before is lost.
///
/// # Errors
/// [`FileError`]; a device of less than ten pages is refused, as the kernel would.
pub fn format(path: &Path, bytes: u64, uuid: &Uuid) -> Result<(), FileError> {
    let pages = u32::try_from(bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    if pages < 10 {
        return Err(FileError::unexpected(
            path,
            "a swap area needs at least ten pages",
        ));
    }
    let mut device = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|e| FileError::new("open", path, e))?;
    device
        .write_all(&header(pages, uuid))
        .and_then(|()| device.sync_all())
        .map_err(|e| FileError::new("write", path, e))
}

/// Whether the swap area at `path` is one that this project made, in this process or another. False where it cannot be
/// read.
#[must_use]
pub fn is_labelled(path: &Path) -> bool {
    let mut page = [0; PAGE_BYTES];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut page));
    let label = &page[LABEL_AT..LABEL_AT + LABEL.len()];
    read.is_ok() && page[SIGNATURE_AT..] == *SIGNATURE && label == LABEL
}

/// What the first page of a device says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// All zeros: nothing was written yet.
    Unwritten,
    /// The swap area asked about.
    Asked,
    /// Anything else.
    Another,
}

/// Whose swap area the device at `path` holds.
pub(crate) fn owner(path: &Path, uuid: &Uuid) -> Result<Owner, FileError> {
    let mut page = [0; PAGE_BYTES];
    File::open(path)
        .and_then(|mut f| f.read_exact(&mut page))
        .map_err(|e| FileError::new("read", path, e))?;
    if page.iter().all(|&b| b == 0) {
        return Ok(Owner::Unwritten);
    }
    let asked = page[SIGNATURE_AT..] == *SIGNATURE && page[UUID_AT..UUID_AT + 16] == uuid.bytes();
    Ok(if asked { Owner::Asked } else { Owner::Another })
}

/// Switches the swap area at `path` on; the highest `priority` (0 to 32767) is used first.
///
/// # Errors
/// [`FileError`]; needs `CAP_SYS_ADMIN`.
pub fn on(path: &Path, priority: u16) -> Result<(), FileError> {
    const PREFER: i32 = 0x8000;
    let text = c_path(path)?;
    // SAFETY: `text` is a live NUL-terminated string; the call changes no memory of this process.
    let result = unsafe { libc::swapon(text.as_ptr(), PREFER | i32::from(priority.min(0x7fff))) };
    if result == 0 {
        Ok(())
    } else {
        Err(FileError::new(
            "swap on",
            path,
            std::io::Error::last_os_error(),
        ))
    }
}

/// Switches the swap area at `path` off, which brings all its pages back into memory first (5 µs a page). It stays on
/// where they have no room ([`room`]).
///
/// Tried again for about a second: a page of a group that is at its limit cannot come back at this moment, and a signal
/// interrupts the kernel on its way. Where nothing comes back for half a minute, a child of this process goes on waiting.
///
/// # Errors
/// [`FileError`]; its source is [`room::NoRoom`] where it was not tried, `ENOMEM` where memory ran out all the same.
pub fn off(root: &Root, path: &Path) -> Result<(), FileError> {
    let text = c_path(path)?;
    let left_bytes = || {
        let areas = areas(root).ok()?;
        let area = areas.into_iter().find(|area| area.is_at(root, path))?;
        Some(area.used_bytes)
    };
    crate::undo::while_busy(|| {
        room::check(root, path)?;
        off::swap_off(&text, left_bytes).map_err(|error| FileError::new("swap off", path, error))
    })
}

fn c_path(path: &Path) -> Result<CString, FileError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| FileError::unexpected(path, "the path holds a zero byte"))
}

/// One line of `/proc/swaps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// Device or file, as given at swapon.
    pub path: String,
    /// Size without the header.
    pub size_bytes: u64,
    /// Part in use.
    pub used_bytes: u64,
    /// The highest is used first; negative when the kernel chose it.
    pub priority: i32,
}

impl Area {
    /// Whether it is the area at `path`.
    fn is_at(&self, root: &Root, path: &Path) -> bool {
        root.path(&self.path) == path || Path::new(&self.path) == path
    }

    /// The number of the zram device that it is on; none for any other device, or a file that is called like one.
    #[must_use]
    pub fn zram_id(&self) -> Option<u32> {
        self.path.strip_prefix("/dev/zram")?.parse().ok()
    }

    /// Unused part.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.used_bytes)
    }
}

/// All active swap areas.
///
/// # Errors
/// [`FileError`].
pub fn areas(root: &Root) -> Result<Vec<Area>, FileError> {
    let path = root.path("/proc/swaps");
    let text = crate::file::read(&path)?;
    text.lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split_ascii_whitespace().rev();
            let priority = fields.next()?.parse().ok()?;
            let used: u64 = fields.next()?.parse().ok()?;
            let size: u64 = fields.next()?.parse().ok()?;
            let kind = fields.next()?;
            let path = unescaped(line.split_ascii_whitespace().next()?);
            Some(Area {
                path: match kind {
                    "partition" => in_its_folder(root, path),
                    _ => path,
                },
                size_bytes: size * 1024,
                used_bytes: used * 1024,
                priority,
            })
        })
        .collect::<Option<_>>()
        .ok_or_else(|| FileError::unexpected(&path, "a line is not a swap area"))
}

/// The path of an area by which this process finds it. One that was switched on in a mount namespace of its own, such as
/// a service's own, loses the folder in which it was mounted along with that namespace: `/zram1` is `/dev/zram1`.
fn in_its_folder(root: &Root, path: String) -> String {
    let device = format!("/dev{path}");
    let is_lost = path.rfind('/') == Some(0) && !root.path(&path).exists();
    if is_lost && root.path(&device).exists() {
        return device;
    }
    path
}

/// A path as the kernel lists it, where spaces and backslashes are octal numbers (`\040`). Bytes that are no UTF-8 are
/// replaced.
pub(crate) fn unescaped(listed: &str) -> String {
    let mut bytes = Vec::with_capacity(listed.len());
    let mut rest = listed.as_bytes();
    while let [first, behind @ ..] = rest {
        let number = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match behind.first_chunk::<3>().and_then(|digits| number(digits)) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_a_service_that_ended_is_found_in_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        for folder in ["proc", "dev"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for file in ["dev/zram1", "dev/zram2", "swapfile", "dev/swapfile"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let lines = ["/zram1", "/dev/zram2", "/swapfile", "/gone"]
            .map(|path| format!("{path} partition 1024 0 5\n"));
        let text = format!("Filename Type Size Used Priority\n{}", lines.concat());
        std::fs::write(dir.path().join("proc/swaps"), text).unwrap();
        let paths: Vec<_> = areas(&root).unwrap().into_iter().map(|a| a.path).collect();
        assert_eq!(paths, ["/dev/zram1", "/dev/zram2", "/swapfile", "/gone"]);
    }

    #[test]
    fn paths_are_read_as_the_kernel_escapes_them() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let text = "Filename Type Size Used Priority\n\
                    /var/a\\040b/swap\\011x file 1024 0 5\n/swap/zram3 file 1024 0 5\n/dev/zram4 partition 8 0 5\n";
        std::fs::write(dir.path().join("proc/swaps"), text).unwrap();
        let areas = areas(&Root::at(dir.path())).unwrap();
        assert_eq!(areas[0].path, "/var/a b/swap\tx");
        let ids: Vec<_> = areas.iter().map(Area::zram_id).collect();
        assert_eq!(ids, [None, None, Some(4)], "a file is called like a device");
        assert_eq!(unescaped("a\\134b\\04\\"), "a\\b\\04\\");
    }

    fn uuid() -> Uuid {
        Uuid("00112233-4455-6677-8899-aabbccddeeff".to_owned())
    }

    #[test]
    fn the_header_is_what_the_kernel_expects() {
        let page = header(100, &uuid());

        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert_eq!(page[1024..1028], 1u32.to_ne_bytes());
        assert_eq!(page[1028..1032], 99u32.to_ne_bytes());
        assert_eq!(page[1036..1040], [0x00, 0x11, 0x22, 0x33]);
        assert_eq!(page[1051], 0xff);
        assert_eq!(&page[1052..1060], b"warmswap");
        assert!(page[..1024].iter().all(|&b| b == 0));
    }

    #[test]
    fn the_owner_is_told_by_the_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("area");
        let other = Uuid("ff".repeat(16));

        std::fs::write(&path, vec![0u8; 20 * PAGE_BYTES]).unwrap();
        assert_eq!(owner(&path, &uuid()).unwrap(), Owner::Unwritten);
        assert!(!is_labelled(&path));
        format(&path, 20 * PAGE_BYTES as u64, &uuid()).unwrap();
        assert!(is_labelled(&path) && !is_labelled(dir.path()));
        assert_eq!(owner(&path, &uuid()).unwrap(), Owner::Asked);
        assert_eq!(owner(&path, &other).unwrap(), Owner::Another);
        assert!(format(&path, 9 * PAGE_BYTES as u64, &uuid()).is_err());
    }

    #[test]
    fn recorded_swaps_are_understood() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/zram1                              partition\t1048572\t\t2048\t\t32767\n\
                    /swapfile                               file\t\t2097148\t\t0\t\t-2\n";
        std::fs::write(dir.path().join("proc/swaps"), text).unwrap();

        let found = areas(&Root::at(dir.path())).unwrap();

        assert_eq!(found[0].path, "/dev/zram1");
        assert_eq!(
            (found[0].size_bytes, found[0].used_bytes, found[0].priority),
            (1_048_572 << 10, 2 << 20, 32767)
        );
        assert_eq!(
            (found[1].path.as_str(), found[1].priority),
            ("/swapfile", -2)
        );
    }
}
