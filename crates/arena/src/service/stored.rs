//! Pages out of their chunks: the one that is wanted, and what comes along.

use std::sync::atomic::Ordering;

use warmswap_codec::{PAGE_BYTES, Scratch, decode, fill};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_policy::ChunkId;
use warmswap_policy::reclaim::Arrival;
use warmswap_sys::uffd::{Mechanism, Slots};

use super::{Core, Service, Wanted};
use crate::directory::{Claim, State};
use crate::error::ServeError;
use crate::frames::Frame;
use crate::store::{Body, Chunk, MEMBER_BYTES};

/// Pages that are held, by their place in the chunk or in staging, and what the engine is to hear of them.
type Held<'a> = [Option<(Claim<'a>, Arrival)>; MAX_CHUNK_PAGES];

impl Core {
    /// Brings a page back from its chunk, and the chunk's other pages as far as there are frames.
    ///
    /// With a free frame for every page of the chunk it is decoded where the frames are, and they move to
    /// their places together.
    pub(super) fn serve_stored(
        &self,
        claim: Claim<'_>,
        frame: Frame,
        wanted: Wanted,
    ) -> Result<(), ServeError> {
        if wanted == Wanted::Now {
            self.counts.faults.fetch_add(1, Ordering::Relaxed);
        }
        self.counts.chunks_read.fetch_add(1, Ordering::Relaxed);
        let along = match wanted {
            Wanted::Now => Arrival::Untouched,
            Wanted::Ahead(arrival) => arrival,
        };
        let (page, chunk) = (claim.page, claim.before.chunk);
        let index = usize::from(claim.before.index);
        let mut held: Held<'_> = [const { None }; MAX_CHUNK_PAGES];
        let mut service = self.service_slot();
        let Service {
            scratch,
            plain,
            record,
        } = &mut *service;
        let is_move = self.mechanism_at(page) == Mechanism::Move;
        let frame = self.store.read(chunk, record, |content| {
            if index >= content.pages {
                return Err(ServeError::NotInChunk);
            }
            let mut hold = |room| self.hold_others(chunk, content, (page, along), room, &mut held);
            match frame {
                Frame::Free(mut slots) if is_move && slots.len() == content.pages => {
                    hold(usize::MAX);
                    decode_into(scratch, content, self.memory.bytes_mut(&mut slots))?;
                    Ok(Ready::InSlots(slots))
                }
                frame => {
                    let room = self.frames.available();
                    hold(room.saturating_sub(self.neighbour_reserve));
                    let room = plain.get_mut(..content.pages * PAGE_BYTES);
                    decode_into(scratch, content, room.ok_or(ServeError::NotInChunk)?)?;
                    Ok(Ready::InScratch(frame))
                }
            }
        })??;
        let others = held.iter().flatten().count() as u64;
        self.count_restored(others, wanted);
        match frame {
            Ready::InSlots(slots) => {
                held[index] = Some((claim, wanted.arrival()));
                self.install_held(&mut held, slots)
            }
            Ready::InScratch(frame) => {
                let bytes = &plain[index * PAGE_BYTES..][..PAGE_BYTES];
                self.install_copies(page, frame, bytes)?;
                // The page that is waited for is let go first. The chunk stays as long as another page of it is
                // held, and is not looked at any more anyway.
                self.release(claim, |before| before.arrived(wanted.arrival()));
                self.install_held_copies(&mut held, plain)
            }
        }
    }

    /// Counts the pages of a chunk that come along with the one that is wanted, and that one where nobody waits.
    fn count_restored(&self, others: u64, wanted: Wanted) {
        let pages = others + u64::from(wanted != Wanted::Now);
        self.counts.restored.fetch_add(pages, Ordering::Relaxed);
        if wanted != Wanted::Now {
            self.counts
                .restored_ahead
                .fetch_add(pages, Ordering::Relaxed);
        }
    }

