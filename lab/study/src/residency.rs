//! Where the memory of an application is, over time: hot, warm or cold in frames, compressed in the pool, in the
//! backing file.
//!
//! A sample is taken at each launch, at its end, and when an application leaves: between them nothing that a person
//! notices changes. Each costs one look at every page of the application.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_engine::{Action, Decision, Engine, Touch};
use warmswap_page::AppId;
use warmswap_policy::{Hotness, PageId, PageState, SchemeSpec};
use warmswap_replay::Observer;
use warmswap_trace::{Event, EventKind};

use crate::error::StudyError;
use crate::options::Options;
use crate::run::{OnProgress, replay_all_watched};
use crate::subject::Subject;

/// The schemes that are looked at unless others are asked for.
pub const SCHEMES: [&str; 2] = ["zram", "warmswap"];

/// What an application's memory is at one time, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResidencySample {
    /// Nanoseconds since the trace began.
    pub time_ns: u64,
    /// Whether the application is in the foreground.
    pub is_foreground: bool,
    /// In frames, held to be hot.
    pub hot_pages: u64,
    /// In frames, held to be warm.
    pub warm_pages: u64,
    /// In frames, held to be cold.
    pub cold_pages: u64,
    /// In the pool only.
    pub compressed_pages: u64,
    /// In the backing file only.
    pub backing_pages: u64,
}

/// One application under one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppResidency {
    /// The trace.
    pub trace: String,
    /// The application.
    pub app: String,
    /// The scheme.
    pub scheme: String,
    /// Over time.
    pub samples: Vec<ResidencySample>,
}

/// What all memory is used for at one time, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySample {
    /// Nanoseconds since the trace began.
    pub time_ns: u64,
    /// Frames.
    pub frame_bytes: u64,
    /// The pool.
    pub pool_bytes: u64,
}

/// One trace under one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SchemeMemory {
    /// The trace.
    pub trace: String,
    /// The scheme.
    pub scheme: String,
    /// What there was for frames and pool together, in bytes.
    pub budget_bytes: u64,
    /// Over time.
    pub samples: Vec<MemorySample>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResidencyStudy {
    /// Each application under each scheme.
    pub apps: Vec<AppResidency>,
    /// Each trace under each scheme.
    pub memory: Vec<SchemeMemory>,
}

/// What is known of a page that was touched.
#[derive(Clone, Copy, Debug)]
struct Known {
    app: AppId,
    is_in_backing: bool,
}

#[derive(Debug, Default)]
struct Watcher {
    /// By [`PageId`].
    pages: Vec<Option<Known>>,
    apps: Vec<Vec<ResidencySample>>,
    foreground: Option<AppId>,
    memory: Vec<MemorySample>,
}

impl Watcher {
    fn touched(&mut self, page: PageId, app: AppId) {
        if self.pages.len() <= page.index() {
            self.pages
                .resize((page.index() + 1).next_multiple_of(1024), None);
        }
        let is_in_backing = false;
        self.pages[page.index()].get_or_insert(Known { app, is_in_backing });
    }

    /// The pages of a chunk are stored, in the backing file or in the pool.
    fn stored(&mut self, pages: &[PageId], is_in_backing: bool) {
        for page in pages {
            if let Some(Some(known)) = self.pages.get_mut(page.index()) {
                known.is_in_backing = is_in_backing;
            }
        }
    }

    /// Pages of each application that are in no frame: in the pool, in the backing file.
    fn stored_pages(&self, engine: &Engine) -> Vec<[u64; 2]> {
        let mut counts = vec![[0; 2]; self.apps.len()];
        for (known, page) in self.pages.iter().zip((0..).map(PageId)) {
            let Some(known) = known else { continue };
            if matches!(
                engine.page_state(page),
                PageState::Stored | PageState::Loading
            ) {
                counts[usize::from(known.app.0)][usize::from(known.is_in_backing)] += 1;
            }
        }
        counts
    }

