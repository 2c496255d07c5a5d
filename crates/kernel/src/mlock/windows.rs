//! Which windows of files are locked, for which application, and for how long.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use warmswap_page::AppId;

use super::areas::FileKey;

/// A window is locked for so many uses of its application. If it is needed after that, one fault locks it again.
const LOCKED_USES: u64 = 32;

/// An application that was not used for so many switches gives way to others.
const IDLE_SWITCHES: u64 = 64;

/// Most windows: each takes one mapping of this process, or a few, of the 65,530 that the kernel allows.
const MOST_WINDOWS: usize = 12_288;

/// A part of a file: its n-th window.
pub(super) type WindowKey = (FileKey, u64);

/// A window that is locked as long as its guard lives.
#[derive(Debug)]
struct Window<G> {
    _guard: G,
    app: AppId,
    /// The pages that are locked, a bit for each.
    present: u64,
    /// The use of its application in which it was locked.
    since_use: u64,
}

impl<G> Window<G> {
    fn pages(&self) -> u64 {
        u64::from(self.present.count_ones())
    }
}

/// What one application has locked.
#[derive(Debug, Default)]
struct Locks {
    /// Counts how often it was used.
    uses: u64,
    /// How often it came to the foreground.
    switches: u64,
    /// The last of these switches, counted among those of all.
    used_at: u64,
    pages: u64,
    /// Oldest first, each with the use in which it was locked; windows that were released since are among them.
    order: VecDeque<(WindowKey, u64)>,
}

/// The windows that are locked.
#[derive(Debug)]
pub(super) struct Windows<G> {
    windows: FxHashMap<WindowKey, Window<G>>,
    apps: FxHashMap<AppId, Locks>,
    pages: u64,
    switches: u64,
    released_pages: u64,
}

impl<G> Default for Windows<G> {
    fn default() -> Self {
        Self {
            windows: FxHashMap::default(),
            apps: FxHashMap::default(),
            pages: 0,
            switches: 0,
            released_pages: 0,
        }
    }
}

impl<G> Windows<G> {
    /// The application came to the foreground: what was locked long ago for it is released.
    pub fn used(&mut self, app: AppId) {
        self.switches += 1;
        let locks = self.apps.entry(app).or_default();
        locks.used_at = self.switches;
        locks.switches += 1;
        self.count_use(app);
    }

    fn count_use(&mut self, app: AppId) {
        let locks = self.apps.entry(app).or_default();
        locks.uses += 1;
        let uses = locks.uses;
        while let Some(&(key, since)) = self.order_of(app).and_then(VecDeque::front)
            && since + LOCKED_USES <= uses
        {
            self.release_first(app, key, since);
        }
    }

    /// All applications were used for a while, without being told of.
    pub fn age(&mut self) {
        let apps: Vec<AppId> = self.apps.keys().copied().collect();
        for app in apps {
            self.count_use(app);
        }
    }

    fn order_of(&self, app: AppId) -> Option<&VecDeque<(WindowKey, u64)>> {
        self.apps.get(&app).map(|locks| &locks.order)
    }

    /// How often the application came to the foreground.
    pub fn switches_to(&self, app: AppId) -> u64 {
        self.apps.get(&app).map_or(0, |locks| locks.switches)
    }

    /// Switches of all applications.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Whether this page of a window is locked.
    pub fn holds(&self, key: WindowKey, page: usize) -> bool {
        let window = self.windows.get(&key);
        window.is_some_and(|window| window.present >> page & 1 == 1)
    }

    /// Whether the application may lock so many pages more, where it may have `most_of_app` of them, and all together
    /// `most`. Applications that were not used for long give way.
    pub fn make_room(&mut self, app: AppId, pages: u64, most_of_app: u64, most: u64) -> bool {
        let own = self.apps.get(&app).map_or(0, |locks| locks.pages);
        if own + pages > most_of_app.min(most) {
            return false;
        }
        while self.pages + pages > most || self.windows.len() >= MOST_WINDOWS {
            let idle = (self.apps.iter())
                .filter(|(other, locks)| **other != app && locks.pages > 0)
                .filter(|(_, locks)| self.switches - locks.used_at >= IDLE_SWITCHES)
                .min_by_key(|(other, locks)| (locks.used_at, **other));
            match idle.map(|(&other, _)| other) {
                Some(other) => self.release(other),
                None => return false,
            }
        }
        true
    }

    /// A window was locked for an application. It takes the place of an earlier lock of the window.
    pub fn insert(&mut self, app: AppId, key: WindowKey, guard: G, present: u64) {
        self.release_window(key);
        let locks = self.apps.entry(app).or_default();
        let window = Window {
            _guard: guard,
            app,
            present,
            since_use: locks.uses,
        };
        locks.pages += window.pages();
        locks.order.push_back((key, locks.uses));
        self.pages += window.pages();
        self.windows.insert(key, window);
    }

    /// At most so many pages stay locked: the applications that were used longest ago give way.
    pub fn bound(&mut self, most: u64) {
        while self.pages > most {
            let holders = self.apps.iter().filter(|(_, locks)| locks.pages > 0);
            let Some((&app, _)) = holders.min_by_key(|(app, locks)| (locks.used_at, **app)) else {
                return;
            };
            self.release(app);
        }
    }

    /// Releases the windows of files for which `stays` does not hold.
    pub fn retain_files(&mut self, stays: impl Fn(FileKey) -> bool) {
        let gone: Vec<WindowKey> = (self.windows.keys().copied())
            .filter(|key| !stays(key.0))
            .collect();
        gone.into_iter().for_each(|key| self.release_window(key));
    }

