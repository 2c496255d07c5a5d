//! How pages of each hotness class are used again: what the cost model of the `measured` sizing assumes,
//! taken from a trace.
//!
//! Classes as HotnessOrg makes them (Ariadne section 4.2): hot is what the last launch window touched,
//! warm what an earlier one touched or what was touched again, cold the rest. Of the pages that exist
//! when a relaunch begins, `reuse` is the share that it or the execution up to the next launch touches.
//! The pages of a class stand in the order of the first touch of their last use, in which they leave, and
//! make chunks of 16 pages; `together` is the share of the other pages of a used page's chunk that are
//! used in the same phase: both in the window or both after it.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use warmswap_page::{LaunchKind, PageAddr};
use warmswap_policy::Hotness;
use warmswap_policy::sizing::{ClassAssumptions, CostTable};
use warmswap_trace::{Event, EventKind, TraceError, TraceReader};

use crate::mean::share;

/// Pages of the chunk that `together` is counted in: half of the largest.
const CHUNK_PAGES: usize = 16;

/// Counts of one class over all relaunches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassUse {
    /// Pages of the class that existed when a relaunch began.
    pub pages: u64,
    /// Of them, those that were used up to the next launch.
    pub used: u64,
    /// Pairs of a used page and another page of its chunk.
    pub pairs: u64,
    /// Of them, pairs of which the other page was used in the same phase.
    pub together: u64,
}

impl ClassUse {
    /// The assumptions that follow; `None` when no chunk of several pages had a used one, so that the
    /// trace does not say.
    pub fn assumptions(self) -> Option<ClassAssumptions> {
        Some(ClassAssumptions {
            reuse: share(self.used, self.pages)?,
            together: share(self.together, self.pairs)?,
        })
    }
}

/// The assumptions that a cost table gets from these counts, and for which classes the counts say nothing
/// so that the default holds.
pub fn assumptions(classes: [ClassUse; 3]) -> [(ClassAssumptions, bool); 3] {
    std::array::from_fn(|index| match classes[index].assumptions() {
        Some(assumptions) => (assumptions, true),
        None => (CostTable::CLASSES[index], false),
    })
}

/// When a page was used since the last launch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    NotYet,
    Window,
    After,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    class: Hotness,
    /// First touch of its last use.
    order: u64,
    /// Class and order when the last launch began; `None` when it did not exist then.
    before: Option<(Hotness, u64)>,
    phase: Phase,
}

#[derive(Debug, Default)]
struct App {
    pages: FxHashMap<u64, Page>,
    clock: u64,
    in_window: bool,
    in_relaunch: bool,
}

/// Counts the uses of pages of each class, hot first, in one pass over the trace.
/// Memory: some 64 bytes a page.
///
/// # Errors
/// The trace cannot be read.
pub fn class_use(trace: &TraceReader) -> Result<[ClassUse; 3], TraceError> {
    let mut apps: Vec<App> = trace.apps().iter().map(|_| App::default()).collect();
    let mut classes = [ClassUse::default(); 3];
    let mut events = trace.events();
    let mut block: Vec<Event> = Vec::new();
    while events.next_block(&mut block)? {
        for event in &block {
            // The reader has checked that every application is in the table.
            apps[usize::from(event.app.0)].event(event.kind, &mut classes);
        }
    }
    apps.iter_mut().for_each(|app| app.count(&mut classes));
    Ok(classes)
}

impl App {
    fn event(&mut self, kind: EventKind, classes: &mut [ClassUse; 3]) {
        match kind {
            EventKind::LaunchBegin(kind) => self.launch(kind, classes),
            EventKind::LaunchEnd | EventKind::Background => self.in_window = false,
            EventKind::Access {
                page: PageAddr::Anon { number },
                ..
            } => self.touch(number),
            EventKind::Free {
                page: PageAddr::Anon { number },
                pages,
            } => {
                let freed = number..number.saturating_add(pages.into());
                if u64::from(pages) > self.pages.len() as u64 {
                    self.pages.retain(|number, _| !freed.contains(number));
                } else {
                    freed.for_each(|number| {
                        self.pages.remove(&number);
                    });
                }
            }
            EventKind::Exit => {
                self.count(classes);
                self.pages.clear();
                self.in_window = false;
            }
            EventKind::Access { .. } | EventKind::Content { .. } | EventKind::Free { .. } => {}
        }
    }

