//! Programs that cannot take this library: of another word size or machine, with another loader (musl), in a mount namespace
//! without the library's file, with a sanitizer, or under valgrind. The loader would complain in their output, or they would
//! end.
//!
//! All of this runs in children of `fork` and `vfork`, too: it allocates nothing.

mod registered;

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{Elf64_Ehdr as Header, Elf64_Phdr as Segment};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};
use warmswap_protocol::sanitizers::{LIBRARIES, LINKED};

/// The longest path.
const MOST_PATH: usize = 4096;
/// Scripts may name scripts as their interpreters; the kernel follows so many.
const MOST_SCRIPTS: usize = 5;
const MOST_SEGMENTS: usize = 32;
const MOST_ENTRIES: usize = 128;
/// More bytes of names are not read.
const MOST_NAMES: u64 = 4 << 20;

/// 64 bits.
const ELFCLASS64: u8 = 2;

const DT_NEEDED: i64 = 1;
const DT_STRTAB: i64 = 5;
const DT_STRSZ: i64 = 10;

/// The path of this library as the loader has it, and of the loader itself; null before the start.
static LIBRARY: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static LOADER: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// Why a program does not get this library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The loader would say that it cannot load it, and go on.
    NotLoadable,
    Sanitizer,
    Valgrind,
}

impl Refusal {
    /// What the user is told.
    pub fn say(self) {
        let line: &[u8] = match self {
            // It runs as it would otherwise.
            Self::NotLoadable => return,
            Self::Sanitizer => b"warmswap: a program with a sanitizer runs without paging\n",
            Self::Valgrind => b"warmswap: a program under valgrind runs without paging\n",
        };
        let _ = rustix::io::write(rustix::stdio::stderr(), line);
    }
}

/// Finds the paths of this library and of the loader.
pub fn start() {
    let mut own = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the call fills the structure in where it does not fail; the name stays as long as the library.
    unsafe {
        if libc::dladdr(start as fn() as *const _, own.as_mut_ptr()) != 0 {
            LIBRARY.store(own.assume_init().dli_fname.cast_mut(), Ordering::Relaxed);
        }
    }
    LOADER.store(own_loader().cast_mut(), Ordering::Relaxed);
}

/// The path of the loader in the program's own segments; null where there is none.
fn own_loader() -> *const c_char {
    // SAFETY: the kernel's table of the program's segments.
    let (table, count) = unsafe {
        let table: *const Segment =
            ptr::with_exposed_provenance(libc::getauxval(libc::AT_PHDR) as usize);
        (table, libc::getauxval(libc::AT_PHNUM) as usize)
    };
    if table.is_null() {
        return ptr::null();
    }
    // SAFETY: as above.
    let segments = unsafe { std::slice::from_raw_parts(table, count) };
    let own = segments.iter().find(|s| s.p_type == libc::PT_PHDR);
    let base = own.map_or(0, |own| table.addr().wrapping_sub(own.p_vaddr as usize));
    let loader = segments.iter().find(|s| s.p_type == libc::PT_INTERP);
    loader.map_or(ptr::null(), |loader| {
        ptr::with_exposed_provenance(base.wrapping_add(loader.p_vaddr as usize))
    })
}

fn known(path: &AtomicPtr<c_char>) -> Option<&'static CStr> {
    let path = path.load(Ordering::Relaxed);
    // SAFETY: it was found at the start, ends with a zero, and stays.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// Why a program does not get this library: one that is read from this file, and begins in this folder. None where it is not
/// known: the kernel or the loader say then what there is to say.
pub fn refusal(program: OwnedFd, folder: BorrowedFd<'_>) -> Option<Refusal> {
    let library = known(&LIBRARY)?;
    if rustix::fs::access(library, Access::READ_OK).is_err() {
        return Some(Refusal::NotLoadable);
    }
    let mut file = program;
    let mut buffer = PathBuffer::new();
    for _ in 0..MOST_SCRIPTS {
        let mut head = [0u8; 256];
        let bytes = rustix::io::pread(&file, &mut head, 0).ok()?;
        let head = &head[..bytes];
        if head.starts_with(b"\x7fELF") {
            return refusal_of_elf(&file);
        }
        file = match head.strip_prefix(b"#!") {
            Some(line) => {
                buffer.set(interpreter(line)?)?;
                open(folder, buffer.text()?)?
            }
            None => {
                // Of others nothing is known: a shell may run them.
                registered::set_interpreter(&mut buffer, &file, head)?;
                // The kernel may have opened it long ago, where there was such a file.
                let Some(file) = open(folder, buffer.text()?) else {
                    return Some(Refusal::NotLoadable);
                };
                file
            }
        };
    }
    None
}

