//! Whether the kernel has a system call, found out without doing anything with it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use crate::FileError;
use crate::process::Process;

/// `PAGEMAP_SCAN` of linux/fs.h.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// Whether `process_madvise` is there and allowed for processes of this user (Linux 5.10).
///
/// # Errors
/// The system's answer: ENOSYS from older kernels, EPERM from filters.
pub fn process_madvise() -> io::Result<()> {
    takes_advice(libc::MADV_COLD)
}

/// Whether the kernel reads ahead for another process when asked to (`process_madvise` with `MADV_WILLNEED`, Linux 5.15).
///
/// # Errors
/// The system's answer: EINVAL from Linux 5.10 to 5.14, ENOSYS from older kernels, EPERM from filters.
pub fn read_ahead() -> io::Result<()> {
    takes_advice(libc::MADV_WILLNEED)
}

fn takes_advice(advice: libc::c_int) -> io::Result<()> {
    let own = Process::open(std::process::id()).map_err(|error| error.source)?;
    // SAFETY: with no ranges the kernel checks the arguments and does nothing; null is never read.
    let result = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            std::os::fd::AsFd::as_fd(&own).as_raw_fd(),
            std::ptr::null::<libc::iovec>(),
            0usize,
            advice,
            0u32,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether swap may be switched on by this process: it has `CAP_SYS_ADMIN` on the machine, and no filter refuses the call.
///
/// # Errors
/// The system's answer: EPERM without the right, or by a filter; ENOSYS from kernels without swap.
pub fn swapon() -> io::Result<()> {
    // SAFETY: an empty path is a live NUL-terminated string; it names no file, so that nothing is switched on.
    let result = unsafe { libc::swapon(c"".as_ptr(), 0) };
    let error = io::Error::last_os_error();
    // Rights come before the name.
    if result == 0 || error.raw_os_error() == Some(libc::ENOENT) {
        return Ok(());
    }
    Err(error)
}

/// Whether a page map can be searched in one call (`PAGEMAP_SCAN`, Linux 6.7).
///
/// # Errors
/// [`FileError`] when this process's own page map cannot be opened.
pub fn pagemap_scan() -> Result<bool, FileError> {
    let path = std::path::Path::new("/proc/self/pagemap");
    let map = File::open(path).map_err(|error| FileError::new("open", path, error))?;
    // SAFETY: the kernel copies the argument from null first, which fails with EFAULT where the request is
    // known; elsewhere the answer is ENOTTY. Nothing is read or written.
    unsafe {
        libc::ioctl(
            map.as_raw_fd(),
            PAGEMAP_SCAN,
            std::ptr::null_mut::<libc::c_void>(),
        )
    };
    Ok(io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_may_be_switched_on_with_the_right_alone() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let set = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:\t"));
        let set = u64::from_str_radix(set.unwrap().trim(), 16).unwrap();
        let before = std::fs::read_to_string("/proc/swaps").unwrap();
        if set & 1 << 21 == 0 {
            assert_eq!(swapon().unwrap_err().raw_os_error(), Some(libc::EPERM));
        } else if let Err(error) = swapon() {
            // In a user namespace, or behind a filter.
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        }
        assert_eq!(std::fs::read_to_string("/proc/swaps").unwrap(), before);
    }

    #[test]
    fn the_answers_are_those_of_the_kernels_version() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release
            .split(['.', '-'])
            .map(|n| n.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap(), numbers.next().unwrap());

        assert_eq!(pagemap_scan().unwrap(), version >= (6, 7), "{release}");
        if version < (5, 10) {
            assert_eq!(
                process_madvise().unwrap_err().raw_os_error(),
                Some(libc::ENOSYS)
            );
        } else {
            process_madvise().unwrap();
        }
        let (known, since) = (read_ahead(), version >= (5, 15));
        assert_eq!(known.is_ok(), since, "{release}: {known:?}");
    }
}
