//! One launch: its latency, the pages that it touched, and what was predicted of them.

use crate::result::Relaunch;
use warmswap_policy::PageId;
use warmswap_policy::page::BLOCK_PAGES;

/// Notes about a block of pages, for the prediction of relaunches: a bit for each page, and less than half a byte a page in all.
#[derive(Clone, Copy, Debug, Default)]
struct Notes {
    /// The launch that they are about; what is noted for an earlier one is void.
    launch: u32,
    /// Pages that it touched, in its window or after.
    used: u64,
    /// Pages that were on the hot list when it began.
    hot: u64,
}

/// Follows the launches of one trace.
#[derive(Debug, Default)]
pub struct Launches {
    /// By block of the page table.
    notes: Vec<Notes>,
    /// Numbers launches from 1, over all applications.
    serial: u32,
    apps: Vec<AppLaunch>,
}

#[derive(Debug, Default)]
struct AppLaunch {
    serial: u32,
    in_window: bool,
    /// The launch is a relaunch, whose result is kept.
    is_relaunch: bool,
    current: Relaunch,
}

impl Launches {
    fn app(&mut self, app: usize) -> &mut AppLaunch {
        if self.apps.len() <= app {
            self.apps.resize_with(app + 1, AppLaunch::default);
        }
        &mut self.apps[app]
    }

    /// What is noted for a launch about the block of a page, and the page's bit in it.
    fn notes(&mut self, launch: u32, page: PageId) -> (&mut Notes, u64) {
        let (block, place) = (page.index() / BLOCK_PAGES, page.index() % BLOCK_PAGES);
        if self.notes.len() <= block {
            self.notes
                .resize((block + 1).next_multiple_of(64), Notes::default());
        }
        let notes = &mut self.notes[block];
        if notes.launch != launch {
            *notes = Notes {
                launch,
                ..Notes::default()
            };
        }
        (notes, 1 << place)
    }

    /// A launch begins; `hot` is the hot list before it. The result of the launch before, which is
    /// complete now, is returned.
    pub fn begin(
        &mut self,
        app: usize,
        relaunch: Option<Relaunch>,
        hot: impl Iterator<Item = PageId>,
    ) -> Option<Relaunch> {
        let finished = self.finish(app);
        self.serial += 1;
        let serial = self.serial;
        let mut hot_pages = 0;
        for page in hot {
            let (notes, bit) = self.notes(serial, page);
            notes.hot |= bit;
            hot_pages += 1;
        }
        let is_relaunch = relaunch.is_some();
        let current = Relaunch {
            hot_pages,
            ..relaunch.unwrap_or_default()
        };
        *self.app(app) = AppLaunch {
            serial,
            in_window: true,
            is_relaunch,
            current,
        };
        finished
    }

    /// The launch window ends.
    pub fn end(&mut self, app: usize) {
        self.app(app).in_window = false;
    }

    /// The last launch of an application, when there was one and it was a relaunch.
    pub fn finish(&mut self, app: usize) -> Option<Relaunch> {
        let app = self.app(app);
        std::mem::take(&mut app.is_relaunch).then(|| std::mem::take(&mut app.current))
    }

    /// The launch whose window is open.
    pub fn open_window(&mut self, app: usize) -> Option<&mut Relaunch> {
        let app = self.app(app);
        app.in_window.then_some(&mut app.current)
    }

    /// The application touched a page, which existed before or not.
    pub fn touched(&mut self, app: usize, page: PageId, existed: bool) {
        let serial = self.app(app).serial;
        if serial == 0 {
            return;
        }
        let (notes, bit) = self.notes(serial, page);
        if notes.used & bit != 0 {
            return;
        }
        notes.used |= bit;
        let was_hot = notes.hot & bit != 0;
        let app = self.app(app);
        app.current.hot_used += u64::from(was_hot);
        if app.in_window {
            app.current.touched_pages += 1;
            app.current.touched_known_pages += u64::from(existed);
            app.current.hot_touched += u64::from(was_hot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_was_predicted_and_what_was_used() {
        let mut launches = Launches::default();
        assert_eq!(launches.begin(0, None, std::iter::empty()), None);
        launches.touched(0, PageId(1), false);
        launches.end(0);
        assert_eq!(launches.finish(0), None, "a cold start is no relaunch");
        let hot = [1, 2, 3, 4].map(PageId);
        launches.begin(0, Some(Relaunch::default()), hot.into_iter());
        for page in [1, 1, 2, 9] {
            launches.touched(0, PageId(page), true);
        }
        launches.touched(0, PageId(70), false);
        launches.end(0);
        launches.touched(0, PageId(3), true);
        launches.touched(0, PageId(8), true);
        let relaunch = launches.finish(0).unwrap();
        assert_eq!(
            (
                relaunch.touched_pages,
                relaunch.hot_touched,
                relaunch.hot_used
            ),
            (4, 2, 3)
        );
        assert_eq!(relaunch.coverage(), Some(2.0 / 3.0));
        assert_eq!(relaunch.accuracy(), Some(0.75));
    }
}
