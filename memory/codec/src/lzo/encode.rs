//! The LZO1X encoder.

use super::{
    FIRST_RUN, M2_MAX_BYTES, M2_MAX_DISTANCE, M3_MARKER, M3_MAX_BYTES, M3_MAX_DISTANCE, M4_MARKER,
    M4_MAX_BYTES, M4_MAX_DISTANCE,
};

const HASH_BITS: u32 = 13;
const MIN_MATCH_BYTES: usize = 4;
/// After every 2^this bytes without a match, the search steps one byte wider.
const SKIP_SHIFT: u32 = 5;

/// The hash table: for each hash of 4 bytes, the last position where it was seen.
///
/// Positions are stored plus `base`, which grows from call to call, so that entries of earlier
/// calls are recognised as stale and the table is never cleared (except once in 4 GiB).
pub(crate) struct Table {
    positions: Box<[u32; 1 << HASH_BITS]>,
    pub(super) base: u32,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table {
            positions: Box::new([0; 1 << HASH_BITS]),
            base: 1,
        }
    }

    /// Makes all entries stale and room for `src_bytes` positions.
    fn start(&mut self, src_bytes: u32) -> u32 {
        let base = self.base;
        if let Some(next) = base.checked_add(src_bytes) {
            self.base = next;
            return base;
        }
        self.positions.fill(0);
        self.base = 1 + src_bytes;
        1
    }
}

/// The output: a slice that refuses to be overrun.
struct Output<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl Output<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()> {
        *self.dst.get_mut(self.len..)?.first_chunk_mut::<N>()? = bytes;
        self.len += N;
        Some(())
    }

    /// The part of a length that does not fit in its instruction: zeros count 255 each.
    fn put_extension(&mut self, mut rest: usize) -> Option<()> {
        while rest > 255 {
            self.put([0])?;
            rest -= 255;
        }
        self.put([rest as u8])
    }

    /// Writes the literals `src[from..to]` with the instruction that they need.
    #[inline(always)]
    fn put_literals(&mut self, src: &[u8], from: usize, to: usize) -> Option<()> {
        let count = to - from;
        if count == 0 {
            return Some(());
        }
        if self.len == 0 && count <= usize::from(u8::MAX - FIRST_RUN) {
            self.put([FIRST_RUN + count as u8])?;
        } else if self.len > 0 && count <= 3 {
            // The count goes into the last but one byte of the match before.
            self.dst[self.len - 2] |= count as u8;
        } else if count <= 18 {
            self.put([count as u8 - 3])?;
        } else {
            self.put([0])?;
            self.put_extension(count - 18)?;
        }
        // Short runs are copied as one block of 16 when both sides have the room.
        if count <= 16
            && let Some(block) = self.dst.get_mut(self.len..self.len + 16)
            && let Some(bytes) = src.get(from..from + 16)
        {
            block.copy_from_slice(bytes);
        } else {
            let room = self.dst.get_mut(self.len..self.len + count)?;
            room.copy_from_slice(&src[from..to]);
        }
        self.len += count;
        Some(())
    }

    #[inline(always)]
    fn put_match(&mut self, bytes: usize, distance: usize) -> Option<()> {
        if bytes <= M2_MAX_BYTES && distance <= M2_MAX_DISTANCE {
            let d = distance - 1;
            return self.put([((bytes - 1) << 5 | (d & 7) << 2) as u8, (d >> 3) as u8]);
        }
        let (marker, max_bytes, d) = if distance <= M3_MAX_DISTANCE {
            (M3_MARKER, M3_MAX_BYTES, distance - 1)
        } else {
            let d = distance - M3_MAX_DISTANCE;
            (M4_MARKER | (d >> 11 & 8) as u8, M4_MAX_BYTES, d & 0x3fff)
        };
        if bytes <= max_bytes {
            self.put([marker | (bytes - 2) as u8])?;
        } else {
            self.put([marker])?;
            self.put_extension(bytes - max_bytes)?;
        }
        self.put(((d << 2) as u16).to_le_bytes())
    }
}

#[inline(always)]
fn word_at(src: &[u8], at: usize) -> Option<u32> {
    src.get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_le_bytes)
}

#[inline(always)]
fn hash(word: u32) -> usize {
    (word.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as usize
}

/// How many bytes at `at` and `candidate` (earlier) are equal.
#[inline(always)]
fn common_bytes(src: &[u8], candidate: usize, at: usize) -> usize {
    let (mut count, end) = (0, src.len() - at);
    while let (Some(a), Some(b)) = (
        src[candidate + count..].first_chunk::<8>(),
        src[at + count..].first_chunk::<8>(),
    ) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return count + differing.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    while count < end && src[candidate + count] == src[at + count] {
        count += 1;
    }
    count
}

/// Compresses `src` (at most 4 GiB) into `dst`; `None` when it does not fit.
pub(crate) fn compress(table: &mut Table, src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let base = table.start(u32::try_from(src.len()).ok()?);
    let mut out = Output { dst, len: 0 };
    let (mut at, mut literals_from) = (0, 0);
    while let Some(word) = word_at(src, at) {
        let entry = &mut table.positions[hash(word)];
        let candidate = entry.checked_sub(base).map(|position| position as usize);
        *entry = base + at as u32;
        let found = candidate.filter(|&candidate| {
            at - candidate <= M4_MAX_DISTANCE && word_at(src, candidate) == Some(word)
        });
        let Some(candidate) = found else {
            at += 1 + ((at - literals_from) >> SKIP_SHIFT);
            continue;
        };
        out.put_literals(src, literals_from, at)?;
        let bytes =
            MIN_MATCH_BYTES + common_bytes(src, candidate + MIN_MATCH_BYTES, at + MIN_MATCH_BYTES);
        out.put_match(bytes, at - candidate)?;
        at += bytes;
        literals_from = at;
    }
    out.put_literals(src, literals_from, src.len())?;
    out.put([M4_MARKER | 1, 0, 0])?;
    Some(out.len)
}
