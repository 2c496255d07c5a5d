//! Page contents of a trace, for measuring codecs: a bounded sample, neighbours side by side.

use rustc_hash::FxHashMap;
use warmswap_codec::MAX_CHUNK_BYTES;
use warmswap_page::{PAGE_BYTES, PageAddr};
use warmswap_trace::{ContentId, Event, EventKind, TraceReader};

use crate::error::StudyError;
use crate::subject::Subject;

/// Pages of a group: one chunk of the largest size.
const GROUP_PAGES: usize = MAX_CHUNK_BYTES / PAGE_BYTES;

/// A sample of the anonymous memory of a trace: groups of up to 32 pages of one application that are
/// neighbours by address (the next page whose content is known), each with its last content.
#[derive(Clone, Debug)]
pub struct Sample {
    bytes: Vec<u8>,
    /// Where each group ends in `bytes`.
    ends: Vec<usize>,
    /// The trace that it was taken from.
    reader: TraceReader,
}

impl Sample {
    /// At most `max_bytes` of the trace's memory, in groups that are evenly spaced over all of it.
    /// One pass over the events.
    ///
    /// # Errors
    /// [`StudyError::NoContents`], or the trace cannot be read.
    pub fn of(subject: &Subject, max_bytes: u64) -> Result<Self, StudyError> {
        let contents = subject.contents()?;
        let memory = last_contents(subject)?;
        let groups: Vec<&[(u16, u64, ContentId)]> = memory
            .chunk_by(|a, b| a.0 == b.0)
            .flat_map(|app| app.chunks(GROUP_PAGES))
            .collect();
        let wanted = (max_bytes / MAX_CHUNK_BYTES as u64).max(1);
        let take = groups
            .len()
            .min(usize::try_from(wanted).unwrap_or(usize::MAX));
        let mut sample = Self {
            bytes: Vec::with_capacity(take * MAX_CHUNK_BYTES),
            ends: Vec::with_capacity(take),
            reader: subject.reader.clone(),
        };
        let mut room = [0; PAGE_BYTES];
        for index in 0..take {
            for &(.., content) in groups[index * groups.len() / take] {
                let read = contents.get(content, &mut room);
                let page = read.map_err(|source| StudyError::Contents {
                    trace: subject.name.clone(),
                    source: Box::new(source),
                })?;
                sample.bytes.extend_from_slice(page);
            }
            sample.ends.push(sample.bytes.len());
        }
        if sample.bytes.is_empty() {
            return Err(StudyError::NoContents {
                path: subject.reader.path().to_owned(),
            });
        }
        Ok(sample)
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// For work on it, which is to end where reading its trace is.
    pub(crate) fn check_stop(&self) -> Result<(), StudyError> {
        Ok(self.reader.check_stop()?)
    }

    /// Its pages in runs of up to `pages` neighbours.
    pub(crate) fn chunks(&self, pages: usize) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let groups = starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end]);
        groups.flat_map(move |group| group.chunks(pages * PAGE_BYTES))
    }
}

/// The last content of every anonymous page, in the order of applications and addresses.
fn last_contents(subject: &Subject) -> Result<Vec<(u16, u64, ContentId)>, StudyError> {
    let mut last: FxHashMap<(u16, u64), ContentId> = FxHashMap::default();
    let mut events = subject.reader.events();
    let mut block: Vec<Event> = Vec::new();
    while events.next_block(&mut block)? {
        for event in &block {
            if let EventKind::Access {
                page: PageAddr::Anon { number },
                content: Some(content),
                ..
            }
            | EventKind::Content {
                page: PageAddr::Anon { number },
                content,
            } = event.kind
            {
                last.insert((event.app.0, number), content);
            }
        }
    }
    let mut memory: Vec<_> = last
        .into_iter()
        .map(|((app, number), content)| (app, number, content))
        .collect();
    memory.sort_unstable();
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, page};

    fn subject() -> Subject {
        let mut script = Script::new(2);
        for n in (0..70).rev() {
            script.content(0, n * 3, &page(n));
        }
        script.content(1, 0, &page(1000)).content(1, 0, &page(1001));
        script.subject()
    }

    #[test]
    fn neighbours_of_one_application_stand_together_with_their_last_content() {
        let sample = Sample::of(&subject(), u64::MAX).unwrap();
        assert_eq!(sample.bytes(), 71 * 4096);
        let chunks: Vec<_> = sample.chunks(32).map(<[u8]>::len).collect();
        assert_eq!(chunks, [32, 32, 6, 1].map(|pages| pages * 4096));
        let pages: Vec<_> = sample.chunks(1).collect();
        assert!((0..70).all(|n| pages[n] == page(n as u64)));
        assert_eq!(pages[70], page(1001));
    }

    #[test]
    fn a_bounded_sample_is_spread_and_one_of_nothing_is_an_error() {
        let sample = Sample::of(&subject(), 2 * 128 * 1024).unwrap();
        assert_eq!(sample.chunks(1).nth(32), Some(page(64).as_slice()));
        let mut script = Script::new(1);
        script.background(0);
        assert!(matches!(
            Sample::of(&script.subject(), 1 << 20),
            Err(StudyError::NoContents { .. })
        ));
    }
}