    fn sample(&mut self, engine: &Engine, time_ns: u64) {
        let stored = self.stored_pages(engine);
        for ((app, samples), stored) in (0..).map(AppId).zip(&mut self.apps).zip(stored) {
            let frames = engine.frames_by_hotness(app);
            let [compressed_pages, backing_pages] = stored;
            samples.push(ResidencySample {
                time_ns,
                is_foreground: self.foreground == Some(app),
                hot_pages: frames[Hotness::Hot.index()],
                warm_pages: frames[Hotness::Warm.index()],
                cold_pages: frames[Hotness::Cold.index()],
                compressed_pages,
                backing_pages,
            });
        }
        let usage = engine.usage();
        self.memory.push(MemorySample {
            time_ns,
            frame_bytes: usage.frames * warmswap_page::PAGE_BYTES as u64,
            pool_bytes: usage.pool_bytes,
        });
    }
}

impl Observer for Watcher {
    fn decision(&mut self, engine: &Engine, decision: Decision) {
        let (chunk, is_in_backing) = match decision.action {
            Action::Store { chunk, .. } => (chunk, false),
            Action::StoreRaw { chunk } | Action::WriteBack { chunk } => (chunk, true),
            _ => return,
        };
        self.stored(&engine.chunk_pages(chunk), is_in_backing);
    }

    fn event(&mut self, engine: &Engine, event: &Event, touch: Option<Touch>) {
        if let Some(touch) = touch {
            self.touched(touch.page, event.app);
            return;
        }
        match event.kind {
            EventKind::LaunchBegin(_) => self.foreground = Some(event.app),
            EventKind::Background | EventKind::Exit if self.foreground == Some(event.app) => {
                self.foreground = None;
            }
            EventKind::LaunchEnd | EventKind::Background | EventKind::Exit => {}
            _ => return,
        }
        self.sample(engine, event.time_ns);
    }
}

/// Replays the traces under `schemes` and watches where memory is.
///
/// # Errors
/// The first replay that stops.
pub fn residency(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    on_progress: OnProgress<'_>,
) -> Result<ResidencyStudy, StudyError> {
    let watcher = |subject: &Subject| Watcher {
        apps: vec![Vec::new(); subject.app_names().len()],
        ..Watcher::default()
    };
    let runs = replay_all_watched(subjects, schemes, options, on_progress, watcher)?;
    let mut study = ResidencyStudy::default();
    for (run, watcher) in runs {
        for (app, samples) in run.result.apps.iter().zip(watcher.apps) {
            study.apps.push(AppResidency {
                trace: run.trace.clone(),
                app: app.name.clone(),
                scheme: run.result.scheme.clone(),
                samples,
            });
        }
        study.memory.push(SchemeMemory {
            trace: run.trace,
            scheme: run.result.scheme,
            budget_bytes: run.result.limits.budget_bytes,
            samples: watcher.memory,
        });
    }
    Ok(study)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, schemes};

    #[test]
    fn under_full_pressure_what_leaves_is_compressed_and_comes_back() {
        let mut script = Script::new(2);
        let all: Vec<u64> = (0..10).collect();
        script.launch(0, &all).background(0);
        script.launch(1, &[0, 1]).background(1);
        script.launch(0, &[0, 1, 2]).execute(0, &[3]);
        let options = Options {
            budget: crate::Amount::Bytes(4 << 20),
            ..Options::full_pressure()
        };

        let study = residency(&[script.subject()], &schemes(["zram"]), &options, &|_| {}).unwrap();

        let samples = &study.apps[0].samples;
        let in_frames = |s: &ResidencySample| s.hot_pages + s.warm_pages + s.cold_pages;
        // Begin and end of each launch, and each time that an application leaves.
        assert_eq!(samples.len(), 8);
        assert_eq!(in_frames(&samples[1]), 10, "after the first launch");
        assert!(samples[1].is_foreground);
        let away = samples[5];
        assert!(!away.is_foreground);
        assert_eq!((in_frames(&away), away.compressed_pages), (0, 10));
        let back = samples[7];
        assert_eq!((in_frames(&back), back.compressed_pages), (3, 7));
        assert_eq!(back.backing_pages, 0);
        let memory = &study.memory[0];
        assert_eq!(memory.samples.len(), 8);
        assert_eq!(memory.samples[1].frame_bytes, 10 * 4096);
        assert!(memory.samples[5].pool_bytes > 0);
    }
}
