//! Which pages of files are locked, for which application, and for how long.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use warmswap_page::AppId;

use super::areas::FileKey;

/// A page is locked for so many uses of its application. If it is needed after that, one fault locks it again.
const LOCKED_USES: u64 = 32;

/// An application that was not used for so many switches gives way to others.
const IDLE_SWITCHES: u64 = 64;

/// Most pages: each takes one mapping of this process, of the 65,530 that the kernel allows.
const MOST_PAGES: usize = 32_768;

/// The n-th page of a file.
pub(super) type FilePage = (FileKey, u64);

/// A page that is locked as long as its guard lives.
#[derive(Debug)]
struct Lock<G> {
    _guard: G,
    app: AppId,
    /// The use of its application in which it was locked.
    since_use: u64,
}

/// What one application has locked.
#[derive(Debug, Default)]
struct Holder {
    /// Counts how often it was used.
    uses: u64,
    /// How often it came to the foreground.
    switches: u64,
    /// The last of these switches, counted among those of all.
    used_at: u64,
    pages: u64,
    /// Oldest first, each with the use in which it was locked; pages that were released since are among them.
    order: VecDeque<(FilePage, u64)>,
}

/// The pages that are locked.
#[derive(Debug)]
pub(super) struct Locks<G> {
    locks: FxHashMap<FilePage, Lock<G>>,
    apps: FxHashMap<AppId, Holder>,
    switches: u64,
    released: u64,
}

impl<G> Default for Locks<G> {
    fn default() -> Self {
        Self {
            locks: FxHashMap::default(),
            apps: FxHashMap::default(),
            switches: 0,
            released: 0,
        }
    }
}

impl<G> Locks<G> {
    /// The application came to the foreground: what was locked long ago for it is released.
    pub fn used(&mut self, app: AppId) {
        self.switches += 1;
        let holder = self.apps.entry(app).or_default();
        holder.used_at = self.switches;
        holder.switches += 1;
        self.count_use(app);
    }

    fn count_use(&mut self, app: AppId) {
        let holder = self.apps.entry(app).or_default();
        holder.uses += 1;
        let uses = holder.uses;
        while let Some((page, since)) = self.oldest(app)
            && since + LOCKED_USES <= uses
        {
            self.release_oldest(app, page, since);
        }
    }

    /// All applications were used for a while, without being told of.
    pub fn age(&mut self) {
        let apps: Vec<AppId> = self.apps.keys().copied().collect();
        for app in apps {
            self.count_use(app);
        }
    }

    fn oldest(&self, app: AppId) -> Option<(FilePage, u64)> {
        self.apps.get(&app)?.order.front().copied()
    }

    /// How often the application came to the foreground.
    pub fn switches_to(&self, app: AppId) -> u64 {
        self.apps.get(&app).map_or(0, |holder| holder.switches)
    }

    /// Switches of all applications.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Whether this page is locked.
    pub fn holds(&self, page: FilePage) -> bool {
        self.locks.contains_key(&page)
    }

    /// Whether the application may lock one page more, where it may have `most_of_app` of them, and all together
    /// `most`. Applications that were not used for long give way.
    pub fn make_room(&mut self, app: AppId, most_of_app: u64, most: u64) -> bool {
        let own = self.apps.get(&app).map_or(0, |holder| holder.pages);
        let most = most.min(MOST_PAGES as u64);
        if own >= most_of_app.min(most) {
            return false;
        }
        while self.pages() >= most {
            let idle = (self.apps.iter())
                .filter(|(other, holder)| **other != app && holder.pages > 0)
                .filter(|(_, holder)| self.switches - holder.used_at >= IDLE_SWITCHES)
                .min_by_key(|(other, holder)| (holder.used_at, **other));
            match idle.map(|(&other, _)| other) {
                Some(other) => self.release_all_of(other),
                None => return false,
            }
        }
        true
    }

    /// A page was locked for an application. That takes the place of an earlier lock of the page.
    pub fn insert(&mut self, app: AppId, page: FilePage, guard: G) {
        self.release(page);
        let holder = self.apps.entry(app).or_default();
        let since_use = holder.uses;
        holder.pages += 1;
        holder.order.push_back((page, since_use));
        let lock = Lock {
            _guard: guard,
            app,
            since_use,
        };
        self.locks.insert(page, lock);
    }

    /// At most so many pages stay locked: the applications that were used longest ago give way.
    pub fn bound(&mut self, most: u64) {
        while self.pages() > most {
            let holders = self.apps.iter().filter(|(_, holder)| holder.pages > 0);
            let Some((&app, _)) = holders.min_by_key(|(app, holder)| (holder.used_at, **app))
            else {
                return;
            };
            self.release_all_of(app);
        }
    }

    /// Releases the pages of files for which `stays` does not hold.
    pub fn retain_files(&mut self, stays: impl Fn(FileKey) -> bool) {
        let gone: Vec<FilePage> = (self.locks.keys().copied())
            .filter(|page| !stays(page.0))
            .collect();
        gone.into_iter().for_each(|page| self.release(page));
    }

    /// Pages that are locked now.
    pub fn pages(&self) -> u64 {
        self.locks.len() as u64
    }

