//! Records: their names, and how they are encrypted and checked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};

use chacha20poly1305::aead::{AeadInOut, Generate, Key, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use serde::{Deserialize, Serialize};

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

/// Bytes of the authentication tag behind the payload.
const TAG_BYTES: usize = 16;

/// Bytes behind the tag, 4 for each, little-endian: magic, number, generation, bytes of the payload, epoch.
const FIELDS_BYTES: usize = 20;

/// Bytes behind the payload: tag and fields.
pub(crate) const TRAILER_BYTES: usize = TAG_BYTES + FIELDS_BYTES;

const MAGIC: u32 = u32::from_le_bytes(*b"WSrc");

/// Bytes of a record with `payload_bytes` bytes of payload.
pub(crate) const fn record_bytes(payload_bytes: u32) -> u32 {
    payload_bytes + TRAILER_BYTES as u32
}

/// Encrypts records with ChaCha20-Poly1305, by a key that is never written anywhere.
///
/// The nonce of a record is its number, its generation and the *epoch*, a random number of the process that wrote it. The
/// same three never stand for two payloads: a number is used again with another generation, and the child of a `fork`, whose
/// log goes on where its parent's was, has another epoch.
pub(crate) struct Cipher {
    aead: ChaCha20Poly1305,
    /// The process in the upper half, its epoch in the lower one.
    epoch: AtomicU64,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher")
    }
}

impl Cipher {
    /// With a new key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new() -> io::Result<Self> {
        let key = Key::<ChaCha20Poly1305>::try_generate().map_err(io::Error::other)?;
        Ok(Self {
            aead: ChaCha20Poly1305::new(&key),
            epoch: AtomicU64::new(0),
        })
    }

    /// This process's epoch.
    fn epoch(&self) -> io::Result<u32> {
        let process = u64::from(std::process::id()) << 32;
        let mut known = self.epoch.load(Ordering::Acquire);
        while known >> 32 != process >> 32 {
            let random = u32::try_generate().map_err(io::Error::other)?;
            let now = process | u64::from(random);
            // Threads that are here at the same time agree on one.
            match self
                .epoch
                .compare_exchange(known, now, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => known = now,
                Err(found) => known = found,
            }
        }
        Ok(known as u32)
    }

    /// The bytes of a record.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn encode(&self, id: RecordId, payload: &[u8]) -> io::Result<Vec<u8>> {
        let fields = fields(id, payload.len() as u32, self.epoch()?);
        let mut record = Vec::with_capacity(payload.len() + TRAILER_BYTES);
        record.extend_from_slice(payload);
        let encrypted = self
            .aead
            .encrypt_in_place(&nonce(&fields), &fields, &mut record);
        encrypted.map_err(io::Error::other)?;
        record.extend_from_slice(&fields);
        Ok(record)
    }

    /// Checks that `record` is record `id`, and makes its payload of it.
    pub(crate) fn decode(&self, id: RecordId, record: &mut Vec<u8>) -> Result<(), Damage> {
        let found = record.split_last_chunk::<FIELDS_BYTES>();
        let Some((_, &found)) = found.filter(|(rest, _)| rest.len() >= TAG_BYTES) else {
            return Err(Damage::Length {
                expected: TRAILER_BYTES as u32,
                found: record.len() as u32,
            });
        };
        let payload_bytes = record.len() - TRAILER_BYTES;
        let epoch = field(&found, 4);
        check(&fields(id, payload_bytes as u32, epoch), &found)?;
        record.truncate(payload_bytes + TAG_BYTES);
        let decrypted = self.aead.decrypt_in_place(&nonce(&found), &found, record);
        decrypted.map_err(|_| Damage::Content)
    }
}

fn fields(id: RecordId, payload_bytes: u32, epoch: u32) -> [u8; FIELDS_BYTES] {
    let mut fields = [0; FIELDS_BYTES];
    let values = [MAGIC, id.number, id.generation, payload_bytes, epoch];
    for (value, bytes) in values.iter().zip(fields.as_chunks_mut().0) {
        *bytes = value.to_le_bytes();
    }
    fields
}

