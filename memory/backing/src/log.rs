//! Index and segments: where every record is, and which segment is reclaimed next. No I/O.

#[cfg(test)]
mod tests;

use crate::RecordId;

/// A segment is worth cleaning when at least one part in this of it was freed.
const WORTHWHILE_PART: u32 = 10;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) segment: u32,
    /// Bytes from the start of the segment.
    pub(crate) offset: u32,
    /// Bytes of the record with its trailer.
    pub(crate) bytes: u32,
}

/// What appends. Records that survived cleaning live long, so they get segments of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Caller,
    Cleaner,
}

/// A record number: 16 bytes.
#[derive(Clone, Copy, Debug)]
struct RecordEntry {
    /// With `bytes` 0 (not in use) the `segment` is the next free number, or `NONE`.
    extent: Extent,
    generation: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// A head appends to it.
    Open,
    Closed,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    state: State,
    /// Bytes that reservations have taken, from the start.
    used: u32,
    /// Bytes of live records; at most `used`.
    live: u32,
    /// Reservations that are being written.
    pending: u32,
    /// A record in it could not be read; it is left alone until its records are freed.
    damaged: bool,
    /// It was closed before it was full, and counts as if the rest had been freed.
    cut_short: bool,
    /// The value of `Log::closings` when it was closed.
    closed_at: u64,
    /// Record numbers placed here since it was opened, those moved or freed since included.
    records: Vec<u32>,
}

/// The in-memory state of a store.
#[derive(Debug)]
pub(crate) struct Log {
    segment_bytes: u32,
    segments: Vec<Segment>,
    free: Vec<u32>,
    open: [Option<u32>; 2],
    /// Segments closed so far: the clock of the ages.
    closings: u64,
    index: Vec<RecordEntry>,
    first_free_number: u32,
    live_records: u64,
    /// Sum of `live` over the segments.
    live_bytes: u64,
    /// Sum of what the segments have taken: `used` of open ones, all of closed ones.
    taken_bytes: u64,
}

impl Log {
    pub(crate) fn new(segments: u32, segment_bytes: u32) -> Log {
        Log {
            segment_bytes,
            segments: vec![Segment::default(); segments as usize],
            free: (0..segments).rev().collect(),
            open: [None; 2],
            closings: 0,
            index: Vec::new(),
            first_free_number: NONE,
            live_records: 0,
            live_bytes: 0,
            taken_bytes: 0,
        }
    }

    /// A new record id; it names nothing until it is published.
    pub(crate) fn new_id(&mut self) -> Option<RecordId> {
        let number = self.first_free_number;
        if number != NONE {
            let entry = &self.index[number as usize];
            self.first_free_number = entry.extent.segment;
            return Some(RecordId {
                number,
                generation: entry.generation,
            });
        }
        let number = u32::try_from(self.index.len())
            .ok()
            .filter(|&n| n != NONE)?;
        self.index.push(RecordEntry {
            extent: Extent {
                segment: NONE,
                offset: 0,
                bytes: 0,
            },
            generation: 0,
        });
        Some(RecordId {
            number,
            generation: 0,
        })
    }

