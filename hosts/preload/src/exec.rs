//! Another program takes this one's place, or is started beside it: no thread is bound any more, limits are the kernel's to
//! keep, and a program that cannot take this library ([`target`](crate::target)) does not get it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::ptr;

use rustix::fs::CWD;

use crate::real::RealSymbol;
use crate::target::{self, Refusal};
use crate::{actions, filters, limits, report, unbound};

/// Arguments, or an environment: texts, and null at the end.
pub type Words = *const *const c_char;

type Execve = unsafe extern "C" fn(*const c_char, Words, Words) -> c_int;
type Fexecve = unsafe extern "C" fn(c_int, Words, Words) -> c_int;
type Execveat = unsafe extern "C" fn(c_int, *const c_char, Words, Words, c_int) -> c_int;
type Spawn = unsafe extern "C" fn(
    *mut c_int,
    *const c_char,
    *const c_void,
    *const c_void,
    Words,
    Words,
) -> c_int;

static EXECVE: RealSymbol = RealSymbol::new(c"execve");
static EXECVPE: RealSymbol = RealSymbol::new(c"execvpe");
static FEXECVE: RealSymbol = RealSymbol::new(c"fexecve");
static EXECVEAT: RealSymbol = RealSymbol::new(c"execveat");
static SPAWN: RealSymbol = RealSymbol::new(c"posix_spawn");
static SPAWNP: RealSymbol = RealSymbol::new(c"posix_spawnp");
static PIDFD_SPAWN: RealSymbol = RealSymbol::new(c"pidfd_spawn");
static PIDFD_SPAWNP: RealSymbol = RealSymbol::new(c"pidfd_spawnp");

/// The most words of an environment that is changed, and the longest list of libraries: all of it lies on the stack, since a
/// child of `vfork` has its parent's memory.
const MOST_WORDS: usize = 2048;
const MOST_TEXT: usize = 4096;

const LD_PRELOAD: &CStr = c"LD_PRELOAD=";

unsafe extern "C" {
    static environ: Words;
}

/// Finds the C library's functions while there is only one thread.
pub fn start() {
    let exec = [&EXECVE, &EXECVPE, &FEXECVE, &EXECVEAT];
    let spawn = [&SPAWN, &SPAWNP, &PIDFD_SPAWN, &PIDFD_SPAWNP];
    for function in exec.iter().chain(&spawn) {
        function.function();
    }
    target::start();
    actions::start();
}

fn hand_over() {
    if filters::is_left_alone() {
        return;
    }
    unbound::unbind();
    limits::hand_over();
}

/// The program's environment.
fn own_environment() -> Words {
    // SAFETY: the C library's variable; the program changes it at its own risk.
    unsafe { environ }
}

/// Where a program's file is, and where it begins: its interpreters are found from there.
#[derive(Clone, Copy)]
struct Place<'a> {
    folder: BorrowedFd<'a>,
    /// Null where it is not known.
    path: *const c_char,
    begins_in: BorrowedFd<'a>,
}

impl Place<'static> {
    /// From this process's own folder.
    fn own(path: *const c_char) -> Self {
        Self {
            folder: CWD,
            path,
            begins_in: CWD,
        }
    }
}

/// Becomes the program at that place by `go_on`, which returns where it fails. That this library does not go with it is noted.
///
/// # Safety
/// The texts end with a zero, and the list with null.
unsafe fn become_program(
    place: Place<'_>,
    environment: Words,
    go_on: impl FnOnce(Words) -> c_int,
) -> c_int {
    if filters::is_left_alone() {
        return go_on(environment);
    }
    let go_on = |environment| {
        // SAFETY: passed on to the caller.
        let list = unsafe { find(environment, LD_PRELOAD) };
        if list.is_some_and(|(_, list)| target::is_in_list(list.to_bytes())) {
            return go_on(environment);
        }
        let is_noted = report::becomes_unpaged();
        let result = go_on(environment);
        if is_noted {
            report::stays_paged();
        }
        result
    };
    // SAFETY: passed on to the caller.
    unsafe { with_environment(place, environment, go_on) }
}

