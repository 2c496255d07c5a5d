//! Functions that the program looks up by a handle (`dlsym(dlopen("libc.so.6"), "free")`), as `ctypes`, LuaJIT and JNA do.
//!
//! A handle of the C library leads past this library: blocks would go to and fro between two allocators, and memory of the
//! space would be moved or unmapped behind it. So where the answer is the C library's function, and this library exports one
//! of that name, the answer is this library's. Whatever this library exports is replaced so: its own table of symbols says
//! what that is.
//!
//! `RTLD_DEFAULT` finds this library's functions by itself. `RTLD_NEXT` depends on where it is called from, which the loader
//! knows by the return address: both are passed on by a jump, as if the C library had been called.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libc::{Elf64_Phdr as Segment, Elf64_Sym as Symbol, dl_phdr_info, size_t};

use crate::settings::say;

/// Tags of the dynamic section.
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;

/// A symbol of a version that is not the default one.
const HIDDEN: u16 = 0x8000;
/// The value of such a symbol is a function that chooses one.
const STT_GNU_IFUNC: u8 = 10;

/// The dynamic symbols of an object that stays loaded.
#[derive(Clone, Copy)]
struct Symbols {
    base: usize,
    table: *const Symbol,
    names: *const c_char,
    hash: *const u32,
    /// Null where there are none.
    versions: *const u16,
}

// SAFETY: the tables are never written to.
unsafe impl Send for Symbols {}
// SAFETY: as above.
unsafe impl Sync for Symbols {}

impl Symbols {
    /// Those of a loaded object; `None` where it has no hash table of GNU's.
    ///
    /// # Safety
    /// The description is the loader's, of an object that stays loaded.
    unsafe fn of(object: &dl_phdr_info) -> Option<Self> {
        let base = object.dlpi_addr as usize;
        // SAFETY: the object's table of segments, of that length.
        let segments: &[Segment] =
            unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        let dynamic = segments.iter().find(|s| s.p_type == libc::PT_DYNAMIC)?;
        let mut entry: *const [u64; 2] =
            ptr::with_exposed_provenance(base.wrapping_add(dynamic.p_vaddr as usize));
        let mut found = [0usize; 4];
        loop {
            // SAFETY: the section ends with an entry of zeros.
            let [tag, value] = unsafe { entry.read() };
            let place = match tag {
                0 => break,
                DT_SYMTAB => 0,
                DT_STRTAB => 1,
                DT_GNU_HASH => 2,
                DT_VERSYM => 3,
                _ => 4,
            };
            if let Some(place) = found.get_mut(place) {
                // The loader makes addresses of them in place, but not of the kernel's own object.
                let value = value as usize;
                *place = if value < base { base + value } else { value };
            }
            // SAFETY: the last entry was not reached.
            entry = unsafe { entry.add(1) };
        }
        let [table, names, hash, versions] = found;
        (table != 0 && names != 0 && hash != 0).then(|| Self {
            base,
            table: ptr::with_exposed_provenance(table),
            names: ptr::with_exposed_provenance(names),
            hash: ptr::with_exposed_provenance(hash),
            versions: ptr::with_exposed_provenance(versions),
        })
    }

    /// The address of the function of that name, in its default version; `None` where the object does not define it.
    fn find(&self, name: &CStr) -> Option<*mut c_void> {
        let wanted = name.to_bytes().iter().fold(5381u32, |hash, &byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(byte))
        });
        // SAFETY: as the format has it: four numbers, a filter of 64-bit words, buckets, and a chain of hashes for symbols
        // from the second number on, each of whose ends has the lowest bit.
        unsafe {
            let [buckets, first, filter] = [0, 1, 2].map(|i| self.hash.add(i).read());
            let heads = self.hash.add(4 + 2 * filter as usize);
            let chain = heads.add(buckets as usize);
            let mut index = heads.add((wanted % buckets) as usize).read();
            while index >= first {
                let hash = chain.add((index - first) as usize).read();
                if hash | 1 == wanted | 1
                    && let Some(address) = self.defined(index as usize, name)
                {
                    return Some(address);
                }
                if hash & 1 == 1 {
                    break;
                }
                index += 1;
            }
        }
        None
    }

    /// The address of a symbol, if it defines that name in its default version.
    ///
    /// # Safety
    /// There is such a symbol.
    unsafe fn defined(&self, index: usize, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: passed on to the caller; names end with a zero.
        let (symbol, own) = unsafe {
            let symbol = &*self.table.add(index);
            (
                symbol,
                CStr::from_ptr(self.names.add(symbol.st_name as usize)),
            )
        };
        // SAFETY: there is a version for each symbol.
        let is_hidden =
            !self.versions.is_null() && unsafe { self.versions.add(index).read() } & HIDDEN != 0;
        let is_plain = symbol.st_shndx != 0 && symbol.st_info & 0xf != STT_GNU_IFUNC;
        let address = self.base.wrapping_add(symbol.st_value as usize);
        (own == name && is_plain && !is_hidden).then(|| ptr::with_exposed_provenance_mut(address))
    }
}

/// What is known of the objects, and the C library's functions.
struct Objects {
    own: Symbols,
    c_library: Symbols,
    dlsym: *mut c_void,
    dlvsym: *mut c_void,
}

// SAFETY: they are code.
unsafe impl Send for Objects {}
// SAFETY: as above.
unsafe impl Sync for Objects {}

