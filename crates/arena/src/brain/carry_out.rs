//! The carrying out of decisions.

use warmswap_codec::{ChunkPlan, decode, encode_contiguous, fill, same_filled};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_engine::{Action, Decision, Place, Refusal};
use warmswap_policy::{ChunkId, PageId, PageState};
use warmswap_pool::Content;
use warmswap_sys::uffd::{Mechanism, Slots};
use warmswap_trace::PAGE_BYTES;
use xxhash_rust::xxh3::xxh3_128;

use super::Brain;
use crate::directory::{Claim, State, Word};
use crate::error::ServeError;
use crate::service::Core;
use crate::store::{Body, MEMBER_BYTES, StoreError, prefix_bytes};

/// Share of the pool's memory that holds no object and makes compaction worth its time before a refusal, in
/// percent.
const WASTE_WHEN_FULL_PERCENT: u64 = 5;

/// The pages of a chunk that is being stored, with their words as they were when they were read.
type Taken = [Option<Word>; MAX_CHUNK_PAGES];

impl Brain {
    pub(super) fn carry_out(&mut self, core: &Core, decision: Decision) -> Result<(), ServeError> {
        match decision.action {
            Action::Store { chunk, plan } => self.store(core, chunk, Some(plan)),
            Action::StoreRaw { chunk } => self.store(core, chunk, None),
            Action::Drop { page } => self.drop_frame(core, page),
            Action::Load { chunk, .. } => self.prefetch(core, chunk),
            Action::WriteBack { chunk } => {
                match core.store.write_back(chunk) {
                    Ok(()) => self.engine.written_back(chunk),
                    Err(_) => self.engine.write_back_failed(chunk),
                }
                Ok(())
            }
            Action::Free { chunk, .. } => Ok(core.store.free(chunk)?),
            Action::Kill { .. } => {
                self.engine.kill_refused();
                Ok(())
            }
            Action::Discard { .. } => {
                debug_assert!(false, "an arena has no pages of files");
                Ok(())
            }
        }
    }

    // ---- out ----

    /// Stores a chunk: with a plan in the pool, without one as it is in the backing file.
    fn store(
        &mut self,
        core: &Core,
        chunk: ChunkId,
        plan: Option<ChunkPlan>,
    ) -> Result<(), ServeError> {
        self.chunks = self.chunks.max(chunk.index() + 1);
        let ids = self.engine.chunk_pages(chunk).to_vec();
        let pages: Vec<_> = ids.iter().map(|&id| self.number(id)).collect();
        let mut taken: Taken = [None; MAX_CHUNK_PAGES];
        let mut count = 0;
        for (i, (&id, &page)) in ids.iter().zip(&pages).enumerate() {
            let room = &mut self.plain[i * PAGE_BYTES..][..PAGE_BYTES];
            if self.engine.is_leaving(chunk, id) {
                taken[i] = Self::look(core, page, |bytes| room.copy_from_slice(bytes));
                if taken[i].is_none() {
                    self.stays(page);
                }
            }
            if taken[i].is_none() {
                // A hole: nobody asks for it.
                self.plain[i * PAGE_BYTES..][..PAGE_BYTES].fill(0);
            } else {
                count += 1;
            }
        }
        self.counts.compressed += count;
        let stored = match plan {
            Some(plan) => self.put(core, chunk, plan, &pages),
            None => core
                .store
                .put_raw(chunk, &self.plain[..PAGE_BYTES])
                .map(|()| PAGE_BYTES)
                .map_err(|_| Refusal::BackingFailed),
        };
        match stored {
            Ok(bytes) => self.stored(core, chunk, (&pages, &taken), (plan.is_some(), bytes)),
            Err(refusal) => {
                for (&page, word) in pages.iter().zip(&taken) {
                    if let Some(word) = *word {
                        Self::put_back(core, page, word)?;
                    }
                }
                self.engine.refused(chunk, refusal);
                Ok(())
            }
        }
    }

