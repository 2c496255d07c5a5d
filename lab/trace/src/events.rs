//! The events of a trace as a stream.

use std::path::Path;
use std::sync::Arc;

use crate::columns;
use crate::error::{Result, Section, TraceError};
use crate::event::Event;
use crate::format::{
    EVENT_BLOCK_MAGIC, EVENT_BYTES, EVENT_ENTRY_BYTES, EVENT_HEADER_BYTES, EventBlockHeader,
    EventEntry, MAX_BLOCK_EVENTS, MAX_PAYLOAD_BYTES, Packing,
};
use crate::reader::Inner;
use crate::stop::Stop;

/// Index entries that are read at once.
const ENTRIES_AT_ONCE: u64 = 256;

/// Events that the iterator gives between two looks at [`Stop`]: a few hundred microseconds of a replay.
const STOP_EVERY_EVENTS: usize = 1024;

/// The events of a trace in order, one by one as an iterator, or block by block with
/// [`next_block`](Self::next_block), which is faster.
///
/// After an error there are no more events.
pub struct Events {
    inner: Arc<Inner>,
    stop: Stop,
    index: IndexWindow,
    next_block: u64,
    /// Number of the event that the next block must begin with; `None` right after a seek.
    expected_event: Option<u64>,
    last_ns: u64,
    skip: Skip,
    bytes: Vec<u8>,
    raw: Vec<u8>,
    block: Vec<Event>,
    given: usize,
}

/// Events at the start of the first block that were not asked for.
#[derive(Clone, Copy)]
enum Skip {
    None,
    ToEvent(u64),
    ToTime(u64),
}

/// A stretch of the event index.
struct IndexWindow {
    first: u64,
    bytes: Vec<u8>,
}

impl Events {
    pub(crate) fn new(inner: Arc<Inner>, stop: Stop, block: u64) -> Self {
        Self {
            inner,
            stop,
            index: IndexWindow {
                first: 0,
                bytes: Vec::new(),
            },
            next_block: block,
            expected_event: (block == 0).then_some(0),
            last_ns: 0,
            skip: Skip::None,
            bytes: Vec::new(),
            raw: Vec::new(),
            block: Vec::new(),
            given: 0,
        }
    }

    pub(crate) fn skip_to_event(&mut self, n: u64) {
        self.skip = Skip::ToEvent(n);
    }

    pub(crate) fn skip_to_time(&mut self, time_ns: u64) {
        self.skip = Skip::ToTime(time_ns);
    }

    /// Replaces what is in `events` by the next events, up to 65536 of them. False at the end of the
    /// trace, with `events` empty. Events that the iterator has unpacked but not yet returned come first.
    ///
    /// # Errors
    ///
    /// The block is damaged or cannot be read; `events` is then empty, and the stream is at its end.
    pub fn next_block(&mut self, events: &mut Vec<Event>) -> Result<bool> {
        events.clear();
        if self.given < self.block.len() {
            events.extend_from_slice(&self.block[self.given..]);
            self.given = self.block.len();
            return Ok(true);
        }
        while events.is_empty() && self.next_block < self.inner.trailer.event_blocks {
            if let Err(error) = self.read_block(events) {
                events.clear();
                self.next_block = u64::MAX;
                return Err(error);
            }
        }
        Ok(!events.is_empty())
    }

    /// Reads, checks and unpacks the next block, and drops from it what was not asked for.
    fn read_block(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.inner.check(&self.stop)?;
        let place = self.next_block;
        let entry = self.entry(place)?;
        self.read_packed(place, &entry)?;
        let source = &self.inner.source;
        let damaged = |found: String, expected: String| {
            source.damaged(entry.offset, Section::EventBlock, found, expected)
        };
        let (_, header) = EventBlockHeader::decode(&self.bytes);
        let count = header.count as usize;
        let payload = &self.bytes[EVENT_HEADER_BYTES..];
        let raw = match Packing::from_u32(header.packing) {
            Some(Packing::Raw) if payload.len() == count * EVENT_BYTES => payload,
            Some(Packing::Lz4) => {
                self.raw.resize(count * EVENT_BYTES, 0);
                let unpacked = lz4::block::decompress_to_buffer(
                    payload,
                    Some(self.raw.len() as i32),
                    &mut self.raw,
                );
                if !matches!(unpacked, Ok(bytes) if bytes == count * EVENT_BYTES) {
                    return Err(damaged(
                        "bad LZ4 data".to_owned(),
                        format!("{count} packed events"),
                    ));
                }
                &self.raw
            }
            _ => {
                return Err(damaged(
                    format!("packing {}", header.packing),
                    "0 or 1".to_owned(),
                ));
            }
        };
        let last_ns = columns::decode(raw, count, header.first_ns, self.inner.limits(), events)
            .map_err(|bad| {
                let number = header.first_event + bad.index as u64;
                damaged(
                    format!("{} {} in event {number}", bad.field, bad.found),
                    bad.expected,
                )
            })?;
        source.same(
            entry.offset,
            Section::EventBlock,
            "last time",
            (last_ns, header.last_ns),
        )?;
        if header.first_ns < self.last_ns
            || last_ns < header.first_ns
            || last_ns > self.inner.trailer.last_ns
        {
            let found = format!("times {} to {last_ns} ns", header.first_ns);
            return Err(damaged(
                found,
                format!("{} to {} ns", self.last_ns, self.inner.trailer.last_ns),
            ));
        }
        self.last_ns = last_ns;
        self.next_block += 1;
        self.expected_event = Some(header.first_event + u64::from(header.count));
        if self.next_block == self.inner.trailer.event_blocks {
            let total = header.first_event + u64::from(header.count);
            source.same(
                entry.offset,
                Section::EventBlock,
                "events up to",
                (total, self.inner.trailer.events),
            )?;
        }
        let unwanted = match std::mem::replace(&mut self.skip, Skip::None) {
            Skip::None => 0,
            Skip::ToEvent(n) => {
                (n.saturating_sub(header.first_event)).min(events.len() as u64) as usize
            }
            Skip::ToTime(time_ns) => events.partition_point(|e| e.time_ns < time_ns),
        };
        events.drain(..unwanted);
        Ok(())
    }

