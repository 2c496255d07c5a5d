//! Replays of traces under schemes, on all cores.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use warmswap_policy::SchemeSpec;
use warmswap_replay::store::Assumption;
use warmswap_replay::{
    AssumedStore, CompressedStore, Future, NoObserver, Observer, Pressure, Replay, ReplayConfig,
    ReplayError, ReplayResult, Sight, Store,
};

use crate::error::StudyError;
use crate::options::Options;
use crate::subject::Subject;
use crate::volume::{Metered, Volume};

/// Events between two reports of progress, and between two looks whether the replay is to stop.
const PROGRESS_EVERY_EVENTS: usize = 4096;

/// How far a study is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps done: events replayed, or passes over a sample.
    pub done: u64,
    /// Steps in all.
    pub total: u64,
}

/// Hears of progress, now and then, from any thread.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Sync);

/// One trace under one scheme.
#[derive(Clone, Debug)]
pub struct Run {
    /// The trace's name.
    pub trace: String,
    /// The trace's footprint in bytes, with files when they were replayed.
    pub footprint_bytes: u64,
    /// Whether pages of files were replayed.
    pub file_pages: bool,
    /// What made pages leave.
    pub pressure: Pressure,
    /// Which touches the engine heard of.
    pub sight: Sight,
    /// What share of a recording the trace is; `None` for a whole one.
    pub sample_share: Option<f64>,
    /// Whether the trace was recorded with cold files.
    pub cold_files: bool,
    /// What the replay found.
    pub result: ReplayResult,
    /// What was compressed of each application, in the order of `result.apps`.
    pub volumes: Vec<Volume>,
}

/// Replays every trace under every scheme; the runs stand trace by trace, schemes in their order.
///
/// The replays go on in parallel, one on each thread of rayon's pool, with a thread beside each that unpacks events for a
/// part of the time: measured times hold as long as all of them have processors. All else is deterministic. Memory: the engine's state
/// and the pool of each replay under way.
///
/// # Errors
/// The first replay that stops, in the order of the result.
pub fn replay_all(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    on_progress: OnProgress<'_>,
) -> Result<Vec<Run>, StudyError> {
    let runs = replay_all_watched(subjects, schemes, options, on_progress, |_| NoObserver)?;
    Ok(runs.into_iter().map(|(run, _)| run).collect())
}

/// [`replay_all`] with an observer for each replay, which `observer` makes.
///
/// # Errors
/// As of [`replay_all`].
pub fn replay_all_watched<O: Observer + Send>(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    on_progress: OnProgress<'_>,
    observer: impl Fn(&Subject) -> O + Sync,
) -> Result<Vec<(Run, O)>, StudyError> {
    let each = schemes
        .iter()
        .map(|scheme| (scheme.clone(), options.clone()));
    let each: Vec<_> = each.collect();
    replay_each(subjects, &each, on_progress, observer)
}

/// [`replay_all_watched`] with options for each scheme.
///
/// # Errors
/// As of [`replay_all`].
pub fn replay_each<O: Observer + Send>(
    subjects: &[Subject],
    schemes: &[(SchemeSpec, Options)],
    on_progress: OnProgress<'_>,
    observer: impl Fn(&Subject) -> O + Sync,
) -> Result<Vec<(Run, O)>, StudyError> {
    let events: u64 = subjects.iter().map(|s| s.reader.summary().events).sum();
    let total = events * schemes.len() as u64;
    let done = AtomicU64::new(0);
    let pairs: Vec<_> = subjects
        .iter()
        .flat_map(|subject| schemes.iter().map(move |scheme| (subject, scheme)))
        .collect();
    pairs
        .into_par_iter()
        // Replays take long, and not equally long: each may go to another thread.
        .with_max_len(1)
        .map(|(subject, (scheme, options))| {
            let mut before = 0;
            let on_events = |events: u64| {
                let more = events - before;
                before = events;
                let done = done.fetch_add(more, Ordering::Relaxed) + more;
                on_progress(Progress { done, total });
            };
            replay(subject, scheme, options, observer(subject), on_events)
        })
        .collect()
}

/// Replays one trace under one scheme, on this thread. `on_events` hears now and then how many events
/// were replayed.
///
/// # Errors
/// The replay stops: the trace cannot be read, the limits make no sense, or a page came back wrong.
pub fn replay<O: Observer>(
    subject: &Subject,
    scheme: &SchemeSpec,
    options: &Options,
    observer: O,
    on_events: impl FnMut(u64),
) -> Result<(Run, O), StudyError> {
    let config = ReplayConfig {
        scheme: scheme.clone(),
        limits: options.limits(subject.footprint, scheme),
        device: options.device.clone(),
        pressure: options.pressure,
        file_pages: options.file_pages,
        sight: options.sight,
        reclaim: options.reclaim.clone(),
    };
    let pool_limit_bytes = config.limits.pool_limit_bytes;
    let contents = subject.contents.as_ref().filter(|_| options.contents);
    let found = match contents {
        Some(contents) => {
            CompressedStore::with_layout(contents.clone(), pool_limit_bytes, scheme.layout)
                .and_then(|store| run(subject, config, (store, true), (observer, on_events)))
        }
        None => {
            let store = AssumedStore::new(Assumption::default(), pool_limit_bytes);
            run(subject, config, (store, false), (observer, on_events))
        }
    };
    let (result, observer, volumes) = found.map_err(|source| StudyError::Replay {
        trace: subject.name.clone(),
        scheme: scheme.name.clone(),
        source: Box::new(source),
    })?;
    let run = Run {
        trace: subject.name.clone(),
        footprint_bytes: subject.footprint.bytes(options.file_pages),
        file_pages: options.file_pages,
        pressure: options.pressure,
        sight: options.sight,
        sample_share: subject.sample_share(),
        cold_files: subject.has_cold_files(),
        result,
        volumes,
    };
    Ok((run, observer))
}

fn run<S: Store, O: Observer>(
    subject: &Subject,
    config: ReplayConfig,
    (store, with_contents): (S, bool),
    (observer, mut on_events): (O, impl FnMut(u64)),
) -> Result<(ReplayResult, O, Vec<Volume>), ReplayError> {
    let volumes = Rc::new(RefCell::new(Vec::new()));
    let mut replay = Replay::new(config, Metered::new(store, volumes.clone()), observer)?;
    if replay.wants_future() {
        replay.set_future(Future::of(subject.reader.events())?);
    }
    let (mut events, mut block, mut fed) = (subject.reader.events().ahead()?, Vec::new(), 0);
    while events.next_block(&mut block)? {
        for part in block.chunks(PROGRESS_EVERY_EVENTS) {
            subject.reader.check_stop()?;
            replay.feed_all(part)?;
            fed += part.len() as u64;
            on_events(fed);
        }
    }
    let (result, observer) = replay.finish(subject.app_names(), with_contents);
    let mut volumes = volumes.take();
    volumes.resize(result.apps.len(), Volume::default());
    Ok((result, observer, volumes))
}