/// Goes on with the environment for the program at that place, where that is known.
///
/// # Safety
/// As of [`become_program`].
unsafe fn with_environment<R>(
    place: Place<'_>,
    environment: Words,
    go_on: impl FnOnce(Words) -> R,
) -> R {
    if filters::is_left_alone() {
        return go_on(environment);
    }
    // SAFETY: passed on to the caller.
    match unsafe { refusal_of(place, environment) } {
        None => go_on(environment),
        // SAFETY: passed on to the caller.
        Some(refusal) => unsafe { without_library(refusal, environment, go_on) },
    }
}

/// Why a program does not get this library, if its environment would have it loaded.
///
/// # Safety
/// As of [`become_program`].
unsafe fn refusal_of(place: Place<'_>, environment: Words) -> Option<Refusal> {
    if place.path.is_null() {
        return None;
    }
    // SAFETY: passed on to the caller.
    unsafe {
        find(environment, LD_PRELOAD)?;
        if find(environment, c"VALGRIND_LAUNCHER=").is_some() {
            return Some(Refusal::Valgrind);
        }
        let program = target::open(place.folder, CStr::from_ptr(place.path))?;
        target::refusal(program, place.begins_in)
    }
}

/// The value of the first word with that beginning, and where it is.
///
/// # Safety
/// As of [`become_program`].
unsafe fn find<'a>(words: Words, beginning: &CStr) -> Option<(usize, &'a CStr)> {
    let mut index = 0;
    // SAFETY: passed on to the caller: no word behind the last is read.
    unsafe {
        while !words.is_null() && !(*words.add(index)).is_null() {
            let word = CStr::from_ptr(*words.add(index));
            if word.to_bytes().starts_with(beginning.to_bytes()) {
                let value = (*words.add(index)).add(beginning.count_bytes());
                return Some((index, CStr::from_ptr(value)));
            }
            index += 1;
        }
    }
    None
}

