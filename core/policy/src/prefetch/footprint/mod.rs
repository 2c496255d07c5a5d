//! `footprint`: what the last switches touched comes back at the next one (ASAP).
//!
//! The estimators stand by themselves: they know page numbers and names of files, do no I/O, and any host
//! may drive them with what its own system calls tell it.
//!
//! | module | subject |
//! |---|---|
//! | [`anon`] | anonymous pages: candidates, targets, time-outs (section 4.3) |
//! | [`profile`] | pages of files: the offline profile (section 4.2) |
//! | [`mod@file`] | pages of files: fault log, targets, merging, splitting (section 4.2) |
//! | [`plan`] | the order in which a footprint comes back (section 5) |
//! | [`extents`] | ranges of pages of a file |

pub mod anon;
pub mod extents;
pub mod file;
pub mod plan;
pub mod profile;

pub use anon::{AnonEstimator, AnonUpdate};
pub use extents::{Extent, Extents};
pub use file::{FileEstimator, FileUpdate};
pub use plan::{Batch, FilePlan};
pub use profile::{FileTable, Profiler};

use super::{Access, Prefetch};
use crate::entry::{PolicyEntry, arguments};
use crate::learned::Learned;
use crate::page::ChunkId;
use std::collections::VecDeque;
use warmswap_page::{AppId, FileId, LaunchKind, PageAddr};

pub(super) const ENTRY: PolicyEntry<dyn Prefetch> = PolicyEntry {
    name: "footprint",
    summary: "a launch brings back what earlier ones touched; footprint:only=anon|file,timeout=SWITCHES (5),profile=SWITCHES (10),cold=learn,most=PAGES (65536)",
    source: "ASAP sections 4 and 5; not in the paper: cold=learn counts cold launches as switches, and profile=0 takes any page of a file that a relaunch had to read",
    build: |text| Ok(Box::new(Footprint::parse(text)?)),
};

/// What a [`Footprint`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Anonymous pages are brought back.
    pub anon: bool,
    /// Pages of files are brought back.
    pub files: bool,
    /// Switches that an anonymous page may miss before it is forgotten.
    pub timeout_switches: u8,
    /// Switches of the offline profile.
    pub profile_switches: u32,
    /// A cold launch is learned from, too: its pages become candidates.
    pub learn_cold: bool,
    /// The most pages that one launch brings back.
    pub most_pages: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            anon: true,
            files: true,
            timeout_switches: anon::TIMEOUT_SWITCHES,
            profile_switches: profile::PROFILE_SWITCHES,
            learn_cold: false,
            most_pages: 65_536,
        }
    }
}

/// The estimators of one application.
#[derive(Debug)]
struct Estimators {
    anon: AnonEstimator,
    /// Without one there is no profile yet; `profiler` makes it.
    file: Option<FileEstimator<FileId>>,
    profiler: Profiler<FileId>,
    /// The open window is one that counts.
    learns: bool,
}

impl Estimators {
    fn new(config: Config) -> Self {
        Self {
            anon: AnonEstimator::new(config.timeout_switches),
            file: (config.profile_switches == 0).then(FileEstimator::default),
            profiler: Profiler::default(),
            learns: false,
        }
    }
}

/// The footprint estimators of all applications, and what is left to do for the launch under way.
///
/// The offline profile of an application's files is made of its first `profile_switches` switches, unless
/// one was learned earlier; file pages are brought back from then on.
#[derive(Debug)]
pub struct Footprint {
    config: Config,
    apps: Vec<Estimators>,
    /// Work for the launch under way: anonymous pages for one worker, files for another.
    anon_work: VecDeque<Batch<FileId>>,
    file_work: VecDeque<Batch<FileId>>,
    /// Whose turn it is: both workers go on side by side.
    files_next: bool,
}

