//! Lines to standard error that outlive its reader.

use std::fmt::Arguments;
use std::io::{self, Write as _};

/// Writes a line to standard error, as `eprintln!` does; one that nothing reads any more is dropped, in place of a panic
/// that would end what the process still has to take back.
#[macro_export]
macro_rules! tell {
    ($($line:tt)*) => {
        $crate::stderr::write_line(::std::format_args!($($line)*))
    };
}

/// Writes a line, in one write, so that lines of several processes do not mix. Through [`tell!`].
pub fn write_line(line: Arguments<'_>) {
    let line = format!("{line}\n");
    // Nothing is left to tell it to.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}
