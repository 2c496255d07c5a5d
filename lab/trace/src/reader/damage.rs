//! What a damaged file does: it is refused, and nothing wrong is ever read from it.
//!
//! Deterministic mutations of a small trace: every one must be found by the full check, and reading on
//! in spite of it must give true events and contents, or an error, and never a panic.

use oorandom::Rand64;

use super::*;
use crate::event::Event;
use crate::testing::{page, sample_trace, scratch};

struct Original {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    events: Vec<Event>,
    contents: u64,
}

impl Original {
    fn new() -> Self {
        let dir = scratch();
        let (path, events, contents) = sample_trace(dir.path());
        Self {
            bytes: std::fs::read(path).unwrap(),
            dir,
            events,
            contents,
        }
    }

    /// Reads a mutation of the file in every way there is.
    fn survives(&self, bytes: &[u8], what: &str) {
        if bytes == self.bytes {
            return;
        }
        let path = self.dir.path().join("mutated.wst");
        std::fs::write(&path, bytes).unwrap();
        let Ok(reader) = TraceReader::open(&path) else {
            return;
        };
        assert!(
            reader.verify(|_, _| {}).is_err(),
            "{what}: the full check found nothing"
        );
        for (n, event) in reader.events().map_while(Result::ok).enumerate() {
            assert_eq!(Some(&event), self.events.get(n), "{what}: event {n}");
        }
        for n in [0, 57, self.events.len() as u64] {
            if let Ok(Some(Ok(event))) = reader.events_from(n).map(|mut e| e.next()) {
                assert_eq!(
                    Some(&event),
                    self.events.get(n as usize),
                    "{what}: event {n}"
                );
            }
        }
        let time_ns = self.events[200].time_ns;
        if let Ok(Some(Ok(event))) = reader.events_from_time(time_ns).map(|mut e| e.next()) {
            assert!(
                self.events.contains(&event),
                "{what}: event from {time_ns} ns"
            );
        }
        let mut got = [0; PAGE_BYTES];
        for n in 0..self.contents {
            if reader.content(ContentId(n as u32), &mut got).is_ok() {
                assert!(got == page(n), "{what}: content {n} is wrong");
            }
        }
    }

    /// Offsets at which something begins, as the trailer and the indexes tell.
    fn boundaries(&self) -> Vec<usize> {
        let path = self.dir.path().join("sample.wst");
        let inner = TraceReader::open(path).unwrap().inner;
        let trailer = inner.trailer;
        let mut all = vec![0, 8, 20, HEADER_BYTES as u64, inner.data_offset];
        for block in 0..trailer.event_blocks {
            let entry = inner.event_entry(block).unwrap();
            all.extend([
                entry.offset,
                entry.offset + 48,
                inner.event_entry_offset(block),
            ]);
        }
        for block in 0..trailer.content_blocks {
            let entry = inner.content_entry(block).unwrap();
            all.extend([
                entry.offset,
                entry.offset + 32,
                trailer.content_index_offset + block * 24,
            ]);
        }
        let end = inner.source.len;
        all.extend([
            trailer.tables_offset,
            end - TRAILER_BYTES as u64,
            end - 8,
            end,
        ]);
        all.sort_unstable();
        all.into_iter().map(|offset| offset as usize).collect()
    }
}

#[test]
fn truncation_anywhere_is_refused_on_opening() {
    let original = Original::new();
    let path = original.dir.path().join("cut.wst");
    let near = original
        .boundaries()
        .into_iter()
        .flat_map(|at| at.saturating_sub(2)..at + 3);
    let spread = (0..original.bytes.len()).step_by(1009);
    for length in near
        .chain(spread)
        .filter(|&length| length < original.bytes.len())
    {
        std::fs::write(&path, &original.bytes[..length]).unwrap();
        let error = TraceReader::open(&path).unwrap_err();
        let expected = match length {
            0 => matches!(error, TraceError::NotATrace { .. }),
            _ => matches!(error, TraceError::Truncated { .. }),
        };
        assert!(expected, "{length} bytes: {error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let original = Original::new();
    let mut random = Rand64::new(11);
    let near: Vec<usize> = original
        .boundaries()
        .into_iter()
        .flat_map(|at| at..at + 48)
        .collect();
    let length = original.bytes.len();
    let spread: Vec<usize> = (0..400)
        .map(|_| random.rand_range(0..length as u64) as usize)
        .collect();
    for at in near.into_iter().chain(spread).filter(|&at| at < length) {
        let mut bytes = original.bytes.clone();
        let bit = random.rand_range(0..8);
        bytes[at] ^= 1 << bit;
        original.survives(&bytes, &format!("bit {bit} of byte {at}"));
    }
}

#[test]
fn splices_are_found() {
    let original = Original::new();
    let other = {
        let dir = scratch();
        let path = dir.path().join("other.wst");
        let mut writer = crate::TraceWriter::create(&path, Description::new("other")).unwrap();
        let app = writer.add_app("one", "").unwrap();
        for n in 0..200 {
            writer.content(&page(n + 1000)).unwrap();
            let kind = crate::EventKind::Exit;
            writer
                .event(&Event {
                    time_ns: n,
                    app,
                    kind,
                })
                .unwrap();
        }
        writer.finish().unwrap();
        std::fs::read(path).unwrap()
    };
    let boundaries = original.boundaries();
    let mut random = Rand64::new(12);
    let mut below = |limit: usize| random.rand_range(0..limit as u64 + 1) as usize;
    for round in 0..500 {
        let mut bytes = original.bytes.clone();
        // Half of the cuts are where something begins, which is where they are hardest to notice.
        let mut place = |length: usize| match below(1) {
            0 => below(length),
            _ => boundaries[below(boundaries.len() - 1)].min(length),
        };
        let (a, b, c) = (place(bytes.len()), place(bytes.len()), place(bytes.len()));
        let (from, to) = (a.min(b), a.max(b));
        match round % 4 {
            0 => {
                let length = (to - from).min(bytes.len() - c);
                let piece = original.bytes[from..from + length].to_vec();
                bytes[c..c + length].copy_from_slice(&piece);
            }
            1 => drop(bytes.drain(from..to)),
            2 => {
                let piece = original.bytes[from..to].to_vec();
                bytes.splice(c..c, piece);
            }
            _ => {
                let (from, to) = (from.min(other.len()), to.min(other.len()));
                let length = (to - from).min(bytes.len() - c);
                bytes[c..c + length].copy_from_slice(&other[from..from + length]);
            }
        }
        original.survives(&bytes, &format!("splice {round}: {from}..{to} to {c}"));
    }
}

#[test]
fn the_end_of_another_trace_does_not_fit() {
    let original = Original::new();
    let dir = scratch();
    let (path, ..) = sample_trace(dir.path());
    let mut twin = std::fs::read(&path).unwrap();
    let at = twin.windows(6).position(|w| w == b"\"test\"").unwrap();
    twin[at + 1] = b'b';
    let json = u32::from_le_bytes(twin[12..16].try_into().unwrap()) as usize;
    let crc = crc32fast::hash(&twin[HEADER_BYTES..HEADER_BYTES + json]);
    twin[16..20].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32fast::hash(&twin[..20]);
    twin[20..24].copy_from_slice(&crc.to_le_bytes());
    original.survives(&twin, "a header with right checksums from another trace");
    std::fs::write(&path, &twin).unwrap();
    let error = TraceReader::open(&path).unwrap_err();
    assert!(
        matches!(
            error,
            TraceError::Checksum {
                section: Section::Header,
                ..
            }
        ),
        "{error}"
    );
}
