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
/// The extension of trace files.
pub const EXTENSION: &str = "wst";
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

fn put32(out: &mut Vec<u8>, values: &[u32]) {
    values
        .iter()
        .for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
}

fn put64(out: &mut Vec<u8>, values: &[u64]) {
    values
        .iter()
        .for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
}

/// The fixed header: magic, version, JSON length, JSON CRC, CRC of these 20 bytes.
pub(crate) fn encode_header(json: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put32(
        &mut out,
        &[VERSION, json.len() as u32, crc32fast::hash(json)],
    );
    let crc = header_crc(&out);
    put32(&mut out, &[crc]);
    out
}

/// The checksum of a header, which stands in the header and again in the trailer. It leaves itself out:
/// the CRC of bytes and their own CRC is the same for all bytes.
pub(crate) fn header_crc(header: &[u8]) -> u32 {
    crc32fast::hash(&header[..HEADER_BYTES - 4])
}

/// The header of an event block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventBlockHeader {
    pub(crate) crc: u32,
    pub(crate) count: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) packing: u32,
    pub(crate) first_event: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

impl EventBlockHeader {
    /// The header's bytes with the CRC of everything after the CRC field, payload included.
    pub(crate) fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut tail = Vec::with_capacity(EVENT_HEADER_BYTES);
        put32(
            &mut tail,
            &[self.count, self.payload_bytes, self.packing, 0],
        );
        put64(&mut tail, &[self.first_event, self.first_ns, self.last_ns]);
        self.crc = crc_of(&[&tail, payload]);
        let mut out = Vec::with_capacity(EVENT_HEADER_BYTES);
        put32(&mut out, &[EVENT_BLOCK_MAGIC, self.crc]);
        out.extend_from_slice(&tail);
        out
    }

    /// Takes a header apart, after the magic. `bytes` has at least [`EVENT_HEADER_BYTES`].
    pub(crate) fn decode(bytes: &[u8]) -> (u32, Self) {
        let mut c = Cursor(bytes);
        let magic = c.u32();
        let crc = c.u32();
        let (count, payload_bytes, packing, _zero) = (c.u32(), c.u32(), c.u32(), c.u32());
        let (first_event, first_ns, last_ns) = (c.u64(), c.u64(), c.u64());
        (
            magic,
            Self {
                crc,
                count,
                payload_bytes,
                packing,
                first_event,
                first_ns,
                last_ns,
            },
        )
    }
}

/// The header of a content block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentBlockHeader {
    pub(crate) crc: u32,
    pub(crate) count: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) packing: u32,
    pub(crate) first_content: u64,
}

impl ContentBlockHeader {
    pub(crate) fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut tail = Vec::with_capacity(CONTENT_HEADER_BYTES);
        put32(
            &mut tail,
            &[self.count, self.payload_bytes, self.packing, 0],
        );
        put64(&mut tail, &[self.first_content]);
        self.crc = crc_of(&[&tail, payload]);
        let mut out = Vec::with_capacity(CONTENT_HEADER_BYTES);
        put32(&mut out, &[CONTENT_BLOCK_MAGIC, self.crc]);
        out.extend_from_slice(&tail);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> (u32, Self) {
        let mut c = Cursor(bytes);
        let magic = c.u32();
        let crc = c.u32();
        let (count, payload_bytes, packing, _zero) = (c.u32(), c.u32(), c.u32(), c.u32());
        let first_content = c.u64();
        (
            magic,
            Self {
                crc,
                count,
                payload_bytes,
                packing,
                first_content,
            },
        )
    }
}

/// One line of the event index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventEntry {
    pub(crate) offset: u64,
    pub(crate) first_event: u64,
    pub(crate) first_ns: u64,
    pub(crate) count: u32,
    pub(crate) block_crc: u32,
    pub(crate) block_bytes: u32,
}

impl EventEntry {
    /// The entry's bytes; its place in the index is part of its CRC.
    pub(crate) fn encode(&self, place: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(EVENT_ENTRY_BYTES);
        put64(&mut out, &[self.offset, self.first_event, self.first_ns]);
        put32(&mut out, &[self.count, self.block_crc, self.block_bytes]);
        let crc = crc_of(&[&out, &place.to_le_bytes()]);
        put32(&mut out, &[crc]);
        out
    }