    /// Gives back an id that was not published, or is no longer.
    pub(crate) fn retire_id(&mut self, id: RecordId) {
        let entry = &mut self.index[id.number as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.extent = Extent {
            segment: self.first_free_number,
            offset: 0,
            bytes: 0,
        };
        self.first_free_number = id.number;
    }

    /// Takes room for `bytes` bytes (at most a segment); `None` when no segment has it. The last
    /// free segment is for the cleaner alone.
    pub(crate) fn reserve(&mut self, head: Head, bytes: u32) -> Option<Extent> {
        if !self.has_room(head, bytes) {
            return None;
        }
        let open = self.open[head as usize];
        let segment = match open.filter(|&segment| self.fits(segment, bytes)) {
            Some(segment) => segment,
            None => {
                if let Some(full) = open {
                    self.close(full);
                }
                let segment = self.free.pop()?;
                self.segments[segment as usize].state = State::Open;
                self.open[head as usize] = Some(segment);
                segment
            }
        };
        let info = &mut self.segments[segment as usize];
        let offset = info.used;
        info.used += bytes;
        info.pending += 1;
        self.taken_bytes += u64::from(bytes);
        Some(Extent {
            segment,
            offset,
            bytes,
        })
    }

    /// Whether a reservation would succeed.
    pub(crate) fn has_room(&self, head: Head, bytes: u32) -> bool {
        let spare = usize::from(head == Head::Caller);
        let in_open = self.open[head as usize].is_some_and(|segment| self.fits(segment, bytes));
        in_open || self.free.len() > spare
    }

    fn fits(&self, segment: u32, bytes: u32) -> bool {
        self.segment_bytes - self.segments[segment as usize].used >= bytes
    }

    /// Makes a record that was written findable.
    pub(crate) fn publish(&mut self, id: RecordId, extent: Extent) {
        self.index[id.number as usize].extent = extent;
        self.live_records += 1;
        self.settle(id, extent);
    }

    /// Points a record at its copy, unless it has been freed or moved since it was at `from`.
    pub(crate) fn relocate(&mut self, id: RecordId, from: Extent, to: Extent) -> bool {
        if self.lookup(id) != Some(from) {
            self.abandon(to);
            return false;
        }
        self.index[id.number as usize].extent = to;
        self.settle(id, to);
        self.bury(from);
        true
    }

    /// Counts a reservation that was written.
    fn settle(&mut self, id: RecordId, extent: Extent) {
        let segment = &mut self.segments[extent.segment as usize];
        segment.live += extent.bytes;
        segment.pending -= 1;
        segment.records.push(id.number);
        self.live_bytes += u64::from(extent.bytes);
    }

    /// Counts a record that is no longer there.
    fn bury(&mut self, extent: Extent) {
        self.segments[extent.segment as usize].live -= extent.bytes;
        self.live_bytes -= u64::from(extent.bytes);
        self.reclaim_if_empty(extent.segment);
    }

    /// Gives up a reservation: its bytes are dead.
    pub(crate) fn abandon(&mut self, extent: Extent) {
        self.segments[extent.segment as usize].pending -= 1;
        self.reclaim_if_empty(extent.segment);
    }

    pub(crate) fn lookup(&self, id: RecordId) -> Option<Extent> {
        let entry = self.index.get(id.number as usize)?;
        (entry.generation == id.generation && entry.extent.bytes > 0).then_some(entry.extent)
    }

    /// Frees a record; whether it existed.
    pub(crate) fn free(&mut self, id: RecordId) -> bool {
        let Some(extent) = self.lookup(id) else {
            return false;
        };
        self.retire_id(id);
        self.live_records -= 1;
        self.bury(extent);
        true
    }

    /// The segment to clean next: the one with the best ratio of benefit (room gained times age)
    /// to cost (reading it and writing what lives), as the log-structured file system of
    /// Rosenblum and Ousterhout (SOSP 1991, section 3.5) chooses. `None` when none is worthwhile.
    pub(crate) fn victim(&self) -> Option<u32> {
        let worthwhile = |segment: &Segment| {
            segment.state == State::Closed
                && segment.pending == 0
                && !segment.damaged
                && self.freed(segment) >= self.segment_bytes / WORTHWHILE_PART
        };
        let score = |segment: &Segment| {
            let live = f64::from(segment.live) / f64::from(self.segment_bytes);
            let age = (self.closings - segment.closed_at + 1) as f64;
            (1.0 - live) * age / (1.0 + live)
        };
        let candidates = (0..).zip(&self.segments).filter(|(_, s)| worthwhile(s));
        candidates
            .max_by(|(_, a), (_, b)| score(a).total_cmp(&score(b)))
            .map(|(number, _)| number)
    }

    /// The live records of a segment.
    pub(crate) fn records_of(&self, segment: u32) -> Vec<(RecordId, Extent)> {
        let numbers = &self.segments[segment as usize].records;
        let mut records: Vec<_> = numbers
            .iter()
            .filter_map(|&number| {
                let entry = self.index[number as usize];
                let id = RecordId {
                    number,
                    generation: entry.generation,
                };
                (entry.extent.bytes > 0 && entry.extent.segment == segment)
                    .then_some((id, entry.extent))
            })
            .collect();
        // A number that was freed and used again here is listed twice.
        records.sort_by_key(|(_, extent)| extent.offset);
        records.dedup_by_key(|(_, extent)| extent.offset);
        records
    }

    /// Keeps the cleaner away from a segment with a record that cannot be read.
    pub(crate) fn set_damaged(&mut self, segment: u32) {
        self.segments[segment as usize].damaged = true;
    }

    fn freed(&self, segment: &Segment) -> u32 {
        let used = if segment.cut_short {
            self.segment_bytes
        } else {
            segment.used
        };
        used - segment.live
    }

    /// Closes the segments that are appended to: later records come to others.
    pub(crate) fn close_open(&mut self) {
        for head in 0..self.open.len() {
            if let Some(segment) = self.open[head].take() {
                self.segments[segment as usize].cut_short = true;
                self.close(segment);
            }
        }
    }

    fn close(&mut self, segment: u32) {
        self.closings += 1;
        let info = &mut self.segments[segment as usize];
        info.state = State::Closed;
        info.closed_at = self.closings;
        self.taken_bytes += u64::from(self.segment_bytes - info.used);
        self.reclaim_if_empty(segment);
    }

    /// Frees a closed segment in which nothing lives and nothing is being written.
    fn reclaim_if_empty(&mut self, segment: u32) {
        let info = &mut self.segments[segment as usize];
        if info.state == State::Closed && info.live == 0 && info.pending == 0 {
            *info = Segment::default();
            self.free.push(segment);
            self.taken_bytes -= u64::from(self.segment_bytes);
        }
    }

    pub(crate) fn live_records(&self) -> u64 {
        self.live_records
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(crate) fn dead_bytes(&self) -> u64 {
        self.taken_bytes - self.live_bytes
    }

    pub(crate) fn free_segments(&self) -> u64 {
        self.free.len() as u64
    }
}

#[cfg(test)]
impl Log {
    /// Live and dead bytes, as the segments have them.
    pub(crate) fn recount(&self) -> (u64, u64) {
        let live = self.segments.iter().map(|s| u64::from(s.live)).sum();
        let dead = |s: &Segment| match s.state {
            State::Free => 0,
            State::Open => s.used - s.live,
            State::Closed => self.segment_bytes - s.live,
        };
        (live, self.segments.iter().map(|s| u64::from(dead(s))).sum())
    }
}
