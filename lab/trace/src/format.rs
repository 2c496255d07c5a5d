//! The bytes of a trace file: fixed-size structures and their checks. `FORMAT.md` describes the whole.
//!
//! Everything is little-endian. Every structure carries a CRC-32 (the IEEE polynomial of crc32fast).

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};

use crate::describe::{AppInfo, Description, FileInfo};
use warmswap_page::PAGE_BYTES;

/// The newest format version that is written and read.
pub const VERSION: u32 = 1;
/// The first bytes of a trace; the line ends reveal a transfer that rewrote text.
pub const MAGIC: [u8; 8] = *b"\x89WST\r\n\x1a\n";
/// The last bytes of a finished trace.
pub const END_MAGIC: [u8; 8] = *b"WST-end\n";
/// Bytes of one event before compression; read speed is stated in these.
pub const EVENT_BYTES: usize = 24;
/// Page contents in one block.
pub const CONTENTS_PER_BLOCK: usize = 64;
/// The most events that one block may hold.
pub const MAX_BLOCK_EVENTS: usize = 1 << 16;
/// Page numbers are less than this: 52 bits.
pub const PAGE_NUMBERS: u64 = 1 << 52;

/// The name of the record layout, stated in the description.
pub(crate) const LAYOUT: &str =
    "columns kind:u8 flags:u8 app:u16 time_delta_ns:u32 page_delta:u64 file:u32 arg_delta:u32";

pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const EVENT_HEADER_BYTES: usize = 48;
pub(crate) const CONTENT_HEADER_BYTES: usize = 32;
pub(crate) const EVENT_ENTRY_BYTES: usize = 40;
pub(crate) const CONTENT_ENTRY_BYTES: usize = 24;
pub(crate) const TRAILER_BYTES: usize = 112;
pub(crate) const EVENT_BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"WSEB");
pub(crate) const CONTENT_BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"WSCB");

/// A compressed block is never longer than this; a longer length is damage.
pub(crate) const MAX_PAYLOAD_BYTES: usize = MAX_BLOCK_EVENTS * EVENT_BYTES + 64 * 1024;
/// JSON in a trace is never longer than this.
pub(crate) const MAX_JSON_BYTES: u64 = 256 << 20;

/// How the payload of a block is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Raw = 0,
    Lz4 = 1,
    Zstd = 2,
}

impl Packing {
    pub(crate) fn from_u32(value: u32) -> Option<Self> {
        [Self::Raw, Self::Lz4, Self::Zstd]
            .into_iter()
            .find(|&p| p as u32 == value)
    }
}

/// The JSON after the header.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) format: String,
    pub(crate) record_layout: String,
    pub(crate) record_bytes: u32,
    pub(crate) contents_per_block: u32,
    pub(crate) description: Description,
}

impl Head {
    pub(crate) fn new(description: Description) -> Self {
        Self {
            format: "warmswap trace".to_owned(),
            record_layout: LAYOUT.to_owned(),
            record_bytes: EVENT_BYTES as u32,
            contents_per_block: CONTENTS_PER_BLOCK as u32,
            description,
        }
    }
}

/// The JSON before the trailer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tables {
    pub(crate) apps: Vec<AppInfo>,
    pub(crate) files: Vec<FileInfo>,
}

/// Reads little-endian numbers off the front of a slice whose length the caller has checked.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .expect("the caller checked the length");
        self.0 = rest;
        *head
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub(crate) fn bytes8(&mut self) -> [u8; 8] {
        self.take()
    }
}

/// The fixed header: magic, version, JSON length, JSON CRC, CRC of these 20 bytes.
pub(crate) fn encode_header(json: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for number in [VERSION, json.len() as u32, crc32fast::hash(json)] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let crc = header_crc(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// The checksum of a header, which stands in the header and again in the trailer. It leaves itself out:
/// the CRC of bytes and their own CRC is the same for all bytes.
pub(crate) fn header_crc(header: &[u8]) -> u32 {
    crc32fast::hash(&header[..HEADER_BYTES - 4])
}

/// Declares a structure whose numbers stand in the file one after the other.
macro_rules! layout {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $number:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $name {
            $(pub(crate) $field: $number,)*
        }

        impl $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(out.extend_from_slice(&self.$field.to_le_bytes());)*
            }

            fn take(c: &mut Cursor<'_>) -> Self {
                Self {
                    $($field: c.$number(),)*
                }
            }
        }
    };
}

