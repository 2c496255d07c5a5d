//! Functions of the C library that this library stands before.
//!
//! [`interpose`] replaces each by a few instructions that keep all registers, call something first and jump to the C
//! library's own function: so `vfork` returns to where it was called from, and the arguments of `execl` need not be known.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{process, ptr};

use crate::handles;
use crate::settings::say;

/// A function of the C library that one of this library stands before.
pub struct RealSymbol {
    name: &'static CStr,
    function: AtomicPtr<c_void>,
}

impl RealSymbol {
    /// The function of that name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            function: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// It; null where the C library has none.
    pub fn function(&self) -> *mut c_void {
        let known = self.function.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = handles::next(self.name);
        self.function.store(found, Ordering::Relaxed);
        found
    }

    /// It; ends the process where the C library has none, and it is called all the same.
    pub fn or_abort(&self) -> *mut c_void {
        let function = self.function();
        if function.is_null() {
            say(&format!("the C library has no {:?}", self.name));
            process::abort();
        }
        function
    }
}

/// `interpose! { what_comes_first: function function }`
macro_rules! interpose {
    ($before:path: $($name:ident)*) => {
        /// Finds the C library's functions while there is only one thread.
        pub fn start() {
            $(real::$name.function();)*
        }

        /// What comes first; where to go on.
        extern "C" fn before(behind: &$crate::real::RealSymbol) -> *mut core::ffi::c_void {
            $before();
            behind.or_abort()
        }

        #[allow(non_upper_case_globals)] // The names are the C library's.
        mod real {
            use $crate::real::RealSymbol;

            $(pub static $name: RealSymbol = {
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => RealSymbol::new(name),
                    Err(_) => panic!("a name has no zero within"),
                }
            };)*
        }

        $(
            // SAFETY: all registers that carry arguments are as they were when the C library's function begins, and
            // the stack is, too: to that function it is as if it had been called.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                    "lea rdi, [rip + {behind}]",
                    "call {before}",
                    "mov r11, rax",
                    "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "jmp r11",
                    behind = sym real::$name,
                    before = sym before,
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(
                    "stp x29, x30, [sp, -80]!",
                    "stp x0, x1, [sp, 16]", "stp x2, x3, [sp, 32]",
                    "stp x4, x5, [sp, 48]", "stp x6, x7, [sp, 64]",
                    "adrp x0, {behind}", "add x0, x0, :lo12:{behind}",
                    "bl {before}",
                    "mov x16, x0",
                    "ldp x0, x1, [sp, 16]", "ldp x2, x3, [sp, 32]",
                    "ldp x4, x5, [sp, 48]", "ldp x6, x7, [sp, 64]",
                    "ldp x29, x30, [sp], 80",
                    "br x16",
                    behind = sym real::$name,
                    before = sym before,
                );
            }
        )*
    };
}

pub(crate) use interpose;
