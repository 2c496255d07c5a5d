//! Records: their names, and how they are written and checked.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::Damage;

/// Names a stored record, from its append to its free, through any cleaning. 8 bytes.
///
/// A record number is used again after a free, but with another generation, so that the id of a
/// freed record is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordId {
    pub(crate) number: u32,
    pub(crate) generation: u32,
}

impl RecordId {
    /// The id as one number, to be kept in an atomic word or elsewhere.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.number as u64
    }

    /// The id of a number that [`Self::to_bits`] gave; another number is the id of no record.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            number: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number, self.generation)
    }
}

/// Bytes behind the payload: magic, number, generation, length (4 bytes each, little-endian), and
/// an 8-byte checksum of the payload, seeded with the checksum of those 16 bytes.
pub(crate) const TRAILER_BYTES: usize = 24;

const MAGIC: u32 = u32::from_le_bytes(*b"WSrc");

/// Bytes of a record with `payload_bytes` bytes of payload.
pub(crate) const fn record_bytes(payload_bytes: u32) -> u32 {
    payload_bytes + TRAILER_BYTES as u32
}

fn trailer(id: RecordId, payload: &[u8]) -> [u8; TRAILER_BYTES] {
    let mut trailer = [0; TRAILER_BYTES];
    let fields = [MAGIC, id.number, id.generation, payload.len() as u32];
    for (field, bytes) in fields.iter().zip(trailer.as_chunks_mut().0) {
        *bytes = field.to_le_bytes();
    }
    let seed = xxh3_64(&trailer[..16]);
    trailer[16..].copy_from_slice(&xxh3_64_with_seed(payload, seed).to_le_bytes());
    trailer
}

/// The bytes of a record.
pub(crate) fn encode(id: RecordId, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(payload.len() + TRAILER_BYTES);
    record.extend_from_slice(payload);
    record.extend_from_slice(&trailer(id, payload));
    record
}

/// Checks that `record` is record `id`.
pub(crate) fn verify(id: RecordId, record: &[u8]) -> Result<(), Damage> {
    let Some((payload, found)) = record.split_last_chunk::<TRAILER_BYTES>() else {
        return Err(Damage::Length {
            expected: TRAILER_BYTES as u32,
            found: record.len() as u32,
        });
    };
    let expected = trailer(id, payload);
    if *found == expected {
        return Ok(());
    }
    let field = |bytes: &[u8; TRAILER_BYTES], i: usize| {
        bytes
            .as_chunks()
            .0
            .get(i)
            .map_or(0, |b| u32::from_le_bytes(*b))
    };
    let pair = |i| (field(&expected, i), field(found, i));
    let checksum = |bytes: &[u8; TRAILER_BYTES]| {
        bytes
            .last_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    Err(match [pair(0), pair(1), pair(2), pair(3)] {
        [(expected, found), ..] if expected != found => Damage::Magic { expected, found },
        [_, (expected, found), ..] if expected != found => Damage::Number { expected, found },
        [_, _, (expected, found), _] if expected != found => Damage::Generation { expected, found },
        [.., (expected, found)] if expected != found => Damage::Length { expected, found },
        _ => Damage::Checksum {
            expected: checksum(&expected),
            found: checksum(found),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_as_numbers() {
        for (number, generation) in [(0, 0), (7, u32::MAX), (u32::MAX, 1)] {
            let id = RecordId { number, generation };
            assert_eq!(RecordId::from_bits(id.to_bits()), id);
        }
    }

    const ID: RecordId = RecordId {
        number: 7,
        generation: 3,
    };

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut record = encode(ID, b"the payload of a record");
        assert_eq!(verify(ID, &record), Ok(()));
        for bit in 0..record.len() * 8 {
            record[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(ID, &record).is_err(), "bit {bit}");
            record[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn another_record_is_told_by_what_differs() {
        let record = encode(ID, b"payload");
        let other = RecordId { number: 8, ..ID };
        let later = RecordId {
            generation: 4,
            ..ID
        };
        assert_eq!(
            verify(other, &record),
            Err(Damage::Number {
                expected: 8,
                found: 7
            })
        );
        assert_eq!(
            verify(later, &record),
            Err(Damage::Generation {
                expected: 4,
                found: 3
            })
        );
        assert!(matches!(
            verify(ID, &record[1..]),
            Err(Damage::Length {
                expected: 6,
                found: 7
            })
        ));
        assert!(matches!(
            verify(ID, &[0; 40]),
            Err(Damage::Magic { found: 0, .. })
        ));
        assert!(matches!(
            verify(ID, &[]),
            Err(Damage::Length { found: 0, .. })
        ));
    }
}
