//! The carrying out of decisions.

#[cfg(test)]
mod tests;

use warmswap_codec::ChunkPlan;
use warmswap_engine::calls::{Answer, Call};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_engine::{Action, Cause, Decision, Place, Refusal};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::admission::{SAMPLE_BYTES, estimate_for};
use warmswap_policy::{ChunkId, PageId, PageState};
use warmswap_store::Encoded;
use warmswap_uffd::{Mechanism, Slots};

use super::Pager;
use super::leave::empty_slots;
use crate::address_map::AddressMap;
use crate::error::FaultError;
use crate::fault::Core;
use crate::page_words::{Claim, State, Word};

/// A page of a chunk, and what the engine calls it.
type Member = (usize, PageId);

/// The pages of a chunk that is being stored: their words as they were when they were read, and the hashes of what
/// was read (for schemes that keep copies).
type Taken = [Option<(Word, u128)>; MAX_CHUNK_PAGES];

impl<M: AddressMap> Pager<M> {
    pub(super) fn carry_out(&mut self, core: &Core, decision: Decision) -> Result<(), FaultError> {
        match decision.action {
            Action::Store { chunk, plan } => {
                if self.engine.wants_sample(chunk) && !self.admit(core, chunk, decision.cause)? {
                    return Ok(());
                }
                self.store(core, chunk, Some(plan))
            }
            Action::StoreRaw { chunk } => self.store(core, chunk, None),
            Action::Drop { page } => self.drop_frame(core, page),
            Action::Load { chunk, .. } => {
                if decision.cause == Cause::Prepage && !self.is_watched(chunk) {
                    self.bring_ahead(chunk);
                    return Ok(());
                }
                self.prefetch(core, chunk)
            }
            Action::WriteBack { chunk } => {
                self.engine.call(match core.store.write_back(chunk) {
                    Ok(_) => Call::WrittenBack(chunk),
                    Err(_) => Call::WriteBackFailed(chunk),
                });
                Ok(())
            }
            Action::Free { chunk, .. } => Ok(core.store.free(chunk)?),
            Action::Kill { .. } => {
                self.engine.call(Call::KillRefused());
                Ok(())
            }
            Action::Discard { page, .. } => self.discard(core, page),
            Action::Forget { page, chunk } => {
                self.forget_copy(core, page, chunk);
                Ok(())
            }
            Action::ReadFile {
                file, first, pages, ..
            } => {
                self.read_ahead(file, first..first + u64::from(pages));
                Ok(())
            }
        }
    }

    // ---- out ----

    /// Shows the head of a chunk's first page to the admission policy; whether the chunk is to be stored. Else
    /// the engine has taken it back: pages that do not go elsewhere are in their places again.
    fn admit(&mut self, core: &Core, chunk: ChunkId, cause: Cause) -> Result<bool, FaultError> {
        let members = self.members(chunk);
        let suffices = |bytes| self.engine.would_admit(chunk, bytes);
        let estimate = |sample: &[u8; SAMPLE_BYTES]| estimate_for(sample, suffices);
        let seen = members.iter().find_map(|&(page, id)| {
            let look = || Self::look(core, page, |bytes| bytes.first_chunk().map(estimate));
            self.engine.is_leaving(chunk, id).then(look)??.1
        });
        let Some(estimated_bytes) = seen else {
            // All of them were touched again: what is stored is a chunk of holes, which is freed at once.
            return Ok(true);
        };
        let call = Call::Admit(chunk, estimated_bytes, cause);
        if self.engine.call(call) == Answer::Said(true) {
            return Ok(true);
        }
        for (page, id) in members {
            let word = core.words.settled(page);
            let is_out_of_sight = matches!(word.state, State::Staged | State::Protected);
            // A page that has a chunk again goes to the backing file with a decision that is made already, and
            // one of a file is given up.
            let leaves = self.engine.chunk_of(id).is_some() || self.is_discarded(id);
            if is_out_of_sight && !leaves {
                Self::return_frame(core, page, word)?;
            }
        }
        Ok(false)
    }

