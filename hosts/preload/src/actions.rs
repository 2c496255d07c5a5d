//! What a program does first that is started by `posix_spawn`, as far as it changes its folder: from there its path counts.
//!
//! The C library tells nobody what is in a list of actions. Its layout, glibc's since 2.29, is read only if a list that is made
//! at the start reads as it should. Like [`target`](crate::target) this allocates nothing, but for that list.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags};

use crate::real::RealSymbol;

/// The C library's list of actions.
#[repr(C)]
struct List {
    allocated: c_int,
    used: c_int,
    actions: *const Action,
}

/// An action: which one it is, and its arguments.
#[repr(C)]
struct Action {
    kind: c_int,
    arguments: Arguments,
}

#[repr(C)]
union Arguments {
    /// Of [`DUP2`]: the old descriptor and the new one; and the first alone, of [`FCHDIR`].
    descriptors: [c_int; 2],
    /// Of [`CHDIR`].
    path: *const c_char,
    open: Open,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Open {
    descriptor: c_int,
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
}

const DUP2: c_int = 1;
const OPEN: c_int = 2;
const CHDIR: c_int = 3;
const FCHDIR: c_int = 4;

type AddPath = unsafe extern "C" fn(*mut libc::posix_spawn_file_actions_t, *const c_char) -> c_int;
type AddFile = unsafe extern "C" fn(*mut libc::posix_spawn_file_actions_t, c_int) -> c_int;

static ADD_CHDIR: RealSymbol = RealSymbol::new(c"posix_spawn_file_actions_addchdir_np");
static ADD_FCHDIR: RealSymbol = RealSymbol::new(c"posix_spawn_file_actions_addfchdir_np");

/// Whether lists have the layout that is read here.
static IS_KNOWN: AtomicBool = AtomicBool::new(false);

/// Compares the layout.
pub fn start() {
    let mut list = MaybeUninit::<libc::posix_spawn_file_actions_t>::zeroed();
    let list = list.as_mut_ptr();
    let (add_path, add_file) = (ADD_CHDIR.function(), ADD_FCHDIR.function());
    if add_path.is_null() || add_file.is_null() {
        return;
    }
    // SAFETY: the C library's functions of these types, and a list that they initialize. What is read of it lies within what
    // they have filled in, if it has the size of the kinds here; no action is smaller.
    unsafe {
        let add_path: AddPath = transmute(add_path);
        let add_file: AddFile = transmute(add_file);
        if libc::posix_spawn_file_actions_init(list) != 0 {
            return;
        }
        let is_made = libc::posix_spawn_file_actions_addopen(list, 5, c"o".as_ptr(), 6, 7) == 0
            && libc::posix_spawn_file_actions_adddup2(list, 8, 9) == 0
            && add_path(list, c"c".as_ptr()) == 0
            && add_file(list, 10) == 0;
        if is_made && let [open, dup2, chdir, fchdir] = actions(list.cast()) {
            let is_path = |path, text| CStr::from_ptr(path) == text;
            let is_known = [open.kind, dup2.kind, chdir.kind, fchdir.kind]
                == [OPEN, DUP2, CHDIR, FCHDIR]
                && open.arguments.open.descriptor == 5
                && dup2.arguments.descriptors == [8, 9]
                && fchdir.arguments.descriptors[0] == 10
                && is_path(open.arguments.open.path, c"o")
                && is_path(chdir.arguments.path, c"c");
            IS_KNOWN.store(is_known, Ordering::Relaxed);
        }
        libc::posix_spawn_file_actions_destroy(list);
    }
}

/// A folder.
pub enum Folder {
    /// This process's own.
    Own,
    Other(OwnedFd),
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own => CWD,
            Self::Other(folder) => folder.as_fd(),
        }
    }
}

impl Folder {
    /// The folder of that path, from this one.
    ///
    /// # Safety
    /// The path ends with a zero.
    unsafe fn at(&self, path: *const c_char) -> Option<Self> {
        // SAFETY: passed on to the caller.
        let path = unsafe { CStr::from_ptr(path) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(self, path, flags, Mode::empty());
        folder.ok().map(Self::Other)
    }
}

/// Where a program begins that is started with this list of actions, which may be null: this process's own folder where lists
/// cannot be read. `None` where there is no such folder.
///
/// # Safety
/// It is a list of the C library's.
pub unsafe fn folder(list: *const c_void) -> Option<Folder> {
    if list.is_null() || !IS_KNOWN.load(Ordering::Relaxed) {
        return Some(Folder::Own);
    }
    // SAFETY: passed on to the caller.
    unsafe { after(actions(list)) }
}

/// The actions of a list.
///
/// # Safety
/// As of [`folder`].
unsafe fn actions<'a>(list: *const c_void) -> &'a [Action] {
    // SAFETY: passed on to the caller.
    unsafe {
        let list = &*list.cast::<List>();
        match usize::try_from(list.used) {
            Ok(used) if used > 0 => std::slice::from_raw_parts(list.actions, used),
            _ => &[],
        }
    }
}

/// The folder after these actions.
///
/// # Safety
/// As of [`folder`].
unsafe fn after(actions: &[Action]) -> Option<Folder> {
    for (index, action) in actions.iter().enumerate().rev() {
        let before = &actions[..index];
        // SAFETY: the arguments are those of this kind; passed on to the caller.
        unsafe {
            match action.kind {
                CHDIR => return after(before)?.at(action.arguments.path),
                FCHDIR => return file(before, action.arguments.descriptors[0]),
                _ => {}
            }
        }
    }
    Some(Folder::Own)
}

/// The folder that a descriptor stands for after these actions.
///
/// # Safety
/// As of [`folder`].
unsafe fn file(actions: &[Action], descriptor: c_int) -> Option<Folder> {
    for (index, action) in actions.iter().enumerate().rev() {
        let before = &actions[..index];
        // SAFETY: the arguments are those of this kind; passed on to the caller.
        unsafe {
            match action.kind {
                DUP2 if action.arguments.descriptors[1] == descriptor => {
                    return file(before, action.arguments.descriptors[0]);
                }
                OPEN if action.arguments.open.descriptor == descriptor => {
                    return after(before)?.at(action.arguments.open.path);
                }
                _ => {}
            }
        }
    }
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the caller's descriptor, which is open if the actions can be done.
    let own = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let own = rustix::io::fcntl_dupfd_cloexec(own, 0);
    own.ok().map(Folder::Other)
}
