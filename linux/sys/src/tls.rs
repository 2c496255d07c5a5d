//! Where the C library keeps what belongs to a thread.

use std::ops::Range;

/// The addresses of the calling thread's table of thread-local storage (its dynamic thread vector), which is read at each
/// access to a variable of a library. The C library allocates it by the program's own `malloc`, if the program has one.
/// `None` with other C libraries than GNU's, and on other processors than x86-64 and arm64.
#[must_use]
pub fn thread_vector() -> Option<Range<usize>> {
    let vector = own_vector()?;
    // An entry has two words; the one before the first says how many there are.
    const ENTRY_BYTES: usize = 2 * size_of::<usize>();
    let first = vector.checked_sub(ENTRY_BYTES)?;
    let count: *const usize = std::ptr::with_exposed_provenance(first);
    // SAFETY: the calling thread's own vector, which the C library made with that entry and changes in this thread only.
    let count = unsafe { count.read() };
    // A library that is opened later makes it larger; the C library keeps some entries in reserve for it.
    Some(first..vector + count.checked_add(1)?.checked_mul(ENTRY_BYTES)?)
}

#[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
fn own_vector() -> Option<usize> {
    let vector: usize;
    // SAFETY: it reads the second word of the calling thread's control block, which is there as long as the thread is
    // (the ABI for thread-local storage names it).
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[8]", out(reg) vector, options(nostack, readonly, preserves_flags));
    }
    (vector != 0).then_some(vector)
}

#[cfg(all(target_env = "gnu", target_arch = "aarch64"))]
fn own_vector() -> Option<usize> {
    let vector: usize;
    // SAFETY: it reads the first word of the calling thread's control block, which is there as long as the thread is
    // (the ABI for thread-local storage names it).
    unsafe {
        std::arch::asm!("mrs {0}, tpidr_el0", "ldr {0}, [{0}]", out(reg) vector, options(nostack, readonly, preserves_flags));
    }
    (vector != 0).then_some(vector)
}

#[cfg(not(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn own_vector() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
    fn each_thread_has_a_table_of_its_own() {
        let own = thread_vector().unwrap();
        assert!((32..1 << 20).contains(&own.len()), "{own:?}");
        assert_eq!(thread_vector(), Some(own.clone()));

        let other = std::thread::spawn(thread_vector).join().unwrap().unwrap();

        assert_ne!(other.start, own.start);
    }
}
