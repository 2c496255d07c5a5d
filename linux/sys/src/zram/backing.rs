//! Takes a block device for pages that are written back, and none that holds anything else.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::ZramError;
use crate::FileError;

/// Begins a device that was taken before: zram leaves its first page alone.
const MARK: &[u8] = b"pages of zram, written back for warmswap\n";

/// File systems, volumes and partition tables say within it what they are.
const SIGNED_BYTES: u64 = 1 << 20;

/// Takes the device if its first mebibyte is empty, or if it was taken before.
///
/// # Errors
/// [`ZramError::BackingDeviceHolds`]; [`ZramError::File`], also for a device that is mounted or in use.
pub(super) fn take(device: &Path) -> Result<(), ZramError> {
    let failed = |action| move |error| FileError::new(action, device, error);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL)
        .open(device)
        .map_err(failed("open"))?;
    let begin = read_begin(&file).map_err(failed("read"))?;
    if begin.starts_with(MARK) {
        return Ok(());
    }
    if begin.iter().any(|&byte| byte != 0) {
        let device = device.to_owned();
        return Err(ZramError::BackingDeviceHolds { device });
    }
    let mark = file.write_all_at(MARK, 0).and_then(|()| file.sync_data());
    Ok(mark.map_err(failed("write"))?)
}

fn read_begin(file: &File) -> std::io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    file.take(SIGNED_BYTES).read_to_end(&mut begin)?;
    Ok(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_device_is_taken_and_one_that_was_taken_before() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("device");
        std::fs::write(&device, vec![0; 3 << 20]).unwrap();
        take(&device).unwrap();
        // It holds pages by now.
        let file = OpenOptions::new().write(true).open(&device).unwrap();
        file.write_all_at(&[7; 4096], 4096).unwrap();
        take(&device).unwrap();
        assert!(take(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_device_that_holds_something_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("device");
        // Where ext4, btrfs and the last of it say what they are.
        for at in [1080, 65536, SIGNED_BYTES as usize - 1] {
            let mut content = vec![0; 3 << 20];
            content[at] = 1;
            std::fs::write(&device, &content).unwrap();
            let refused = take(&device);
            let is_refused = matches!(refused, Err(ZramError::BackingDeviceHolds { .. }));
            assert!(is_refused, "{at}: {refused:?}");
            assert!(std::fs::read(&device).unwrap() == content, "{at}");
        }
    }
}
