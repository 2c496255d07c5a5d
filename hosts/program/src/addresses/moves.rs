//! Content that moves from one range of addresses to another (`mremap`).
//!
//! Threads of the program go on meanwhile. Each page is held in both places while its frame moves: an access finds the
//! content in the old place before, and waits for it in the new one, so that no write is lost and nothing reads as zeros.

use std::ops::Range;

use warmswap_arena::mechanism::{Core, FaultError, State, Word};
use warmswap_engine::calls::Call;
use warmswap_policy::reclaim::Arrival;
use warmswap_uffd::{PagedError, Protection};

use super::Addresses;
use super::kernel::hold_in_place;
use crate::program::{APP, Mapped};

impl Addresses<'_> {
    /// Whether the content of a range can move to pages from `to` on: both are memory of the program that is read and
    /// written, or the latter are free.
    pub fn can_relocate(&self, from: &Range<usize>, to: usize) -> bool {
        let map = &self.pager.map;
        let can_take = |mapped| is_open(mapped) || matches!(mapped, None | Some(Mapped::Reserved));
        let target = to..to + from.len();
        let from = map.pieces(from.clone());
        let to = map.pieces(target);
        from.iter().all(|&(_, mapped)| is_open(mapped))
            && to.iter().all(|&(_, mapped)| can_take(mapped))
    }

    /// Moves the content of a range that can, of memory that is the kernel's yet, in one step for all threads. False if the
    /// kernel cannot: the range is several mappings to it (before Linux 6.17), or it has no such call (before 5.7). What
    /// was in the new place is gone then.
    pub fn relocate_unpaged(&mut self, from: Range<usize>, to: usize) -> Result<bool, FaultError> {
        let target = to..to + from.len();
        let memory = &self.core.memory;
        if memory.remap(from.start, from.len(), to)? {
            self.pager.map.set(target, Some(OPEN));
            return Ok(true);
        }
        self.pager.map.set(target, Some(Mapped::Reserved));
        Ok(false)
    }

    /// Makes what content is to move to, of paged memory, such memory, too.
    pub fn open_target(&mut self, target: Range<usize>) -> Result<(), FaultError> {
        for (piece, mapped) in self.pager.map.pieces(target) {
            if !is_open(mapped) {
                self.map(piece.clone(), Some(OPEN))?;
                let memory = &self.core.memory;
                memory.protect(piece.start, piece.len(), Protection::READ_WRITE)?;
            }
        }
        Ok(())
    }

    /// Moves the content of paged memory to such memory from page `to` on, in place of its content; the range reads as
    /// zeros then. By a thread of the space's own.
    pub fn relocate(&mut self, from: Range<usize>, to: usize) -> Result<(), FaultError> {
        let touched: Vec<_> = self.core.words.touched(from.clone()).collect();
        let mut next = from.start;
        for part in touched {
            self.relocate_untouched(next..part.start, to + (next - from.start))?;
            for page in part.clone() {
                self.relocate_page(page, to + (page - from.start))?;
            }
            next = part.end;
        }
        self.relocate_untouched(next..from.end, to + (next - from.start))?;
        self.pager.drain_arrivals(self.core);
        self.pager.report(self.core);
        Ok(())
    }

    /// Pages that were never touched read as zeros, and so do those that they become.
    fn relocate_untouched(&mut self, from: Range<usize>, to: usize) -> Result<(), FaultError> {
        let target = to..to + from.len();
        self.pager
            .empty(self.core, APP, target, Word::of(State::Fresh))
    }

    fn relocate_page(&mut self, page: usize, to: usize) -> Result<(), FaultError> {
        let core = self.core;
        // Not while the page is held: what the engine is told of may wait for it.
        self.pager.drain_arrivals(core);
        let held = hold_in_place(core, page)?;
        let held = held.filter(|claim| claim.before.state == State::Resident);
        let Some(held) = held else {
            return self.relocate_untouched(page..page + 1, to);
        };
        let take = |target: Range<usize>| -> Result<(), PagedError> {
            core.memory.discard(target.start, 1)?;
            move_or_copy(core, page, target.start)
        };
        let there = Word::of(State::Resident);
        let moved = self
            .pager
            .empty_drained(core, APP, to..to + 1, (there, &take));
        if let Err(error) = moved {
            core.release(held, |before| before);
            return Err(error);
        }
        held.release(Word::of(State::Fresh));
        let (_, addr) = self.pager.locate(page);
        self.pager.engine.call(Call::Free(APP, addr, 1));
        let arrive =
            |word: Word| (word.state == State::Resident).then(|| word.arrived(Arrival::Touched));
        if core.words.update(to, arrive).is_some() {
            core.arrivals.push(to);
        }
        Ok(())
    }
}

const OPEN: Mapped = Mapped::Open(Protection::READ_WRITE);

fn is_open(mapped: Option<Mapped>) -> bool {
    mapped == Some(OPEN)
}

/// Moves the frame of a page that is held to a missing one that is held, too. A frame that a child shares is made the
/// program's own first; one that the kernel or a device refers to is copied.
fn move_or_copy(core: &Core, page: usize, to: usize) -> Result<(), PagedError> {
    let memory = &core.memory;
    if memory.relocate(page, to)? {
        return Ok(());
    }
    // It is in its place, and written to: the kernel copies what is shared.
    memory.touch_for_write(page)?;
    if memory.relocate(page, to)? {
        return Ok(());
    }
    // Threads that write to it wait until the page is let go.
    memory.write_protect(page, 1, true)?;
    let mut bytes = [0; warmswap_page::PAGE_BYTES];
    memory.read_page(page, &mut bytes);
    memory.copy_in(to, &bytes)?;
    memory.discard(page, 1)
}