    /// Claims those other pages of a chunk that are stored in it, at most `room`. They are held while the chunk
    /// is decoded, so that whoever touches one of them meanwhile waits for that instead of decoding it too.
    fn hold_others<'a>(
        &'a self,
        chunk: ChunkId,
        content: Chunk<'_>,
        (page, arrival): (usize, Arrival),
        room: usize,
        held: &mut Held<'a>,
    ) {
        let members = content.members.as_chunks::<MEMBER_BYTES>().0;
        let mut count = 0;
        for (i, (member, place)) in members.iter().zip(held).enumerate() {
            let member = u32::from_le_bytes(*member) as usize;
            if member == page || count >= room {
                continue;
            }
            let word = self.directory.word(member);
            let is_here =
                word.state == State::Stored && word.chunk == chunk && usize::from(word.index) == i;
            if is_here {
                *place = self
                    .directory
                    .claim(member, word)
                    .map(|claim| (claim, arrival));
                count += usize::from(place.is_some());
            }
        }
        self.counts
            .neighbours
            .fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Brings pages at the front of a list back together that are stored one by one; how many were dealt with.
    /// None when the first is something else, or no frame can be spared for it.
    pub(super) fn restore_singles(
        &self,
        pages: &[u32],
        arrival: Arrival,
    ) -> Result<usize, ServeError> {
        let is_single = |page: usize| {
            let word = self.directory.word(page);
            (word.state == State::Stored && self.store.pages(word.chunk) == 1).then_some(word)
        };
        let singles = pages.iter().take(MAX_CHUNK_PAGES);
        let mut count = singles
            .take_while(|&&page| is_single(page as usize).is_some())
            .count();
        // What nobody waits for leaves frames to faults, wherever its own come from.
        let spare = self
            .frames
            .available()
            .saturating_sub(self.neighbour_reserve);
        count = count.min(spare);
        let are_recycled = !self.frames.renews && self.memory.mechanism() == Mechanism::Move;
        let mut slots = None;
        if are_recycled {
            slots = self.frames.take_spare(count, self.neighbour_reserve);
            count = slots.as_ref().map_or(0, |slots| slots.len());
        }
        let mut held: Held<'_> = [const { None }; MAX_CHUNK_PAGES];
        let mut service = self.service_slot();
        let Service {
            scratch,
            plain,
            record,
        } = &mut *service;
        let out = match &mut slots {
            Some(slots) => self.memory.bytes_mut(slots),
            None => &mut plain[..count * PAGE_BYTES],
        };
        for ((&page, out), place) in pages
            .iter()
            .zip(out.chunks_exact_mut(PAGE_BYTES))
            .zip(&mut held)
        {
            let page = page as usize;
            let claim = is_single(page).and_then(|word| self.directory.claim(page, word));
            let Some(claim) = claim else { continue };
            self.counts.chunks_read.fetch_add(1, Ordering::Relaxed);
            self.store.read(claim.before.chunk, record, |content| {
                decode_into(scratch, content, out)
            })??;
            self.counts.neighbours.fetch_add(1, Ordering::Relaxed);
            self.count_restored(0, Wanted::Ahead(arrival));
            *place = Some((claim, arrival));
        }
        match slots {
            Some(slots) => self.install_held(&mut held, slots)?,
            None => self.install_held_copies(&mut held, plain)?,
        }
        Ok(count)
    }
}

/// A chunk's pages, decoded.
enum Ready {
    /// Each in its slot.
    InSlots(Slots),
    /// In scratch memory; the frame is for the one that is wanted.
    InScratch(Frame),
}

/// Decodes a chunk into room for exactly its pages.
fn decode_into(
    scratch: &mut Scratch,
    content: Chunk<'_>,
    out: &mut [u8],
) -> Result<(), ServeError> {
    if out.len() != content.pages * PAGE_BYTES {
        return Err(ServeError::NotInChunk);
    }
    match content.body {
        Body::Filled(word) => fill(word, out),
        Body::Object(object) => decode(scratch, content.plan, object, out)?,
    }
    Ok(())
}
