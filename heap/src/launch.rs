//! Launch objects that are learned from earlier launches: not in the paper, as ASAP learns pages.
//!
//! While the application is in the background the read barrier is armed, and from the beginning of a launch to its end
//! each object that a mutator loads is noted, once, in the order of these first accesses. The last three launches are
//! remembered. A grouping collection gives the objects room in launch regions in that order.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::bitmap::Bitmap;
use crate::layout::{Addr, GRANULE_BYTES, PAGE_BYTES};
use crate::regions::{Flags, RegionTable};

/// Launches that an object is remembered for after it was last accessed in one.
const REMEMBERED_LAUNCHES: u32 = 3;

/// Accesses noted in one launch, at most; 4 bytes each.
const MOST_NOTED: usize = 1 << 21;

#[derive(Debug, Default)]
struct Launches {
    /// Objects of the launch that is being noted, in the order of their first access.
    noted: Vec<Addr>,
    /// Objects that earlier launches accessed, in the order of the last one, with a bit for each launch, the last one
    /// lowest.
    learned: Vec<(Addr, u8)>,
}

/// What one launch accessed, by where grouping had put it. Objects that were allocated since are not counted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LaunchReport {
    /// Objects in launch, working-set and cold regions.
    pub grouped_objects: [u64; 3],
    /// Objects elsewhere.
    pub other_objects: u64,
    /// Pages that any of them begins on.
    pub pages: u64,
}

impl LaunchReport {
    /// Of a launch that accessed these objects.
    pub(crate) fn of(accessed: &[Addr], regions: &RegionTable) -> Self {
        let mut report = Self::default();
        let mut pages = FxHashSet::default();
        for object in accessed {
            pages.insert(object.byte() / PAGE_BYTES);
            let flags = regions.info(object.region()).flags();
            let classes = [Flags::LAUNCH, Flags::WORKING_SET, Flags::COLD];
            match classes.iter().position(|&class| flags.has(class)) {
                Some(class) => report.grouped_objects[class] += 1,
                None => report.other_objects += 1,
            }
        }
        report.pages = pages.len() as u64;
        report
    }
}

/// What launches access.
#[derive(Debug)]
pub struct LaunchLog {
    is_noting: AtomicBool,
    /// Objects that this launch has noted, by granule.
    seen: Bitmap,
    launches: Mutex<Launches>,
}

impl LaunchLog {
    /// For a heap of so many bytes.
    pub fn new(heap_bytes: usize) -> Self {
        Self {
            is_noting: AtomicBool::new(false),
            seen: Bitmap::new(heap_bytes / GRANULE_BYTES),
            launches: Mutex::default(),
        }
    }

    /// A launch begins.
    pub fn begin(&self) {
        let noted = std::mem::take(&mut self.launches.lock().noted);
        self.forget(&noted);
        self.is_noting.store(true, Ordering::Release);
    }

    /// Whether a launch has begun and not ended.
    pub fn is_under_way(&self) -> bool {
        self.is_noting.load(Ordering::Acquire)
    }

    /// These objects were not noted.
    fn forget(&self, objects: &[Addr]) {
        for object in objects {
            self.seen.unset(object.granule() as usize);
        }
    }

    /// A mutator loaded a reference to an object.
    pub fn note(&self, object: Addr) {
        if self.is_noting.load(Ordering::Relaxed) && self.seen.set(object.granule() as usize) {
            let mut launches = self.launches.lock();
            if launches.noted.len() < MOST_NOTED {
                launches.noted.push(object);
            }
        }
    }

    /// The launch ends: what it accessed is learned. What that was; `None` if no launch was noted.
    pub fn end(&self) -> Option<Vec<Addr>> {
        if !self.is_noting.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut launches = self.launches.lock();
        let noted = std::mem::take(&mut launches.noted);
        self.forget(&noted);
        let accessed = noted.clone();
        let mut earlier: FxHashMap<_, _> = launches.learned.iter().copied().collect();
        let mut learned = Vec::with_capacity(noted.len());
        for object in noted {
            // An object that moved in the launch may be noted twice: `None` the second time, in place of its history.
            let history = earlier.insert(object, 0).map_or(0, |bits| bits << 1);
            learned.push((object, history | 1));
        }
        let most = (1 << REMEMBERED_LAUNCHES) - 1;
        for &(object, _) in &launches.learned {
            let history = earlier[&object] << 1 & most;
            if history != 0 {
                learned.push((object, history));
            }
        }
        launches.learned = learned;
        Some(accessed)
    }

    /// What launches accessed, in the order of the last one.
    pub fn learned(&self) -> Vec<Addr> {
        let launches = self.launches.lock();
        launches.learned.iter().map(|&(object, _)| object).collect()
    }

    /// After a collection: `survivor` says where an object is now.
    pub fn follow(&self, survivor: impl Fn(Addr) -> Option<Addr>) {
        let mut launches = self.launches.lock();
        let noted = std::mem::take(&mut launches.noted);
        self.forget(&noted);
        // What was noted since the flip is a copy, or was not moved.
        let moved = noted.into_iter().filter_map(&survivor);
        launches.noted = moved
            .filter(|object| self.seen.set(object.granule() as usize))
            .collect();
        let learned = std::mem::take(&mut launches.learned);
        let moved = |(object, history)| Some((survivor(object)?, history));
        launches.learned = learned.into_iter().filter_map(moved).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(log: &LaunchLog) -> Vec<u32> {
        log.learned().into_iter().map(Addr::granule).collect()
    }

    fn launch(log: &LaunchLog, accessed: &[u32]) {
        log.begin();
        for &granule in accessed {
            log.note(Addr::new(granule).expect("not 0"));
        }
        log.end();
    }

    #[test]
    fn objects_are_learned_in_the_order_of_the_last_launch_and_forgotten_after_three() {
        let log = LaunchLog::new(1 << 16);
        log.note(Addr::new(9).expect("not 0"));
        launch(&log, &[5, 3, 5, 7]);
        assert_eq!(objects(&log), [5, 3, 7]);
        launch(&log, &[7, 1]);
        assert_eq!(objects(&log), [7, 1, 5, 3]);
        launch(&log, &[]);
        assert_eq!(objects(&log), [7, 1, 5, 3]);
        launch(&log, &[2]);
        assert_eq!(objects(&log), [2, 7, 1]);
    }

    #[test]
    fn garbage_is_forgotten_and_copies_are_followed() {
        let log = LaunchLog::new(1 << 16);
        launch(&log, &[5, 3, 7]);
        log.follow(|object| match object.granule() {
            3 => None,
            granule => Addr::new(granule + 100),
        });
        assert_eq!(objects(&log), [105, 107]);
    }
}
