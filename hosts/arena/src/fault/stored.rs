//! Pages out of their chunks: the one that is wanted, and what comes along.

use std::sync::atomic::Ordering;

use warmswap_codec::Scratch;
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_page::PAGE_BYTES;
use warmswap_policy::ChunkId;
use warmswap_policy::reclaim::Arrival;
use warmswap_store::Chunk;
use warmswap_uffd::{Mechanism, Slots};

use super::{Core, FaultScratch, Wanted};
use crate::error::FaultError;
use crate::frames::Frame;
use crate::page_words::{Claim, State, Word};

/// A page that is held, if there is one at that place of the chunk or of staging, and what the engine is to hear of it.
type Held<'a> = Option<(Claim<'a>, Arrival)>;

/// Pages that come back together ahead of use. Above 33 the kernel empties the processor's address cache at once, in
/// place of page by page.
const MOST_TOGETHER: usize = 64;

impl Core {
    /// Reads the chunk of a page that is stored, as its word says; the page is held, or the chunk kept from being freed
    /// otherwise.
    ///
    /// # Errors
    /// The chunk cannot be read, or is another page's.
    pub fn read_chunk<R>(
        &self,
        (page, word): (usize, Word),
        record: &mut Vec<u8>,
        read: impl FnOnce(Chunk<'_>) -> Result<R, FaultError>,
    ) -> Result<R, FaultError> {
        self.store.read(word.chunk, record, |content| {
            if !content.holds(page as u32, usize::from(word.index)) {
                return Err(FaultError::NotInChunk);
            }
            read(content)
        })?
    }

    /// Brings a page back from its chunk, and the chunk's other pages as far as there are frames.
    ///
    /// With a free frame for every page of the chunk it is decoded where the frames are, and they move to
    /// their places together.
    pub(super) fn fault_in_stored<'a>(
        &'a self,
        claim: Claim<'a>,
        frame: Frame<'a>,
        wanted: Wanted,
    ) -> Result<(), FaultError> {
        if wanted.is_awaited() {
            self.counts.faults.fetch_add(1, Ordering::Relaxed);
        }
        self.counts.chunks_read.fetch_add(1, Ordering::Relaxed);
        let along = match wanted {
            Wanted::Demand | Wanted::DemandAtOnce => Arrival::Untouched,
            Wanted::Prefetch(arrival) => arrival,
        };
        let (page, word) = (claim.page, claim.before);
        let (chunk, index) = (word.chunk, usize::from(word.index));
        let mut held: [Held<'_>; MAX_CHUNK_PAGES] = [const { None }; MAX_CHUNK_PAGES];
        let mut buffers = self.scratch();
        let FaultScratch {
            scratch,
            plain,
            record,
        } = &mut *buffers;
        let is_recycled = self.frames.is_recycling() && self.mechanism_at(page) == Mechanism::Move;
        let frame = self.read_chunk((page, word), record, |content| {
            let mut hold = |room| self.hold_others(chunk, content, (page, along), room, &mut held);
            match frame {
                Frame::Free(mut slots) if is_recycled && slots.len() == content.pages => {
                    hold(usize::MAX);
                    content.decode(scratch, self.memory.bytes_mut(&mut slots))?;
                    Ok(Ready::InSlots(slots))
                }
                frame => {
                    let room = self.frames.available();
                    hold(room.saturating_sub(self.neighbour_reserve));
                    let room = plain.get_mut(..content.pages * PAGE_BYTES);
                    content.decode(scratch, room.ok_or(FaultError::NotInChunk)?)?;
                    Ok(Ready::InScratch(frame))
                }
            }
        })?;
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

    /// Counts the pages of a chunk that come along with the one that is wanted, and that one where no thread waits for it.
    fn count_restored(&self, others: u64, wanted: Wanted) {
        let pages = others + u64::from(!wanted.is_awaited());
        self.counts.restored.fetch_add(pages, Ordering::Relaxed);
        if !wanted.is_awaited() {
            self.counts
                .restored_ahead
                .fetch_add(pages, Ordering::Relaxed);
        }
    }

    /// Claims those other pages of a chunk that are stored in it, at most `room`; how many these are. They are held
    /// while the chunk is decoded, so that a thread that touches one of them meanwhile waits for that instead of decoding it
    /// too.
    fn hold_others<'a>(
        &'a self,
        chunk: ChunkId,
        content: Chunk<'_>,
        (page, arrival): (usize, Arrival),
        room: usize,
        held: &mut [Held<'a>],
    ) -> usize {
        let mut count = 0;
        for (i, (member, place)) in content.members().zip(held).enumerate() {
            let member = member as usize;
            if member == page || count >= room {
                continue;
            }
            let word = self.words.word(member);
            let is_here =
                word.state == State::Stored && word.chunk == chunk && usize::from(word.index) == i;
            if is_here {
                *place = self.words.claim(member, word).map(|claim| (claim, arrival));
                count += usize::from(place.is_some());
            }
        }
        self.counts
            .neighbours
            .fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    /// Brings pages at the front of a list back with all pages of their chunks, so that neighbours move to their
    /// places in one call; how many were dealt with. None when the first is not stored, or no frames in a row can be
    /// spared for its chunk.
    pub(super) fn restore_together(
        &self,
        pages: &[u32],
        arrival: Arrival,
    ) -> Result<usize, FaultError> {
        let are_recycled = self.frames.is_recycling() && self.memory.mechanism() == Mechanism::Move;
        let most = if are_recycled {
            MOST_TOGETHER
        } else {
            MAX_CHUNK_PAGES
        };
        // A prefetch leaves frames to faults, wherever its own come from.
        let available = self.frames.available();
        let spare = available.saturating_sub(self.neighbour_reserve);
        let mut room = self.pages_of_chunks(pages, most.min(spare));
        if room == 0 {
            return Ok(0);
        }
        let mut slots = None;
        if are_recycled {
            slots = self.frames.take_spare(room, self.neighbour_reserve);
            room = slots.as_ref().map_or(0, |slots| slots.len());
        }
        let mut held: [Held<'_>; MOST_TOGETHER] = [const { None }; MOST_TOGETHER];
        let mut buffers = self.scratch();
        let FaultScratch {
            scratch,
            plain,
            record,
        } = &mut *buffers;
        let out = match &mut slots {
            Some(slots) => self.memory.bytes_mut(slots),
            None => &mut plain[..room * PAGE_BYTES],
        };
        let mut gathered = Together {
            held: &mut held[..room],
            out,
            used: 0,
        };
        let done = self.gather(pages, arrival, &mut gathered, (scratch, record))?;
        match slots {
            Some(slots) => self.install_held(&mut held[..room], slots)?,
            None => self.install_held_copies(&mut held[..room], plain)?,
        }
        Ok(done)
    }

    /// Claims and decodes the chunks of pages at the front of a list, as far as there is room; how many pages of the list
    /// were dealt with.
    fn gather<'a>(
        &'a self,
        pages: &[u32],
        arrival: Arrival,
        together: &mut Together<'a, '_>,
        (scratch, record): (&mut Scratch, &mut Vec<u8>),
    ) -> Result<usize, FaultError> {
        let (mut done, mut last) = (0, ChunkId::NONE);
        for &page in pages {
            let page = page as usize;
            let word = self.words.word(page);
            let came_along = word.chunk == last && word.state == State::Busy;
            if !came_along {
                let room = together.held.len() - together.used;
                if word.state != State::Stored || self.store.pages(word.chunk) > room {
                    break;
                }
                // Unless another thread was first.
                if let Some(claim) = self.words.claim(page, word) {
                    last = word.chunk;
                    self.gather_chunk(claim, arrival, together, (scratch, record))?;
                }
            }
            done += 1;
        }
        Ok(done)
    }

    /// Claims the other pages of a page's chunk, and decodes it.
    fn gather_chunk<'a>(
        &'a self,
        claim: Claim<'a>,
        arrival: Arrival,
        together: &mut Together<'a, '_>,
        (scratch, record): (&mut Scratch, &mut Vec<u8>),
    ) -> Result<(), FaultError> {
        let (page, word) = (claim.page, claim.before);
        let (chunk, index) = (word.chunk, usize::from(word.index));
        self.read_chunk((page, word), record, |content| {
            let range = together.used..together.used + content.pages;
            let out = range.start * PAGE_BYTES..range.end * PAGE_BYTES;
            let out = together.out.get_mut(out).ok_or(FaultError::NotInChunk)?;
            let held = together.held.get_mut(range).ok_or(FaultError::NotInChunk)?;
            let others = self.hold_others(chunk, content, (page, arrival), usize::MAX, held);
            *held.get_mut(index).ok_or(FaultError::NotInChunk)? = Some((claim, arrival));
            content.decode(scratch, out)?;
            self.count_restored(others as u64, Wanted::Prefetch(arrival));
            together.used += content.pages;
            Ok(())
        })?;
        self.counts.neighbours.fetch_add(1, Ordering::Relaxed);
        self.counts.chunks_read.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// How many pages the chunks hold, at most `most`, of the pages at the front of a list that are stored.
    fn pages_of_chunks(&self, pages: &[u32], most: usize) -> usize {
        let (mut count, mut last) = (0, ChunkId::NONE);
        for &page in pages {
            let word = self.words.word(page as usize);
            if word.state != State::Stored {
                break;
            }
            if word.chunk != last {
                last = word.chunk;
                let more = self.store.pages(last);
                if count + more > most {
                    break;
                }
                count += more;
            }
        }
        count
    }
}

/// Pages of several chunks that come back together.
struct Together<'a, 'b> {
    /// Those that are held, in the order of `out`.
    held: &'b mut [Held<'a>],
    /// Room for their contents.
    out: &'b mut [u8],
    /// Pages of it that are used.
    used: usize,
}

/// A chunk's pages, decoded.
enum Ready<'a> {
    /// Each in its slot.
    InSlots(Slots),
    /// In scratch memory; the frame is for the one that is wanted.
    InScratch(Frame<'a>),
}

#[cfg(test)]
mod tests {
    use warmswap_codec::{ChunkPlan, Codec, Scratch};
    use warmswap_engine::calls::Call;
    use warmswap_page::PAGE_BYTES;
    use warmswap_policy::reclaim::Arrival;
    use warmswap_store::Encoder;

    use super::{State, Together, Wanted};
    use crate::error::FaultError;
    use crate::pager::testing::arena;

    /// As where a chunk is freed too early, and its number used again.
    #[test]
    fn a_page_is_never_brought_back_from_a_chunk_of_another_page() {
        let name = "a_page_is_never_brought_back_from_a_chunk_of_another_page";
        let Some(arena) = arena(name, "zram") else {
            return;
        };
        let core = &arena.shared.core;
        let app = arena.application("a page").expect("an application");
        let region = app.region(PAGE_BYTES).expect("a region");
        let page = region.first;
        arena.shared.bring(page, Wanted::Demand);
        let mut pager = arena.shared.pager();
        pager.drain_arrivals(core);
        let (id, addr) = pager.locate(page);
        pager.engine.call(Call::SendAway(id, addr));
        arena.shared.settle(&mut pager);
        let word = core.words.word(page);
        assert_eq!(word.state, State::Stored);
        let mut encoder = Encoder::new(Scratch::new());
        let mut put = |member: usize| {
            core.store.free(word.chunk).expect("it is stored");
            let plan = ChunkPlan::page(Codec::Lz4);
            let encoded = encoder.encode(plan, &[7; PAGE_BYTES], &[member as u32]);
            let encoded = encoded.expect("a page");
            let content = encoder.content(encoded);
            let stored = core.store.put(word.chunk, encoded, content);
            stored.expect("there is room");
        };

        put(page + 1);
        for wanted in [Wanted::Prefetch(Arrival::Untouched), Wanted::Demand] {
            let brought = core.fault_in(page, wanted);
            assert!(
                matches!(brought, Err(FaultError::NotInChunk)),
                "{brought:?}"
            );
        }
        let claim = core.words.claim(page, word).expect("a page");
        let (held, out) = (&mut [None], &mut [0; PAGE_BYTES]);
        let mut together = Together { held, out, used: 0 };
        let room = (&mut Scratch::new(), &mut Vec::new());
        let gathered = core.gather_chunk(claim, Arrival::Untouched, &mut together, room);
        assert!(
            matches!(gathered, Err(FaultError::NotInChunk)),
            "{gathered:?}"
        );

        put(page);
        arena.shared.bring(page, Wanted::Demand);
        assert_eq!(core.words.word(page).state, State::Resident);
    }
}
