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
mod odds;
pub mod plan;
pub mod profile;

pub use anon::{AnonEstimator, AnonUpdate};
pub use extents::{Extent, Extents};
pub use file::{FileEstimator, FileUpdate};
pub use plan::{Batch, FilePlan};
pub use profile::{FileTable, Profiler};

use self::odds::{Allowance, FIRST_ANON_PAGES, FIRST_FILE_PAGES};
use super::{Access, Prefetch};
use crate::entry::{PolicyEntry, arguments};
use crate::learned::Learned;
use crate::page::ChunkId;
use std::collections::VecDeque;
use warmswap_page::{AppId, FileId, LaunchKind, PageAddr};

pub(super) const ENTRY: PolicyEntry<dyn Prefetch> = PolicyEntry {
    name: "footprint",
    summary: "a launch brings back what earlier ones touched; footprint:only=anon|file,timeout=SWITCHES (5),profile=SWITCHES (10),cold=learn,most=PAGES (65536),likely=PERCENT (0)",
    source: "ASAP sections 4 and 5; not in the paper: cold=learn counts cold launches as switches, profile=0 takes any page of a file that a relaunch had to read, and likely=PERCENT leaves anonymous pages that are accessed less often, and pages of files where few are missing",
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
    /// Anonymous pages that are accessed with less likelihood are not brought back, and no pages of files for a while
    /// after fewer of them were used, then few at first by hosts that ask how many ([`Prefetch::files_to_read`]); in percent,
    /// 0: as published.
    pub least_likely_percent: u8,
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
            least_likely_percent: 0,
        }
    }
}

impl Config {
    /// How many pages of a kind a launch may bring back that begins now: as published, all of them.
    fn most_pages_of(&self, allowance: &mut Allowance) -> u64 {
        match self.least_likely_percent {
            0 => u64::MAX,
            _ => allowance.of_launch(),
        }
    }
}

/// The estimators of one application.
#[derive(Debug)]
struct App {
    anon: AnonEstimator,
    /// Without one there is no profile yet; `profiler` makes it.
    file: Option<FileEstimator<FileId>>,
    profiler: Profiler<FileId>,
    /// How many anonymous pages are worth bringing back, and how many of files.
    anon_allowance: Allowance,
    file_allowance: Allowance,
    /// The open window is one that counts.
    learns: bool,
    /// So many pages of files may be read for the launch that began last.
    most_file_pages: u64,
}

impl App {
    fn new(config: Config) -> Self {
        Self {
            anon: AnonEstimator::new(config.timeout_switches, config.least_likely_percent),
            file: (config.profile_switches == 0).then(FileEstimator::default),
            profiler: Profiler::default(),
            anon_allowance: Allowance::new(FIRST_ANON_PAGES),
            file_allowance: Allowance::new(FIRST_FILE_PAGES),
            learns: false,
            most_file_pages: 0,
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
    apps: Vec<App>,
    /// Work for the launch under way: anonymous pages for one worker, files for another.
    anon_work: VecDeque<Batch<FileId>>,
    /// So many of these pages may be brought back yet, of those that are not in memory.
    anon_left: u64,
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
            anon_left: 0,
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
                ("likely", _, Ok(percent @ 0..=100)) => config.least_likely_percent = percent as u8,
                _ => {
                    return Err(format!(
                        "'{key}={value}' is none of only=anon|file, timeout=1..255, profile=0..200, cold=learn, most=1..16777216, likely=0..100"
                    ));
                }
            }
        }
        if !(config.anon || config.files) {
            return Err("only=anon and only=file together leave nothing".to_owned());
        }
        Ok(Self::new(config))
    }

    fn app(&mut self, app: AppId) -> &mut App {
        let index = usize::from(app.0);
        let config = self.config;
        if self.apps.len() <= index {
            self.apps.resize_with(index + 1, || App::new(config));
        }
        &mut self.apps[index]
    }

    fn drop_work(&mut self) {
        self.anon_work.clear();
        self.file_work.clear();
    }

    /// The anonymous estimator of an application, for a look.
    pub fn anon(&self, app: AppId) -> Option<&AnonEstimator> {
        Some(&self.apps.get(usize::from(app.0))?.anon)
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

    /// Not in launches that bring no files back, since the last ones did so in vain, but for the last of these: what is
    /// tried again is new. Where it leaves what is not likely to be used, only in those before which pages were dropped.
    fn watches_files(&self, app: AppId, are_dropped: bool) -> bool {
        let state = self.apps.get(usize::from(app.0));
        let is_worth = are_dropped || self.config.least_likely_percent == 0;
        self.config.files && is_worth && state.is_none_or(|state| !state.file_allowance.rests_on())
    }

    fn leave_files(&mut self) {
        self.file_work.clear();
    }

    /// None where most of them are in memory: the kernel drops first what is used least, so that what it dropped is what
    /// launches do without. As published, all.
    fn files_to_read(&mut self, app: AppId, missing_pages: u64, present_pages: u64) -> u64 {
        if self.config.least_likely_percent > 0 && missing_pages < present_pages {
            return 0;
        }
        self.app(app).most_file_pages
    }

    /// As published, only what was fetched in vain is no target any more.
    fn file_left(&mut self, app: AppId, file: FileId, page: u64) {
        let stays = self.config.least_likely_percent == 0;
        if let Some(estimator) = &mut self.app(app).file {
            estimator.left(file, page, stays);
        }
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
        let mut anon_left = 0;
        if config.anon {
            anon = state.anon.expected();
            anon_left = config.most_pages_of(&mut state.anon_allowance);
        }
        let mut files = VecDeque::new();
        if let Some(file) = state.file.as_mut().filter(|_| config.files) {
            file.window_begin();
            state.most_file_pages = config.most_pages_of(&mut state.file_allowance);
            if state.most_file_pages > 0 {
                let plans = plan::files_largest_first(file.targets());
                files.extend(plans.iter().flat_map(plan::FilePlan::batches));
            }
        }
        self.anon_work.extend(plan::anon_batches(&anon));
        self.anon_left = anon_left;
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
            let update = state.anon.window_end();
            state
                .anon_allowance
                .launched(update.fetched, update.used, config.least_likely_percent);
        }
        if !config.files {
            return;
        }
        match &mut state.file {
            Some(file) => {
                let update = file.window_end();
                let used = update.fetched - update.wasted;
                state
                    .file_allowance
                    .launched(update.fetched, used, config.least_likely_percent);
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
        if self.anon_left == 0 {
            self.anon_work.clear();
        }
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
        if matches!(addr, PageAddr::Anon { .. }) {
            self.anon_left = self.anon_left.saturating_sub(1);
        }
        let state = self.app(app);
        match addr {
            PageAddr::Anon { number } => state.anon.fetched(number),
            PageAddr::File { file, number } => {
                if let Some(estimator) = &mut state.file {
                    estimator.fetched(file, Extent::page(number));
                }
            }
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
        *self.app(app) = App::new(config);
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
