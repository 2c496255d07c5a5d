//! What a host checks: budget, kills, and the place and content of every page.

use super::host::Host;
use std::collections::BTreeSet;
use warmswap_engine::Watermarks;
use warmswap_page::{AppId, PAGE_BYTES};
use warmswap_policy::PageState;

impl Host {
    pub(super) fn free_bytes(&self) -> u64 {
        let usage = self.engine.usage();
        let used = usage.frames * PAGE_BYTES as u64 + usage.pool_bytes;
        self.engine.limits().budget_bytes.saturating_sub(used)
    }

    pub(super) fn reserve_is_whole(&self) -> bool {
        let watermarks = Watermarks::of(self.engine.limits().budget_bytes);
        self.free_bytes() >= watermarks.min_frames * PAGE_BYTES as u64
    }

    /// The budget holds, unless the engine said that it could not be held.
    pub(super) fn check_budget(&self) {
        if !self.holds_budget {
            return;
        }
        let used = self.memory.frames.len() as u64 * PAGE_BYTES as u64 + self.memory.pool_bytes;
        let budget = self.engine.limits().budget_bytes;
        assert!(
            used <= budget || self.engine.counters().budget_exceeded > self.exceeded_before,
            "{used} of {budget} bytes are used, after {:?}",
            self.log.last()
        );
    }

    /// The least recently used application that is neither in the foreground nor the current one goes.
    pub(super) fn check_kill(&self, app: AppId) {
        let with_pages: BTreeSet<_> = self.truth.keys().filter_map(|key| key.0).collect();
        let current = self.used.last().copied();
        let never_used = with_pages.iter().filter(|app| !self.used.contains(app));
        let expected = never_used.chain(&self.used).copied().find(|&other| {
            with_pages.contains(&other)
                && !self.foreground.contains(&other)
                && Some(other) != current
        });
        assert_eq!(
            Some(app),
            expected,
            "the wrong application is killed; used {:?}, in the foreground {:?}",
            self.used,
            self.foreground
        );
    }

    /// Every page is where the engine says, and its content is right; nothing else is stored.
    pub fn check(&self) {
        if let Err(problem) = self.engine.check() {
            panic!("{problem}");
        }
        let mut frames = 0;
        for (key, &truth) in &self.truth {
            let page = self.pages[key];
            let state = self.engine.page_state(page);
            let frame = self.memory.frames.get(&page).copied();
            let copy = || self.memory.chunks[&self.copies[&page]].contents[&page];
            match state {
                PageState::Resident | PageState::Leaving | PageState::Buffered => {
                    assert_eq!(frame, Some(truth), "{key:?} is {state:?}");
                    frames += 1;
                }
                PageState::Stored | PageState::Loading => {
                    assert_eq!(frame, None, "{key:?} is {state:?}");
                    assert_eq!(copy(), truth, "{key:?} is {state:?}");
                }
                PageState::Discarded => {
                    assert_eq!(frame, None, "{key:?} is {state:?}");
                    assert_eq!(self.memory.read_file(*key), truth, "{key:?} is {state:?}");
                }
                PageState::Absent => panic!("{key:?} is lost"),
            }
        }
        assert_eq!(
            frames,
            self.memory.frames.len(),
            "a frame belongs to no page"
        );
        let usage = self.engine.usage();
        assert_eq!(usage.pool_bytes, self.memory.pool_bytes);
        assert_eq!(usage.backing_bytes, self.memory.backing_bytes);
    }
}
