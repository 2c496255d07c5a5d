//! Misses of reclaim policies where exactly so many pages fit, as cache simulators count them: without a reserve, a pool, or
//! anything that leaves by itself, and with the first touch of each page.
//!
//! The misses of `lru`, `sieve` and `optimal` are those of any other simulator on the accesses that `warmswap-lab trace
//! export` writes. Pages of files are left out there and here. A page that is touched after it was freed is another page; the
//! freed one stays until a policy has it leave, as in a simulator that does not hear of it.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_columns::Described;
use warmswap_page::{AppId, LaunchKind, PageAddr};
use warmswap_policy::reclaim::{self, Arrival, NextUse, Reclaim, Urgency};
use warmswap_policy::{PageId, PageState, PageTable, entry};
use warmswap_trace::{Event, EventKind};

use crate::error::StudyError;
use crate::subject::Subject;

/// The policies that are looked at unless others are asked for.
pub const POLICIES: [&str; 8] = [
    "optimal",
    "lru",
    "sieve",
    "lru-k",
    "kernel-lru",
    "mglru",
    "hotness",
    "adaptive",
];

/// How many pages fit unless that is asked for, in percent of all that a trace touches.
pub const SHARES_PERCENT: [u32; 5] = [50, 60, 70, 80, 90];

/// One policy on one trace, where so many pages fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(miss_ratio = self.miss_ratio(), percent)]
pub struct MissRow {
    /// The trace.
    #[column]
    pub trace: String,
    /// How many pages fit.
    #[column("fit")]
    pub resident_pages: u64,
    /// The reclaim policy.
    #[column]
    pub policy: String,
    /// Accesses to anonymous pages.
    #[column]
    pub accesses: u64,
    /// Accesses to pages that were not resident, first touches among them.
    #[column]
    pub misses: u64,
}

impl MissRow {
    /// The part of all accesses that missed; `None` without accesses.
    #[must_use]
    pub fn miss_ratio(&self) -> Option<f64> {
        (self.accesses > 0).then(|| self.misses as f64 / self.accesses as f64)
    }
}

/// What a policy hears of a trace.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Of a page, by its place among those that the trace touches.
    Access {
        page: u32,
        next: u32,
    },
    LaunchBegin(AppId, LaunchKind),
    LaunchEnd(AppId),
}

/// A trace without all that no policy hears of. 12 bytes an access.
#[derive(Debug, Default)]
struct Accesses {
    /// The application of each page, in the order of first touches.
    owners: Vec<AppId>,
    steps: Vec<Step>,
    /// Pages that exist.
    known: FxHashMap<(AppId, u64), u32>,
}

impl Accesses {
    fn of(subject: &Subject) -> Result<Self, StudyError> {
        let mut found = Self::default();
        let mut events = subject.reader.events();
        let mut block: Vec<Event> = Vec::new();
        while events.next_block(&mut block)? {
            block.iter().for_each(|event| found.event(event));
        }
        found.look_ahead();
        Ok(found)
    }

    fn event(&mut self, event: &Event) {
        let app = event.app;
        match event.kind {
            EventKind::Access {
                page: PageAddr::Anon { number },
                ..
            } => self.access(app, number),
            EventKind::Free {
                page: PageAddr::Anon { number: first },
                pages,
            } => {
                let freed = first..first.saturating_add(pages.into());
                // Whichever is less: the pages that are freed, or those that are known.
                if u64::from(pages) > self.known.len() as u64 {
                    let is_freed = |of, number| of == app && freed.contains(&number);
                    self.known.retain(|&(of, number), _| !is_freed(of, number));
                } else {
                    for number in freed {
                        self.known.remove(&(app, number));
                    }
                }
            }
            EventKind::Exit => self.known.retain(|&(of, _), _| of != app),
            EventKind::LaunchBegin(kind) => self.steps.push(Step::LaunchBegin(app, kind)),
            EventKind::LaunchEnd => self.steps.push(Step::LaunchEnd(app)),
            _ => {}
        }
    }

    fn access(&mut self, app: AppId, number: u64) {
        let page = *self.known.entry((app, number)).or_insert_with(|| {
            self.owners.push(app);
            self.owners.len() as u32 - 1
        });
        let next = NextUse::NEVER.at;
        self.steps.push(Step::Access { page, next });
    }

    /// Notes when the page of each access is accessed next.
    fn look_ahead(&mut self) {
        let mut uses = vec![NextUse::NEVER.at; self.owners.len()];
        for (at, step) in self.steps.iter_mut().enumerate().rev() {
            if let Step::Access { page, next } = step {
                *next = std::mem::replace(&mut uses[*page as usize], at as u32);
            }
        }
    }

    fn accesses(&self) -> u64 {
        let is_access = |step: &&Step| matches!(step, Step::Access { .. });
        self.steps.iter().filter(is_access).count() as u64
    }

    /// Misses of a policy where `fit` pages fit.
    fn misses(&self, mut policy: Box<dyn Reclaim>, fit: u64) -> u64 {
        let mut table = PageTable::default();
        let numbered = (0..).map(|number| PageAddr::Anon { number });
        let pages = self.owners.iter().zip(numbered);
        let pages: Vec<PageId> = pages
            .map(|(&app, page)| table.find_or_insert(app, page))
            .collect();
        let (mut resident, mut misses, mut victims) = (0, 0, Vec::new());
        for step in &self.steps {
            match *step {
                Step::LaunchBegin(app, kind) => policy.launch_begin(&mut table, app, kind),
                Step::LaunchEnd(app) => policy.launch_end(app),
                Step::Access { page, next } => {
                    let page = pages[page as usize];
                    if table[page].state == PageState::Resident {
                        policy.foresee(page, next_use(next));
                        policy.touch(&mut table, page);
                        continue;
                    }
                    misses += 1;
                    if resident == fit {
                        policy.victims(&mut table, 1, Urgency::Direct, &mut victims);
                    }
                    for victim in victims.drain(..) {
                        table[victim].state = PageState::Stored;
                        resident -= 1;
                    }
                    policy.foresee(page, next_use(next));
                    table[page].state = PageState::Resident;
                    policy.insert(&mut table, page, Arrival::Touched);
                    resident += 1;
                }
            }
        }
        misses
    }
}

