//! `malloc` and friends: the program's from mimalloc and, where they are large, mappings of their own; the library's own from
//! its heap.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_int, size_t};
use libmimalloc_sys as mi;

use crate::heap::Heap;
use crate::kernel::fail;
use crate::large::{Block, LARGE_BYTES};
use crate::real::RealSymbol;
use crate::reentrancy::ReentrancyGuard;
use crate::{HEAP, gate, large, mapping};

/// What every allocation is aligned to, and the smallest one: mimalloc aligns blocks of up to 8 bytes to 8.
const ALIGN: usize = 16;

/// What mimalloc takes from the system at a time, and divides among blocks of all sizes.
const SEGMENT_BYTES: usize = 32 << 20;
/// Sizes of blocks that fill a segment up to its last slices, largest first.
const FILLERS_BYTES: [usize; 4] = [15 << 20, 1 << 20, 500 << 10, 160 << 10];
/// How many of the smallest fill one.
const MOST_FILLERS: usize = SEGMENT_BYTES / FILLERS_BYTES[3];

/// Constructors of other libraries allocate before there is a space, and what mimalloc took from the system for them
/// would be used up first: so much of the program would never be paged. Unused blocks take the
/// rest of it, so that what is allocated from now on is in the space.
pub fn leave_early_segment(is_in_space: impl Fn(usize) -> bool) {
    let _inside = gate::enter();
    let allocate = |size| {
        // SAFETY: any size will do.
        unsafe { mi::mi_malloc(size) }
    };
    let free = |block| {
        // SAFETY: it was just given out, and no other code knows it.
        unsafe { mi::mi_free(block) };
    };
    let probe = allocate(ALIGN);
    let segment = probe.addr() & !(SEGMENT_BYTES - 1);
    free(probe);
    if probe.is_null() || is_in_space(segment) {
        return;
    }
    let mut outside: [*mut c_void; MOST_FILLERS] = [ptr::null_mut(); MOST_FILLERS];
    for size in FILLERS_BYTES {
        let places = outside.iter_mut().take(SEGMENT_BYTES / size);
        for place in places.filter(|place| place.is_null()) {
            let filler = allocate(size);
            if filler.addr() & !(SEGMENT_BYTES - 1) != segment {
                *place = filler;
            }
        }
    }
    outside.into_iter().for_each(free);
}

/// Whether the C library allocates here, and not by an allocator that is linked into the program. Costs a block of some bytes
/// where it does not.
pub fn serves_c_library() -> bool {
    // What is allocated within the library comes from its heap.
    let _within = ReentrancyGuard::enter();
    // SAFETY: the text ends with a zero.
    let copy = unsafe { libc::strdup(c"of whom".as_ptr()) };
    let is_here = Heap::owns(copy.addr());
    if is_here {
        // SAFETY: it was just given out, by the function of this file.
        unsafe { free(copy.cast()) };
    }
    is_here
}

/// The start of the C library's own heap; 0 before it is known.
static FOREIGN_START: AtomicUsize = AtomicUsize::new(0);
/// No heap is as large.
const MOST_FOREIGN_BYTES: usize = 1 << 40;

static REAL_FREE: RealSymbol = RealSymbol::new(c"free");
static REAL_REALLOC: RealSymbol = RealSymbol::new(c"realloc");
static REAL_USABLE_SIZE: RealSymbol = RealSymbol::new(c"malloc_usable_size");

/// With these the C library maps memory for blocks elsewhere than in its heap.
const M_MMAP_MAX: c_int = -4;
const M_ARENA_MAX: c_int = -8;

type Mallopt = unsafe extern "C" fn(c_int, c_int) -> c_int;
static REAL_MALLOPT: RealSymbol = RealSymbol::new(c"mallopt");

/// Libraries that look for the next function of a name (`RTLD_NEXT`) get blocks from the C library. Has it take all memory from
/// its heap, by which its blocks are known.
pub fn know_foreign_blocks() {
    // SAFETY: the C library's function of that type; there is one thread, and it has given out nothing by mapping yet.
    let end = unsafe {
        let mallopt: Mallopt = transmute(REAL_MALLOPT.or_abort());
        mallopt(M_ARENA_MAX, 1);
        mallopt(M_MMAP_MAX, 0);
        libc::sbrk(0)
    };
    FOREIGN_START.store(end.addr(), Ordering::Relaxed);
}