impl Footprint {
    /// Estimators that know nothing.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            apps: Vec::new(),
            anon_work: VecDeque::new(),
            file_work: VecDeque::new(),
            files_next: true,
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut config = Config::default();
        for (key, value) in arguments(text) {
            match (key, value, value.parse::<u32>()) {
                ("only", "anon", _) => config.files = false,
                ("only", "file", _) => config.anon = false,
                ("timeout", _, Ok(switches @ 1..=255)) => config.timeout_switches = switches as u8,
                ("profile", _, Ok(switches @ 0..=200)) => config.profile_switches = switches,
                ("cold", "learn", _) => config.learn_cold = true,
                ("most", _, Ok(pages @ 1..=16_777_216)) => config.most_pages = pages as usize,
                _ => {
                    return Err(format!(
                        "'{key}={value}' is none of only=anon|file, timeout=1..255, profile=0..200, cold=learn, most=1..16777216"
                    ));
                }
            }
        }
        if !(config.anon || config.files) {
            return Err("only=anon and only=file together leave nothing".to_owned());
        }
        Ok(Self::new(config))
    }

    fn app(&mut self, app: AppId) -> &mut Estimators {
        let index = usize::from(app.0);
        let config = self.config;
        if self.apps.len() <= index {
            self.apps.resize_with(index + 1, || Estimators::new(config));
        }
        &mut self.apps[index]
    }

    fn drop_work(&mut self) {
        self.anon_work.clear();
        self.file_work.clear();
    }

    /// The file estimator of an application, once it has a profile.
    pub fn file(&self, app: AppId) -> Option<&FileEstimator<FileId>> {
        self.apps.get(usize::from(app.0))?.file.as_ref()
    }
}

impl Prefetch for Footprint {
    fn on_demand(&mut self, _: ChunkId, _: &mut Vec<ChunkId>) {}

    fn buffer_pages(&self) -> usize {
        0
    }

    fn footprint_pages(&self) -> usize {
        self.config.most_pages
    }

    fn launch_begin(&mut self, app: AppId, kind: LaunchKind) {
        self.drop_work();
        let config = self.config;
        let state = self.app(app);
        state.learns = kind == LaunchKind::Relaunch || config.learn_cold;
        state.anon.window_begin();
        let mut anon = Vec::new();
        if config.anon {
            anon = state.anon.targets();
        }
        let mut files = VecDeque::new();
        if let Some(file) = state.file.as_mut().filter(|_| config.files) {
            file.window_begin();
            let plans = plan::files_largest_first(file.targets());
            files.extend(plans.iter().flat_map(plan::FilePlan::batches));
        }
        self.anon_work.extend(plan::anon_batches(&anon));
        self.file_work = files;
        self.files_next = true;
    }

    fn window_access(&mut self, app: AppId, addr: PageAddr, access: Access) {
        let config = self.config;
        let state = self.app(app);
        let faulted = access == Access::Fault;
        match addr {
            PageAddr::Anon { number } if config.anon && state.learns => {
                state.anon.accessed(number, faulted);
            }
            PageAddr::File { file, number } if config.files => match &mut state.file {
                Some(estimator) => {
                    estimator.accessed(file, number);
                    if faulted && (state.learns || estimator.profile().is_some()) {
                        estimator.faulted(file, Extent::page(number));
                    }
                }
                None if state.learns => state.profiler.accessed(file, number),
                None => {}
            },
            _ => {}
        }
    }

    fn unseen(&mut self, app: AppId, is_unseen: &mut dyn FnMut(PageAddr) -> bool) {
        let config = self.config;
        let state = self.app(app);
        if config.anon && state.learns {
            let is_unseen = |number| is_unseen(PageAddr::Anon { number });
            state.anon.unseen(is_unseen);
        }
        if let Some(estimator) = state.file.as_mut().filter(|_| config.files) {
            estimator.unseen(|file, number| is_unseen(PageAddr::File { file, number }));
        }
    }

    fn doubts(&self, app: AppId, addr: PageAddr) -> bool {
        let state = self.apps.get(usize::from(app.0));
        match addr {
            PageAddr::Anon { number } => state.is_some_and(|state| state.anon.doubts(number)),
            PageAddr::File { .. } => false,
        }
    }