    /// Stores a chunk: with a plan in the pool, without one as it is in the backing file.
    fn store(
        &mut self,
        core: &Core,
        chunk: ChunkId,
        plan: Option<ChunkPlan>,
    ) -> Result<(), FaultError> {
        self.chunks = self.chunks.max(chunk.index() + 1);
        let members = self.members(chunk);
        let (taken, encoded) = self.take(core, (chunk, &members), plan);
        self.counts.compressed += taken.iter().flatten().count() as u64;
        let stored = match plan {
            Some(plan) => encoded
                .unwrap_or_else(|| self.encode(plan, &members))
                .and_then(|encoded| {
                    let content = self.encoder.content(encoded);
                    core.store.put(chunk, encoded, content)
                })
                .map(|stored| Call::Stored(chunk, Place::Pool, stored.bytes, stored.pool_page)),
            None => core
                .store
                .put_raw(
                    chunk,
                    members.first().map_or(0, |&(page, _)| page as u32),
                    &self.plain[..PAGE_BYTES],
                )
                .map(|()| Call::Stored(chunk, Place::Backing, PAGE_BYTES as u32, None))
                .map_err(|_| Refusal::BackingFailed),
        };
        match stored {
            Ok(call) => self.stored(core, chunk, (&members, &taken), call),
            Err(refusal) => {
                for (&(page, _), taken) in members.iter().zip(&taken) {
                    if let Some((word, _)) = *taken {
                        Self::return_frame(core, page, word)?;
                    }
                }
                self.engine.call(Call::Refused(chunk, refusal));
                Ok(())
            }
        }
    }

    /// Reads the pages of a chunk that leave; holes, which are never read, stand for the others. With a plan a single
    /// page is encoded where it is, and a thread that touches it meanwhile waits for that.
    fn take(
        &mut self,
        core: &Core,
        (chunk, members): (ChunkId, &[Member]),
        plan: Option<ChunkPlan>,
    ) -> (Taken, Option<Result<Encoded, Refusal>>) {
        let mut taken: Taken = [None; MAX_CHUNK_PAGES];
        let mut encoded = None;
        for (i, &(page, id)) in members.iter().enumerate() {
            let room = &mut self.plain[i * PAGE_BYTES..][..PAGE_BYTES];
            if !self.engine.is_leaving(chunk, id) {
                room.fill(0);
                continue;
            }
            let hash = self.keep_copies.then_some(&self.content_hash);
            let encoder = &mut self.encoder;
            taken[i] = Self::look(core, page, |bytes| {
                match plan {
                    Some(plan) if members.len() == 1 => {
                        let result = encoder.encode(plan, bytes, &[page as u32]);
                        encoded = Some(result.map_err(|_| Refusal::TooLarge));
                    }
                    _ => room.copy_from_slice(bytes),
                }
                hash.map_or(0, |hash| hash.of(bytes))
            });
            if taken[i].is_none() {
                room.fill(0);
                self.stays(page);
            }
        }
        (taken, encoded)
    }

    /// Encodes the pages that were read last.
    fn encode(&mut self, plan: ChunkPlan, members: &[Member]) -> Result<Encoded, Refusal> {
        let numbers: Vec<_> = members.iter().map(|&(page, _)| page as u32).collect();
        let plain = &self.plain[..members.len() * PAGE_BYTES];
        // Room is there for the largest chunk of any codec, so that this does not fail.
        let encoded = self.encoder.encode(plan, plain, &numbers);
        encoded.map_err(|_| Refusal::TooLarge)
    }

    /// The pages of a chunk, with what the engine calls them, in the order in which the chunk holds them: by
    /// address, so that neighbours come back together.
    pub(super) fn members(&self, chunk: ChunkId) -> Vec<Member> {
        let ids = self.engine.chunk_pages(chunk).to_vec();
        let mut members: Vec<_> = ids.into_iter().map(|id| (self.number(id), id)).collect();
        members.sort_unstable_by_key(|&(page, _)| page);
        members
    }

    /// A chunk is stored: its pages give their frames up, but those that were touched meanwhile.
    fn stored(
        &mut self,
        core: &Core,
        chunk: ChunkId,
        (members, taken): (&[Member], &Taken),
        call: Call,
    ) -> Result<(), FaultError> {
        let mut freed = Vec::with_capacity(members.len());
        for (i, (&(page, _), taken)) in members.iter().zip(taken).enumerate() {
            let Some((word, hash)) = *taken else { continue };
            core.words.set_hash(page, hash);
            let now = Word::of(State::Stored).stored(chunk, i as u8);
            match Self::give_up(core, page, word, now)? {
                Some(slot) => freed.extend(slot),
                // Touched on its way out: the engine hears of it before it hears of the store.
                None => self.stays(page),
            }
        }
        self.engine.call(call);
        self.free_frames(core, freed)
    }

    /// Frames came free: first the budget gets what the pool took, then the threads that wait.
    pub(super) fn free_frames(&mut self, core: &Core, freed: Vec<Slots>) -> Result<(), FaultError> {
        self.report(core);
        for slot in freed {
            core.frames.put_free_or_trim(&core.memory, slot)?;
        }
        Ok(())
    }

