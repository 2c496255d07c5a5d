//! All-page accommodation (ezswap section III-A): clean pages of files enter the pool like anonymous ones.
//!
//! A page is looked up in the pool before its file is read. It leaves the pool when the file is written or when the pool needs
//! room, and is never written back, since its file has the content. Without `file-pages=on`, and where a page was written to,
//! the frame is given up for the file.

use warmswap_policy::page::Mark;
use warmswap_policy::{ChunkId, PageId, PageState};

use super::{Engine, Outcome};
use crate::decision::{Action, Cause};

impl Engine {
    /// Whether a page on its way out goes to its file, past the pool.
    pub(crate) fn leaves_to_its_file(&self, page: PageId) -> bool {
        let is_accommodated = self.scheme.file_pages && !self.table[page].has(Mark::Dirty);
        self.table.is_file(page) && !is_accommodated
    }

    /// The frame of a page of a file is given up; its file has the content, or gets it.
    pub(crate) fn discard(&mut self, page: PageId, cause: Cause) {
        let dirty = self.table[page].take(Mark::Dirty);
        self.table[page].state = PageState::Discarded;
        self.budget.usage.frames -= 1;
        self.counters.discarded += 1;
        self.counters.discarded_dirty += u64::from(dirty);
        self.decide(Action::Discard { page, dirty }, cause);
    }

    /// A page of a file is read, since the pool does not have it.
    pub(crate) fn read_file(&mut self) -> Outcome {
        self.counters.file_reads += 1;
        if self.scheme.file_pages {
            self.scheme.admission.page_in(false);
        }
        Outcome::FileRead
    }

    /// Drops the pages of files that are only in this chunk. False when all of them are on their way in.
    pub(crate) fn evict_files(&mut self, chunk: ChunkId) -> bool {
        let mut dropped = 0;
        for page in self.chunks.pages(chunk).to_vec() {
            let entry = &self.table[page];
            if entry.chunk == chunk && entry.state == PageState::Stored {
                self.drop_stored_file(page);
                dropped += 1;
            }
        }
        self.counters.evicted_files += dropped;
        dropped > 0
    }

    /// The copy of a page of a file that is nowhere else in memory is dropped.
    pub(crate) fn drop_stored_file(&mut self, page: PageId) {
        let chunk = self.table[page].chunk;
        self.table[page].state = PageState::Discarded;
        self.absent_less(chunk);
        self.decide(Action::Forget { page, chunk }, Cause::Background);
        self.drop_copy(page);
    }
}