/// Of the C library's allocator, which the program's own calls do not reach: its blocks stay in its heap.
#[unsafe(no_mangle)]
unsafe extern "C" fn mallopt(option: c_int, value: c_int) -> c_int {
    if matches!(option, M_MMAP_MAX | M_ARENA_MAX) {
        return 1;
    }
    // SAFETY: the C library's function of that type; passed on to the caller.
    unsafe { transmute::<*mut c_void, Mallopt>(REAL_MALLOPT.or_abort())(option, value) }
}

/// Whether the C library gave this block out: it is in its heap, from which mimalloc takes nothing.
#[inline]
fn is_foreign(memory: *mut c_void) -> bool {
    let start = FOREIGN_START.load(Ordering::Relaxed);
    memory.addr().wrapping_sub(start) < MOST_FOREIGN_BYTES && start != 0 && {
        // SAFETY: it changes nothing.
        memory.addr() < unsafe { libc::sbrk(0) }.addr()
    }
}

fn null(errno: c_int) -> *mut c_void {
    fail(errno);
    ptr::null_mut()
}

fn own(size: size_t, align: size_t) -> *mut c_void {
    let memory = HEAP.allocate(size, align.max(ALIGN));
    if memory.is_null() {
        null(libc::ENOMEM)
    } else {
        memory.cast()
    }
}

