//! The collector's thread: what it does when, by the state of the application (section 5.1, "Workflow").
//!
//! | stage | ends | with |
//! |---|---|---|
//! | foreground | when the application goes to the background | – |
//! | leaving | after T_B; for guided swap, when a collection is due before | Fleet: objects are grouped or separated; native: a major collection |
//! | away | at the launch | – ; meanwhile launch regions are said to be hot, again and again |
//! | returning | after T_F | objects are told apart no more |

use std::ops::Range;
use std::time::Duration;

use crate::config::{Collector, FleetConfig};
use crate::error::HeapError;
use crate::heap::barrier;
use crate::launch::LaunchReport;
use crate::layout::{GRANULE_BYTES, PAGE_BYTES, region_bytes};
use crate::memory::HeapMemory;
use crate::regions::Flags;

use super::collection::Collections;
use super::control::Command;
use super::{Cause, Kind};

/// Mutators have nearly all that the heap can hold: foreground garbage is looked for, too (section 5.2, "Discussion on
/// memory leak").
const LAST_RESORT_PERCENT: usize = 90;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Foreground,
    Leaving,
    Away,
    Returning,
}

/// The collector's thread of one heap.
#[derive(Debug)]
pub struct Session {
    collections: Collections,
    stage: Stage,
    /// When the stage ends, or something is done in it.
    deadline: Option<Duration>,
    /// Regions that mutators had taken when objects were last grouped.
    grouped_at: Option<usize>,
    /// For stress: which kind of collection is next.
    stressed: usize,
}

impl Session {
    pub fn new(collections: Collections) -> Self {
        Self {
            collections,
            stage: Stage::Foreground,
            deadline: None,
            grouped_at: None,
            stressed: 0,
        }
    }

    /// Works until the heap is dropped.
    pub fn run(&mut self) {
        let heap = std::sync::Arc::clone(&self.collections.heap);
        heap.control.begin();
        while let Ok(command) = heap.control.next(self.deadline, &*heap.clock) {
            match command {
                Some(Command::Collect(kind)) => self.collect(kind),
                Some(Command::Foreground(true)) => self.enter_foreground(),
                Some(Command::Foreground(false)) => self.enter_background(),
                Some(Command::LaunchDone) => self.end_launch(),
                Some(Command::LookAtClock) => {}
                Some(Command::ExpireTimer) => {
                    if self.deadline.is_some() {
                        self.expire(Cause::Timer);
                    }
                }
                None => self.expire(Cause::Timer),
            }
            if command.is_some() {
                heap.control.done();
            }
        }
    }

    /// When this wait is over; `None` for a time that never comes.
    fn after(&self, wait: Duration) -> Option<Duration> {
        self.collections.heap.clock.now().checked_add(wait)
    }

    fn fleet(&self) -> Option<FleetConfig> {
        match self.collections.heap.config.collector {
            Collector::Fleet(fleet) => Some(fleet),
            _ => None,
        }
    }

    fn collect(&mut self, kind: Option<Kind>) {
        let heap = &self.collections.heap;
        let groups = self.fleet().is_some_and(|fleet| fleet.guided_swap);
        if kind.is_none() && self.stage == Stage::Leaving && groups && !heap.config.stress {
            // What is young is told from the rest by the first collection in the background only (section 5.3.1).
            self.expire(Cause::Limit);
            return;
        }
        let cause = match kind {
            Some(_) => Cause::Request,
            None => Cause::Limit,
        };
        let kind = kind.unwrap_or_else(|| self.due());
        let report = self.collections.collect(kind, cause);
        let heap = &self.collections.heap;
        let most = heap.config.max_bytes / 100 * LAST_RESORT_PERCENT;
        if kind == Kind::Background && report.used_bytes as usize > most {
            self.collections.collect(Kind::Major, Cause::LastResort);
            if self.stage == Stage::Away {
                // The collection has read them.
                self.send_cold_away();
            }
        }
        if self.collections.heap.config.stress {
            self.collections.check();
        }
    }

    /// What kind of collection is next.
    fn due(&mut self) -> Kind {
        let heap = &self.collections.heap;
        if heap.config.stress {
            self.stressed += 1;
            return Kind::ALL[self.stressed % Kind::ALL.len()];
        }
        let replaces = self
            .fleet()
            .is_some_and(|fleet| fleet.background_collections);
        match heap.limits.next() {
            Kind::Major if replaces && self.collections.is_separated() => Kind::Background,
            due => due,
        }
    }

    fn enter_foreground(&mut self) {
        let heap = &self.collections.heap;
        let factor = heap.config.foreground_factor;
        if heap.config.launch_raises_limit {
            heap.limits.set_factor(factor, heap.used_bytes());
        } else {
            heap.limits.set_next_factor(factor);
        }
        self.collections.keeps_freed = true;
        // Whatever the stage was: an application may come and go again before T_F or T_B is over.
        let is_told_apart = self.collections.is_separated() || heap.is_learning();
        (self.stage, self.deadline) = match self.fleet() {
            Some(fleet) if is_told_apart => (Stage::Returning, self.after(fleet.foreground_wait)),
            _ => (Stage::Foreground, None),
        };
    }