layout! {
    /// The header of an event block, after its magic.
    EventBlockHeader {
        crc: u32,
        count: u32,
        payload_bytes: u32,
        packing: u32,
        zero: u32,
        first_event: u64,
        first_ns: u64,
        last_ns: u64,
    }
}

layout! {
    /// The header of a content block, after its magic.
    ContentBlockHeader {
        crc: u32,
        count: u32,
        payload_bytes: u32,
        packing: u32,
        zero: u32,
        first_content: u64,
    }
}

macro_rules! block {
    ($name:ident, $magic:ident) => {
        impl $name {
            /// The header's bytes with the CRC of everything after the CRC field, payload included.
            pub(crate) fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
                let mut out = $magic.to_le_bytes().to_vec();
                self.put(&mut out);
                self.crc = crc_of(&[&out[8..], payload]);
                out[4..8].copy_from_slice(&self.crc.to_le_bytes());
                out
            }

            /// The magic, and the header. `bytes` has at least as many as a header.
            pub(crate) fn decode(bytes: &[u8]) -> (u32, Self) {
                let mut c = Cursor(bytes);
                (c.u32(), Self::take(&mut c))
            }
        }
    };
}

block!(EventBlockHeader, EVENT_BLOCK_MAGIC);
block!(ContentBlockHeader, CONTENT_BLOCK_MAGIC);

layout! {
    /// One line of the event index.
    EventEntry {
        offset: u64,
        first_event: u64,
        first_ns: u64,
        count: u32,
        block_crc: u32,
        block_bytes: u32,
    }
}

layout! {
    /// One line of the content index.
    ContentEntry {
        offset: u64,
        count: u32,
        block_crc: u32,
        block_bytes: u32,
    }
}

macro_rules! entry {
    ($name:ident, $bytes:ident) => {
        impl $name {
            /// The entry's bytes; its place in the index is part of its CRC.
            pub(crate) fn encode(&self, place: u64) -> Vec<u8> {
                let mut out = Vec::with_capacity($bytes);
                self.put(&mut out);
                let crc = crc_of(&[&out, &place.to_le_bytes()]);
                out.extend_from_slice(&crc.to_le_bytes());
                out
            }

            /// The entry, the CRC found and the CRC expected.
            pub(crate) fn decode(bytes: &[u8; $bytes], place: u64) -> (Self, u32, u32) {
                let mut c = Cursor(bytes);
                let entry = Self::take(&mut c);
                let found = crc_of(&[&bytes[..$bytes - 4], &place.to_le_bytes()]);
                (entry, found, c.u32())
            }
        }
    };
}

entry!(EventEntry, EVENT_ENTRY_BYTES);
entry!(ContentEntry, CONTENT_ENTRY_BYTES);

layout! {
    /// The fixed bytes at the end of a finished trace.
    Trailer {
        events: u64,
        contents: u64,
        first_ns: u64,
        last_ns: u64,
        event_index_offset: u64,
        event_blocks: u64,
        content_index_offset: u64,
        content_blocks: u64,
        tables_offset: u64,
        tables_bytes: u64,
        tables_crc: u32,
        header_crc: u32,
        event_index_crc: u32,
        content_index_crc: u32,
    }
}

impl Trailer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TRAILER_BYTES);
        self.put(&mut out);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&END_MAGIC);
        out
    }

    /// Takes a trailer apart: the trailer, its end magic, the CRC found and the CRC expected.
    pub(crate) fn decode(bytes: &[u8; TRAILER_BYTES]) -> (Self, [u8; 8], u32, u32) {
        let mut c = Cursor(bytes);
        let trailer = Self::take(&mut c);
        let _version = c.u32();
        let expected = c.u32();
        let found = crc32fast::hash(&bytes[..TRAILER_BYTES - 12]);
        (trailer, c.bytes8(), found, expected)
    }
}

/// CRC-32 of the concatenation of `parts`.
pub(crate) fn crc_of(parts: &[&[u8]]) -> u32 {
    let mut hasher = Hasher::new();
    parts.iter().for_each(|p| hasher.update(p));
    hasher.finalize()
}

/// Bytes of a content block before compression.
pub(crate) const fn content_block_bytes(count: usize) -> usize {
    count * PAGE_BYTES
}
