//! One collection, from its beginning to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use warmswap_sys::cpu_time::CpuClock;

use crate::cards::CLEAN;
use crate::config::{Collector, LaunchDepth};
use crate::heap::{Inner, barrier};
use crate::layout::{REGION_BYTES, REGION_GRANULES, first_granule, region_bytes};
use crate::regions::{Flags, RegionState};
use crate::world::Stopped;

use super::report::CollectionReport;
use super::trace::Tracer;
use super::{Cause, Kind, plan, weak};

/// Makes collections of one heap, on its collector's thread.
#[derive(Debug)]
pub struct Collections {
    pub heap: Arc<Inner>,
    clock: CpuClock,
    /// Foreground regions were separated, and are until [`Self::end_separation`].
    is_separated: bool,
    /// Freed memory that mutators will soon want again stays: in the foreground. In the background it would only be
    /// garbage that is swapped out.
    pub keeps_freed: bool,
}

impl Collections {
    /// For the calling thread.
    pub fn new(heap: Arc<Inner>) -> Self {
        Self {
            heap,
            clock: CpuClock::of_this_thread(),
            is_separated: false,
            keeps_freed: true,
        }
    }

    /// Whether objects are told apart into foreground and background.
    pub fn is_separated(&self) -> bool {
        self.is_separated
    }

    /// Collects.
    pub fn collect(&mut self, kind: Kind, cause: Cause) -> CollectionReport {
        let heap = Arc::clone(&self.heap);
        let begin = Instant::now();
        let cpu_before = self.clock.read_ns();
        let mut report = CollectionReport::new(kind, cause, heap.launch.is_under_way());
        heap.bookmarks.begin_collection(kind);
        self.clear_marks(kind);
        let used_before = heap.space.regions.in_use();
        let cards = self.flip(kind, &mut report);
        let mut tracer = Tracer::new(&heap.space, &heap.bookmarks, report);
        if kind == Kind::Grouping {
            let depth = match heap.config.collector {
                Collector::Fleet(fleet) => fleet.launch_depth,
                _ => LaunchDepth::References(2),
            };
            tracer.group(depth, heap.launch.learned().into_iter());
        }
        for block in heap.roots().blocks() {
            block.iter().for_each(|slot| tracer.root(slot));
        }
        tracer.roots_done();
        cards.iter().for_each(|&card| tracer.card(card));
        self.trace(&mut tracer);
        weak::clear_weaks(&heap);
        heap.launch.follow(|object| weak::survivor(&heap, object));
        heap.bookmarks
            .retain(|object| weak::survivor(&heap, object).is_some());
        let mut report = tracer.report;
        let finalisers = weak::due_finalisers(&heap);
        let freed = self.end(kind, &mut report);
        heap.bookmarks.find_gaps(&heap.space);
        self.release(&freed);
        // Finalisers are the user's: what one does, or that it panics, is of no consequence here.
        for finaliser in finalisers {
            let run = std::panic::AssertUnwindSafe(finaliser.run);
            let _ = std::panic::catch_unwind(run);
        }
        let in_use = heap.space.regions.in_use();
        report.used_bytes = (in_use * REGION_BYTES) as u64;
        report.freed_bytes = (used_before.saturating_sub(in_use) * REGION_BYTES) as u64;
        report.duration_ns = begin.elapsed().as_nanos() as u64;
        report.cpu_ns = match (self.clock.read_ns(), cpu_before) {
            (Some(after), Some(before)) => after - before,
            _ => 0,
        };
        heap.stats.collected(report);
        heap.limits.collected(&report, in_use * REGION_BYTES);
        report
    }

    /// Marks of regions whose objects are marked in place are made anew.
    fn clear_marks(&self, kind: Kind) {
        let space = &self.heap.space;
        for (region, span) in space.regions.used() {
            let is_in_place = plan::state(kind, &space.regions, region) == RegionState::InPlace;
            if is_in_place && space.regions.info(region).flags().has(Flags::MARKED) {
                let first = first_granule(region) as usize;
                let end = first + span * REGION_GRANULES as usize;
                space.marks.clear(first..end);
            }
        }
    }

