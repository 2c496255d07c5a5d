//! Marvin (USENIX ATC '20): objects are swapped out one by one, with their references kept in memory.
//!
//! What is compared with here, whole as far as it matters for that (Fleet, sections 3.1, 6 and 8):
//!
//! - Only objects of some size ([`MarvinConfig::least_bytes`]) are swapped. They live in regions of their own and do not
//!   move; new ones take the room of those that died ([`Gaps`]).
//! - Each access is noted, by the read barrier, which is always on. Objects that were not accessed for some passes are
//!   the least recently used, and leave.
//! - A *bookmark* keeps the references of an object that left, so that collections trace through it without bringing
//!   it back. Bookmarks are made with all mutators stopped, so that object and bookmark cannot differ.
//! - An access to such an object brings it back: its references, which collections may have changed, are written to it
//!   and the bookmark goes.
//! - Swap works by pages, all the same: a page leaves when all objects on it are bookmarked or dead.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::collector::collection::Collections;
use crate::collector::{Kind, plan};
use crate::config::MarvinConfig;
use crate::layout::{
    Addr, GRANULE_BYTES, PAGE_BYTES, REGION_CARDS, REGION_GRANULES, first_granule,
};
use crate::regions::{Flags, RegionState};
use crate::space::{Space, fill};
use crate::types::Shapes;

/// An object that may be swapped out.
#[derive(Debug)]
struct Candidate {
    granules: u32,
    /// Passes in a row that found it not accessed.
    idle_passes: u8,
    was_accessed: bool,
    /// Its references, as byte offsets from its header and values, while it is swapped out.
    bookmark: Option<Box<[(u32, AtomicU32)]>>,
}

/// Room of objects that died, between those that live and behind the last one of a region.
#[derive(Debug, Default)]
struct Gaps {
    /// Where they begin, by their granules.
    rooms: BTreeMap<u32, Vec<Addr>>,
    /// The collection that is clearing marks.
    clearing: Option<Kind>,
}

impl Gaps {
    fn add(&mut self, at: u32, granules: u32) {
        if let Some(at) = Addr::new(at).filter(|_| granules > 0) {
            self.rooms.entry(granules).or_default().push(at);
        }
    }

    fn retain(&mut self, stays: impl Fn(&Addr) -> bool) {
        self.rooms.retain(|_, same| {
            same.retain(&stays);
            !same.is_empty()
        });
    }

    /// The smallest one that is large enough: where it begins, and its granules.
    fn take(&mut self, granules: u32) -> Option<(Addr, u32)> {
        let mut fitting = self.rooms.range_mut(granules..);
        let (&granules, same) = fitting.next()?;
        let at = same.pop()?;
        if same.is_empty() {
            self.rooms.remove(&granules);
        }
        Some((at, granules))
    }
}

/// The objects that may be swapped out, and the references of those that are.
#[derive(Debug, Default)]
pub struct Bookmarks {
    /// Whether there are candidates at all.
    is_used: AtomicBool,
    /// Locked before the candidates, where both are.
    gaps: Mutex<Gaps>,
    candidates: Mutex<FxHashMap<Addr, Candidate>>,
}

impl Bookmarks {
    /// An object was allocated that may be swapped out.
    pub fn add(&self, object: Addr, granules: u32) {
        self.is_used.store(true, Ordering::Release);
        let candidate = Candidate {
            granules,
            idle_passes: 0,
            was_accessed: true,
            bookmark: None,
        };
        self.candidates.lock().insert(object, candidate);
    }

    /// Room for an object among others that may be swapped out. It is live as far as a collection that traces knows,
    /// and the cards of others.
    pub fn reserve(&self, space: &Space, granules: u32) -> Option<Addr> {
        // Held until the gap is marked as used, so that a collection finds all of it or nothing.
        let mut gaps = self.gaps.lock();
        let (at, room) = gaps.take(granules)?;
        let end = at.granule() + granules;
        space.cards.replace_starts(at, granules, room);
        if let Some(rest) = Addr::new(end).filter(|_| granules < room) {
            fill(space, rest, room - granules);
            gaps.add(end, room - granules);
        }
        let is_found_by_tracing = gaps.clearing.is_some_and(|kind| {
            plan::state(kind, &space.regions, at.region()) == RegionState::InPlace
        });
        if !is_found_by_tracing {
            space.marks.set(at.granule() as usize);
        }
        space.regions.info(at.region()).add_live(granules);
        space.cards.note_start(at);
        self.add(at, granules);
        Some(at)
    }

    /// A collection of this kind begins to clear marks: an object that is allocated before it traces must be found by
    /// it like any other.
    pub fn begin_collection(&self, kind: Kind) {
        self.gaps.lock().clearing = Some(kind);
    }

    /// It begins to trace, with all mutators stopped. From now on what is allocated is live for it. No gap stays in a
    /// region that has one of these cards: the collector walks over the objects there, and must not meet one whose
    /// header is not written yet.
    pub fn begin_tracing(&self, cards: &[u32]) {
        let walked: FxHashSet<usize> = (cards.iter())
            .map(|&card| card as usize / REGION_CARDS)
            .collect();
        let mut gaps = self.gaps.lock();
        gaps.clearing = None;
        gaps.retain(|at| !walked.contains(&at.region()));
    }

    /// It has found what is live, and all mutators are stopped. No gap stays in a region that is given back.
    pub fn end_tracing(&self, space: &Space) {
        let is_kept = |at: &Addr| space.regions.state(at.region()) == RegionState::Kept;
        self.gaps.lock().retain(is_kept);
    }