#[derive(Default)]
struct Found {
    own: Option<Symbols>,
    c_library: Option<(Symbols, *mut c_void)>,
}

fn objects() -> &'static Objects {
    static OBJECTS: OnceLock<Objects> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let mut found = Found::default();
        // SAFETY: the function is of the type that is called, and its data is the place for what is found.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
        let (Some(own), Some((c_library, dlsym))) = (found.own, found.c_library) else {
            say("the C library has no table of symbols");
            std::process::abort();
        };
        let dlvsym = c_library.find(c"dlvsym").unwrap_or(dlsym);
        Objects {
            own,
            c_library,
            dlsym,
            dlvsym,
        }
    })
}

/// Looks at one object: this library is the one whose `dlsym` is this file's, and the C library the next that has one.
unsafe extern "C" fn look(object: *mut dl_phdr_info, _: size_t, found: *mut c_void) -> c_int {
    // SAFETY: the loader's description of an object; the place is the caller's. This library and the C library stay.
    let (symbols, found) = unsafe { (Symbols::of(&*object), &mut *found.cast::<Found>()) };
    let Some(symbols) = symbols else { return 0 };
    let Some(address) = symbols.find(c"dlsym") else {
        return 0;
    };
    let is_own = address == dlsym as *mut c_void || is_within_own(address, symbols.base);
    if is_own {
        found.own = Some(symbols);
    } else if symbols.find(c"malloc").is_some() && symbols.find(c"abort").is_some() {
        found.c_library = Some((symbols, address));
        return c_int::from(found.own.is_some());
    }
    0
}

/// Whether a symbol of the object at `base` is this library's, to which another object may give its own address.
fn is_within_own(_: *mut c_void, base: usize) -> bool {
    let mut own = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let here = is_within_own as fn(*mut c_void, usize) -> bool;
    // SAFETY: the call fills the structure in where it does not fail.
    unsafe {
        libc::dladdr(here as *const c_void, own.as_mut_ptr()) != 0
            && own.assume_init().dli_fbase.addr() == base
    }
}

/// Finds the C library's functions while there is only one thread.
pub fn start() {
    objects();
}

/// Whether the program's calls of `mmap` do not come here: the program, or what is loaded before this library, has its own.
pub fn is_preceded() -> bool {
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    let Objects { own, dlsym, .. } = objects();
    // SAFETY: the C library's function of that type; the name ends with a zero.
    let first = unsafe {
        let dlsym: Dlsym = std::mem::transmute(*dlsym);
        dlsym(libc::RTLD_DEFAULT, c"mmap".as_ptr())
    };
    own.find(c"mmap") != Some(first)
}

/// What the program is to call where the loader found this.
///
/// # Safety
/// The name ends with a zero.
unsafe fn replaced(name: *const c_char, found: *mut c_void) -> *mut c_void {
    if found.is_null() || name.is_null() {
        return found;
    }
    // SAFETY: passed on to the caller.
    let name = unsafe { CStr::from_ptr(name) };
    let Objects { own, c_library, .. } = objects();
    match own.find(name) {
        Some(ours) if c_library.find(name) == Some(found) => ours,
        _ => found,
    }
}

/// `dlsym` with a handle.
unsafe extern "C" fn by_handle(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    // SAFETY: the C library's function of that type; passed on to the caller.
    unsafe {
        let dlsym: Dlsym = std::mem::transmute(objects().dlsym);
        replaced(name, dlsym(handle, name))
    }
}

/// `dlvsym` with a handle.
unsafe extern "C" fn by_handle_and_version(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
    // SAFETY: the C library's function of that type; passed on to the caller.
    unsafe {
        let dlvsym: Dlvsym = std::mem::transmute(objects().dlvsym);
        replaced(name, dlvsym(handle, name, version))
    }
}

extern "C" fn real_dlsym() -> *mut c_void {
    objects().dlsym
}

extern "C" fn real_dlvsym() -> *mut c_void {
    objects().dlvsym
}

/// A function that goes on with `by_handle` where its first argument is a handle, and jumps to what `real` says where it is
/// `RTLD_DEFAULT` (0) or `RTLD_NEXT` (-1).
macro_rules! unless_handle {
    ($name:ident, $by_handle:ident, $real:ident) => {
        // SAFETY: the argument registers and the stack are as they were when either function begins.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "lea rax, [rdi + 1]",
                "cmp rax, 1",
                "ja {by_handle}",
                "push rdi", "push rsi", "push rdx",
                "call {real}",
                "pop rdx", "pop rsi", "pop rdi",
                "jmp rax",
                by_handle = sym $by_handle,
                real = sym $real,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "cmn x0, 1",
                "b.eq 2f",
                "cbz x0, 2f",
                "b {by_handle}",
                "2:",
                "stp x29, x30, [sp, -48]!",
                "stp x0, x1, [sp, 16]",
                "str x2, [sp, 32]",
                "bl {real}",
                "mov x16, x0",
                "ldr x2, [sp, 32]",
                "ldp x0, x1, [sp, 16]",
                "ldp x29, x30, [sp], 48",
                "br x16",
                by_handle = sym $by_handle,
                real = sym $real,
            );
        }
    };
}

unless_handle!(dlsym, by_handle, real_dlsym);
unless_handle!(dlvsym, by_handle_and_version, real_dlvsym);
