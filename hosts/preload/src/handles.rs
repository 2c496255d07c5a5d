//! Functions that the program looks up by a handle (`dlsym(dlopen("libc.so.6"), "free")`), as `ctypes`, LuaJIT and JNA do.
//!
//! A handle of the C library leads past this library: blocks would go to and fro between two allocators, and memory of the
//! space would be moved or unmapped behind it. So where the answer is the C library's function, and this library exports one
//! of that name, the answer is this library's. Whatever this library exports is replaced so: its own table of symbols says
//! what that is.
//!
//! `dlsym` finds this library's functions by itself with `RTLD_DEFAULT`, and with `RTLD_NEXT` where it is called from what comes
//! before this library, which the loader knows by the return address: both are passed on by a jump, as if the C library had been
//! called. `dlvsym` passes over this library's functions, which have no versions: it is answered here where `dlsym` would find
//! them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use libc::{Dl_info, Elf64_Sym as Symbol};

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
    unsafe fn of(object: &Object) -> Option<Self> {
        let (base, mut entry) = (object.base, object.dynamic);
        if entry.is_null() {
            return None;
        }
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

    /// Whether they are the C library's.
    fn are_of_c_library(&self) -> bool {
        let names = [c"dlsym", c"malloc", c"abort"];
        names.iter().all(|name| self.find(name).is_some())
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
    dladdr1: *mut c_void,
    /// Objects in which symbols are looked for before this library.
    preceding: [*const Object; MOST_PRECEDING],
}

/// The program, and what is preloaded before this library: more are taken for later ones.
const MOST_PRECEDING: usize = 16;

// SAFETY: they are code.
unsafe impl Send for Objects {}
// SAFETY: as above.
unsafe impl Sync for Objects {}

/// The loader's account of what is loaded (`struct r_debug` of link.h).
#[repr(C)]
struct Loaded {
    version: c_int,
    first: *const Object,
}

/// A loaded object (`struct link_map`), in the order in which symbols are looked for.
#[repr(C)]
struct Object {
    base: usize,
    name: *const c_char,
    dynamic: *const [u64; 2],
    next: *const Self,
}

unsafe extern "C" {
    static _r_debug: Loaded;
    /// This library's own dynamic section.
    static _DYNAMIC: [[u64; 2]; 1];
}

/// Looked at without the C library's functions for it, before which other libraries may stand that call `dlsym` in turn.
fn objects() -> &'static Objects {
    static OBJECTS: OnceLock<Objects> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let Some(found) = Objects::find() else {
            say("the C library has no table of symbols");
            std::process::abort();
        };
        found
    })
}

impl Objects {
    /// `None` where an object has no table of symbols.
    fn find() -> Option<Self> {
        let (mut own, mut c_library) = (None, None);
        let mut preceding = [ptr::null(); MOST_PRECEDING];
        let mut places = preceding.iter_mut();
        // SAFETY: the loader's list ends with null, and nothing is loaded or unloaded while there is one thread.
        let mut next = unsafe { _r_debug.first.as_ref() };
        while let Some(object) = next {
            // SAFETY: the loader's description; this library and the C library stay loaded.
            let symbols = unsafe { Symbols::of(object) };
            if object.dynamic == (&raw const _DYNAMIC).cast() {
                own = symbols;
            } else {
                c_library = c_library.or(symbols.filter(Symbols::are_of_c_library));
                if let Some(place) = places.next().filter(|_| own.is_none()) {
                    *place = object;
                }
            }
            // SAFETY: as above.
            next = unsafe { object.next.as_ref() };
        }
        let (own, c_library) = (own?, c_library?);
        let dlsym = c_library.find(c"dlsym")?;
        Some(Self {
            own,
            c_library,
            dlsym,
            dlvsym: c_library.find(c"dlvsym").unwrap_or(dlsym),
            dladdr1: c_library.find(c"dladdr1")?,
            preceding,
        })
    }

    /// Whether code at this address is of an object before this library.
    fn precedes(&self, address: usize) -> bool {
        type Dladdr1 =
            unsafe extern "C" fn(usize, *mut Dl_info, *mut *const Object, c_int) -> c_int;
        /// Has the loader's description of the object filled in.
        const RTLD_DL_LINKMAP: c_int = 2;
        let (mut info, mut object) = (MaybeUninit::uninit(), ptr::null::<Object>());
        // SAFETY: the C library's function of that type, which fills in what it finds.
        let is_known = unsafe {
            let dladdr1: Dladdr1 = std::mem::transmute(self.dladdr1);
            dladdr1(address, info.as_mut_ptr(), &raw mut object, RTLD_DL_LINKMAP) != 0
        };
        is_known && self.preceding.contains(&object)
    }
}

/// The next function of that name behind this library, whichever library stands before `dlsym`; null where there is none.
pub fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    unsafe { real_dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// The C library's `dlsym`, called from here.
///
/// # Safety
/// As of that function.
unsafe fn real_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    // SAFETY: the C library's function of that type; passed on to the caller.
    unsafe {
        let dlsym: Dlsym = std::mem::transmute(objects().dlsym);
        dlsym(handle, name)
    }
}

/// Finds the C library's functions while there is only one thread.
pub fn start() {
    objects();
}

/// Whether the program's calls of `mmap` do not come here: the program, or what is loaded before this library, has its own.
pub fn is_preceded() -> bool {
    // SAFETY: the name ends with a zero.
    let first = unsafe { real_dlsym(libc::RTLD_DEFAULT, c"mmap".as_ptr()) };
    objects().own.find(c"mmap") != Some(first)
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
    // SAFETY: passed on to the caller.
    unsafe { replaced(name, real_dlsym(handle, name)) }
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

extern "C" fn dlsym_for(_caller: usize, _handle: *mut c_void) -> *mut c_void {
    objects().dlsym
}

/// Where a call of `dlvsym` without a handle goes on.
extern "C" fn dlvsym_for(caller: usize, handle: *mut c_void) -> *mut c_void {
    if handle == libc::RTLD_DEFAULT || objects().precedes(caller) {
        return by_handle_and_version as *mut c_void;
    }
    objects().dlvsym
}

/// A function that goes on with `by_handle` where its first argument is a handle, and jumps to what `real` says, of the return
/// address and that argument, where it is `RTLD_DEFAULT` (0) or `RTLD_NEXT` (-1).
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
                "mov rsi, rdi",
                "mov rdi, [rsp + 24]",
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
                "mov x1, x0",
                "mov x0, x30",
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

unless_handle!(dlsym, by_handle, dlsym_for);
unless_handle!(dlvsym, by_handle_and_version, dlvsym_for);