fn field(fields: &[u8; FIELDS_BYTES], i: usize) -> u32 {
    let (fields, _) = fields.as_chunks();
    fields.get(i).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Number, generation and epoch.
fn nonce(fields: &[u8; FIELDS_BYTES]) -> Nonce {
    let mut nonce = [0; 12];
    for (i, bytes) in [1, 2, 4].into_iter().zip(nonce.as_chunks_mut().0) {
        *bytes = field(fields, i).to_le_bytes();
    }
    nonce.into()
}

/// Says how the fields of a record are not those that are expected.
fn check(expected: &[u8; FIELDS_BYTES], found: &[u8; FIELDS_BYTES]) -> Result<(), Damage> {
    let pair = |i| (field(expected, i), field(found, i));
    Err(match [pair(0), pair(1), pair(2), pair(3)] {
        [(expected, found), ..] if expected != found => Damage::Magic { expected, found },
        [_, (expected, found), ..] if expected != found => Damage::Number { expected, found },
        [_, _, (expected, found), _] if expected != found => Damage::Generation { expected, found },
        [.., (expected, found)] if expected != found => Damage::Length { expected, found },
        _ => return Ok(()),
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

    fn cipher() -> Cipher {
        Cipher::new().expect("random numbers")
    }

    fn verify(cipher: &Cipher, id: RecordId, record: &[u8]) -> Result<(), Damage> {
        cipher.decode(id, &mut record.to_vec())
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let cipher = cipher();
        let mut record = cipher
            .encode(ID, b"the payload of a record")
            .expect("encoded");
        assert_eq!(verify(&cipher, ID, &record), Ok(()));
        for bit in 0..record.len() * 8 {
            record[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&cipher, ID, &record).is_err(), "bit {bit}");
            record[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_record_shows_nothing_of_its_payload_and_comes_back() {
        let (cipher, payload) = (cipher(), [7; 4096]);
        let mut record = cipher.encode(ID, &payload).expect("encoded");
        assert!(!record.windows(4).any(|bytes| bytes == [7; 4]));
        let later = RecordId {
            generation: 4,
            ..ID
        };
        assert_ne!(
            record[..64],
            cipher.encode(later, &payload).expect("encoded")[..64]
        );
        assert_eq!(verify(&self::cipher(), ID, &record), Err(Damage::Content));
        cipher.decode(ID, &mut record).expect("it is whole");
        assert_eq!(record, payload);
    }

    #[test]
    fn another_process_has_another_epoch() {
        let cipher = cipher();
        let own = cipher.epoch().expect("random numbers");
        assert_eq!(cipher.epoch().expect("random numbers"), own);
        // As in the child of a fork.
        let other = u64::from(std::process::id() + 1) << 32 | u64::from(own);
        cipher.epoch.store(other, Ordering::Relaxed);
        assert_ne!(cipher.epoch().expect("random numbers"), own);
    }

    #[test]
    fn another_record_is_told_by_what_differs() {
        let cipher = cipher();
        let record = cipher.encode(ID, b"payload").expect("encoded");
        let other = RecordId { number: 8, ..ID };
        let later = RecordId {
            generation: 4,
            ..ID
        };
        assert_eq!(
            verify(&cipher, other, &record),
            Err(Damage::Number {
                expected: 8,
                found: 7
            })
        );
        assert_eq!(
            verify(&cipher, later, &record),
            Err(Damage::Generation {
                expected: 4,
                found: 3
            })
        );
        assert!(matches!(
            verify(&cipher, ID, &record[1..]),
            Err(Damage::Length {
                expected: 6,
                found: 7
            })
        ));
        assert!(matches!(
            verify(&cipher, ID, &[0; 40]),
            Err(Damage::Magic { found: 0, .. })
        ));
        assert!(matches!(
            verify(&cipher, ID, &[]),
            Err(Damage::Length { found: 0, .. })
        ));
    }
}