    fn touch(&mut self, number: u64) {
        self.clock += 1;
        let phase = if self.in_window {
            Phase::Window
        } else {
            Phase::After
        };
        let fresh = Page {
            class: Hotness::Cold,
            order: self.clock,
            before: None,
            phase,
        };
        let mut is_new = false;
        let page = self.pages.entry(number).or_insert_with(|| {
            is_new = true;
            fresh
        });
        if page.phase == Phase::NotYet {
            page.phase = phase;
            page.order = self.clock;
        }
        page.class = match page.class {
            _ if self.in_window => Hotness::Hot,
            Hotness::Cold if !is_new => Hotness::Warm,
            class => class,
        };
    }

    fn launch(&mut self, kind: LaunchKind, classes: &mut [ClassUse; 3]) {
        self.count(classes);
        self.in_window = true;
        self.in_relaunch = kind == LaunchKind::Relaunch;
        for page in self.pages.values_mut() {
            page.before = Some((page.class, page.order));
            page.phase = Phase::NotYet;
            if page.class == Hotness::Hot {
                page.class = Hotness::Warm;
            }
        }
    }

    /// Counts what the last relaunch used, once.
    fn count(&mut self, classes: &mut [ClassUse; 3]) {
        if !std::mem::take(&mut self.in_relaunch) {
            return;
        }
        let mut order: Vec<(usize, u64, Phase)> = self
            .pages
            .values()
            .filter_map(|page| {
                let (class, order) = page.before?;
                Some((class.index(), order, page.phase))
            })
            .collect();
        order.sort_unstable_by_key(|&(class, order, _)| (class, order));
        for class in order.chunk_by(|a, b| a.0 == b.0) {
            for chunk in class.chunks(CHUNK_PAGES) {
                classes[class[0].0].add(chunk.iter().map(|&(.., phase)| phase));
            }
        }
    }
}

impl ClassUse {
    /// Adds the pages of one chunk.
    fn add(&mut self, phases: impl ExactSizeIterator<Item = Phase>) {
        let pages = phases.len() as u64;
        let (mut window, mut after) = (0, 0);
        for phase in phases {
            window += u64::from(phase == Phase::Window);
            after += u64::from(phase == Phase::After);
        }
        self.pages += pages;
        self.used += window + after;
        self.pairs += (window + after) * (pages - 1);
        self.together += window * window.saturating_sub(1) + after * after.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Script;

    #[test]
    fn uses_are_worked_out_by_hand() {
        let mut script = Script::new(1);
        script.launch(0, &[1, 2, 3, 4]);
        // 10 is touched again and so warm, 11 and 12 stay cold.
        script.execute(0, &[10, 11, 12, 10]).background(0);
        // Hot 1, 2, 3, 4: 1 and 2 in the window, 4 after it. Cold: 12 only.
        script.launch(0, &[1, 2, 50]).execute(0, &[4, 12]);
        let classes = class_use(&script.subject().reader).unwrap();
        let hot = ClassUse {
            pages: 4,
            used: 3,
            pairs: 9,
            together: 2,
        };
        assert_eq!(classes[0], hot);
        assert_eq!((classes[1].pages, classes[1].used), (1, 0));
        let cold = ClassUse {
            pages: 2,
            used: 1,
            pairs: 1,
            together: 0,
        };
        assert_eq!(classes[2], cold);
        let found = assumptions(classes);
        assert_eq!((found[0].0.reuse, found[0].0.together), (0.75, 2.0 / 9.0));
        assert_eq!(found.map(|(_, from_trace)| from_trace), [true, false, true]);
        assert_eq!(found[1].0, CostTable::CLASSES[1]);
    }
}
