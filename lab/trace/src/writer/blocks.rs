//! Blocks of events and of contents, and the indices behind them, as they go to the file.

use std::io::{Read as _, Write as _};

use crc32fast::Hasher;
use warmswap_page::PAGE_BYTES;

use super::TraceWriter;
use super::spool::Spool;
use crate::error::Result;
use crate::format::{
    CONTENTS_PER_BLOCK, ContentBlockHeader, ContentEntry, EventBlockHeader, EventEntry, Packing,
};

impl TraceWriter {
    pub(super) fn flush_events(&mut self) -> Result<()> {
        let count = self.columns.len();
        if count == 0 {
            return Ok(());
        }
        let (first_ns, last_ns) = (self.columns.first_ns, self.columns.last_ns);
        let mut raw = std::mem::take(&mut self.raw);
        let mut packed = std::mem::take(&mut self.packed);
        self.columns.drain_into(&mut raw);
        packed.resize(lz4::block::compress_bound(raw.len()).unwrap_or(0), 0);
        let (payload, packing) =
            match lz4::block::compress_to_buffer(&raw, None, false, &mut packed) {
                Ok(bytes) if bytes < raw.len() => (&packed[..bytes], Packing::Lz4),
                _ => (&raw[..], Packing::Raw),
            };
        let first_event = self.events - count as u64;
        let mut header = EventBlockHeader {
            count: count as u32,
            payload_bytes: payload.len() as u32,
            packing: packing as u32,
            first_event,
            first_ns,
            last_ns,
            ..EventBlockHeader::default()
        };
        let sealed = header.seal(payload);
        let entry = EventEntry {
            offset: self.offset,
            first_event,
            first_ns,
            count: count as u32,
            block_crc: header.crc,
            block_bytes: (sealed.len() + payload.len()) as u32,
        };
        self.append(&[&sealed, payload])?;
        self.spool(|w| &mut w.event_index, |place| entry.encode(place))?;
        (self.raw, self.packed) = (raw, packed);
        Ok(())
    }

    pub(super) fn flush_contents(&mut self) -> Result<()> {
        if self.pages.is_empty() {
            return Ok(());
        }
        let mut pages = std::mem::take(&mut self.pages);
        let mut packed = std::mem::take(&mut self.packed);
        packed.resize(zstd::zstd_safe::compress_bound(pages.len()), 0);
        let (payload, packing) = match self.compressor.compress_to_buffer(&pages, &mut packed[..]) {
            Ok(bytes) if bytes < pages.len() => (&packed[..bytes], Packing::Zstd),
            _ => (&pages[..], Packing::Raw),
        };
        let count = (pages.len() / PAGE_BYTES) as u32;
        let mut header = ContentBlockHeader {
            count,
            payload_bytes: payload.len() as u32,
            packing: packing as u32,
            first_content: self.content_index.entries * CONTENTS_PER_BLOCK as u64,
            ..ContentBlockHeader::default()
        };
        let sealed = header.seal(payload);
        let entry = ContentEntry {
            offset: self.offset,
            count,
            block_crc: header.crc,
            block_bytes: (sealed.len() + payload.len()) as u32,
        };
        self.append(&[&sealed, payload])?;
        self.spool(|w| &mut w.content_index, |place| entry.encode(place))?;
        pages.clear();
        (self.pages, self.packed) = (pages, packed);
        Ok(())
    }

    pub(super) fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.guarded("write", |w| {
            for part in parts {
                w.file.as_file_mut().write_all(part)?;
                w.offset += part.len() as u64;
            }
            Ok(())
        })
    }

    fn spool(
        &mut self,
        which: fn(&mut Self) -> &mut Spool,
        encode: impl Fn(u64) -> Vec<u8>,
    ) -> Result<()> {
        self.guarded("write the index of", |w| which(w).push(encode))
    }

    /// Appends a whole index; returns its CRC.
    pub(super) fn append_index(&mut self, which: fn(&mut Self) -> &mut Spool) -> Result<u32> {
        let mut crc = Hasher::new();
        self.guarded("write the index of", |w| {
            let mut index = which(w).rewind()?;
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let bytes = index.read(&mut buffer)?;
                if bytes == 0 {
                    return Ok(());
                }
                crc.update(&buffer[..bytes]);
                w.file.as_file_mut().write_all(&buffer[..bytes])?;
                w.offset += bytes as u64;
            }
        })?;
        Ok(crc.finalize())
    }
}