/// Opens the program at `path`, in a folder.
pub fn open(folder: BorrowedFd<'_>, path: &CStr) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(folder, path, flags, Mode::empty()).ok()
}

/// The interpreter in a script's first line, behind `#!`.
fn interpreter(line: &[u8]) -> Option<&[u8]> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t');
    words.find(|word| !word.is_empty())
}

fn refusal_of_elf(file: &OwnedFd) -> Option<Refusal> {
    let header: Header = read(file, 0)?;
    let is_same = header.e_ident[4] == ELFCLASS64
        && header.e_machine
            == if cfg!(target_arch = "x86_64") {
                62
            } else {
                183
            };
    if !is_same {
        return Some(Refusal::NotLoadable);
    }
    let count = usize::from(header.e_phnum).min(MOST_SEGMENTS);
    let segment =
        |i: usize| read::<Segment>(file, header.e_phoff + (i * size_of::<Segment>()) as u64);
    let of_type = |wanted: u32| (0..count).filter_map(segment).find(|s| s.p_type == wanted);
    // Without a loader nothing is preloaded; what it starts may be of a kind that cannot take the library, and nobody looks then.
    let Some(loader) = of_type(libc::PT_INTERP) else {
        return Some(Refusal::NotLoadable);
    };
    let mut buffer = PathBuffer::new();
    let path = buffer.read(file, loader.p_offset, loader.p_filesz)?;
    if !is_own_loader(path) {
        return Some(Refusal::NotLoadable);
    }
    let dynamic = of_type(libc::PT_DYNAMIC)?;
    let entry = |i: usize| {
        let entry: DynamicEntry = read(
            file,
            dynamic.p_offset + (i * size_of::<DynamicEntry>()) as u64,
        )?;
        (entry.d_tag != 0).then_some(entry)
    };
    let entries = || (0..MOST_ENTRIES).map_while(entry);
    let names = entries().find(|entry| entry.d_tag == DT_STRTAB)?.d_val;
    let holds = |s: &Segment| (s.p_vaddr..s.p_vaddr + s.p_filesz).contains(&names);
    let of_names = (0..count)
        .filter_map(segment)
        .find(|s| s.p_type == libc::PT_LOAD && holds(s))?;
    let names = names - of_names.p_vaddr + of_names.p_offset;
    let is_sanitizer = |entry: DynamicEntry| {
        let name: Option<[u8; 12]> = read(file, names + entry.d_val);
        name.is_some_and(|name| LIBRARIES.iter().any(|known| name.starts_with(known)))
    };
    let bytes = entries().find(|entry| entry.d_tag == DT_STRSZ);
    let is_within = || bytes.is_some_and(|bytes| name_sanitizer(file, names, bytes.d_val));
    let mut needed = entries().filter(|entry| entry.d_tag == DT_NEEDED);
    (needed.any(is_sanitizer) || is_within()).then_some(Refusal::Sanitizer)
}

/// Whether the names of dynamic symbols, which end with zeros, are those of a program with a sanitizer in it.
fn name_sanitizer(file: &OwnedFd, offset: u64, bytes: u64) -> bool {
    let mut part = [0u8; 4096];
    // A name at the end of a part is at the beginning of the next, too.
    let step = part.len() - LINKED[0].len() - 1;
    let mut found = [false; LINKED.len()];
    for at in (0..bytes.min(MOST_NAMES)).step_by(step) {
        let length = part.len().min((bytes - at) as usize);
        let read = rustix::io::pread(file, &mut part[..length], offset + at).unwrap_or(0);
        for name in part[..read].split(|&byte| byte == 0) {
            for (found, wanted) in found.iter_mut().zip(LINKED) {
                // Linkers store a name that is the end of another one with that.
                *found |= name.ends_with(wanted);
            }
        }
    }
    found == [true; LINKED.len()]
}