    fn launch_end(&mut self, app: AppId) {
        self.drop_work();
        let config = self.config;
        let state = self.app(app);
        let learns = std::mem::take(&mut state.learns);
        if config.anon && learns {
            state.anon.window_end();
        }
        if !config.files {
            return;
        }
        match &mut state.file {
            Some(file) => {
                file.window_end();
            }
            // A launch in which no page of a file was seen says nothing of files: the host may not have looked.
            None if learns && state.profiler.is_touched() => {
                state.profiler.window_end();
                if state.profiler.windows() >= config.profile_switches {
                    let profiler = std::mem::take(&mut state.profiler);
                    state.file = Some(FileEstimator::new(profiler.table()));
                }
            }
            None => {}
        }
    }

    fn next_batch(&mut self) -> Option<Batch<FileId>> {
        let (first, second) = if self.files_next {
            (&mut self.file_work, &mut self.anon_work)
        } else {
            (&mut self.anon_work, &mut self.file_work)
        };
        self.files_next = !self.files_next;
        first.pop_front().or_else(|| second.pop_front())
    }

    fn expects(&self, app: AppId, addr: PageAddr) -> bool {
        let Some(state) = self.apps.get(usize::from(app.0)) else {
            return false;
        };
        match addr {
            PageAddr::Anon { number } => self.config.anon && state.anon.is_expected(number),
            PageAddr::File { file, number } => {
                let estimator = state.file.as_ref().filter(|_| self.config.files);
                estimator.is_some_and(|estimator| estimator.is_target(file, number))
            }
        }
    }

    fn fetched(&mut self, app: AppId, addr: PageAddr) {
        if let PageAddr::File { file, number } = addr
            && let Some(estimator) = &mut self.app(app).file
        {
            estimator.fetched(file, Extent::page(number));
        }
    }

    fn exit(&mut self, app: AppId) {
        self.drop_work();
        let state = self.app(app);
        state.anon.clear();
        state.learns = false;
        // What an unfinished window fetched or missed says nothing.
        if let Some(file) = &mut state.file {
            file.window_begin();
        }
    }

    fn retire(&mut self, app: AppId) {
        self.drop_work();
        let config = self.config;
        *self.app(app) = Estimators::new(config);
    }

    fn learned(&self, app: AppId, learned: &mut Learned<FileId>) {
        let Some(state) = self.apps.get(usize::from(app.0)) else {
            return;
        };
        learned.anon_targets = state.anon.targets();
        learned.anon_candidates = state.anon.candidates();
        let is_known =
            |file: &&FileEstimator<_>| file.profile().is_some() || !file.targets().is_empty();
        if let Some(file) = state.file.as_ref().filter(is_known) {
            let none = FileTable::new();
            learned.set_files(file.profile().unwrap_or(&none), file.targets());
        }
    }

    fn teach(&mut self, app: AppId, learned: &Learned<FileId>) {
        let is_profiled = self.config.profile_switches > 0;
        let state = self.app(app);
        state
            .anon
            .restore(&learned.anon_targets, &learned.anon_candidates);
        if let Some((profile, targets)) = learned.file_tables() {
            let mut estimator = match is_profiled {
                // It was learned without a profile: one is made first.
                true if profile.is_empty() => return,
                true => FileEstimator::new(profile),
                false => FileEstimator::default(),
            };
            estimator.restore(targets);
            state.file = Some(estimator);
        }
    }

    fn watches_launches(&self) -> bool {
        true
    }

    fn state_bytes(&self, app: AppId) -> usize {
        self.apps.get(usize::from(app.0)).map_or(0, |app| {
            app.anon.state_bytes()
                + app.profiler.state_bytes()
                + app.file.as_ref().map_or(0, FileEstimator::state_bytes)
        })
    }
}

#[cfg(test)]
mod tests;
