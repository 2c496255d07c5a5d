//! Base-delta-immediate compression.
//!
//! After Pekhimenko et al., "Base-Delta-Immediate Compression: Practical Data Compression for
//! On-Chip Caches", PACT 2012 (reference 78 of Ariadne, section 4.5): each line of 64 bytes is
//! taken as an array of 8-, 4- or 2-byte values that lie close to one base, or close to zero.
//!
//! Format: one 4-bit encoding per line, two to a byte, low half first; then the lines' payloads,
//! one after the other. A rest of fewer than 64 bytes at the end is stored as it is.
//!
//! A base-delta payload is the base (the first value that is not an immediate), a mask with one
//! bit per value (set: delta to the base; clear: delta to zero, the "immediate"), and the deltas,
//! all little-endian. Deltas are signed and wrap, as in the paper's hardware.

/// Bytes of a line.
const LINE_BYTES: usize = 64;

/// Encodings by their 4-bit number.
const ZEROS: u8 = 0;
const REPEATED: u8 = 1;
const BASE8_DELTA1: u8 = 2;
const BASE8_DELTA2: u8 = 3;
const BASE8_DELTA4: u8 = 4;
const BASE4_DELTA1: u8 = 5;
const BASE4_DELTA2: u8 = 6;
const BASE2_DELTA1: u8 = 7;
const RAW: u8 = 8;

/// Payload bytes of each encoding.
const PAYLOAD_BYTES: [usize; 9] = [
    0,
    8,
    payload_bytes(8, 1),
    payload_bytes(8, 2),
    payload_bytes(8, 4),
    payload_bytes(4, 1),
    payload_bytes(4, 2),
    payload_bytes(2, 1),
    LINE_BYTES,
];

/// The base-delta encodings from the smallest payload to the largest.
const BY_PAYLOAD: [u8; 6] = [
    BASE8_DELTA1,
    BASE4_DELTA1,
    BASE8_DELTA2,
    BASE4_DELTA2,
    BASE2_DELTA1,
    BASE8_DELTA4,
];

const fn payload_bytes(base: usize, delta: usize) -> usize {
    let values = LINE_BYTES / base;
    base + values / 8 + values * delta
}

const fn header_bytes(src_bytes: usize) -> usize {
    (src_bytes / LINE_BYTES).div_ceil(2)
}

/// Compresses `src` into `dst`; `None` when it does not fit.
pub(crate) fn compress(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (lines, rest) = src.as_chunks::<LINE_BYTES>();
    let (header, mut payload) = dst.split_at_mut_checked(header_bytes(src.len()))?;
    let payload_room = payload.len();
    header.fill(0);
    for (i, line) in lines.iter().enumerate() {
        let encoding = encode_line(line, &mut payload)?;
        header[i / 2] |= encoding << (i % 2 * 4);
    }
    put(&mut payload, rest)?;
    Some(header.len() + payload_room - payload.len())
}

/// Decompresses `src` into `dst`; the decoded length, or `None` when the input is malformed.
pub(crate) fn decompress(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (header, mut payload) = src.split_at_checked(header_bytes(dst.len()))?;
    let (lines, rest) = dst.as_chunks_mut::<LINE_BYTES>();
    for (i, line) in lines.iter_mut().enumerate() {
        let encoding = header[i / 2] >> (i % 2 * 4) & 0xf;
        let bytes = *PAYLOAD_BYTES.get(usize::from(encoding))?;
        decode_line(encoding, payload.split_off(..bytes)?, line)?;
    }
    rest.copy_from_slice(payload.split_off(..rest.len())?);
    payload.is_empty().then_some(dst.len())
}

/// Copies `bytes` to the front of `payload` and moves `payload` behind them.
fn put(payload: &mut &mut [u8], bytes: &[u8]) -> Option<()> {
    payload.split_off_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(())
}

