//! Programs with a Go runtime.
//!
//! With cgo, Go maps and unmaps its memory by the C library's functions, and so in the space. It gives memory up by
//! system calls of its own (`madvise` in `runtime/sys_linux_*.s`), and this library never learns of them: a page that is in its
//! place would be gone, and one that is away would come back with its old content. A program that has such a runtime
//! before it is paged runs unpaged. Where one is loaded later, its heap is left to the kernel: it is reserved at addresses
//! that Go hints at, and nothing else of Go's memory is given up so.
//!
//! The linker of Go, and every linker that it calls, marks what it makes by a note. (gccgo makes none, and calls
//! the C library for all.)

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use std::{ptr, slice};

use libc::{Elf64_Phdr as Segment, dl_phdr_info, size_t};

/// Why such a program is not paged.
pub const REASON: &str = "its Go runtime gives memory up by system calls of its own (`warmswap run --host kernel` \
                          pages such programs)";

/// The owner of Go's notes, with what fills its four bytes.
const OWNER: [u8; 4] = *b"Go\0\0";
/// Bytes of the head of a note: of its owner's name and of its description, and its type.
const HEAD_BYTES: usize = 12;

/// An object with Go's mark was seen. None is ever unloaded.
static IS_LOADED: AtomicBool = AtomicBool::new(false);
/// How many objects had ever been loaded when all of them had been looked at.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);
/// How many threads look at objects, and so wait for a lock of the loader's or have it: a child that is made at that moment
/// would never get it. [`FORKING`] while none may.
///
/// Threads that look do not exclude each other: one that has the loader's lock already (a callback of the program's
/// `dl_iterate_phdr`) may look, too.
static LOOKING: AtomicU32 = AtomicU32::new(0);
const FORKING: u32 = u32::MAX;

/// How long a thread waits before it tries again: it is rare that two meet.
const PAUSE: Duration = Duration::from_micros(100);

/// While it is there no thread looks.
pub struct HoldOff(());

/// Waits until no thread looks, and lets none begin: for a fork. To be called while pages still come, since a thread that has
/// the loader's lock may wait for one.
pub fn hold_off() -> HoldOff {
    enter_state(|looking| (looking == 0).then_some(FORKING));
    HoldOff(())
}

impl Drop for HoldOff {
    fn drop(&mut self) {
        LOOKING.store(0, Ordering::Release);
    }
}

/// Changes [`LOOKING`] as soon as it may change.
fn enter_state(next: impl Fn(u32) -> Option<u32>) {
    while LOOKING
        .fetch_update(Ordering::AcqRel, Ordering::Relaxed, &next)
        .is_err()
    {
        std::thread::sleep(PAUSE);
    }
}

/// Whether a Go runtime is among the objects that are loaded; from before its constructor is called. Allocates nothing.
/// Not to be called between a fork's [`hold_off`] and its end by the thread that forks.
pub fn is_loaded() -> bool {
    if !IS_LOADED.load(Ordering::Acquire) {
        enter_state(|looking| (looking != FORKING).then_some(looking.wrapping_add(1)));
        let mut count = 0u64;
        // SAFETY: the function is of the type that is called, and its data is the place for a number.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut count).cast()) };
        LOOKED_AT.store(count, Ordering::Relaxed);
        LOOKING.fetch_sub(1, Ordering::Release);
    }
    IS_LOADED.load(Ordering::Acquire)
}

/// The same, at the start, while there is one thread; finds also a program that was linked without the note.
pub fn is_loaded_at_start() -> bool {
    // SAFETY: the name ends with a zero. Programs with cgo have it among their dynamic symbols, since the C part calls it.
    is_loaded()
        || !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_cgo_topofstack".as_ptr()) }.is_null()
}

/// Looks at one object; not 0 where the rest need not be looked at. Counts the objects for [`is_loaded`].
unsafe extern "C" fn look(object: *mut dl_phdr_info, size: size_t, count: *mut c_void) -> c_int {
    if size < size_of::<dl_phdr_info>() {
        return 1;
    }
    // SAFETY: the loader's description of an object, which stays while this is called, and is as large as it says; the place
    // for the count is the caller's.
    let (object, count) = unsafe { (&*object, &mut *count.cast::<u64>()) };
    *count = object.dlpi_adds;
    if LOOKED_AT.load(Ordering::Relaxed) == *count {
        return 1;
    }
    if has_note(object) {
        IS_LOADED.store(true, Ordering::Release);
        return 1;
    }
    0
}

/// Whether one of the object's notes is Go's.
fn has_note(object: &dl_phdr_info) -> bool {
    if object.dlpi_phdr.is_null() {
        return false;
    }
    // SAFETY: the object's table of segments, of that length, which stays while the object is loaded.
    let segments =
        unsafe { slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let end_of = |segment: &Segment| segment.p_vaddr.checked_add(segment.p_filesz);
    // What lies within no other is not in memory.
    let is_in_memory = |note: &Segment| {
        segments.iter().any(|segment| {
            segment.p_type == libc::PT_LOAD
                && segment.p_flags & libc::PF_R != 0
                && segment.p_vaddr <= note.p_vaddr
                && end_of(note).is_some_and(|end| Some(end) <= end_of(segment))
        })
    };
    let notes = segments.iter().filter(|s| s.p_type == libc::PT_NOTE);
    notes.filter(|note| is_in_memory(note)).any(|note| {
        let start = object.dlpi_addr.wrapping_add(note.p_vaddr) as usize;
        // SAFETY: the bytes are within a readable segment, which is in memory while the object is loaded.
        let bytes = unsafe {
            slice::from_raw_parts(ptr::with_exposed_provenance(start), note.p_filesz as usize)
        };
        are_gos(bytes, note.p_align.clamp(4, 8) as usize)
    })
}

/// Whether one of these notes, which are aligned to so many bytes, is Go's.
fn are_gos(mut notes: &[u8], align: usize) -> bool {
    while let Some((head, rest)) = notes.split_first_chunk::<HEAD_BYTES>() {
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (owner_bytes, content_bytes) = (word(0) as usize, word(4) as usize);
        if owner_bytes == OWNER.len() && rest.starts_with(&OWNER) {
            return true;
        }
        let content = (HEAD_BYTES + owner_bytes).next_multiple_of(align);
        let next = (content + content_bytes).next_multiple_of(align);
        notes = notes.get(next..).unwrap_or_default();
    }
    false
}
