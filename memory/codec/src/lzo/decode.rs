//! The LZO1X decoder.

use super::{FIRST_RUN, M3_MARKER, M4_MARKER};

/// What came before an instruction; it decides what instructions below 16 mean.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// A match without literals behind it, or the start: they are literal runs.
    Match,
    /// A match with 1 to 3 literals behind it: they are short matches.
    FewLiterals,
    /// A literal run: they are matches of 3 bytes further back.
    LiteralRun,
}

/// Reading position in the input and writing position in the output.
struct Cursor<'s, 'd> {
    src: &'s [u8],
    dst: &'d mut [u8],
    len: usize,
}

impl Cursor<'_, '_> {
    #[inline(always)]
    fn byte(&mut self) -> Option<usize> {
        self.src.split_off_first().map(|&byte| usize::from(byte))
    }

    #[inline(always)]
    fn u16(&mut self) -> Option<usize> {
        let (bytes, rest) = self.src.split_first_chunk()?;
        self.src = rest;
        Some(usize::from(u16::from_le_bytes(*bytes)))
    }

    /// The low bits of an instruction as a length, or its extension when they are zero.
    #[inline(always)]
    fn length(&mut self, low_bits: usize, max_low_bits: usize) -> Option<usize> {
        if low_bits != 0 {
            return Some(low_bits);
        }
        let mut length = max_low_bits;
        loop {
            match self.byte()? {
                0 => length += 255,
                last => return Some(length + last),
            }
        }
    }

    #[inline(always)]
    fn copy_literals(&mut self, count: usize) -> Option<()> {
        // Short runs are copied as one block of 16 when both sides have the room.
        if count <= 16
            && let Some(from) = self.src.first_chunk::<16>()
            && let Some(to) = self.dst[self.len..].first_chunk_mut::<16>()
        {
            *to = *from;
            self.src = &self.src[count..];
        } else {
            let from = self.src.split_off(..count)?;
            self.dst[self.len..].get_mut(..count)?.copy_from_slice(from);
        }
        self.len += count;
        Some(())
    }

    #[inline(always)]
    fn copy_match(&mut self, count: usize, distance: usize) -> Option<()> {
        let from = self.len.checked_sub(distance)?;
        let end = self.len.checked_add(count)?;
        if distance >= 16 && end + 16 <= self.dst.len() {
            // Blocks of 16 do not overlap; what they write too much is overwritten later.
            let (mut from, mut to) = (from, self.len);
            while to < end {
                let (done, open) = self.dst.split_at_mut(to);
                *open.first_chunk_mut::<16>()? = *done[from..].first_chunk()?;
                (from, to) = (from + 16, to + 16);
            }
        } else if distance >= count {
            if end > self.dst.len() {
                return None;
            }
            self.dst.copy_within(from..from + count, self.len);
        } else {
            // The source runs into what this copy writes: a pattern repeats.
            let window = self.dst.get_mut(from..end)?;
            if distance == 1 {
                let byte = window[0];
                window.fill(byte);
            } else {
                for i in distance..window.len() {
                    window[i] = window[i - distance];
                }
            }
        }
        self.len = end;
        Some(())
    }
}

/// Decompresses `src` into `dst`; the decoded length, or `None` when the input is malformed or
/// does not fit.
pub(crate) fn decompress(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let mut cursor = Cursor { src, dst, len: 0 };
    let mut before = Before::Match;
    if let Some(&first) = cursor.src.first()
        && first > FIRST_RUN
    {
        cursor.byte()?;
        let count = usize::from(first - FIRST_RUN);
        cursor.copy_literals(count)?;
        before = if count < 4 {
            Before::FewLiterals
        } else {
            Before::LiteralRun
        };
    }
    loop {
        let inst = cursor.byte()?;
        let (count, distance, literals);
        if inst >= 0x40 {
            let high = cursor.byte()?;
            count = (inst >> 5) + 1;
            distance = (high << 3) + (inst >> 2 & 7) + 1;
            literals = inst & 3;
        } else if inst >= usize::from(M3_MARKER) {
            count = cursor.length(inst & 31, 31)? + 2;
            let low = cursor.u16()?;
            distance = (low >> 2) + 1;
            literals = low & 3;
        } else if inst >= usize::from(M4_MARKER) {
            count = cursor.length(inst & 7, 7)? + 2;
            let low = cursor.u16()?;
            let offset = ((inst & 8) << 11) + (low >> 2);
            if offset == 0 {
                let complete = count == 3 && cursor.src.is_empty();
                return complete.then_some(cursor.len);
            }
            distance = offset + 0x4000;
            literals = low & 3;
        } else if before == Before::Match {
            let count = cursor.length(inst, 15)? + 3;
            cursor.copy_literals(count)?;
            before = Before::LiteralRun;
            continue;
        } else {
            let high = cursor.byte()?;
            let near = (high << 2) + (inst >> 2) + 1;
            (count, distance) = match before {
                Before::LiteralRun => (3, near + 2048),
                _ => (2, near),
            };
            literals = inst & 3;
        }
        cursor.copy_match(count, distance)?;
        cursor.copy_literals(literals)?;
        before = if literals == 0 {
            Before::Match
        } else {
            Before::FewLiterals
        };
    }
}
