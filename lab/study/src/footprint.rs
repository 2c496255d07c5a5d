//! The footprint of a trace: how much memory its applications would need if nothing ever left.

use std::ops::Range;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use warmswap_page::{AppId, FileId, PAGE_BYTES, PageAddr};
use warmswap_trace::{Event, EventKind, TraceError, TraceReader};

/// Distinct pages that a trace touches, or whose content it tells, over its whole length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Anonymous pages, each counted once for its application.
    pub anon_pages: u64,
    /// Pages of files, each counted once however many applications share it.
    pub file_pages: u64,
}

impl Footprint {
    /// Bytes of the anonymous pages and, if asked for, of the pages of files.
    pub fn bytes(self, file_pages: bool) -> u64 {
        let files = if file_pages { self.file_pages } else { 0 };
        (self.anon_pages + files) * PAGE_BYTES as u64
    }
}

/// Events that are worth a thread.
const PART_EVENTS: u64 = 1 << 20;

/// Reads `trace` to its end, on all cores, and counts its pages.
///
/// Memory: a bit for each page in dense regions, 24 bytes at worst, for each core.
///
/// # Errors
/// The trace cannot be read.
pub fn footprint(trace: &TraceReader) -> Result<Footprint, TraceError> {
    let events = trace.summary().events;
    let parts = events
        .div_ceil(PART_EVENTS)
        .clamp(1, rayon::current_num_threads() as u64);
    let first_of = |part: u64| events / parts * part + part.min(events % parts);
    let pages = (0..parts)
        .into_par_iter()
        .map(|part| Pages::of(trace, first_of(part)..first_of(part + 1)))
        .try_reduce(Pages::default, |one, other| Ok(one.and(other)))?;
    Ok(pages.count())
}

/// A set of pages: one word for 64 neighbours.
#[derive(Debug, Default)]
struct Pages(FxHashMap<(Space, u64), u64>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    Anon(AppId),
    File(FileId),
}

impl Pages {
    /// Those of some events, by number.
    fn of(trace: &TraceReader, wanted: Range<u64>) -> Result<Self, TraceError> {
        let mut pages = Self::default();
        // Neighbours are touched one after the other: a word goes into the map when another one begins.
        let (mut at, mut word) = ((Space::File(FileId(0)), 0), 0);
        let mut events = trace.events_from(wanted.start)?;
        let mut left = wanted.end - wanted.start;
        let mut block: Vec<Event> = Vec::new();
        while left > 0 && events.next_block(&mut block)? {
            block.truncate(left.min(block.len() as u64) as usize);
            left -= block.len() as u64;
            for event in &block {
                let (EventKind::Access { page, .. } | EventKind::Content { page, .. }) = event.kind
                else {
                    continue;
                };
                let (space, number) = match page {
                    PageAddr::Anon { number } => (Space::Anon(event.app), number),
                    PageAddr::File { file, number } => (Space::File(file), number),
                };
                if at != (space, number / 64) {
                    *pages.0.entry(at).or_default() |= word;
                    (at, word) = ((space, number / 64), 0);
                }
                word |= 1 << (number % 64);
            }
        }
        *pages.0.entry(at).or_default() |= word;
        Ok(pages)
    }

    /// These and others.
    fn and(mut self, other: Self) -> Self {
        if self.0.len() < other.0.len() {
            return other.and(self);
        }
        for (at, word) in other.0 {
            *self.0.entry(at).or_default() |= word;
        }
        self
    }

    fn count(&self) -> Footprint {
        let mut count = Footprint::default();
        for (&(space, _), word) in &self.0 {
            let pages = match space {
                Space::Anon(_) => &mut count.anon_pages,
                Space::File(_) => &mut count.file_pages,
            };
            *pages += u64::from(word.count_ones());
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, page};

    #[test]
    fn pages_count_once_for_each_application_and_files_once_for_all() {
        let mut script = Script::new(2);
        script.launch(0, &[1, 2, 2, 70]).launch(1, &[1]);
        script.content(1, 9, &page(3));
        let file = script.file();
        assert_eq!(file, FileId(0));
        script.read_file(0, file, 5).read_file(1, file, 5);
        let footprint = script.subject().footprint;
        assert_eq!(
            footprint,
            Footprint {
                anon_pages: 5,
                file_pages: 1
            }
        );
        assert_eq!(footprint.bytes(false), 5 * 4096);
        assert_eq!(footprint.bytes(true), 6 * 4096);
    }
}