fn checked(memory: *mut c_void) -> *mut c_void {
    if memory.is_null() {
        return null(libc::ENOMEM);
    }
    memory
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: size_t) -> *mut c_void {
    if ReentrancyGuard::is() {
        return own(size, ALIGN);
    }
    let _inside = gate::enter();
    if size >= LARGE_BYTES {
        return checked(large::allocate(size));
    }
    // SAFETY: any size will do.
    checked(unsafe { mi::mi_malloc(size.max(ALIGN)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: size_t, size: size_t) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        return null(libc::ENOMEM);
    };
    if ReentrancyGuard::is() {
        let memory = own(bytes, ALIGN);
        if !memory.is_null() {
            // SAFETY: that many bytes were just given out.
            unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        }
        return memory;
    }
    let _inside = gate::enter();
    if bytes >= LARGE_BYTES {
        return checked(large::allocate_zeroed(bytes));
    }
    // SAFETY: any size will do.
    checked(unsafe { mi::mi_zalloc(bytes.max(ALIGN)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(memory: *mut c_void) {
    if Heap::owns(memory.addr()) {
        // SAFETY: the heap gave it out, and the caller gives it up.
        return unsafe { HEAP.free(memory.cast()) };
    }
    // The C library calls it so at the end of every thread.
    if memory.is_null() {
        return;
    }
    if is_foreign(memory) {
        // SAFETY: the C library's function of that type, which gave it out.
        let free: unsafe extern "C" fn(*mut c_void) = unsafe { transmute(REAL_FREE.or_abort()) };
        // SAFETY: passed on to the caller.
        return unsafe { free(memory) };
    }
    let _inside = gate::enter();
    // SAFETY: it is a block of one of the two, and the caller gives it up.
    unsafe {
        match Block::at(memory) {
            Some(block) => large::free(block),
            None => mi::mi_free(memory),
        }
    }
}

/// `realloc` of a block of the program's, or of none.
///
/// # Safety
/// This file's functions gave it out, neither the library's heap nor the C library; or it is null.
unsafe fn resize(memory: *mut c_void, size: size_t) -> *mut c_void {
    let _inside = gate::enter();
    // SAFETY: passed on to the caller.
    if let Some(block) = unsafe { Block::at(memory) } {
        return checked(large::resize(block, size));
    }
    if size < LARGE_BYTES {
        // SAFETY: passed on to the caller.
        return checked(unsafe { mi::mi_realloc(memory, size.max(ALIGN)) });
    }
    let grown = checked(large::allocate_growing(size));
    if !memory.is_null() && !grown.is_null() {
        // SAFETY: both are live and do not overlap; the old one is the caller's to give up.
        unsafe {
            let bytes = mi::mi_usable_size(memory).min(size);
            ptr::copy_nonoverlapping(memory.cast::<u8>(), grown.cast(), bytes);
            mi::mi_free(memory);
        }
    }
    grown
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(memory: *mut c_void, size: size_t) -> *mut c_void {
    if size == 0 && !memory.is_null() {
        // SAFETY: passed on to the caller.
        unsafe { free(memory) };
        return ptr::null_mut();
    }
    if is_foreign(memory) {
        type Realloc = unsafe extern "C" fn(*mut c_void, size_t) -> *mut c_void;
        // SAFETY: the C library's function of that type, which gave it out.
        let realloc: Realloc = unsafe { transmute(REAL_REALLOC.or_abort()) };
        // SAFETY: passed on to the caller.
        return unsafe { realloc(memory, size) };
    }
    let is_own = Heap::owns(memory.addr());
    if !(is_own || ReentrancyGuard::is() && memory.is_null()) {
        // SAFETY: it is none of the others, or null.
        return unsafe { resize(memory, size) };
    }
    // SAFETY: any size will do.
    let new = unsafe { malloc(size) };
    if is_own && !new.is_null() {
        // SAFETY: both are live and do not overlap; the old one is the caller's to give up.
        unsafe {
            let bytes = Heap::usable(memory.cast()).min(size);
            ptr::copy_nonoverlapping(memory.cast::<u8>(), new.cast(), bytes);
            HEAP.free(memory.cast());
        }
    }
    new
}

#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(memory: *mut c_void, count: size_t, size: size_t) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: passed on to the caller.
        Some(bytes) => unsafe { realloc(memory, bytes) },
        None => null(libc::ENOMEM),
    }
}

/// What the C library does for `memalign`: an alignment that is no power of two is rounded up to one.
fn aligned(align: size_t, size: size_t) -> *mut c_void {
    let Some(align) = align.max(ALIGN).checked_next_power_of_two() else {
        return null(libc::EINVAL);
    };
    if ReentrancyGuard::is() {
        return own(size, align);
    }
    if mapping::is_too_much(size) {
        return null(libc::ENOMEM);
    }
    let _inside = gate::enter();
    if size >= LARGE_BYTES && align <= large::HEADER_BYTES {
        return checked(large::allocate(size));
    }
    // SAFETY: the alignment is a power of two.
    checked(unsafe { mi::mi_malloc_aligned(size.max(ALIGN), align) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(align: size_t, size: size_t) -> *mut c_void {
    aligned(align, size)
}

/// In the C library `memalign` until version 2.38, which refuses alignments that are no powers of two.
#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(align: size_t, size: size_t) -> *mut c_void {
    aligned(align, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    align: size_t,
    size: size_t,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let memory = aligned(align, size);
    if memory.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's place for it.
    unsafe { result.write(memory) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(size: size_t) -> *mut c_void {
    aligned(4096, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pvalloc(size: size_t) -> *mut c_void {
    match size.checked_next_multiple_of(4096) {
        Some(bytes) => aligned(4096, bytes),
        None => null(libc::ENOMEM),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(memory: *mut c_void) -> size_t {
    if Heap::owns(memory.addr()) {
        // SAFETY: the heap gave it out.
        return unsafe { Heap::usable(memory.cast()) };
    }
    if is_foreign(memory) {
        type UsableSize = unsafe extern "C" fn(*mut c_void) -> size_t;
        // SAFETY: the C library's function of that type, which gave it out.
        let usable_size: UsableSize = unsafe { transmute(REAL_USABLE_SIZE.or_abort()) };
        // SAFETY: passed on to the caller.
        return unsafe { usable_size(memory) };
    }
    if memory.is_null() {
        return 0;
    }
    // SAFETY: it is a block of one of the two.
    unsafe { Block::at(memory).map_or_else(|| mi::mi_usable_size(memory), Block::usable_bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_trim(_keep: size_t) -> c_int {
    if !ReentrancyGuard::is() {
        let _inside = gate::enter();
        large::give_up_kept();
        // SAFETY: it may be called at any time.
        unsafe { mi::mi_collect(true) };
    }
    1
}

/// The C library's other names of the same functions: what is allocated by one name is freed by the other.
macro_rules! also_named {
    ($($alias:ident = $function:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $alias($($argument: $type),*) $(-> $result)? {
                // SAFETY: passed on to the caller.
                unsafe { $function($($argument),*) }
            }
        )*
    };
}

also_named! {
    __libc_mallopt = mallopt(option: c_int, value: c_int) -> c_int;
    __libc_malloc = malloc(size: size_t) -> *mut c_void;
    __libc_calloc = calloc(count: size_t, size: size_t) -> *mut c_void;
    __libc_realloc = realloc(memory: *mut c_void, size: size_t) -> *mut c_void;
    __libc_free = free(memory: *mut c_void);
    cfree = free(memory: *mut c_void);
    __libc_memalign = memalign(align: size_t, size: size_t) -> *mut c_void;
    __libc_valloc = valloc(size: size_t) -> *mut c_void;
    __libc_pvalloc = pvalloc(size: size_t) -> *mut c_void;
}