    /// Reads the block of `entry` into `self.bytes` and checks it, up to what needs unpacking.
    fn read_packed(&mut self, place: u64, entry: &EventEntry) -> Result<()> {
        let source = &self.inner.source;
        let at_entry = self.inner.event_entry_offset(place);
        let index = Section::EventIndex;
        let whole = EVENT_HEADER_BYTES + 1..=EVENT_HEADER_BYTES + MAX_PAYLOAD_BYTES;
        if !whole.contains(&(entry.block_bytes as usize)) {
            let found = format!("a block of {} bytes", entry.block_bytes);
            return Err(source.damaged(
                at_entry,
                index,
                found,
                format!("{} to {}", whole.start(), whole.end()),
            ));
        }
        if !(1..=MAX_BLOCK_EVENTS).contains(&(entry.count as usize)) {
            let found = format!("a block of {} events", entry.count);
            return Err(source.damaged(at_entry, index, found, format!("1 to {MAX_BLOCK_EVENTS}")));
        }
        let blocks = self.inner.data_offset..self.inner.trailer.event_index_offset;
        if entry.offset < blocks.start
            || entry.offset.saturating_add(entry.block_bytes.into()) > blocks.end
        {
            let found = format!("a block at byte {}", entry.offset);
            return Err(source.damaged(
                at_entry,
                index,
                found,
                format!("{} to {}", blocks.start, blocks.end),
            ));
        }
        let end = entry.first_event.checked_add(entry.count.into());
        if end.is_none_or(|end| end > self.inner.trailer.events) {
            let found = format!("{} events from event {}", entry.count, entry.first_event);
            let expected = format!("at most {} in all", self.inner.trailer.events);
            return Err(source.damaged(at_entry, index, found, expected));
        }
        if let Some(expected) = self.expected_event {
            source.same(
                at_entry,
                index,
                "first event",
                (entry.first_event, expected),
            )?;
        }
        self.bytes.resize(entry.block_bytes as usize, 0);
        let block = Section::EventBlock;
        source.read(entry.offset, &mut self.bytes, block)?;
        let (magic, header) = EventBlockHeader::decode(&self.bytes);
        source.same(entry.offset, block, "magic", (magic, EVENT_BLOCK_MAGIC))?;
        source.checksum(
            entry.offset,
            block,
            crc32fast::hash(&self.bytes[8..]),
            header.crc,
        )?;
        source.checksum(entry.offset, block, header.crc, entry.block_crc)?;
        let payload_bytes = entry.block_bytes - EVENT_HEADER_BYTES as u32;
        source.same(
            entry.offset,
            block,
            "payload bytes",
            (header.payload_bytes, payload_bytes),
        )?;
        source.same(entry.offset, block, "events", (header.count, entry.count))?;
        source.same(
            entry.offset,
            block,
            "first event",
            (header.first_event, entry.first_event),
        )?;
        source.same(
            entry.offset,
            block,
            "first time",
            (header.first_ns, entry.first_ns),
        )
    }

    fn entry(&mut self, place: u64) -> Result<EventEntry> {
        let held = self.index.bytes.len() as u64 / EVENT_ENTRY_BYTES as u64;
        if place < self.index.first || place >= self.index.first + held {
            let entries = (self.inner.trailer.event_blocks - place).min(ENTRIES_AT_ONCE);
            self.index
                .bytes
                .resize(entries as usize * EVENT_ENTRY_BYTES, 0);
            self.index.first = place;
            let offset = self.inner.event_entry_offset(place);
            self.inner
                .source
                .read(offset, &mut self.index.bytes, Section::EventIndex)?;
        }
        let entries = self.index.bytes.as_chunks::<EVENT_ENTRY_BYTES>().0;
        self.inner
            .decode_event_entry(&entries[(place - self.index.first) as usize], place)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.inner.source.path
    }

    /// The offset and length in bytes of the next block; `None` at the end.
    pub(crate) fn peek_extent(&mut self) -> Result<Option<(u64, u64)>> {
        if self.next_block >= self.inner.trailer.event_blocks {
            return Ok(None);
        }
        let entry = self.entry(self.next_block)?;
        Ok(Some((entry.offset, entry.block_bytes.into())))
    }
}

impl Iterator for Events {
    type Item = std::result::Result<Event, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.given == self.block.len() {
            let mut block = std::mem::take(&mut self.block);
            self.given = 0;
            let more = self.next_block(&mut block);
            self.block = block;
            match more {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        if self.given.is_multiple_of(STOP_EVERY_EVENTS)
            && let Err(error) = self.inner.check(&self.stop)
        {
            (self.given, self.next_block) = (self.block.len(), u64::MAX);
            return Some(Err(error));
        }
        self.given += 1;
        Some(Ok(self.block[self.given - 1]))
    }
}
