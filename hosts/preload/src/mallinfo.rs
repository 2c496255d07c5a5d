//! What the program is told of its allocator: mimalloc's numbers and those of large blocks, not those of the C library's
//! allocator, which has nothing.
//!
//! mimalloc's are of the calling thread's heap, as the C library's are of its main arena.

use std::ffi::{c_char, c_void};

use libc::{FILE, c_int, size_t};
use libmimalloc_sys as mi;

use crate::{gate, large};

/// `struct mallinfo2`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Mallinfo2 {
    /// Bytes from the system.
    arena: size_t,
    ordblks: size_t,
    smblks: size_t,
    /// Blocks that are mappings, and their bytes, which are not in the others.
    hblks: size_t,
    hblkhd: size_t,
    usmblks: size_t,
    fsmblks: size_t,
    /// Bytes in blocks.
    uordblks: size_t,
    /// Bytes that are free.
    fordblks: size_t,
    keepcost: size_t,
}

/// `struct mallinfo`, whose numbers wrap around.
#[repr(C)]
struct Mallinfo([c_int; 10]);

/// Areas of the calling thread's heap, in bytes.
#[derive(Default)]
struct Areas {
    committed: usize,
    used: usize,
}

unsafe extern "C" fn add(
    _: *const mi::mi_heap_t,
    area: *const mi::mi_heap_area_t,
    _: *mut c_void,
    _: usize,
    areas: *mut c_void,
) -> bool {
    // SAFETY: mimalloc's description of an area, and the place of `numbers`.
    let (area, areas) = unsafe { (&*area, &mut *areas.cast::<Areas>()) };
    areas.committed += area.committed;
    // It counts blocks, whatever its documentation says.
    areas.used += area.used * area.block_size;
    true
}

fn numbers() -> Mallinfo2 {
    let mut areas = Areas::default();
    let _inside = gate::enter();
    // SAFETY: the thread's own heap, which no other thread changes; the place is of the type that `add` takes.
    unsafe {
        let heap = mi::mi_heap_get_default();
        mi::mi_heap_visit_blocks(heap, false, Some(add), (&raw mut areas).cast());
    }
    let arena = areas.committed.max(areas.used);
    let (hblks, hblkhd) = large::in_use();
    Mallinfo2 {
        arena,
        uordblks: areas.used,
        fordblks: arena - areas.used,
        hblks,
        hblkhd,
        ..Mallinfo2::default()
    }
}

#[unsafe(no_mangle)]
extern "C" fn mallinfo2() -> Mallinfo2 {
    numbers()
}

#[unsafe(no_mangle)]
extern "C" fn mallinfo() -> Mallinfo {
    let of = numbers();
    let mut all = [0; 10];
    all[0] = of.arena as c_int;
    all[3] = of.hblks as c_int;
    all[4] = of.hblkhd as c_int;
    all[7] = of.uordblks as c_int;
    all[8] = of.fordblks as c_int;
    Mallinfo(all)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_info(options: c_int, stream: *mut FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    let of = numbers();
    let format = c"<malloc version=\"1\">\n<total type=\"fast\" count=\"0\" size=\"0\"/>\n\
        <total type=\"rest\" count=\"0\" size=\"%zu\"/>\n<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n\
        <system type=\"current\" size=\"%zu\"/>\n<system type=\"max\" size=\"%zu\"/>\n</malloc>\n";
    // SAFETY: the caller's stream, and as many numbers as the format has places.
    unsafe {
        let format: *const c_char = format.as_ptr();
        let all = of.arena + of.hblkhd;
        libc::fprintf(stream, format, of.fordblks, of.hblks, of.hblkhd, all, all);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn malloc_stats() {
    let of = numbers();
    crate::settings::say(&format!(
        "{} bytes from the system, {} of them in blocks; {} in large blocks",
        of.arena, of.uordblks, of.hblkhd
    ));
}
