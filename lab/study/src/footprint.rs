//! The footprint of a trace: how much memory its applications would need if nothing ever left.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use warmswap_page::{PAGE_BYTES, PageAddr};
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

/// Reads `trace` to its end and counts its pages.
///
/// Memory: a bit for each page in dense regions, 16 bytes at worst.
///
/// # Errors
/// The trace cannot be read.
pub fn footprint(trace: &TraceReader) -> Result<Footprint, TraceError> {
    let mut pages = Pages::default();
    let mut events = trace.events();
    let mut block: Vec<Event> = Vec::new();
    while events.next_block(&mut block)? {
        for event in &block {
            if let EventKind::Access { page, .. } | EventKind::Content { page, .. } = event.kind {
                pages.insert(event.app.0, page);
            }
        }
    }
    Ok(pages.count)
}

/// A set of pages: one word for 64 neighbours.
#[derive(Debug, Default)]
struct Pages {
    anon: FxHashMap<(u16, u64), u64>,
    files: FxHashMap<(u32, u64), u64>,
    count: Footprint,
}

impl Pages {
    fn insert(&mut self, app: u16, page: PageAddr) {
        let (word, bit, count) = match page {
            PageAddr::Anon { number } => (
                self.anon.entry((app, number / 64)).or_default(),
                1 << (number % 64),
                &mut self.count.anon_pages,
            ),
            PageAddr::File { file, number } => (
                self.files.entry((file.0, number / 64)).or_default(),
                1 << (number % 64),
                &mut self.count.file_pages,
            ),
        };
        *count += u64::from(*word & bit == 0);
        *word |= bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, page};
    use warmswap_page::FileId;

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