    /// Encodes the pages in `plain` into the pool; bytes stored.
    fn put(
        &mut self,
        core: &Core,
        chunk: ChunkId,
        plan: ChunkPlan,
        pages: &[usize],
    ) -> Result<usize, Refusal> {
        let plain = &self.plain[..pages.len() * PAGE_BYTES];
        let content = if let Some(word) = same_filled(plain) {
            Content::Filled(word)
        } else {
            let prefix = prefix_bytes(pages.len());
            let (members, object) = self.encoded.split_at_mut(prefix);
            for (room, &page) in members
                .as_chunks_mut::<MEMBER_BYTES>()
                .0
                .iter_mut()
                .zip(pages)
            {
                *room = (page as u32).to_le_bytes();
            }
            let encoded = encode_contiguous(&mut self.scratch, plan, plain, object)
                .map_err(|_| Refusal::PoolFull)?;
            Content::Bytes(&self.encoded[..prefix + encoded.bytes])
        };
        let stored = core.store.put(chunk, plan, pages.len(), content);
        let stats = core.store.pool.stats();
        match stored {
            Err(_) if stats.waste_bytes() * 100 > stats.memory_bytes * WASTE_WHEN_FULL_PERCENT => {
                core.store.pool.compact(u64::MAX);
                core.store.put(chunk, plan, pages.len(), content)
            }
            stored => stored,
        }
        .map_err(|_| Refusal::PoolFull)
    }

    /// A chunk is stored: its pages give their frames up, but those that were touched meanwhile.
    fn stored(
        &mut self,
        core: &Core,
        chunk: ChunkId,
        (pages, taken): (&[usize], &Taken),
        (in_pool, bytes): (bool, usize),
    ) -> Result<(), ServeError> {
        let mut freed = Vec::with_capacity(pages.len());
        for (i, (&page, word)) in pages.iter().zip(taken).enumerate() {
            let Some(word) = *word else { continue };
            if self.keep_copies {
                let plain = &self.plain[i * PAGE_BYTES..][..PAGE_BYTES];
                core.directory.set_hash(page, xxh3_128(plain));
            }
            let now = Word::of(State::Stored).stored(chunk, i as u8);
            match Self::give_up(core, page, word, now)? {
                Some(slot) => freed.extend(slot),
                // Touched on its way out: the engine hears of it before it hears of the store.
                None => self.stays(page),
            }
        }
        let place = if in_pool { Place::Pool } else { Place::Backing };
        self.engine.stored(chunk, place, bytes as u32);
        self.free_frames(core, freed)
    }

    /// Frames came free: first the budget gets what the pool took, then those who wait.
    fn free_frames(&mut self, core: &Core, freed: Vec<Slots>) -> Result<(), ServeError> {
        self.report(core);
        for slot in freed {
            core.frames.put_free_or_trim(&core.memory, slot)?;
        }
        Ok(())
    }

    /// A page leaves for the copy that its chunk holds, if it was not written to since.
    fn drop_frame(&mut self, core: &Core, id: PageId) -> Result<(), ServeError> {
        let page = self.number(id);
        let mut hash = 0;
        let looked = Self::look(core, page, |bytes| hash = xxh3_128(bytes));
        let Some(word) = looked else {
            self.stayed.push(page);
            return Ok(());
        };
        let is_clean =
            core.directory.hash(page) == Some(hash) && self.engine.chunk_of(id) == Some(word.chunk);
        if !is_clean {
            self.counts.found_dirty += 1;
            if self.engine.page_state(id) != PageState::Stored {
                // A prediction wants it back already.
                self.stayed.push(page);
                return Self::put_back(core, page, word);
            }
            self.engine.copy_is_stale(id);
            return Ok(());
        }
        let now = Word::of(State::Stored).stored(word.chunk, word.index);
        match Self::give_up(core, page, word, now)? {
            Some(slot) => {
                self.counts.left_clean += 1;
                self.free_frames(core, slot.into_iter().collect())
            }
            None => {
                self.stayed.push(page);
                Ok(())
            }
        }
    }