    /// Pages that were released so far.
    pub fn released(&self) -> u64 {
        self.released
    }

    fn release_all_of(&mut self, app: AppId) {
        while let Some((page, since)) = self.oldest(app) {
            self.release_oldest(app, page, since);
        }
    }

    /// Releases what is the oldest of an application, if it is still that lock.
    fn release_oldest(&mut self, app: AppId, page: FilePage, since: u64) {
        if let Some(holder) = self.apps.get_mut(&app) {
            holder.order.pop_front();
        }
        let is_it = |lock: &Lock<G>| lock.app == app && lock.since_use == since;
        if self.locks.get(&page).is_some_and(is_it) {
            self.release(page);
        }
    }

    fn release(&mut self, page: FilePage) {
        let Some(lock) = self.locks.remove(&page) else {
            return;
        };
        if let Some(holder) = self.apps.get_mut(&lock.app) {
            holder.pages -= 1;
        }
        self.released += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    const A: AppId = AppId(0);
    const B: AppId = AppId(1);

    fn page(inode: u64, number: u64) -> FilePage {
        (FileKey { device: 1, inode }, number)
    }

    #[test]
    fn a_page_is_released_after_so_many_uses_of_its_application() {
        let mut locks = Locks::default();
        locks.used(A);
        locks.insert(A, page(7, 3), ());
        assert!(locks.holds(page(7, 3)) && !locks.holds(page(7, 4)));
        for _ in 1..LOCKED_USES {
            locks.used(A);
            locks.used(B);
        }
        locks.used(B);
        assert_eq!(locks.pages(), 1, "uses of another one do not count");
        locks.used(A);
        assert_eq!((locks.pages(), locks.released()), (0, 1));
        assert_eq!(locks.switches_to(A), LOCKED_USES + 1);
    }

    #[test]
    fn where_no_switch_is_told_time_counts() {
        let mut locks = Locks::default();
        locks.insert(A, page(7, 3), ());
        (1..LOCKED_USES).for_each(|_| locks.age());
        assert_eq!(locks.pages(), 1);
        locks.age();
        assert_eq!((locks.pages(), locks.switches_to(A)), (0, 0));
    }

    #[test]
    fn a_page_that_is_locked_anew_keeps_the_later_time() {
        let mut locks = Locks::default();
        let first = Rc::new(());
        locks.used(A);
        locks.insert(A, page(7, 3), Rc::clone(&first));
        assert_eq!(Rc::strong_count(&first), 2);
        locks.used(A);
        locks.insert(A, page(7, 3), Rc::default());
        assert_eq!(Rc::strong_count(&first), 1, "the first lock is gone");
        assert_eq!(locks.pages(), 1);
        for _ in 1..LOCKED_USES {
            locks.used(A);
        }
        assert_eq!(locks.pages(), 1, "its time is not over with the first");
        locks.used(A);
        assert_eq!(locks.pages(), 0);
    }

    #[test]
    fn there_is_no_room_until_others_were_idle_for_long() {
        let mut locks = Locks::default();
        locks.used(A);
        for number in 0..2 {
            assert!(locks.make_room(A, 100, 2));
            locks.insert(A, page(7, number), ());
        }
        assert!(!locks.make_room(A, 100, 2), "it does not push out its own");
        assert!(!locks.make_room(A, 2, 100), "its own bound");
        for _ in 1..IDLE_SWITCHES {
            locks.used(B);
        }
        assert!(!locks.make_room(B, 100, 2));
        locks.used(B);
        assert!(locks.make_room(B, 100, 2));
        assert_eq!(locks.pages(), 0);
    }

    #[test]
    fn pages_are_bounded_in_number() {
        let mut locks = Locks::default();
        for number in 0..MOST_PAGES as u64 {
            assert!(locks.make_room(A, u64::MAX, u64::MAX));
            locks.insert(A, page(7, number), ());
        }
        assert!(!locks.make_room(A, u64::MAX, u64::MAX));
    }

    #[test]
    fn a_lower_bound_takes_from_those_that_were_used_longest_ago() {
        let mut locks = Locks::default();
        for (app, inode) in [(A, 7), (B, 8)] {
            locks.used(app);
            locks.insert(app, page(inode, 0), ());
        }
        locks.bound(2);
        assert_eq!(locks.pages(), 2);
        locks.bound(1);
        assert!(!locks.holds(page(7, 0)) && locks.holds(page(8, 0)));
        locks.bound(0);
        assert_eq!((locks.pages(), locks.released()), (0, 2));
    }

    #[test]
    fn what_nobody_maps_any_more_is_released_and_its_place_is_free() {
        let mut locks = Locks::default();
        locks.used(A);
        locks.insert(A, page(7, 0), ());
        locks.insert(A, page(8, 0), ());
        locks.retain_files(|file| file.inode == 8);
        assert!(!locks.holds(page(7, 0)) && locks.holds(page(8, 0)));
        locks.insert(B, page(7, 0), ());
        // The entry of the first lock is of no effect on the second.
        for _ in 0..LOCKED_USES {
            locks.used(A);
        }
        assert!(locks.holds(page(7, 0)));
        assert_eq!(locks.pages(), 1);
    }
}