    /// The entry, the CRC found and the CRC expected.
    pub(crate) fn decode(bytes: &[u8; EVENT_ENTRY_BYTES], place: u64) -> (Self, u32, u32) {
        let mut c = Cursor(bytes);
        let (offset, first_event, first_ns) = (c.u64(), c.u64(), c.u64());
        let (count, block_crc, block_bytes) = (c.u32(), c.u32(), c.u32());
        let entry = Self {
            offset,
            first_event,
            first_ns,
            count,
            block_crc,
            block_bytes,
        };
        (entry, entry_crc(bytes, place), c.u32())
    }
}

/// One line of the content index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentEntry {
    pub(crate) offset: u64,
    pub(crate) count: u32,
    pub(crate) block_crc: u32,
    pub(crate) block_bytes: u32,
}

impl ContentEntry {
    pub(crate) fn encode(&self, place: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(CONTENT_ENTRY_BYTES);
        put64(&mut out, &[self.offset]);
        put32(&mut out, &[self.count, self.block_crc, self.block_bytes]);
        let crc = crc_of(&[&out, &place.to_le_bytes()]);
        put32(&mut out, &[crc]);
        out
    }

    /// The entry, the CRC found and the CRC expected.
    pub(crate) fn decode(bytes: &[u8; CONTENT_ENTRY_BYTES], place: u64) -> (Self, u32, u32) {
        let mut c = Cursor(bytes);
        let offset = c.u64();
        let (count, block_crc, block_bytes) = (c.u32(), c.u32(), c.u32());
        let entry = Self {
            offset,
            count,
            block_crc,
            block_bytes,
        };
        (entry, entry_crc(bytes, place), c.u32())
    }
}

fn entry_crc(bytes: &[u8], place: u64) -> u32 {
    crc_of(&[&bytes[..bytes.len() - 4], &place.to_le_bytes()])
}

/// The fixed bytes at the end of a finished trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) events: u64,
    pub(crate) contents: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) event_index_offset: u64,
    pub(crate) event_blocks: u64,
    pub(crate) content_index_offset: u64,
    pub(crate) content_blocks: u64,
    pub(crate) tables_offset: u64,
    pub(crate) tables_bytes: u64,
    pub(crate) tables_crc: u32,
    pub(crate) header_crc: u32,
    pub(crate) event_index_crc: u32,
    pub(crate) content_index_crc: u32,
}

impl Trailer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TRAILER_BYTES);
        put64(
            &mut out,
            &[self.events, self.contents, self.first_ns, self.last_ns],
        );
        put64(&mut out, &[self.event_index_offset, self.event_blocks]);
        put64(&mut out, &[self.content_index_offset, self.content_blocks]);
        put64(&mut out, &[self.tables_offset, self.tables_bytes]);
        put32(&mut out, &[self.tables_crc, self.header_crc]);
        put32(&mut out, &[self.event_index_crc, self.content_index_crc]);
        put32(&mut out, &[VERSION]);
        let crc = crc32fast::hash(&out);
        put32(&mut out, &[crc]);
        out.extend_from_slice(&END_MAGIC);
        out
    }

    /// Takes a trailer apart: the trailer, its end magic, the CRC found and the CRC expected.
    pub(crate) fn decode(bytes: &[u8; TRAILER_BYTES]) -> (Self, [u8; 8], u32, u32) {
        let mut c = Cursor(bytes);
        let trailer = Self {
            events: c.u64(),
            contents: c.u64(),
            first_ns: c.u64(),
            last_ns: c.u64(),
            event_index_offset: c.u64(),
            event_blocks: c.u64(),
            content_index_offset: c.u64(),
            content_blocks: c.u64(),
            tables_offset: c.u64(),
            tables_bytes: c.u64(),
            tables_crc: c.u32(),
            header_crc: c.u32(),
            event_index_crc: c.u32(),
            content_index_crc: c.u32(),
        };
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