    /// Pages that are locked now.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages that were released so far.
    pub fn released_pages(&self) -> u64 {
        self.released_pages
    }

    fn release(&mut self, app: AppId) {
        while let Some(&(key, since)) = self.order_of(app).and_then(VecDeque::front) {
            self.release_first(app, key, since);
        }
    }

    /// Releases what is the oldest of an application, if it is still that lock.
    fn release_first(&mut self, app: AppId, key: WindowKey, since: u64) {
        if let Some(locks) = self.apps.get_mut(&app) {
            locks.order.pop_front();
        }
        let is_it = |window: &Window<G>| window.app == app && window.since_use == since;
        if self.windows.get(&key).is_some_and(is_it) {
            self.release_window(key);
        }
    }

    fn release_window(&mut self, key: WindowKey) {
        let Some(window) = self.windows.remove(&key) else {
            return;
        };
        let pages = window.pages();
        if let Some(locks) = self.apps.get_mut(&window.app) {
            locks.pages -= pages;
        }
        self.pages -= pages;
        self.released_pages += pages;
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    const A: AppId = AppId(0);
    const B: AppId = AppId(1);

    fn key(inode: u64, window: u64) -> WindowKey {
        (FileKey { device: 1, inode }, window)
    }

    #[test]
    fn a_window_is_released_after_so_many_uses_of_its_application() {
        let mut windows = Windows::default();
        windows.used(A);
        windows.insert(A, key(7, 3), (), 0b1011);
        assert!(windows.holds(key(7, 3), 0) && !windows.holds(key(7, 3), 2));
        assert!(!windows.holds(key(7, 4), 0));
        for _ in 1..LOCKED_USES {
            windows.used(A);
            windows.used(B);
        }
        assert_eq!(windows.pages(), 3);
        windows.used(B);
        assert_eq!(windows.pages(), 3, "uses of another one do not count");
        windows.used(A);
        assert_eq!((windows.pages(), windows.released_pages()), (0, 3));
    }

    #[test]
    fn a_window_that_is_locked_anew_keeps_the_later_time() {
        let mut windows = Windows::default();
        let first = Rc::new(());
        windows.used(A);
        windows.insert(A, key(7, 3), Rc::clone(&first), 0b1);
        assert_eq!(Rc::strong_count(&first), 2);
        windows.used(A);
        windows.insert(A, key(7, 3), Rc::default(), 0b111);
        assert_eq!(Rc::strong_count(&first), 1, "the first lock is gone");
        assert_eq!(windows.pages(), 3);
        for _ in 1..LOCKED_USES {
            windows.used(A);
        }
        assert_eq!(windows.pages(), 3, "its time is not over with the first");
        windows.used(A);
        assert_eq!(windows.pages(), 0);
    }

    #[test]
    fn who_has_no_room_gets_none_until_others_were_idle_for_long() {
        let mut windows = Windows::default();
        windows.used(A);
        assert!(windows.make_room(A, 8, 100, 16));
        windows.insert(A, key(7, 0), (), 0xff);
        windows.insert(A, key(7, 1), (), 0xff);
        assert!(
            !windows.make_room(A, 1, 100, 16),
            "it does not push out its own"
        );
        assert!(!windows.make_room(A, 1, 16, 100), "its own bound");
        windows.used(B);
        assert!(!windows.make_room(B, 8, 100, 16));
        for _ in 2..IDLE_SWITCHES {
            windows.used(B);
        }
        assert!(!windows.make_room(B, 8, 100, 16));
        windows.used(B);
        assert!(windows.make_room(B, 8, 100, 16));
        assert_eq!(windows.pages(), 0);
    }

    #[test]
    fn windows_are_bounded_in_number() {
        let mut windows = Windows::default();
        for window in 0..MOST_WINDOWS as u64 {
            assert!(windows.make_room(A, 1, u64::MAX, u64::MAX));
            windows.insert(A, key(7, window), (), 1);
        }
        assert!(!windows.make_room(A, 1, u64::MAX, u64::MAX));
    }

    #[test]
    fn a_lower_bound_takes_from_those_that_were_used_longest_ago() {
        let mut windows = Windows::default();
        for (app, inode) in [(A, 7), (B, 8)] {
            windows.used(app);
            windows.insert(app, key(inode, 0), (), 0xff);
        }
        windows.bound(16);
        assert_eq!(windows.pages(), 16);
        windows.bound(15);
        assert!(!windows.holds(key(7, 0), 0) && windows.holds(key(8, 0), 0));
        windows.bound(0);
        assert_eq!((windows.pages(), windows.released_pages()), (0, 16));
    }

    #[test]
    fn what_nobody_maps_any_more_is_released_and_its_place_is_free() {
        let mut windows = Windows::default();
        windows.used(A);
        windows.insert(A, key(7, 0), (), 0xff);
        windows.insert(A, key(8, 0), (), 0xff);
        windows.retain_files(|file| file.inode == 8);
        assert!(!windows.holds(key(7, 0), 0) && windows.holds(key(8, 0), 0));
        windows.insert(B, key(7, 0), (), 0b1);
        // The entry of the first lock is of no effect on the second.
        for _ in 0..LOCKED_USES {
            windows.used(A);
        }
        assert!(windows.holds(key(7, 0), 0));
        assert_eq!(windows.pages(), 1);
    }
}