    /// It has ended: what lies between the objects that live, and behind them, can be used again.
    pub fn find_gaps(&self, space: &Space) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let mut gaps = self.gaps.lock();
        gaps.rooms.clear();
        let candidates = self.candidates.lock();
        let mut live: Vec<(u32, u32)> = (candidates.iter())
            .map(|(object, candidate)| (object.granule(), candidate.granules))
            .collect();
        live.sort_unstable();
        for (region, _) in space.regions.used() {
            let info = space.regions.info(region);
            let is_kept = space.regions.state(region) == RegionState::Kept;
            if !is_kept || !info.flags().has(Flags::SWAPPABLE.with(Flags::MARKED)) {
                continue;
            }
            let mut at = first_granule(region);
            let end = at + REGION_GRANULES;
            let unused = Addr::new(at + info.used()).filter(|unused| unused.granule() < end);
            if let Some(unused) = unused {
                // No thread fills the region from its start any more.
                fill(space, unused, end - unused.granule());
                info.set_used(REGION_GRANULES);
            }
            let from = live.partition_point(|&(object, _)| object < at);
            for &(object, granules) in live[from..].iter().take_while(|(object, _)| *object < end) {
                gaps.add(at, object - at);
                at = object + granules;
            }
            gaps.add(at, end - at);
        }
    }

    /// Objects that are swapped out.
    pub fn len(&self) -> usize {
        let candidates = self.candidates.lock();
        let is_out = |candidate: &&Candidate| candidate.bookmark.is_some();
        candidates.values().filter(is_out).count()
    }

    /// A mutator loaded a reference to an object: it comes back, if it was swapped out.
    pub fn accessed(&self, space: &Space, object: Addr) {
        let mut candidates = self.candidates.lock();
        let Some(candidate) = candidates.get_mut(&object) else {
            return;
        };
        candidate.was_accessed = true;
        if let Some(bookmark) = candidate.bookmark.take() {
            // Under the lock: a collection follows a bookmark's references under it, too, so that what it changes is
            // changed here or there, and never in neither.
            for (offset, value) in &bookmark {
                let slot = space.slot(object.byte() + *offset as usize);
                slot.store(value.load(Ordering::Relaxed), Ordering::Release);
            }
        }
    }

    /// Visits the references of an object that is swapped out, and gives its granules; `None` if it is not.
    pub fn visit(&self, object: Addr, mut visit: impl FnMut(&AtomicU32)) -> Option<u32> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let candidates = self.candidates.lock();
        let candidate = candidates.get(&object)?;
        let bookmark = candidate.bookmark.as_ref()?;
        bookmark.iter().for_each(|(_, value)| visit(value));
        Some(candidate.granules)
    }

    /// Forgets objects that are garbage.
    pub fn retain(&self, survives: impl Fn(Addr) -> bool) {
        if self.is_used.load(Ordering::Acquire) {
            self.candidates.lock().retain(|&object, _| survives(object));
        }
    }

    /// A pass: ages all candidates and bookmarks those that are idle. With all mutators stopped. The byte ranges of
    /// objects that are swapped out now, neighbours together.
    fn pass(&self, space: &Space, config: &MarvinConfig) -> Vec<std::ops::Range<usize>> {
        let mut shapes = Shapes::default();
        let gaps = self.gaps.lock();
        let mut candidates = self.candidates.lock();
        let mut out = BTreeMap::new();
        for (&object, candidate) in candidates.iter_mut() {
            if std::mem::take(&mut candidate.was_accessed) {
                candidate.idle_passes = 0;
                continue;
            }
            candidate.idle_passes = candidate.idle_passes.saturating_add(1);
            if candidate.idle_passes < config.idle_passes {
                continue;
            }
            if candidate.bookmark.is_none() {
                let mut bookmark = Vec::new();
                let header = space.header(object);
                space.each_slot(object, header, &mut shapes, |byte| {
                    let value = space.slot(byte).load(Ordering::Acquire);
                    bookmark.push(((byte - object.byte()) as u32, AtomicU32::new(value)));
                });
                candidate.bookmark = Some(bookmark.into());
            }
            out.insert(object.byte(), candidate.granules as usize * GRANULE_BYTES);
        }
        for (granules, same) in &gaps.rooms {
            out.extend((same.iter()).map(|at| (at.byte(), *granules as usize * GRANULE_BYTES)));
        }
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        for (first, bytes) in out {
            match ranges.last_mut() {
                Some(last) if last.end == first => last.end += bytes,
                _ => ranges.push(first..first + bytes),
            }
        }
        ranges
    }
}

impl Collections {
    /// Swaps out objects that were not accessed for some passes.
    pub fn swap_idle_objects(&mut self, config: &MarvinConfig) {
        let heap = &self.heap;
        let begin = std::time::Instant::now();
        let stopped = heap.world.stop();
        let out = heap.bookmarks.pass(&heap.space, config);
        drop(stopped);
        heap.stats.stops.record(begin.elapsed().as_nanos() as u64);
        for bytes in out {
            let first = bytes.start.next_multiple_of(PAGE_BYTES);
            let end = bytes.end / PAGE_BYTES * PAGE_BYTES;
            if first < end
                && let Err(error) = heap.space.memory.cold(first..end)
            {
                heap.stats.note_refusal(&error);
            }
        }
    }
}