/// Whether this is the loader that loaded this program, by whatever name.
fn is_own_loader(path: &CStr) -> bool {
    let Some(own) = known(&LOADER).filter(|own| *own != path) else {
        return true;
    };
    match (rustix::fs::stat(own), rustix::fs::stat(path)) {
        (Ok(own), Ok(other)) => (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

/// An entry of a dynamic section.
#[repr(C)]
#[derive(Clone, Copy)]
struct DynamicEntry {
    d_tag: i64,
    d_val: u64,
}

/// What can be read from a file as it is.
trait Plain: Copy {}
impl Plain for Header {}
impl Plain for Segment {}
impl Plain for DynamicEntry {}
impl Plain for [u8; 12] {}

fn read<T: Plain>(file: &OwnedFd, offset: u64) -> Option<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes of the value, all zeros; any bytes will do for it.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    let read = rustix::io::pread(file, &mut *bytes, offset).ok()?;
    // SAFETY: as above.
    (read == size_of::<T>()).then(|| unsafe { value.assume_init() })
}

/// A path on the stack.
pub struct PathBuffer([u8; MOST_PATH]);

impl PathBuffer {
    pub fn new() -> Self {
        Self([0; MOST_PATH])
    }

    /// The file of a descriptor.
    pub fn of_descriptor(file: c_int) -> Self {
        let mut buffer = Self::new();
        buffer.number(b"/proc/self/fd/", file.max(0) as u32, b"");
        buffer
    }

    /// A path with a number in it.
    pub fn number(&mut self, before: &[u8], number: u32, behind: &[u8]) -> Option<()> {
        let mut digits = [0u8; 10];
        let mut first = digits.len();
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.join([before, &digits[first..], behind])
    }

    /// The path, for the C library.
    pub fn path(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    pub fn text(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.0).ok()
    }

    fn set(&mut self, path: &[u8]) -> Option<()> {
        let buffer = self.0.get_mut(..path.len() + 1)?;
        // It may be a part of what is there.
        let (last, text) = buffer.split_last_mut()?;
        text.copy_from_slice(path);
        *last = 0;
        Some(())
    }

    fn join(&mut self, parts: [&[u8]; 3]) -> Option<()> {
        let mut end = 0;
        for part in parts {
            self.0.get_mut(end..end + part.len())?.copy_from_slice(part);
            end += part.len();
        }
        *self.0.get_mut(end)? = 0;
        Some(())
    }

    fn read(&mut self, file: &OwnedFd, offset: u64, bytes: u64) -> Option<&CStr> {
        let buffer = self.0.get_mut(..usize::try_from(bytes).ok()?)?;
        rustix::io::pread(file, buffer, offset).ok()?;
        self.text()
    }

    /// The file that the C library would find in the folders of `PATH`, in this folder; null where it would find none.
    ///
    /// # Safety
    /// The name ends with a zero.
    pub unsafe fn find(&mut self, own: BorrowedFd<'_>, file: *const c_char) -> *const c_char {
        if file.is_null() {
            return file;
        }
        // SAFETY: passed on to the caller; the value stays until the program changes it.
        let (name, folders) = unsafe {
            let folders = libc::getenv(c"PATH".as_ptr());
            let folders = if folders.is_null() {
                c"/bin:/usr/bin"
            } else {
                CStr::from_ptr(folders)
            };
            (CStr::from_ptr(file).to_bytes(), folders.to_bytes())
        };
        if name.contains(&b'/') {
            return file;
        }
        for folder in folders.split(|&byte| byte == b':') {
            let folder: &[u8] = if folder.is_empty() { b"." } else { folder };
            if self.join([folder, b"/", name]).is_some()
                && self.text().is_some_and(|path| is_program(own, path))
            {
                return self.path();
            }
        }
        ptr::null()
    }
}

/// Whether there is a file that may be executed.
fn is_program(folder: BorrowedFd<'_>, path: &CStr) -> bool {
    let found = rustix::fs::statat(folder, path, AtFlags::empty());
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file())
        && rustix::fs::accessat(folder, path, Access::EXEC_OK, AtFlags::empty()).is_ok()
}

/// Whether a list of libraries has this one.
pub fn is_in_list(list: &[u8]) -> bool {
    let library = known(&LIBRARY).map(CStr::to_bytes);
    libraries(list).any(|one| Some(one) == library)
}

/// The libraries of a list.
fn libraries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b':' || byte == b' ')
}

/// Writes `name` and what a list of libraries has beside this one, with a zero at the end: how many bytes of the list are left.
/// None where this library is not in it, or there is no room.
pub fn list_without_library(list: &[u8], name: &CStr, text: &mut [u8]) -> Option<usize> {
    let library = known(&LIBRARY)?.to_bytes();
    let start = name.count_bytes();
    text.get_mut(..start)?.copy_from_slice(name.to_bytes());
    let mut end = start;
    let mut is_in = false;
    for one in libraries(list) {
        if one == library {
            is_in = true;
        } else if !one.is_empty() {
            let separator = usize::from(end > start);
            let buffer = text.get_mut(end..end + separator + one.len())?;
            buffer[..separator].fill(b':');
            buffer[separator..].copy_from_slice(one);
            end += separator + one.len();
        }
    }
    *text.get_mut(end)? = 0;
    is_in.then_some(end - start)
}