    fn enter_background(&mut self) {
        self.end_launch();
        let heap = &self.collections.heap;
        heap.limits
            .set_factor(heap.config.background_factor, heap.used_bytes());
        self.collections.keeps_freed = false;
        self.stage = Stage::Leaving;
        self.deadline = match heap.config.collector {
            Collector::Fleet(fleet) => self.after(fleet.background_wait),
            Collector::Native | Collector::Marvin(_) => heap
                .config
                .background_collection_wait
                .and_then(|wait| self.after(wait)),
        };
    }

    fn end_launch(&self) {
        let heap = &self.collections.heap;
        if let Some(accessed) = heap.launch.end() {
            let report = LaunchReport::of(&accessed, &heap.space.regions);
            heap.stats.launched(report);
        }
    }

    /// The deadline is over, or the heap has grown to its limit before.
    fn expire(&mut self, cause: Cause) {
        self.deadline = None;
        let heap = &self.collections.heap;
        let learns = self.fleet().is_some_and(|fleet| fleet.learned_launches);
        if self.stage == Stage::Leaving && (learns || heap.config.observe_launches) {
            // Ready for the next launch, which begins without asking.
            self.collections.set_barrier(barrier::LEARNING, 0);
        }
        match (self.stage, self.collections.heap.config.collector) {
            (Stage::Foreground, _) => {}
            (Stage::Leaving, Collector::Fleet(fleet)) => self.begin_fleet(fleet, cause),
            (Stage::Leaving, Collector::Native) => {
                self.collections.collect(Kind::Major, Cause::Timer);
                self.stage = Stage::Away;
            }
            (Stage::Leaving, Collector::Marvin(marvin)) => {
                self.collections.collect(Kind::Major, Cause::Timer);
                self.stage = Stage::Away;
                self.deadline = self.after(marvin.pass_interval);
            }
            (Stage::Away, Collector::Fleet(fleet)) => self.keep_launch_regions(fleet),
            (Stage::Away, Collector::Marvin(marvin)) => {
                self.collections.swap_idle_objects(&marvin);
                self.deadline = self.after(marvin.pass_interval);
            }
            (Stage::Away, Collector::Native) => {}
            (Stage::Returning, _) => {
                self.end_launch();
                self.collections.set_barrier(0, barrier::LEARNING);
                self.collections.end_separation();
                self.stage = Stage::Foreground;
            }
        }
    }

    /// T_B is over, or a collection is due before.
    fn begin_fleet(&mut self, fleet: FleetConfig, cause: Cause) {
        self.stage = Stage::Away;
        if !fleet.guided_swap {
            self.collections.collect(Kind::Separating, cause);
            return;
        }
        let heap = std::sync::Arc::clone(&self.collections.heap);
        let regions = &heap.space.regions;
        let was_enough = self.grouped_at.is_some_and(|grouped_at| {
            let since = regions.taken_by_mutators() - grouped_at;
            since * 100 < regions.in_use() * usize::from(fleet.regroup_percent)
        });
        if was_enough {
            self.collections.collect(Kind::Separating, cause);
        } else {
            self.collections.collect(Kind::Grouping, cause);
            self.grouped_at = Some(regions.taken_by_mutators());
        }
        self.send_cold_away();
        self.keep_launch_regions(fleet);
    }

    fn keep_launch_regions(&mut self, fleet: FleetConfig) {
        if fleet.guided_swap {
            self.keep_hot(fleet.hot_restores);
            self.deadline = self.after(fleet.advice_interval);
        }
    }

    fn send_cold_away(&self) {
        self.advise(Flags::COLD, |memory, bytes| memory.cold(bytes));
    }

    fn keep_hot(&self, restores: bool) {
        self.advise(Flags::LAUNCH, |memory, bytes| {
            if restores {
                memory.restore(bytes)
            } else {
                memory.hot(bytes)
            }
        });
    }

    /// Tells the memory below about the regions of a class (section 5.3.2).
    fn advise(&self, class: Flags, tell: impl Fn(&dyn HeapMemory, Range<usize>) -> Advised) {
        let heap = &self.collections.heap;
        let space = &heap.space;
        for (region, _) in space.regions.used() {
            let info = space.regions.info(region);
            if !info.flags().has(class) {
                continue;
            }
            let first = region_bytes(region).start;
            let used = info.used() as usize * GRANULE_BYTES;
            let bytes = first..first + used.next_multiple_of(PAGE_BYTES);
            if let Err(error) = tell(&*space.memory, bytes) {
                heap.stats.note_refusal(&error);
            }
        }
    }
}

type Advised = Result<(), HeapError>;
