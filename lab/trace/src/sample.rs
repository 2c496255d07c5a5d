//! A small trace from a big one, by spatial sampling: some pages with everything that happens to them.
//!
//! Whole blocks of 16 pages (64 KiB, aligned) are kept or left out, chosen by a hash of the application
//! or file and the block, so that neighbours stay neighbours, and a page that is kept is kept from
//! first to last. Launch windows, background and exits stay. Budgets for a replay of the sample are to be
//! scaled by the same share.
//!
//! A sample of a sample keeps what that said, and multiplies its shares: they are always of the recording.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::describe::Summary;
use crate::error::{Result, TraceError};
use crate::event::{ContentId, Event, EventKind};
use crate::reader::TraceReader;
use crate::writer::{TraceWriter, WriterOptions};
use warmswap_page::{AppId, PAGE_BYTES, PageAddr};

/// Pages in a block that is kept or left out as a whole.
pub const SAMPLE_BLOCK_PAGES: u64 = 16;

/// Keys of what a sample says about itself in its description.
const SHARE: &str = "sample.share";
const SEED: &str = "sample.seed";
const APPS: &str = "sample.apps";

/// A freed range of more blocks than this is kept without a search for a block of the sample in it.
const SEARCHED_BLOCKS: u64 = 4096;

/// What to keep of a trace.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    /// Probability that a block of pages is kept, 0 to 1.
    pub share: f64,
    /// Other probabilities for the anonymous pages of some applications.
    pub app_shares: Vec<(AppId, f64)>,
    /// Chooses which blocks; equal seeds choose equal blocks.
    pub seed: u64,
    /// Stop after this many events.
    pub max_events: Option<u64>,
    /// Keep only events of these applications; `None` keeps all. The table stays as it is.
    pub apps: Option<Vec<AppId>>,
    /// Zstandard level of the contents, 1 to 19.
    pub content_level: i32,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self {
            share: 1.0,
            app_shares: Vec::new(),
            seed: 0,
            max_events: None,
            apps: None,
            content_level: 12,
        }
    }
}

/// Writes to `path` the part of `trace` that `options` choose. Contents that no kept event names are left
/// out; the tables of applications and files stay, and so do their ids.
///
/// Cost: one pass over the events; 8 to 16 bytes of memory per kept content.
///
/// # Errors
///
/// `options.share` is no probability, the trace cannot be read, or the sample cannot be written.
pub fn sample(
    trace: &TraceReader,
    path: impl AsRef<std::path::Path>,
    options: &SampleOptions,
) -> Result<Summary> {
    let app_shares = options.app_shares.iter().map(|&(_, share)| share);
    let mut shares = app_shares.chain([options.share]);
    if let Some(share) = shares.find(|share| !(0.0..=1.0).contains(share)) {
        let found = share.to_string();
        return Err(TraceError::Setting {
            name: "share",
            found,
            expected: "0 to 1",
        });
    }
    let origin = Origin::of(trace);
    let mut description = trace.description().clone();
    description.extra.extend(origin.after(trace, options));
    let writer_options = WriterOptions {
        content_level: options.content_level,
        ..WriterOptions::default()
    };
    let mut writer = TraceWriter::create_with(path, description, writer_options)?;
    for app in trace.apps() {
        writer.add_app(app.name.clone(), app.description.clone())?;
    }
    for file in trace.files() {
        writer.push_file(file.clone())?;
    }
    let chosen = Chosen::new(options, origin.steps());
    let mut ids: FxHashMap<ContentId, ContentId> = FxHashMap::default();
    let mut page = [0; PAGE_BYTES];
    let mut events = trace.events();
    let mut block: Vec<Event> = Vec::new();
    while events.next_block(&mut block)? {
        for &event in block.iter().filter(|event| chosen.keeps(event)) {
            if options
                .max_events
                .is_some_and(|most| writer.events() >= most)
            {
                return writer.finish();
            }
            let mut event = event;
            let content = match &mut event.kind {
                EventKind::Access { content, .. } => content.as_mut(),
                EventKind::Content { content, .. } => Some(content),
                _ => None,
            };
            if let Some(content) = content {
                *content = match ids.get(content) {
                    Some(&id) => id,
                    None => {
                        trace.content(*content, &mut page)?;
                        let id = writer.content(&page)?;
                        ids.insert(*content, id);
                        id
                    }
                };
            }
            writer.event(&event)?;
        }
    }
    writer.finish()
}

/// What a trace says about the samples that it was made by.
struct Origin<'a> {
    extra: &'a BTreeMap<String, String>,
}

impl<'a> Origin<'a> {
    fn of(trace: &'a TraceReader) -> Self {
        let extra = &trace.description().extra;
        Self { extra }
    }

    /// The seeds of the samples, one after the other.
    fn seeds(&self) -> Option<&str> {
        self.extra.get(SEED).map(String::as_str)
    }

    /// How many samples were taken.
    fn steps(&self) -> u64 {
        self.seeds()
            .map_or(0, |seeds| seeds.split(',').count() as u64)
    }

