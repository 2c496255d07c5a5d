//! Traces made from a seed for tests and benchmarks, with the statistics of mobile applications that the Ariadne paper measured.
//!
//! Each application owns runs of neighbouring pages, with a hole between any two. A relaunch touches the
//! hot set, run by run, always in the same order of runs; the execution after it touches the warm set and
//! hot pages again, and allocates. From one relaunch to the next a part of the hot set is exchanged.
//! [`SynthConfig`] states every number and where it comes from; equal configurations make equal traces.
//!
//! [`SynthEvents`] generates the events one by one, with no file; [`synthesize`] writes a trace, with
//! page contents taken from another trace.

mod app;
mod config;
mod events;
mod runs;

pub use config::{AppProfile, SynthConfig};
pub use events::SynthEvents;

use std::path::Path;

use crate::describe::{Description, Summary};
use crate::error::Result;
use crate::event::{ContentId, Event, EventKind};
use crate::reader::TraceReader;
use crate::writer::TraceWriter;
use warmswap_page::PAGE_BYTES;

/// Writes a synthetic trace to `path`. Pages hold contents of `corpus`, where there is one; only the
/// contents that some page holds are stored.
///
/// # Errors
///
/// An application has impossible probabilities, the corpus cannot be read, or the trace cannot be written.
pub fn synthesize(
    path: impl AsRef<Path>,
    config: &SynthConfig,
    corpus: Option<&TraceReader>,
) -> Result<Summary> {
    let contents = corpus.map_or(0, |c| c.summary().contents.min(u32::MAX.into()) as u32);
    let events = SynthEvents::new(config, contents)?;
    let description = Description::new("synthetic, with the statistics of the Ariadne paper");
    let mut writer = TraceWriter::create(path, description)?;
    for app in &config.apps {
        writer.add_app(app.name.clone(), "synthetic")?;
    }
    let mut stored = vec![None; contents as usize];
    let mut page = [0; PAGE_BYTES];
    for mut event in events {
        if let (Some(corpus), Some(content)) = (corpus, content_of(&mut event)) {
            let slot = &mut stored[content.0 as usize];
            *content = match *slot {
                Some(id) => id,
                None => {
                    corpus.content(*content, &mut page)?;
                    *slot.insert(writer.content(&page)?)
                }
            };
        }
        writer.event(&event)?;
    }
    writer.finish()
}

fn content_of(event: &mut Event) -> Option<&mut ContentId> {
    match &mut event.kind {
        EventKind::Access { content, .. } => content.as_mut(),
        EventKind::Content { content, .. } => Some(content),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