    // ---- in ----

    /// Decompresses a chunk ahead of use: its pages wait in staging.
    fn prefetch(&mut self, core: &Core, chunk: ChunkId) -> Result<(), ServeError> {
        let ids = self.engine.chunk_pages(chunk).to_vec();
        let wanted = ids
            .iter()
            .filter(|&&id| self.engine.is_loading(chunk, id))
            .count();
        let Some(mut slots) = spare_slots(core, wanted)? else {
            self.engine.load_abandoned(chunk);
            return Ok(());
        };
        let (plain, scratch) = (&mut self.plain, &mut self.scratch);
        // Only the holder of the engine's lock frees chunks, so no page need be held.
        let read = core.store.read(chunk, &mut self.record, |content| {
            let out = plain
                .get_mut(..content.pages * PAGE_BYTES)
                .ok_or(StoreError::NotStored(chunk.0))?;
            match content.body {
                Body::Filled(word) => fill(word, out),
                Body::Object(object) => decode(scratch, content.plan, object, out)
                    .map_err(|_| StoreError::NotStored(chunk.0))?,
            }
            Ok::<_, StoreError>(())
        });
        if read.and_then(|inner| inner).is_err() {
            // Nobody waits. Who touches the page finds the damage, with the address that it is about.
            slots
                .into_iter()
                .for_each(|slot| core.frames.put_free(slot));
            self.engine.load_abandoned(chunk);
            return Ok(());
        }
        for (i, &id) in ids.iter().enumerate() {
            if !self.engine.is_loading(chunk, id) {
                continue;
            }
            let Some(claim) = claim_stored(core, self.number(id), chunk, i) else {
                continue;
            };
            // As many slots were taken as pages are loading.
            let Some(mut slot) = slots.pop() else {
                claim.release_unchanged();
                break;
            };
            let bytes = &self.plain[i * PAGE_BYTES..][..PAGE_BYTES];
            core.memory.bytes_mut(&mut slot).copy_from_slice(bytes);
            core.release(claim, |before| before.staged(slot));
        }
        slots
            .into_iter()
            .for_each(|slot| core.frames.put_free(slot));
        self.counts.prefetched_chunks += 1;
        self.engine.loaded(chunk);
        Ok(())
    }
}

/// Claims a page if it is stored in that place of that chunk. Who holds it meanwhile may be reading the chunk,
/// which the engine may free once it takes the page for loaded: so that is waited for. They do not wait for us.
fn claim_stored(core: &Core, page: usize, chunk: ChunkId, index: usize) -> Option<Claim<'_>> {
    loop {
        let word = core.directory.word(page);
        match word.state {
            State::Busy => std::thread::yield_now(),
            State::Stored if word.chunk == chunk && usize::from(word.index) == index => {
                let claim = core.directory.claim(page, word);
                if claim.is_some() {
                    return claim;
                }
            }
            _ => return None,
        }
    }
}

/// So many slots with frames, beyond what faults may need; `None` when there are not enough.
fn spare_slots(core: &Core, count: usize) -> Result<Option<Vec<Slots>>, ServeError> {
    let mut slots = Vec::with_capacity(count);
    while slots.len() < count && core.frames.available() > core.neighbour_reserve {
        if let Some(mut run) = core.frames.take_spare(1, core.neighbour_reserve) {
            slots.push(run.split_front(1));
            continue;
        }
        let Some(mut slot) = core.frames.take_empty(1) else {
            break;
        };
        let Some(frame) = core.frames.try_new(1) else {
            core.frames.put_empty(slot);
            break;
        };
        if core.memory.mechanism() == Mechanism::Move {
            core.memory.fill_slots(&mut slot)?;
        }
        let _in_slot = frame;
        slots.push(slot);
    }
    if slots.len() == count {
        return Ok(Some(slots));
    }
    slots
        .into_iter()
        .for_each(|slot| core.frames.put_free(slot));
    Ok(None)
}