/// Encodes one line by the smallest encoding that holds it.
fn encode_line(line: &[u8; LINE_BYTES], payload: &mut &mut [u8]) -> Option<u8> {
    match crate::same_filled(line) {
        Some(0) => return Some(ZEROS),
        Some(_) => {
            put(payload, &line[..8])?;
            return Some(REPEATED);
        }
        None => {}
    }
    for encoding in BY_PAYLOAD {
        let bytes = PAYLOAD_BYTES[usize::from(encoding)];
        let out = payload.get_mut(..bytes)?;
        let fits = match encoding {
            BASE8_DELTA1 => base8_delta1::encode(line, out),
            BASE8_DELTA2 => base8_delta2::encode(line, out),
            BASE8_DELTA4 => base8_delta4::encode(line, out),
            BASE4_DELTA1 => base4_delta1::encode(line, out),
            BASE4_DELTA2 => base4_delta2::encode(line, out),
            _ => base2_delta1::encode(line, out),
        };
        if fits {
            payload.split_off_mut(..bytes)?;
            return Some(encoding);
        }
    }
    put(payload, line)?;
    Some(RAW)
}

/// Decodes one line; `payload` has the length that [`PAYLOAD_BYTES`] gives.
fn decode_line(encoding: u8, payload: &[u8], line: &mut [u8; LINE_BYTES]) -> Option<()> {
    match encoding {
        ZEROS => line.fill(0),
        REPEATED => line.as_chunks_mut::<8>().0.fill(payload.try_into().ok()?),
        BASE8_DELTA1 => base8_delta1::decode(payload, line)?,
        BASE8_DELTA2 => base8_delta2::decode(payload, line)?,
        BASE8_DELTA4 => base8_delta4::decode(payload, line)?,
        BASE4_DELTA1 => base4_delta1::decode(payload, line)?,
        BASE4_DELTA2 => base4_delta2::decode(payload, line)?,
        BASE2_DELTA1 => base2_delta1::decode(payload, line)?,
        _ => line.copy_from_slice(payload),
    }
    Some(())
}

/// Defines the encoder and decoder of one pair of value and (signed) delta type.
///
/// The loops have fixed trip counts and no early exit, so that the compiler can use vectors.
macro_rules! base_delta {
    ($name:ident, $value:ty, $delta:ty, $mask:ty) => {
        mod $name {
            use std::array::from_fn;

            const VALUE: usize = size_of::<$value>();
            const DELTA: usize = size_of::<$delta>();
            const MASK: usize = size_of::<$mask>();
            const VALUES: usize = super::LINE_BYTES / VALUE;

            /// Whether `value` is its own low bytes, sign-extended.
            #[inline(always)]
            fn is_small(value: $value) -> bool {
                value as $delta as $value == value
            }

            /// Writes the payload to `out` if every value is near the base or near zero.
            pub(super) fn encode(line: &[u8; super::LINE_BYTES], out: &mut [u8]) -> bool {
                let (bytes, _) = line.as_chunks::<VALUE>();
                let values: [$value; VALUES] = from_fn(|i| <$value>::from_le_bytes(bytes[i]));
                let base = values.into_iter().find(|&v| !is_small(v)).unwrap_or(0);
                let fits = values.iter().fold(true, |all, &v| {
                    all & (is_small(v) | is_small(v.wrapping_sub(base)))
                });
                if !fits {
                    return false;
                }
                let mut mask: $mask = 0;
                let (head, deltas) = out.split_at_mut(VALUE + MASK);
                let (deltas, _) = deltas.as_chunks_mut::<DELTA>();
                for (i, (&value, delta)) in values.iter().zip(deltas).enumerate() {
                    let to_zero = is_small(value);
                    mask |= <$mask>::from(!to_zero) << i;
                    let difference = if to_zero {
                        value
                    } else {
                        value.wrapping_sub(base)
                    };
                    *delta = (difference as $delta).to_le_bytes();
                }
                head[..VALUE].copy_from_slice(&base.to_le_bytes());
                head[VALUE..].copy_from_slice(&mask.to_le_bytes());
                true
            }

            /// Rebuilds the line; `None` when `payload` has the wrong length.
            pub(super) fn decode(payload: &[u8], line: &mut [u8; super::LINE_BYTES]) -> Option<()> {
                let (base, payload) = payload.split_first_chunk::<VALUE>()?;
                let (mask, payload) = payload.split_first_chunk::<MASK>()?;
                let deltas: &[[u8; DELTA]; VALUES] = payload.as_chunks().0.try_into().ok()?;
                let base = <$value>::from_le_bytes(*base);
                let mask = <$mask>::from_le_bytes(*mask);
                let (values, _) = line.as_chunks_mut::<VALUE>();
                for (i, (delta, value)) in deltas.iter().zip(values).enumerate() {
                    let delta = <$delta>::from_le_bytes(*delta) as $value;
                    let base = if mask >> i & 1 == 1 { base } else { 0 };
                    *value = base.wrapping_add(delta).to_le_bytes();
                }
                Some(())
            }
        }
    };
}

