//! The events of a synthetic trace, one by one.

use oorandom::Rand64;

use crate::error::Result;
use crate::event::{ContentId, Event, EventKind};
use crate::synth::app::{AppMemory, Run, shuffle};
use crate::synth::config::SynthConfig;
use crate::synth::runs::RunLengths;
use warmswap_page::{AppId, LaunchKind, PageAddr};

/// What an access of a visit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Allocate,
    Use,
}

/// One thing that happens in a visit of an application.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(LaunchKind),
    Touch(Run, Purpose),
    EndLaunch,
    Leave,
}

/// The events of a synthetic trace, generated as they are asked for.
///
/// First every application is launched, in random order; then rounds follow in which each is relaunched
/// once, in random order. Memory: some 24 bytes per run of pages (three to seven pages on average).
pub struct SynthEvents {
    config: SynthConfig,
    apps: Vec<AppMemory>,
    /// Contents of the corpus; 0 means that pages have no known content.
    contents: u32,
    random: Rand64,
    /// Applications still to visit in this round, last first.
    order: Vec<u16>,
    round: u32,
    app: u16,
    time_ns: u64,
    gap_ns: u64,
    /// What the present visit still has to do, last first.
    steps: Vec<Step>,
    run: Option<(Run, u32, Purpose)>,
    execution_gap_ns: u64,
}

impl SynthEvents {
    /// The events that `config` describes. Pages get contents with ids less than `contents`; none when
    /// it is 0. Neighbouring pages get neighbouring contents, as they stand in the corpus.
    ///
    /// # Errors
    ///
    /// There are no runs of neighbouring pages with the probabilities of an application.
    pub fn new(config: &SynthConfig, contents: u32) -> Result<Self> {
        let mut random = Rand64::new(config.seed.into());
        let mut apps = Vec::with_capacity(config.apps.len());
        for profile in &config.apps {
            let lengths = RunLengths::new(profile.two_consecutive, profile.four_consecutive)?;
            apps.push(AppMemory::new(config, profile, lengths, &mut random));
        }
        let mut events = Self {
            config: config.clone(),
            apps,
            contents,
            random,
            order: Vec::new(),
            round: 0,
            app: 0,
            time_ns: 0,
            gap_ns: config.launch_access_ns,
            steps: Vec::new(),
            run: None,
            execution_gap_ns: 0,
        };
        events.shuffle_order();
        Ok(events)
    }

    fn shuffle_order(&mut self) {
        self.order = (0..self.apps.len()).map(|app| app as u16).collect();
        shuffle(&mut self.order, &mut self.random);
    }

    /// Plans the next visit; false at the end of the trace.
    fn plan(&mut self) -> bool {
        if self.order.is_empty() {
            if self.round == self.config.relaunches {
                return false;
            }
            self.round += 1;
            self.shuffle_order();
        }
        self.app = self.order.pop().unwrap_or_default();
        let mut execution = Vec::new();
        let mut launch = Vec::new();
        let index = usize::from(self.app);
        if self.round > 0 {
            self.apps[index].next_sets(&mut self.random);
            self.execute(index, &mut execution);
            self.grow(index);
        }
        let purpose = if self.round == 0 {
            Purpose::Allocate
        } else {
            Purpose::Use
        };
        let app = &mut self.apps[index];
        launch.extend(
            app.hot
                .iter()
                .map(|&run| Step::Touch(app.runs[run as usize], purpose)),
        );
        if self.round == 0 {
            let mut hot = vec![false; app.runs.len()];
            app.hot.iter().for_each(|&run| hot[run as usize] = true);
            let rest = app.runs.iter().zip(&hot).filter(|(_, hot)| !**hot);
            execution.extend(rest.map(|(&run, _)| Step::Touch(run, Purpose::Allocate)));
        } else {
            execution.extend(
                app.runs[app.allocated..]
                    .iter()
                    .map(|&run| Step::Touch(run, Purpose::Allocate)),
            );
        }
        app.allocated = app.runs.len();
        let touches: u64 = execution.iter().map(Step::pages).sum();
        self.execution_gap_ns = self.config.execution_ms * 1_000_000 / touches.max(1);
        let kind = if self.round == 0 {
            LaunchKind::Cold
        } else {
            LaunchKind::Relaunch
        };
        self.gap_ns = self.config.launch_access_ns;
        self.steps.push(Step::Leave);
        self.steps.extend(execution.into_iter().rev());
        self.steps.push(Step::EndLaunch);
        self.steps.extend(launch.into_iter().rev());
        self.steps.push(Step::Begin(kind));
        true
    }

