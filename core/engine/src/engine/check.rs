//! What must always hold, checked from scratch. For tests and debug builds: linear in all pages.

use super::Engine;
use crate::chunks::Place;
use rustc_hash::{FxHashMap, FxHashSet};
use warmswap_policy::{ChunkId, PageState};

impl Engine {
    /// Checks every invariant of the engine. `Err` names the first one that does not hold.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let listed = self.scheme.reclaim.dump(&self.table);
        let on_lists: FxHashSet<_> = listed.iter().copied().collect();
        ensure(on_lists.len() == listed.len(), || {
            "a page is on two lists".to_owned()
        })?;
        let (mut frames, mut leaving, mut buffered, mut resident) = (0, 0, 0, 0);
        let mut live = FxHashMap::<ChunkId, (u8, u8)>::default();
        for page in self.table.all() {
            let entry = &self.table[page];
            let state = entry.state;
            frames += u64::from(entry.in_frame());
            leaving += u64::from(state == PageState::Leaving);
            buffered += usize::from(state == PageState::Buffered);
            resident += usize::from(state == PageState::Resident);
            let listed = on_lists.contains(&page);
            let unlimited = self.scheme.reclaim.is_unlimited();
            ensure(
                listed == (state == PageState::Resident) || unlimited,
                || format!("{page:?} is {state:?}, on a list: {listed}"),
            )?;
            if entry.chunk != ChunkId::NONE {
                let holds = self.chunks.get(entry.chunk).is_some()
                    && self.chunks.pages(entry.chunk).contains(&page);
                ensure(holds, || {
                    format!(
                        "{page:?} points to {:?}, which does not hold it",
                        entry.chunk
                    )
                })?;
                let count = live.entry(entry.chunk).or_default();
                count.0 += 1;
                count.1 += u8::from(matches!(state, PageState::Stored | PageState::Loading));
            } else {
                let content_elsewhere = !matches!(state, PageState::Stored | PageState::Loading);
                ensure(content_elsewhere, || {
                    format!("{page:?} is {state:?} but has no chunk")
                })?;
            }
        }
        ensure(
            resident == listed.len() || self.scheme.reclaim.is_unlimited(),
            || "lists hold pages that are not resident".to_owned(),
        )?;
        ensure(frames == self.budget.usage.frames, || {
            format!(
                "{frames} frames in use, {} accounted",
                self.budget.usage.frames
            )
        })?;
        ensure(leaving == self.budget.leaving, || {
            format!("{leaving} leaving, {} accounted", self.budget.leaving)
        })?;
        let in_buffers = self.buffer.len() + self.prepaging.len();
        ensure(buffered == in_buffers, || {
            format!("{buffered} buffered, {in_buffers} in the buffers")
        })?;
        let mut stored_only_pages = 0;
        for (chunk, entry) in self.chunks.iter() {
            let (pages, absent) = live.remove(&chunk).unwrap_or_default();
            let counts = self.chunks.counts(chunk);
            ensure(counts.live == pages, || {
                format!("{chunk:?} has {pages} pages, {} accounted", counts.live)
            })?;
            stored_only_pages += u64::from(counts.absent);
            ensure(counts.absent == absent, || {
                format!(
                    "{chunk:?} has {absent} absent pages, {} accounted",
                    counts.absent
                )
            })?;
            let idle = matches!(entry.place(), Place::Pool | Place::Backing);
            let loading = self.loads.is_under_way(chunk);
            ensure(pages > 0 || !idle || loading, || {
                format!("{chunk:?} holds nothing and is not freed")
            })?;
            if absent == 0 && idle && pages > 0 && !loading {
                let queue = &self.kept[usize::from(entry.place() == Place::Backing)];
                ensure(queue.contains(&chunk), || {
                    format!("{chunk:?} is kept but cannot be given up")
                })?;
            }
        }
        ensure(stored_only_pages == self.stored_only_pages, || {
            let accounted = self.stored_only_pages;
            format!("{stored_only_pages} pages are stored only, {accounted} accounted")
        })?;
        Ok(())
    }
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}
