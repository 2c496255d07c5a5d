//! How programs with a sanitizer are known, which replaces what the library replaces: the command looks at the program that it
//! runs, and the library at those that this one becomes or starts.

/// How names of libraries begin that have to come first in a program.
pub const LIBRARIES: [&[u8]; 5] = [
    b"libasan.so",
    b"libtsan.so",
    b"liblsan.so",
    b"libhwasan.so",
    b"libclang_rt.",
];

/// What a program names that has a sanitizer linked into it: a function that the sanitizer looks for, and one that it replaces
/// (of those that look for undefined behaviour alone, only the first).
pub const LINKED: [&[u8]; 2] = [b"__sanitizer_symbolize_code", b"pthread_create"];
