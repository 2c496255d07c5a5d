//! What leaves the pool when it is full: chunks go to the backing file, pages of files are dropped (`file_pages`).

use rustc_hash::FxHashSet;
use warmswap_policy::ChunkId;

use super::Engine;
use crate::chunks::{Chunk, Place};
use crate::decision::{Action, Cause};

impl Engine {
    /// Sends the next victim of the eviction policy to the backing file, or drops it if it is of a file. Others are
    /// set aside while that takes none. False when nothing can leave.
    pub(crate) fn evict_one(&mut self, cause: Cause) -> bool {
        while let Some(chunk) = self.scheme.eviction.victim() {
            if self.chunks[chunk].is_of_file() {
                return self.evict_files(chunk);
            }
            if self.write_back(chunk, cause) {
                return true;
            }
            self.set_aside(chunk);
        }
        false
    }

    /// Sends a chunk to the backing file, or makes room for it there. False when it takes none.
    fn write_back(&mut self, chunk: ChunkId, cause: Cause) -> bool {
        let bytes = u64::from(self.chunks[chunk].stored_bytes());
        if self.backing_failed {
            return false;
        }
        if !self.budget.backing_has_room(bytes) {
            return self.drop_kept(Place::Backing, cause);
        }
        self.must_stay(chunk);
        self.chunks[chunk].set_place(Place::WritingBack);
        self.budget.writing_back_bytes += bytes;
        self.decide(Action::WriteBack { chunk }, cause);
        true
    }

    /// Whether the chunk has somewhere to go. Without a backing file only pages of files can be given up:
    /// a policy that knew of others would name them, and name nothing else until they left.
    fn can_leave_pool(&self, chunk: ChunkId) -> bool {
        self.chunks[chunk].is_of_file() || self.budget.limits.backing_limit_bytes > 0
    }

    /// The chunk is a candidate for eviction from now on, if it can be.
    pub(crate) fn may_be_evicted(&mut self, chunk: ChunkId) {
        if self.can_leave_pool(chunk) {
            let stored = self.describe(chunk);
            self.scheme.eviction.insert(chunk, stored);
        }
    }

    /// The chunk is a candidate for eviction no more, if it was one.
    pub(crate) fn must_stay(&mut self, chunk: ChunkId) {
        let entry = &mut self.chunks[chunk];
        if entry.is_set_aside() {
            entry.set_set_aside(false);
        } else if self.can_leave_pool(chunk) {
            self.scheme.eviction.remove(chunk);
        }
    }

    /// A candidate that has nowhere to go now stands in the way of others no more.
    fn set_aside(&mut self, chunk: ChunkId) {
        self.must_stay(chunk);
        self.chunks[chunk].set_set_aside(true);
        self.set_aside.push_back(chunk);
        if self.set_aside.len() > 2 * self.chunks.len() + 64 {
            // Those that came back and left again stand there more than once.
            let mut seen = FxHashSet::default();
            let is_set_aside = |&chunk: &ChunkId| {
                self.chunks.get(chunk).is_some_and(Chunk::is_set_aside) && seen.insert(chunk)
            };
            self.set_aside.retain(is_set_aside);
        }
    }

    /// The backing file has so many bytes more room: as many chunks as that, and one more, are candidates again,
    /// those first that were set aside first.
    pub(crate) fn take_up(&mut self, bytes: u64) {
        let mut room = bytes;
        while let Some(chunk) = self.set_aside.pop_front() {
            if !self.chunks.get(chunk).is_some_and(Chunk::is_set_aside) {
                continue;
            }
            self.chunks[chunk].set_set_aside(false);
            self.may_be_evicted(chunk);
            let taken = u64::from(self.chunks[chunk].stored_bytes());
            if taken > room {
                return;
            }
            room -= taken;
        }
    }
}