/// Goes on with the environment but for this library. An environment that is too large stays as it is.
///
/// # Safety
/// As of [`become_program`].
#[inline(never)]
unsafe fn without_library<R>(
    refusal: Refusal,
    environment: Words,
    go_on: impl FnOnce(Words) -> R,
) -> R {
    let mut words = [ptr::null(); MOST_WORDS];
    let mut text = [0u8; MOST_TEXT];
    // SAFETY: passed on to the caller.
    let Some((entry, list)) = (unsafe { find(environment, LD_PRELOAD) }) else {
        return go_on(environment);
    };
    let Some(left) = target::list_without_library(list.to_bytes(), LD_PRELOAD, &mut text) else {
        return go_on(environment);
    };
    let (mut from, mut to) = (0, 0);
    loop {
        // SAFETY: passed on to the caller.
        let word = unsafe { *environment.add(from) };
        if word.is_null() {
            break;
        }
        if to + 1 == MOST_WORDS {
            return go_on(environment);
        }
        if from != entry {
            words[to] = word;
            to += 1;
        } else if left > 0 {
            words[to] = text.as_ptr().cast();
            to += 1;
        }
        from += 1;
    }
    refusal.say();
    go_on(words.as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, arguments: Words, environment: Words) -> c_int {
    hand_over();
    // SAFETY: the C library's function of that type; passed on to the caller.
    unsafe {
        let execve: Execve = transmute(EXECVE.or_abort());
        become_program(Place::own(path), environment, |environment| {
            execve(path, arguments, environment)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, arguments: Words) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { execve(path, arguments, own_environment()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, arguments: Words, environment: Words) -> c_int {
    hand_over();
    let mut buffer = target::PathBuffer::new();
    // SAFETY: the C library's function of that type; passed on to the caller.
    unsafe {
        let execvpe: Execve = transmute(EXECVPE.or_abort());
        let place = Place::own(buffer.find(CWD, file));
        become_program(place, environment, |environment| {
            execvpe(file, arguments, environment)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, arguments: Words) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { execvpe(file, arguments, own_environment()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(file: c_int, arguments: Words, environment: Words) -> c_int {
    hand_over();
    let buffer = target::PathBuffer::of_descriptor(file);
    // SAFETY: the C library's function of that type; passed on to the caller.
    unsafe {
        let fexecve: Fexecve = transmute(FEXECVE.or_abort());
        become_program(Place::own(buffer.path()), environment, |environment| {
            fexecve(file, arguments, environment)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: Words,
    environment: Words,
    flags: c_int,
) -> c_int {
    hand_over();
    let buffer = target::PathBuffer::of_descriptor(folder);
    // SAFETY: the C library's function of that type; passed on to the caller.
    unsafe {
        let execveat: Execveat = transmute(EXECVEAT.or_abort());
        let is_empty = !path.is_null() && *path == 0;
        let mut place = Place::own(path);
        if is_empty && flags & libc::AT_EMPTY_PATH != 0 {
            place.path = buffer.path();
        } else if folder >= 0 {
            place.folder = BorrowedFd::borrow_raw(folder);
        }
        become_program(place, environment, |environment| {
            execveat(folder, path, arguments, environment, flags)
        })
    }
}

/// A program that is to be started beside this one, as the C library's functions are told of it.
struct Child {
    /// Where its number goes, or its descriptor.
    child: *mut c_int,
    /// A path, or a name that is searched for.
    program: *const c_char,
    is_searched: bool,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Words,
}

impl Child {
    /// Starts it by a function of that type.
    ///
    /// # Safety
    /// As of that function.
    unsafe fn start(self, function: *mut c_void, environment: Words) -> c_int {
        unbound::unbind();
        // The C library may be older than the function.
        if function.is_null() {
            return libc::ENOSYS;
        }
        let mut buffer = target::PathBuffer::new();
        // SAFETY: passed on to the caller.
        unsafe {
            let spawn: Spawn = transmute(function);
            let folder = actions::folder(self.actions);
            let begins_in = folder.as_ref().map_or(CWD, |folder| folder.as_fd());
            let path = match (&folder, self.is_searched) {
                (None, _) => ptr::null(),
                (_, false) => self.program,
                (_, true) => buffer.find(begins_in, self.program),
            };
            let place = Place {
                folder: begins_in,
                path,
                begins_in,
            };
            with_environment(place, environment, |environment| {
                spawn(
                    self.child,
                    self.program,
                    self.actions,
                    self.attributes,
                    self.arguments,
                    environment,
                )
            })
        }
    }
}

/// Functions of the C library that start a program beside this one.
macro_rules! spawns {
    ($($name:ident, $real:ident, $is_searched:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                child: *mut c_int,
                program: *const c_char,
                actions: *const c_void,
                attributes: *const c_void,
                arguments: Words,
                environment: Words,
            ) -> c_int {
                let is_searched = $is_searched;
                let child = Child { child, program, is_searched, actions, attributes, arguments };
                // SAFETY: the C library's function of that type; passed on to the caller.
                unsafe { child.start($real.function(), environment) }
            }
        )*
    };
}

spawns! {
    posix_spawn, SPAWN, false;
    posix_spawnp, SPAWNP, true;
    pidfd_spawn, PIDFD_SPAWN, false;
    pidfd_spawnp, PIDFD_SPAWNP, true;
}

unsafe extern "C" fn list_of_execl(path: *const c_char, arguments: Words) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { execve(path, arguments, own_environment()) }
}

unsafe extern "C" fn list_of_execlp(file: *const c_char, arguments: Words) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { execvpe(file, arguments, own_environment()) }
}

/// The environment comes behind the end of the arguments.
unsafe extern "C" fn list_of_execle(path: *const c_char, arguments: Words) -> c_int {
    let mut end = 0;
    // SAFETY: passed on to the caller.
    unsafe {
        while !(*arguments.add(end)).is_null() {
            end += 1;
        }
        execve(path, arguments, (*arguments.add(end + 1)).cast())
    }
}

/// A function whose arguments are a list: those in registers are put before those on the stack.
macro_rules! with_list {
    ($name:ident, $list:ident) => {
        // SAFETY: the stack is as it was when the function returns, which it does where the call fails.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "pop rax",
                "push r9", "push r8", "push rcx", "push rdx", "push rsi",
                "mov rsi, rsp",
                "push rax",
                "call {list}",
                "pop rcx",
                "add rsp, 40",
                "push rcx",
                "ret",
                list = sym $list,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "sub sp, sp, 80",
                "stp x29, x30, [sp]",
                "stp x1, x2, [sp, 24]",
                "stp x3, x4, [sp, 40]",
                "stp x5, x6, [sp, 56]",
                "str x7, [sp, 72]",
                "add x1, sp, 24",
                "bl {list}",
                "ldp x29, x30, [sp]",
                "add sp, sp, 80",
                "ret",
                list = sym $list,
            );
        }
    };
}

with_list!(execl, list_of_execl);
with_list!(execlp, list_of_execlp);
with_list!(execle, list_of_execle);