    /// A page leaves for the copy that its chunk holds, if it was not written to since.
    ///
    /// Decisions wait while others have the engine: the page may have come back or have been freed since, and one
    /// that was chosen again meanwhile is dropped twice. Then its content is not in its frame, or must stay there.
    fn drop_frame(&mut self, core: &Core, id: PageId) -> Result<(), FaultError> {
        // What does not exist any more has no place.
        if self.engine.page_state(id) == PageState::Absent {
            return Ok(());
        }
        let page = self.number(id);
        let before = core.words.settled(page);
        if !self.engine.is_dropped(id) {
            // It may have been isolated before the engine was told of it.
            if matches!(before.state, State::Staged | State::Protected) {
                return Self::return_frame(core, page, before);
            }
            return Ok(());
        }
        if matches!(before.state, State::Unmapped | State::Fresh | State::Stored) {
            return Ok(());
        }
        let looked = Self::look(core, page, |bytes| self.content_hash.of(bytes));
        let Some((word, hash)) = looked else {
            self.stayed.push(page);
            return Ok(());
        };
        let is_clean =
            core.words.hash(page) == Some(hash) && self.engine.chunk_of(id) == Some(word.chunk);
        if !is_clean {
            self.counts.found_dirty += 1;
            if self.engine.page_state(id) != PageState::Stored {
                // A prediction wants it back already.
                self.stayed.push(page);
                return Self::return_frame(core, page, word);
            }
            self.engine.call(Call::CopyIsStale(id));
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
    fn prefetch(&mut self, core: &Core, chunk: ChunkId) -> Result<(), FaultError> {
        let members = self.members(chunk);
        let is_wanted = |&&(_, id): &&Member| self.engine.is_loading(chunk, id);
        let wanted = members.iter().filter(is_wanted).count();
        let Some(mut slots) = spare_slots(core, wanted)? else {
            self.engine.call(Call::LoadAbandoned(chunk));
            return Ok(());
        };
        // Only the holder of the engine's lock frees chunks, so no page need be held.
        let room = (self.encoder.scratch(), &mut self.record);
        if core.store.decode(chunk, room, &mut self.plain).is_err() {
            // No thread waits. The fault that needs the page reports the damage, with its address.
            slots
                .into_iter()
                .for_each(|slot| core.frames.put_free(slot));
            self.engine.call(Call::LoadAbandoned(chunk));
            return Ok(());
        }
        for (i, &(page, id)) in members.iter().enumerate() {
            if !self.engine.is_loading(chunk, id) {
                continue;
            }
            let Some(claim) = claim_stored(core, page, chunk, i) else {
                continue;
            };
            // As many slots were taken as pages are loading.
            let Some(mut slot) = slots.pop() else {
                drop(claim);
                break;
            };
            let bytes = &self.plain[i * PAGE_BYTES..][..PAGE_BYTES];
            core.memory.bytes_mut(&mut slot).copy_from_slice(bytes);
            core.release(claim, |before| before.staged(slot));
            self.counts.prefetched_pages += 1;
        }
        slots
            .into_iter()
            .for_each(|slot| core.frames.put_free(slot));
        self.counts.prefetched_chunks += 1;
        self.engine.call(Call::Loaded(chunk));
        Ok(())
    }
}

/// Claims a page if it is stored in that place of that chunk. A thread that holds it meanwhile may be reading the chunk,
/// which the engine may free once it takes the page for loaded: so that is waited for. They do not wait for us.
fn claim_stored(core: &Core, page: usize, chunk: ChunkId, index: usize) -> Option<Claim<'_>> {
    loop {
        let word = core.words.settled(page);
        match word.state {
            State::Stored if word.chunk == chunk && usize::from(word.index) == index => {
                let claim = core.words.claim(page, word);
                if claim.is_some() {
                    return claim;
                }
            }
            _ => return None,
        }
    }
}

/// So many slots with frames, beyond what faults may need; `None` when there are not enough.
fn spare_slots(core: &Core, count: usize) -> Result<Option<Vec<Slots>>, FaultError> {
    let mut slots = Vec::with_capacity(count);
    while slots.len() < count && core.frames.available() > core.neighbour_reserve {
        if let Some(mut run) = core.frames.take_spare(1, core.neighbour_reserve) {
            slots.push(run.split_front(1));
            continue;
        }
        let Some(mut slot) = empty_slots(core, 1)? else {
            break;
        };
        let Some(frame) = core.frames.try_new(1) else {
            core.frames.put_empty(slot);
            break;
        };
        if core.memory.mechanism() == Mechanism::Move {
            core.memory.fill_slots(&mut slot)?;
        }
        frame.taken();
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
