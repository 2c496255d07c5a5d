//! Statistics of a trace, in one pass over its events.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::describe::Summary;
use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::import::ariadne::Imported;
use crate::reader::TraceReader;
use warmswap_page::quantile::Sorted;
use warmswap_page::{LaunchKind, PAGE_BYTES, PageAddr};

/// Statistics of a whole trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStats {
    /// Counts of the whole.
    pub summary: Summary,
    /// Statistics of each application; the place is the [`AppId`](warmswap_page::AppId).
    pub apps: Vec<AppStats>,
    /// What was found where the trace was just imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
}

/// Statistics of one application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppStats {
    /// Its name.
    pub name: String,
    /// Events.
    pub events: u64,
    /// Accesses, writes included.
    pub accesses: u64,
    /// Writes.
    pub writes: u64,
    /// Distinct anonymous pages that it accessed or whose content is known.
    pub anon_pages: u64,
    /// Distinct file pages that it accessed or whose content is known.
    pub file_pages: u64,
    /// Cold launches.
    pub launches: u64,
    /// Relaunches.
    pub relaunches: u64,
    /// Median length of the windows of cold launches in ns (of two middle ones the shorter); `None`
    /// without one that ends.
    pub launch_window_median_ns: Option<u64>,
    /// Median length of the windows of relaunches in ns; `None` without one that ends.
    pub relaunch_window_median_ns: Option<u64>,
    /// Distinct page contents.
    pub contents: u64,
    /// Bytes of these contents.
    pub content_bytes: u64,
}

/// Reads `trace` to its end and counts.
///
/// Memory: 2 bits for each page and content in a dense region, 16 bytes at worst.
///
/// # Errors
///
/// The trace cannot be read.
pub fn stats(trace: &TraceReader) -> Result<TraceStats> {
    let mut counters: Vec<Counter> = trace.apps().iter().map(|_| Counter::default()).collect();
    let mut events = trace.events();
    let mut block: Vec<Event> = Vec::new();
    while events.next_block(&mut block)? {
        // The reader has checked that every application is in the table.
        block
            .iter()
            .for_each(|event| counters[usize::from(event.app.0)].count(event));
    }
    let apps = trace
        .apps()
        .iter()
        .zip(counters)
        .map(|(info, counter)| counter.finish(&info.name));
    Ok(TraceStats {
        summary: trace.summary(),
        apps: apps.collect(),
        imported: None,
    })
}

/// Counts for one application.
#[derive(Default)]
struct Counter {
    stats: AppStats,
    anon: NumberSet,
    files: FxHashMap<u32, NumberSet>,
    contents: NumberSet,
    window: Option<(LaunchKind, u64)>,
    launch_windows: Vec<u64>,
    relaunch_windows: Vec<u64>,
}

impl Counter {
    fn count(&mut self, event: &Event) {
        self.stats.events += 1;
        match event.kind {
            EventKind::Access {
                page,
                write,
                content,
            } => {
                self.stats.accesses += 1;
                self.stats.writes += u64::from(write);
                self.page(page);
                if let Some(content) = content {
                    self.contents.insert(content.0.into());
                }
            }
            EventKind::Content { page, content } => {
                self.page(page);
                self.contents.insert(content.0.into());
            }
            EventKind::LaunchBegin(kind) => {
                match kind {
                    LaunchKind::Cold => self.stats.launches += 1,
                    LaunchKind::Relaunch => self.stats.relaunches += 1,
                }
                self.window = Some((kind, event.time_ns));
            }
            EventKind::LaunchEnd => match self.window.take() {
                Some((LaunchKind::Cold, begin)) => self.launch_windows.push(event.time_ns - begin),
                Some((LaunchKind::Relaunch, begin)) => {
                    self.relaunch_windows.push(event.time_ns - begin)
                }
                None => {}
            },
            EventKind::Background | EventKind::Exit => self.window = None,
            EventKind::Free { .. } => {}
        }
    }

    fn page(&mut self, page: PageAddr) {
        match page {
            PageAddr::Anon { number } => self.anon.insert(number),
            PageAddr::File { file, number } => self.files.entry(file.0).or_default().insert(number),
        }
    }

    fn finish(self, name: &str) -> AppStats {
        let contents = self.contents.len();
        AppStats {
            name: name.to_owned(),
            anon_pages: self.anon.len(),
            file_pages: self.files.values().map(NumberSet::len).sum(),
            launch_window_median_ns: Sorted::by(self.launch_windows, u64::cmp).median(),
            relaunch_window_median_ns: Sorted::by(self.relaunch_windows, u64::cmp).median(),
            contents,
            content_bytes: contents * PAGE_BYTES as u64,
            ..self.stats
        }
    }
}

/// A set of numbers that come in dense regions: a bit each, in words of 64.
#[derive(Default)]
struct NumberSet {
    words: FxHashMap<u64, u64>,
}

impl NumberSet {
    fn insert(&mut self, number: u64) {
        *self.words.entry(number / 64).or_default() |= 1 << (number % 64);
    }

    fn len(&self) -> u64 {
        self.words
            .values()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::testing::{sample_trace, scratch};

    #[test]
    fn counts_are_those_of_a_plain_recount() {
        let dir = scratch();
        let (path, events, _) = sample_trace(dir.path());
        let trace = TraceReader::open(path).unwrap();
        let found = stats(&trace).unwrap();
        assert_eq!(found.summary, trace.summary());
        for (app, stats) in found.apps.iter().enumerate() {
            let own: Vec<_> = events
                .iter()
                .filter(|e| usize::from(e.app.0) == app)
                .collect();
            let mut pages = HashSet::new();
            let mut contents = HashSet::new();
            let (mut accesses, mut writes) = (0, 0);
            for event in &own {
                match event.kind {
                    EventKind::Access {
                        page,
                        write,
                        content,
                    } => {
                        accesses += 1;
                        writes += u64::from(write);
                        pages.insert(page);
                        contents.extend(content);
                    }
                    EventKind::Content { page, content } => {
                        pages.insert(page);
                        contents.insert(content);
                    }
                    _ => {}
                }
            }
            let files = pages
                .iter()
                .filter(|p| matches!(p, PageAddr::File { .. }))
                .count() as u64;
            assert_eq!(
                (stats.events, stats.accesses, stats.writes),
                (own.len() as u64, accesses, writes)
            );
            assert_eq!(
                (stats.file_pages, stats.anon_pages),
                (files, pages.len() as u64 - files)
            );
            assert_eq!(stats.contents, contents.len() as u64);
            assert_eq!(stats.content_bytes, stats.contents * 4096);
            assert_eq!(stats.launches + stats.relaunches, 20);
        }
        assert_eq!(found.apps[0].launches, 1);
        assert!(found.apps[0].launch_window_median_ns.is_some());
        assert_eq!(found.apps[1].launch_window_median_ns, None);
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<TraceStats>(&json).unwrap(), found);
    }
}
