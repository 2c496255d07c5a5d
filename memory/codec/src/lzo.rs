//! The LZO1X stream format, written from its description in the kernel's documentation
//! (`Documentation/staging/lzo.rst`).
//!
//! The encoder is greedy with one hash probe per position, the trade-off of the kernel's `lzo`
//! (LZO1X-1). The decoder reads every version-0 stream.
//!
//! A stream is a sequence of instructions. A match instruction ends in two bits that say how
//! many literals (0 to 3) follow it; longer literal runs are instructions of their own.
//!
//! | name | length | distance | bytes |
//! |---|---|---|---|
//! | M1 | 2, or 3 after a literal run | 1 to 1024, or 2049 to 3072 | 2 |
//! | M2 | 3 to 8 | 1 to 2048 | 2 |
//! | M3 | 3 to 33, longer by extension | 1 to 16384 | 3 and more |
//! | M4 | 3 to 9, longer by extension | 16385 to 49151 | 3 and more |
//!
//! An M4 of distance 16384 ends the stream. The encoder never writes M1.

mod decode;
mod encode;

pub(crate) use decode::decompress;
pub(crate) use encode::{Table, compress};

const M2_MAX_DISTANCE: usize = 0x800;
const M2_MAX_BYTES: usize = 8;
const M3_MARKER: u8 = 0x20;
const M3_MAX_DISTANCE: usize = 0x4000;
const M3_MAX_BYTES: usize = 33;
const M4_MARKER: u8 = 0x10;
const M4_MAX_DISTANCE: usize = 0xbfff;
const M4_MAX_BYTES: usize = 9;
/// The first byte of a stream above this value is a literal run of (byte - 17) bytes.
const FIRST_RUN: u8 = 17;

#[cfg(test)]
mod tests;