    fn share(&self, key: &str) -> Option<f64> {
        self.extra.get(key)?.parse().ok()
    }

    /// What is to be said of a sample of this trace: shares are of the pages that were recorded, and so are the numbers of
    /// events and contents.
    fn after(&self, trace: &TraceReader, options: &SampleOptions) -> BTreeMap<String, String> {
        let whole = trace.summary();
        let of_all = self.share(SHARE).unwrap_or(1.0);
        let mut said = BTreeMap::new();
        let mut say = |key: &str, value: String| said.insert(key.to_owned(), value);
        say(SHARE, product(of_all, options.share));
        let seed = options.seed.to_string();
        say(
            SEED,
            self.seeds()
                .map_or(seed.clone(), |before| format!("{before},{seed}")),
        );
        for (key, count) in [
            ("sample.of_events", whole.events),
            ("sample.of_contents", whole.contents),
        ] {
            let before = self.extra.get(key).cloned();
            say(key, before.unwrap_or_else(|| count.to_string()));
        }
        for (app, info) in (0..).map(AppId).zip(trace.apps()) {
            let key = format!("{SHARE}.{}", info.name);
            let before = self.share(&key);
            let own = own_share(&options.app_shares, app);
            if before.is_some() || own.is_some() {
                say(
                    &key,
                    product(before.unwrap_or(of_all), own.unwrap_or(options.share)),
                );
            }
        }
        if let Some(apps) = &options.apps {
            let kept = apps.iter().filter_map(|&app| trace.app(app));
            let before = self
                .extra
                .get(APPS)
                .map(|names| names.split(',').collect::<Vec<_>>());
            let names = kept.map(|info| info.name.as_str());
            let names =
                names.filter(|name| before.as_ref().is_none_or(|before| before.contains(name)));
            say(APPS, names.collect::<Vec<_>>().join(","));
        }
        said
    }
}

/// Two shares, one of the other, to ten digits: more are noise.
fn product(share: f64, of: f64) -> String {
    let digits = format!("{:.9e}", share * of);
    digits
        .parse()
        .map_or(digits, |share: f64| share.to_string())
}

/// The share of an application's anonymous pages, where it has one of its own.
fn own_share(app_shares: &[(AppId, f64)], app: AppId) -> Option<f64> {
    let found = app_shares.iter().find(|(other, _)| *other == app);
    found.map(|&(_, share)| share)
}

/// Decides about events.
struct Chosen<'a> {
    apps: Option<&'a [AppId]>,
    seed: u64,
    share: f64,
    app_shares: &'a [(AppId, f64)],
}

impl<'a> Chosen<'a> {
    /// Each of several samples, one of the other, chooses anew: blocks that one seed chose would otherwise all be chosen
    /// again by the same seed.
    fn new(options: &'a SampleOptions, steps: u64) -> Self {
        Self {
            apps: options.apps.as_deref(),
            seed: match steps {
                0 => options.seed,
                _ => xxh3_64_with_seed(&steps.to_le_bytes(), options.seed),
            },
            share: options.share,
            app_shares: &options.app_shares,
        }
    }

    fn keeps(&self, event: &Event) -> bool {
        if self.apps.is_some_and(|apps| !apps.contains(&event.app)) {
            return false;
        }
        match event.kind {
            EventKind::Access { page, .. } | EventKind::Content { page, .. } => {
                self.keeps_pages(event.app, page, 1)
            }
            EventKind::Free { page, pages } => self.keeps_pages(event.app, page, pages),
            EventKind::LaunchBegin(_)
            | EventKind::LaunchEnd
            | EventKind::Background
            | EventKind::Exit => true,
        }
    }

    /// Whether any block with one of `pages` pages from `page` on is in the sample.
    fn keeps_pages(&self, app: AppId, page: PageAddr, pages: u32) -> bool {
        let (space, number, share) = match page {
            PageAddr::Anon { number } => {
                let own = own_share(self.app_shares, app);
                (u64::from(app.0), number, own.unwrap_or(self.share))
            }
            // Applications share the pages of a file.
            PageAddr::File { file, number } => (1 << 32 | u64::from(file.0), number, self.share),
        };
        let first = number / SAMPLE_BLOCK_PAGES;
        let last = (number + u64::from(pages) - 1) / SAMPLE_BLOCK_PAGES;
        last - first >= SEARCHED_BLOCKS
            || (first..=last).any(|block| self.keeps_block(space, block, share))
    }

    fn keeps_block(&self, space: u64, block: u64, share: f64) -> bool {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&space.to_le_bytes());
        key[8..].copy_from_slice(&block.to_le_bytes());
        // The upper 53 bits as a fraction: less than 1, so that a share of 1 keeps everything.
        let fraction = (xxh3_64_with_seed(&key, self.seed) >> 11) as f64 / (1u64 << 53) as f64;
        fraction < share
    }
}

#[cfg(test)]
mod tests;
