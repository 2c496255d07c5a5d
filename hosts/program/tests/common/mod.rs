//! What the live tests of spaces share.
#![allow(unsafe_code)] // Spaces are reached through raw pointers.

pub use warmswap_testkit::Random;

pub const PAGE: usize = 4096;

/// So many pages at an address of a space, which are mapped for reading as long as the test looks at them.
pub fn pages_at(address: usize, pages: usize) -> &'static [u8] {
    let start = std::ptr::with_exposed_provenance(address);
    // SAFETY: the test maps them, and unmaps them when it does not look at them any more.
    unsafe { std::slice::from_raw_parts(start, pages * PAGE) }
}

/// Writes a byte to each page at an address of a space, which is mapped for writing.
pub fn write_at(address: usize, pages: usize, byte: u8) {
    for page in 0..pages {
        let start = std::ptr::with_exposed_provenance_mut::<u8>(address + page * PAGE);
        // SAFETY: the test maps them, and no other thread looks at them meanwhile.
        unsafe { start.write_bytes(byte, PAGE) };
    }
}

/// The kernel's map of a file, of so many pages.
pub fn twin(path: &std::path::Path, pages: usize) -> warmswap_program::Twin {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::open(path).expect("a file");
    let (len, at) = (pages * PAGE, std::ptr::null_mut());
    // SAFETY: a new map at an address of the kernel's choice, which only the twin knows.
    unsafe {
        let fd = file.as_raw_fd();
        let map = libc::mmap(at, len, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0);
        assert_ne!(map, libc::MAP_FAILED);
        warmswap_program::Twin::new(map.expose_provenance(), len)
    }
}