base_delta!(base8_delta1, u64, i8, u8);
base_delta!(base8_delta2, u64, i16, u8);
base_delta!(base8_delta4, u64, i32, u8);
base_delta!(base4_delta1, u32, i8, u16);
base_delta!(base4_delta2, u32, i16, u16);
base_delta!(base2_delta1, u16, i8, u32);

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of<const N: usize>(values: [u64; N]) -> Vec<u8> {
        let width = LINE_BYTES / N;
        values
            .iter()
            .flat_map(|v| v.to_le_bytes()[..width].to_vec())
            .collect()
    }

    /// Encodes one line and returns its encoding number and payload bytes.
    fn encoding_of(line: &[u8]) -> (u8, usize) {
        let mut out = [0; 128];
        let len = compress(line, &mut out).expect("fits");
        let mut back = [0xaa; LINE_BYTES];
        assert_eq!(decompress(&out[..len], &mut back), Some(LINE_BYTES));
        assert_eq!(back, line);
        (out[0] & 0xf, len - 1)
    }

    #[test]
    fn each_kind_of_line_gets_its_encoding() {
        let pointer = 0x7f00_dead_0000;
        let cases = [
            (line_of([0; 8]), ZEROS, 0),
            (line_of([pointer; 8]), REPEATED, 8),
            (
                line_of([0, 1, 2, 3, 4, 5, 6, 7].map(|i| pointer + i * 8)),
                BASE8_DELTA1,
                17,
            ),
            (
                line_of([0, 1, 2, 3, 4, 5, 6, 7].map(|i| pointer + i * 4000)),
                BASE8_DELTA2,
                25,
            ),
            (
                line_of([0, 1, 2, 3, 4, 5, 6, 7].map(|i| pointer + (i << 28))),
                BASE8_DELTA4,
                41,
            ),
            // Small integers among pointers: the zero base takes them.
            (
                line_of([3, pointer, 0, pointer + 9, 1, 2, pointer - 128, u64::MAX]),
                BASE8_DELTA1,
                17,
            ),
            (
                line_of(std::array::from_fn::<_, 16, _>(|i| 0x4000_0000 + i as u64)),
                BASE4_DELTA1,
                22,
            ),
            (
                line_of(std::array::from_fn::<_, 16, _>(|i| {
                    0x4000_0000 + i as u64 * 999
                })),
                BASE4_DELTA2,
                38,
            ),
            (
                line_of(std::array::from_fn::<_, 32, _>(|i| 0x5000 + i as u64 * 3)),
                BASE2_DELTA1,
                38,
            ),
            (
                (0..64)
                    .map(|i: u8| i.wrapping_mul(151) ^ (i << 3))
                    .collect(),
                RAW,
                64,
            ),
        ];
        for (line, encoding, payload_bytes) in cases {
            assert_eq!(encoding_of(&line), (encoding, payload_bytes), "{line:x?}");
        }
    }

    #[test]
    fn deltas_wrap_around() {
        let values = [0, 1, 2, 3, 4, 5, 6, 7].map(|i: u64| (u64::MAX / 2).wrapping_add(i * 16));
        assert_eq!(encoding_of(&line_of(values)), (BASE8_DELTA1, 17));
    }

    #[test]
    fn payload_sizes_of_the_table_are_ascending_in_the_order_of_trial() {
        assert!(BY_PAYLOAD.is_sorted_by_key(|&e| PAYLOAD_BYTES[usize::from(e)]));
    }
}
