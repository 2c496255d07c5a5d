//! Words of each thread, in the initial-exec model, so that a look at them calls nothing: `malloc` looks, and what the usual
//! model calls (`__tls_get_addr`) calls `malloc` when it makes a thread's table larger.

/// Sets so many words aside, all zero at a thread's beginning, under the symbol `$symbol`. In the module that says so, `words()`
/// is where the calling thread's are, and `first_word()` what the first one holds.
macro_rules! thread_words {
    ($symbol:literal, $words:literal) => {
        std::arch::global_asm!(
            concat!(".pushsection .tbss.", $symbol, ", \"awT\", %nobits"),
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            ".p2align 3",
            concat!($symbol, ":"),
            concat!(".zero 8*", $words),
            ".popsection",
        );

        /// Where the calling thread's words are.
        #[inline]
        fn words() -> *mut usize {
            let words: *mut usize;
            // SAFETY: reads the words' offset, which the loader knows since the library is loaded with the program, and
            // the thread's pointer.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!(
                    concat!("mov ", $symbol, "@gottpoff(%rip), {0}"),
                    "add %fs:0, {0}",
                    out(reg) words,
                    options(att_syntax, pure, readonly, nostack),
                );
            }
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                std::arch::asm!(
                    "mrs {0}, tpidr_el0",
                    concat!("adrp {1}, :gottprel:", $symbol),
                    concat!("ldr {1}, [{1}, :gottprel_lo12:", $symbol, "]"),
                    "add {0}, {0}, {1}",
                    out(reg) words,
                    out(reg) _,
                    options(pure, readonly, nostack),
                );
            }
            words
        }

        /// What the calling thread's first word holds.
        #[inline]
        fn first_word() -> usize {
            let word: usize;
            // SAFETY: reads the calling thread's word, by its offset from the thread's pointer.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!(
                    concat!("mov ", $symbol, "@gottpoff(%rip), {0}"),
                    "mov %fs:({0}), {0}",
                    out(reg) word,
                    options(att_syntax, pure, readonly, nostack, preserves_flags),
                );
            }
            // SAFETY: the words are the calling thread's alone, and live as long as it runs.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                word = words().read();
            }
            word
        }
    };
}
pub(crate) use thread_words;
