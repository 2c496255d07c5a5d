//! The kernel's interface (`linux/userfaultfd.h`): request numbers, flags and structures.

/// The only version of the interface.
pub const API: u64 = 0xaa;

const fn request(direction: u64, number: u64, bytes: usize) -> libc::Ioctl {
    (direction << 30 | (bytes as u64) << 16 | API << 8 | number) as libc::Ioctl
}

const fn read_write<T>(number: u64) -> libc::Ioctl {
    request(3, number, size_of::<T>())
}

pub const UFFDIO_API: libc::Ioctl = read_write::<Api>(0x3f);
pub const UFFDIO_REGISTER: libc::Ioctl = read_write::<Register>(0x00);
// Declared as reads by mistake, and kept so.
pub const UFFDIO_UNREGISTER: libc::Ioctl = request(2, 0x01, size_of::<Range>());
pub const UFFDIO_WAKE: libc::Ioctl = request(2, 0x02, size_of::<Range>());
pub const UFFDIO_COPY: libc::Ioctl = read_write::<Transfer>(0x03);
pub const UFFDIO_ZEROPAGE: libc::Ioctl = read_write::<ZeroPage>(0x04);
pub const UFFDIO_MOVE: libc::Ioctl = read_write::<Transfer>(0x05);
pub const UFFDIO_WRITEPROTECT: libc::Ioctl = read_write::<WriteProtect>(0x06);
pub const UFFDIO_POISON: libc::Ioctl = read_write::<ZeroPage>(0x08);

/// Of the device, not of a descriptor.
pub const USERFAULTFD_IOC_NEW: libc::Ioctl = request(0, 0x00, 0);

pub const REGISTER_MISSING: u64 = 1;
pub const REGISTER_WP: u64 = 2;
pub const TRANSFER_DONTWAKE: u64 = 1;
pub const COPY_WP: u64 = 2;
pub const WRITEPROTECT_ON: u64 = 1;

#[repr(C)]
#[derive(Debug, Default)]
pub struct Api {
    pub api: u64,
    pub features: u64,
    pub ioctls: u64,
}

#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Range {
    pub start: u64,
    pub len: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Register {
    pub range: Range,
    pub mode: u64,
    pub ioctls: u64,
}

/// `uffdio_copy` and `uffdio_move`, which are laid out alike.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Transfer {
    pub dst: u64,
    pub src: u64,
    pub len: u64,
    pub mode: u64,
    /// Bytes done, or a negative error number.
    pub done: i64,
}

/// `uffdio_zeropage` and `uffdio_poison`, which are laid out alike.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ZeroPage {
    pub range: Range,
    pub mode: u64,
    /// Bytes done, or a negative error number.
    pub done: i64,
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct WriteProtect {
    pub range: Range,
    pub mode: u64,
}

/// `uffd_msg`: 32 bytes; the last 24 depend on the event.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Message {
    pub event: u8,
    pub reserved: [u8; 7],
    pub words: [u64; 3],
}

pub const EVENT_PAGEFAULT: u8 = 0x12;
pub const EVENT_FORK: u8 = 0x13;
pub const EVENT_REMAP: u8 = 0x14;
pub const EVENT_REMOVE: u8 = 0x15;
pub const EVENT_UNMAP: u8 = 0x16;
pub const PAGEFAULT_WRITE: u64 = 1;
pub const PAGEFAULT_WP: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_kernel_header() {
        // As printed by a C program that includes <linux/userfaultfd.h>.
        let expected = [
            (UFFDIO_API, 0xc018_aa3f_u32),
            (UFFDIO_REGISTER, 0xc020_aa00),
            (UFFDIO_UNREGISTER, 0x8010_aa01),
            (UFFDIO_WAKE, 0x8010_aa02),
            (UFFDIO_COPY, 0xc028_aa03),
            (UFFDIO_ZEROPAGE, 0xc020_aa04),
            (UFFDIO_MOVE, 0xc028_aa05),
            (UFFDIO_WRITEPROTECT, 0xc018_aa06),
            (UFFDIO_POISON, 0xc020_aa08),
        ];
        for (ours, theirs) in expected {
            assert_eq!(ours as u32, theirs);
        }
        assert_eq!(size_of::<Message>(), 32);
    }
}