    /// Stops all mutators.
    fn stop<'a>(&self, heap: &'a Inner) -> Stop<'a> {
        let begin = Instant::now();
        let stopped = heap.world.stop();
        Stop {
            begin,
            stopped: Some(stopped),
            heap,
        }
    }

    /// Settles which regions are collected. The dirty cards of the others.
    fn flip(&self, kind: Kind, report: &mut CollectionReport) -> Vec<u32> {
        let heap = &*self.heap;
        let space = &heap.space;
        let mut dirty = Vec::new();
        let mut evacuated = 0;
        let stop = self.stop(heap);
        for (region, span) in space.regions.used() {
            let state = plan::state(kind, &space.regions, region);
            space.regions.set_state(region, state);
            match state {
                RegionState::Evacuated => evacuated += 1,
                RegionState::InPlace => {
                    space.regions.info(region).set_live(0);
                    // Written to from here on, it may refer to objects that are younger than it.
                    (region..region + span).for_each(|r| space.cards.set_region(r, CLEAN));
                }
                _ if plan::uses_cards(kind) => {
                    (region..region + span).for_each(|r| space.cards.take_dirty(r, &mut dirty));
                }
                _ => {}
            }
        }
        space.regions.begin_collection(evacuated);
        heap.bookmarks.begin_tracing(&dirty);
        heap.shared.lock().begin(kind == Kind::Grouping);
        heap.count_flip();
        heap.set_barrier(barrier::COLLECTING, 0);
        stop.end(report);
        report.dirty_cards = dirty.len() as u64;
        dirty
    }

    /// Follows references until neither this thread nor a mutator has one left.
    fn trace(&self, tracer: &mut Tracer<'_>) {
        let heap = &self.heap;
        loop {
            tracer.drain();
            let found = heap.shared.lock().take_found();
            if !found.is_empty() {
                tracer.add_found(found);
                continue;
            }
            let stop = self.stop(heap);
            let found = heap.shared.lock().take_found();
            let is_done = found.is_empty();
            if is_done {
                heap.set_barrier(barrier::CLEARING, 0);
            }
            stop.end(&mut tracer.report);
            tracer.add_found(found);
            if is_done {
                break;
            }
        }
        debug_assert!(tracer.is_drained());
        tracer.finish();
    }

    /// Evacuated regions are garbage now, and so are others without a live object: these are to be released, as first
    /// region and number.
    fn end(&mut self, kind: Kind, report: &mut CollectionReport) -> Vec<(usize, usize)> {
        let heap = Arc::clone(&self.heap);
        let space = &heap.space;
        let mut freed = Vec::new();
        let stop = self.stop(&heap);
        let (objects, _bytes) = heap.shared.lock().end(space);
        report.mutator_objects = objects;
        for (region, span) in space.regions.used() {
            let info = space.regions.info(region);
            let flags = info.flags();
            match space.regions.state(region) {
                RegionState::Evacuated => freed.push((region, span)),
                RegionState::InPlace if info.live() == 0 => freed.push((region, span)),
                RegionState::InPlace => {
                    space.regions.set_state(region, RegionState::Kept);
                    let mut now = flags.without(Flags::YOUNG).with(Flags::MARKED);
                    if separates(kind) {
                        now = now.with(Flags::FOREGROUND);
                    }
                    info.set_flags(now);
                }
                _ if kind == Kind::Separating && !flags.has(Flags::YOUNG) => {
                    info.set_flags(flags.with(Flags::FOREGROUND));
                }
                _ => {}
            }
        }
        heap.bookmarks.end_tracing(space);
        self.is_separated |= separates(kind);
        heap.set_barrier(0, barrier::COLLECTING | barrier::CLEARING);
        stop.end(report);
        freed
    }

    /// Gives the memory of regions back, except for the last ones, which mutators will want again soon.
    fn release(&self, freed: &[(usize, usize)]) {
        let space = &self.heap.space;
        for &(first, span) in freed {
            let flags = space.regions.info(first).flags();
            if flags.has(Flags::MARKED) || flags.has(Flags::LARGE) || flags.has(Flags::SWAPPABLE) {
                let granule = first_granule(first) as usize;
                let end = granule + span * REGION_GRANULES as usize;
                space.marks.clear(granule..end);
            }
        }
        // As much as the heap may grow before the next collection is worth keeping.
        let in_use = space.regions.in_use() - freed.iter().map(|&(_, span)| span).sum::<usize>();
        let growth_bytes = self.heap.limits.growth_bytes(in_use * REGION_BYTES);
        let most = if self.keeps_freed {
            growth_bytes / REGION_BYTES
        } else {
            0
        };
        let mut kept = 0;
        for &(first, span) in freed {
            if kept + span <= most {
                kept += span;
            } else {
                let bytes = region_bytes(first).start..region_bytes(first + span - 1).end;
                if let Err(error) = space.memory.discard(bytes) {
                    // The memory is merely not given back.
                    self.heap.stats.note_refusal(&error);
                }
            }
            space.regions.give_back(first, span);
        }
        space.regions.end_collection();
    }

    /// Objects are not told apart any more.
    pub fn end_separation(&mut self) {
        let heap = Arc::clone(&self.heap);
        let stopped = heap.world.stop();
        for (region, _) in heap.space.regions.used() {
            let info = heap.space.regions.info(region);
            info.set_flags(info.flags().without(Flags::FOREGROUND));
        }
        drop(stopped);
        self.is_separated = false;
    }

    /// Switches reasons of the read barrier on and off.
    pub fn set_barrier(&self, on: u8, off: u8) {
        if self.heap.barrier.load(Ordering::Relaxed) & !off | on
            != self.heap.barrier.load(Ordering::Relaxed)
        {
            let stopped = self.heap.world.stop();
            self.heap.set_barrier(on, off);
            drop(stopped);
        }
    }
}

/// Whether all objects are foreground objects after a collection.
fn separates(kind: Kind) -> bool {
    matches!(kind, Kind::Grouping | Kind::Separating)
}

/// All mutators are stopped, for a time that is counted.
struct Stop<'a> {
    begin: Instant,
    stopped: Option<Stopped<'a>>,
    heap: &'a Inner,
}

impl Stop<'_> {
    /// Lets them go on.
    fn end(mut self, report: &mut CollectionReport) {
        drop(self.stopped.take());
        let ns = self.begin.elapsed().as_nanos() as u64;
        // They go first, where they are to run on this processor: without being asked the kernel would let this thread
        // finish its slice, which is some milliseconds.
        std::thread::yield_now();
        report.longest_stop_ns = report.longest_stop_ns.max(ns);
        self.heap.stats.stops.record(ns);
    }
}