const fn next_use(at: u32) -> NextUse {
    NextUse {
        at,
        ..NextUse::NEVER
    }
}

/// Runs each policy on each trace where so many pages fit, in percent of all that the trace touches. One pass over each trace, and
/// one over its accesses for each row; rows on all processors.
///
/// # Errors
/// A trace cannot be read, or a policy is none, or one whose pages never leave.
pub fn misses(
    subjects: &[Subject],
    policies: &[String],
    shares_percent: &[u32],
) -> Result<Vec<MissRow>, StudyError> {
    for policy in policies {
        if build(policy)?.is_unlimited() {
            let policy = policy.clone();
            return Err(StudyError::NothingLeaves { policy });
        }
    }
    let mut rows = Vec::new();
    for subject in subjects {
        let accesses = Accesses::of(subject)?;
        let pairs = shares_percent
            .iter()
            .flat_map(|&share| policies.iter().map(move |policy| (share, policy)));
        let pairs: Vec<_> = pairs.collect();
        let of_trace = pairs.into_par_iter().map(|(share, policy)| {
            subject.reader.check_stop()?;
            let resident_pages = (accesses.owners.len() as u64 * u64::from(share) / 100).max(1);
            Ok(MissRow {
                trace: subject.name.clone(),
                resident_pages,
                policy: policy.clone(),
                accesses: accesses.accesses(),
                misses: accesses.misses(build(policy)?, resident_pages),
            })
        });
        rows.extend(of_trace.collect::<Result<Vec<_>, StudyError>>()?);
    }
    Ok(rows)
}

fn build(policy: &str) -> Result<Box<dyn Reclaim>, StudyError> {
    Ok(entry::build("reclaim", reclaim::ENTRIES, policy)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Script;

    /// Misses of policies on touches of pages by one application, where `percent` of its pages fit.
    fn misses_of(pages: &[u64], percent: u32) -> Vec<(String, u64)> {
        let mut script = Script::new(1);
        script.launch(0, pages);
        let policies = POLICIES.map(str::to_owned);
        let rows = misses(&[script.subject()], &policies, &[percent]).unwrap();
        assert!(rows.iter().all(|row| row.accesses == pages.len() as u64));
        rows.into_iter()
            .map(|row| (row.policy, row.misses))
            .collect()
    }

    fn of(found: &[(String, u64)], policy: &str) -> u64 {
        let row = found.iter().find(|(name, _)| name == policy);
        row.unwrap_or_else(|| panic!("{policy} in {found:?}")).1
    }

    #[test]
    fn a_loop_that_does_not_fit_misses_always_under_lru_and_seldom_at_best() {
        let pages: Vec<u64> = (0..10).flat_map(|_| 0..4).collect();
        let found = misses_of(&pages, 75);
        assert_eq!(of(&found, "lru"), 40);
        // Three pages of four fit: after the first touches every third access misses.
        assert_eq!(of(&found, "optimal"), 4 + 12);
    }

    #[test]
    fn where_all_pages_fit_only_first_touches_miss_whatever_the_policy() {
        let pages: Vec<u64> = (0..3).flat_map(|_| 0..50).collect();
        let found = misses_of(&pages, 100);
        assert_eq!(found.len(), POLICIES.len());
        assert!(found.iter().all(|(_, misses)| *misses == 50), "{found:?}");
    }

    #[test]
    fn no_policy_misses_less_than_the_best() {
        let pages: Vec<u64> = (0..2000_u64).map(|at| at * at % 97).collect();
        let found = misses_of(&pages, 50);
        let best = of(&found, "optimal");
        assert!(found.iter().all(|(_, misses)| *misses >= best), "{found:?}");
    }

    #[test]
    fn a_page_that_was_freed_is_another_one_however_much_is_freed() {
        let page = |number| PageAddr::Anon { number };
        let access = |app, number| {
            let page = page(number);
            let (write, content) = (false, None);
            (
                app,
                EventKind::Access {
                    page,
                    write,
                    content,
                },
            )
        };
        for pages in [1, u32::MAX] {
            let free = (
                0,
                EventKind::Free {
                    page: page(2),
                    pages,
                },
            );
            let before = [access(0, 1), access(1, 2), access(0, 2)];
            let after = [access(0, 1), access(0, 2), access(1, 2)];
            let mut accesses = Accesses::default();
            for (app, kind) in before.into_iter().chain([free]).chain(after) {
                let app = AppId(app);
                accesses.event(&Event {
                    time_ns: 0,
                    app,
                    kind,
                });
            }
            assert_eq!(accesses.owners, [0, 1, 0, 0].map(AppId), "{pages}");
            assert_eq!(accesses.accesses(), 6);
        }
    }

    #[test]
    fn a_policy_whose_pages_never_leave_is_refused() {
        let error = misses(&[], &["never".to_owned()], &[50]).unwrap_err();
        assert!(error.to_string().contains("never"), "{error}");
    }
}
