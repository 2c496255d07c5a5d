//! The bytes of a file: `warmswap-learned 1 CHECKSUM LENGTH`, a line feed, and that many bytes of JSON.
//!
//! The checksum is xxh3 (64 bits, 16 hexadecimal digits) of the JSON. Readers know exactly one version.

use thiserror::Error;
use warmswap_policy::Learned;
use warmswap_policy::learned::NotLearned;
use xxhash_rust::xxh3::xxh3_64;

/// The version that is written and read.
pub const VERSION: u32 = 1;

/// The first word of every file.
pub const MAGIC: &str = "warmswap-learned";

/// The longest header, with its line feed.
const MAX_HEADER_BYTES: usize = 80;

/// Why bytes are no learned tables.
#[derive(Debug, Error)]
pub enum FormatError {
    /// It does not begin with the header.
    #[error("it does not begin with '{MAGIC} VERSION CHECKSUM LENGTH'")]
    NoHeader,
    /// It was written by another version.
    #[error("it is of version {found}; this program knows version {VERSION}")]
    ForeignVersion {
        /// The version.
        found: u32,
    },
    /// It is shorter or longer than its header says.
    #[error("its header says {expected_bytes} bytes, but {found_bytes} follow")]
    WrongLength {
        /// What the header says.
        expected_bytes: u64,
        /// What is there.
        found_bytes: u64,
    },
    /// A byte changed.
    #[error("its checksum is {found:016x}, but {expected:016x} was written")]
    WrongChecksum {
        /// What the header says.
        expected: u64,
        /// What the bytes give.
        found: u64,
    },
    /// The checksum is right, but it is no table.
    #[error("its content is not understood: {0}")]
    NotUnderstood(#[from] serde_json::Error),
    /// It is a table of pages that cannot exist.
    #[error(transparent)]
    NotLearned(#[from] NotLearned),
}

/// The bytes of a file. About 8 bytes a page, 40 an extent.
pub fn encode(learned: &Learned<String>) -> Vec<u8> {
    // Numbers and strings only: JSON takes them all.
    let body = serde_json::to_vec(learned).unwrap_or_default();
    let checksum = xxh3_64(&body);
    let mut bytes = format!("{MAGIC} {VERSION} {checksum:016x} {}\n", body.len()).into_bytes();
    bytes.extend_from_slice(&body);
    bytes
}

/// Reads the bytes of a file.
///
/// # Errors
/// [`FormatError`], for whatever [`encode`] does not write.
pub fn decode(bytes: &[u8]) -> Result<Learned<String>, FormatError> {
    let head = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
    let end = head.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or(FormatError::NoHeader)?;
    let header = std::str::from_utf8(&head[..end]).map_err(|_| FormatError::NoHeader)?;
    let words: Vec<&str> = header.split(' ').collect();
    let [MAGIC, version, rest @ ..] = words.as_slice() else {
        return Err(FormatError::NoHeader);
    };
    let found = version.parse().map_err(|_| FormatError::NoHeader)?;
    if found != VERSION {
        return Err(FormatError::ForeignVersion { found });
    }
    let [checksum, length] = rest else {
        return Err(FormatError::NoHeader);
    };
    let expected = u64::from_str_radix(checksum, 16).map_err(|_| FormatError::NoHeader)?;
    let expected_bytes = length.parse().map_err(|_| FormatError::NoHeader)?;
    let body = &bytes[end + 1..];
    let found_bytes = body.len() as u64;
    if found_bytes != expected_bytes {
        return Err(FormatError::WrongLength {
            expected_bytes,
            found_bytes,
        });
    }
    let found = xxh3_64(body);
    if found != expected {
        return Err(FormatError::WrongChecksum { expected, found });
    }
    let learned: Learned<String> = serde_json::from_slice(body)?;
    learned.check()?;
    Ok(learned)
}