    /// The execution after a relaunch: the warm set, with hot runs again in between.
    fn execute(&mut self, index: usize, steps: &mut Vec<Step>) {
        let app = &self.apps[index];
        let again = (app.hot.len() as f64 * self.config.hot_accesses_in_execution).round() as u64;
        let touch = |run: u32| Step::Touch(app.runs[run as usize], Purpose::Use);
        steps.extend(app.warm.iter().map(|&run| touch(run)));
        if !app.hot.is_empty() {
            let hot = app.hot.len() as u64;
            steps.extend(
                (0..again).map(|_| touch(app.hot[self.random.rand_range(0..hot) as usize])),
            );
        }
        shuffle(steps, &mut self.random);
    }

    /// Gives the application the pages that it owns after this round: from the initial volume to the
    /// full one in equal steps.
    fn grow(&mut self, index: usize) {
        let profile = &self.config.apps[index];
        let (initial, full) = (
            self.config.pages(profile.initial_mb),
            self.config.pages(profile.full_mb),
        );
        let pages =
            initial + (full - initial) * u64::from(self.round) / u64::from(self.config.relaunches);
        self.apps[index].grow_to(pages, &mut self.random);
    }

    fn access(&mut self, number: u64, purpose: Purpose) -> EventKind {
        let first = purpose == Purpose::Allocate;
        let write = first || self.random.rand_float() < self.config.write_share;
        let changed = first || (write && self.random.rand_float() < self.config.change_share);
        let content = (changed && self.contents > 0).then(|| {
            // A first content follows the one of the page before; a change jumps elsewhere.
            let base = u64::from(self.app) * 0x9e37_79b9 + number;
            let jump = if first {
                0
            } else {
                self.random.rand_u64() >> 32
            };
            ContentId(((base + jump) % u64::from(self.contents)) as u32)
        });
        EventKind::Access {
            page: PageAddr::Anon { number },
            write,
            content,
        }
    }

    fn event(&mut self, kind: EventKind) -> Option<Event> {
        let event = Event {
            time_ns: self.time_ns,
            app: AppId(self.app),
            kind,
        };
        self.time_ns += self.gap_ns;
        Some(event)
    }
}

impl Step {
    fn pages(&self) -> u64 {
        match self {
            Self::Touch(run, _) => run.pages.into(),
            _ => 0,
        }
    }
}

impl Iterator for SynthEvents {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((run, done, purpose)) = self.run {
                if done < run.pages {
                    self.run = Some((run, done + 1, purpose));
                    let kind = self.access(run.first_page + u64::from(done), purpose);
                    return self.event(kind);
                }
                self.run = None;
            }
            let Some(step) = self.steps.pop() else {
                if self.plan() {
                    continue;
                }
                return None;
            };
            match step {
                Step::Begin(kind) => return self.event(EventKind::LaunchBegin(kind)),
                Step::Touch(run, purpose) => self.run = Some((run, 0, purpose)),
                Step::EndLaunch => {
                    self.gap_ns = self.execution_gap_ns;
                    return self.event(EventKind::LaunchEnd);
                }
                Step::Leave => return self.event(EventKind::Background),
            }
        }
    }
}
