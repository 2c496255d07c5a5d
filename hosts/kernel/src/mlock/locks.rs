//! Which pages of files are locked, for which application, and for how long.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use warmswap_page::AppId;

/// A file, and the mount that it is held by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FileKey {
    pub device: u64,
    pub inode: u64,
    pub mount: u64,
}

/// The number of a control group.
pub(super) type GroupId = u32;

/// A page is locked for so many uses of its application. If it is needed after that, one fault locks it again.
const LOCKED_USES: u64 = 32;

/// An application that was not used for so many switches gives way to others.
const IDLE_SWITCHES: u64 = 64;

/// Most pages: each takes one mapping of this process, of the 65,530 that the kernel allows.
const MOST_PAGES: usize = 32_768;

/// So few pages that were released in between never matter.
const FEW_PAGES: u64 = 1024;

/// The n-th page of a file.
pub(super) type FilePage = (FileKey, u64);

/// A page that is locked as long as its guard lives.
#[derive(Debug)]
struct Lock<G> {
    _guard: G,
    app: AppId,
    /// The control group that bounds it; none where only the machine does.
    group: Option<GroupId>,
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
    /// How many pages are locked of each control group.
    groups: FxHashMap<GroupId, u64>,
    switches: u64,
    released: u64,
}

impl<G> Default for Locks<G> {
    fn default() -> Self {
        Self {
            locks: FxHashMap::default(),
            apps: FxHashMap::default(),
            groups: FxHashMap::default(),
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

    /// Some time went by: a use of those applications that never come to the foreground.
    pub fn age(&mut self) {
        let apps = self.apps.iter().filter(|(_, holder)| holder.switches == 0);
        let apps: Vec<AppId> = apps.map(|(app, _)| *app).collect();
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

    /// Whether this page is locked.
    pub fn holds(&self, page: FilePage) -> bool {
        self.locks.contains_key(&page)
    }

    /// Whether the application may lock one page more, of a control group that may have `most_of_group` of them, where all
    /// together may have `most`. Applications that were not used for long give way.
    pub fn make_room(
        &mut self,
        app: AppId,
        group: Option<GroupId>,
        most_of_group: u64,
        most: u64,
    ) -> bool {
        let most = most.min(MOST_PAGES as u64);
        if group.is_some_and(|group| self.pages_of(group) >= most_of_group) {
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
    pub fn insert(&mut self, app: AppId, group: Option<GroupId>, page: FilePage, guard: G) {
        self.release(page);
        if let Some(group) = group {
            *self.groups.entry(group).or_default() += 1;
        }
        let holder = self.apps.entry(app).or_default();
        let since_use = holder.uses;
        holder.pages += 1;
        holder.order.push_back((page, since_use));
        let lock = Lock {
            _guard: guard,
            app,
            group,
            since_use,
        };
        self.locks.insert(page, lock);
        self.forget_released(app);
    }

    /// Drops what was released from the order of an application, once it is most of it.
    fn forget_released(&mut self, app: AppId) {
        let Some(holder) = self.apps.get_mut(&app) else {
            return;
        };
        if holder.order.len() as u64 > 2 * holder.pages + FEW_PAGES {
            let locks = &self.locks;
            holder.order.retain(|(page, since)| {
                let lock = locks.get(page);
                lock.is_some_and(|lock| lock.app == app && lock.since_use == *since)
            });
        }
    }

    /// Pages that are locked of a control group.
    pub fn pages_of(&self, group: GroupId) -> u64 {
        self.groups.get(&group).copied().unwrap_or(0)
    }

    /// Releases the pages of a control group.
    pub fn release_group(&mut self, group: GroupId) {
        let of_group = self
            .locks
            .iter()
            .filter(|(_, lock)| lock.group == Some(group));
        let pages: Vec<FilePage> = of_group.map(|(page, _)| *page).collect();
        pages.into_iter().for_each(|page| self.release(page));
    }

    /// The files of which pages are locked.
    pub fn files(&self) -> FxHashSet<FileKey> {
        self.locks.keys().map(|page| page.0).collect()
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

    /// The application is no more.
    pub fn remove(&mut self, app: AppId) {
        self.release_all_of(app);
        self.apps.remove(&app);
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
        if let Some(group) = lock.group
            && let Some(pages) = self.groups.get_mut(&group)
        {
            *pages -= 1;
            if *pages == 0 {
                self.groups.remove(&group);
            }
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
        (
            FileKey {
                device: 1,
                inode,
                mount: 2,
            },
            number,
        )
    }

    #[test]
    fn a_page_is_released_after_so_many_uses_of_its_application() {
        let mut locks = Locks::default();
        locks.used(A);
        locks.insert(A, None, page(7, 3), ());
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
        locks.insert(A, None, page(7, 3), ());
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
        locks.insert(A, None, page(7, 3), Rc::clone(&first));
        assert_eq!(Rc::strong_count(&first), 2);
        locks.used(A);
        locks.insert(A, None, page(7, 3), Rc::default());
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
            assert!(locks.make_room(A, None, 0, 2));
            locks.insert(A, None, page(7, number), ());
        }
        assert!(
            !locks.make_room(A, None, 0, 2),
            "it does not push out its own"
        );
        for _ in 1..IDLE_SWITCHES {
            locks.used(B);
        }
        assert!(!locks.make_room(B, None, 0, 2));
        locks.used(B);
        assert!(locks.make_room(B, None, 0, 2));
        assert_eq!(locks.pages(), 0);
    }

    #[test]
    fn a_control_group_has_a_bound_of_its_own() {
        let mut locks = Locks::default();
        for (app, number) in [(A, 0), (B, 1)] {
            assert!(locks.make_room(app, Some(5), 2, 100));
            locks.insert(app, Some(5), page(7, number), ());
        }
        assert!(!locks.make_room(A, Some(5), 2, 100));
        assert!(locks.make_room(A, Some(6), 2, 100) && locks.make_room(A, None, 0, 100));
        locks.insert(A, None, page(8, 0), ());
        locks.release_group(5);
        assert_eq!((locks.pages(), locks.pages_of(5)), (1, 0));
        assert!(locks.make_room(A, Some(5), 2, 100));
    }

    #[test]
    fn what_is_locked_and_released_over_and_over_leaves_nothing_behind() {
        let mut locks = Locks::default();
        for number in 0..100_000 {
            locks.insert(A, None, page(7, number), ());
            locks.retain_files(|_| false);
        }
        assert!(locks.apps[&A].order.len() as u64 <= FEW_PAGES + 1);
    }

    #[test]
    fn pages_are_bounded_in_number() {
        let mut locks = Locks::default();
        for number in 0..MOST_PAGES as u64 {
            assert!(locks.make_room(A, None, 0, u64::MAX));
            locks.insert(A, None, page(7, number), ());
        }
        assert!(!locks.make_room(A, None, 0, u64::MAX));
    }

    #[test]
    fn a_lower_bound_takes_from_those_that_were_used_longest_ago() {
        let mut locks = Locks::default();
        for (app, inode) in [(A, 7), (B, 8)] {
            locks.used(app);
            locks.insert(app, None, page(inode, 0), ());
        }
        locks.bound(2);
        assert_eq!(locks.pages(), 2);
        locks.bound(1);
        assert!(!locks.holds(page(7, 0)) && locks.holds(page(8, 0)));
        locks.bound(0);
        assert_eq!((locks.pages(), locks.released()), (0, 2));
    }

    #[test]
    fn nothing_of_an_application_comes_with_its_number() {
        let mut locks = Locks::default();
        locks.used(A);
        locks.used(A);
        locks.insert(A, None, page(7, 0), ());
        locks.remove(A);
        assert_eq!((locks.pages(), locks.switches_to(A)), (0, 0));
    }

    #[test]
    fn what_nobody_maps_any_more_is_released_and_its_place_is_free() {
        let mut locks = Locks::default();
        locks.used(A);
        locks.insert(A, None, page(7, 0), ());
        locks.insert(A, None, page(8, 0), ());
        locks.retain_files(|file| file.inode == 8);
        assert!(!locks.holds(page(7, 0)) && locks.holds(page(8, 0)));
        locks.insert(B, None, page(7, 0), ());
        // The entry of the first lock is of no effect on the second.
        for _ in 0..LOCKED_USES {
            locks.used(A);
        }
        assert!(locks.holds(page(7, 0)));
        assert_eq!(locks.pages(), 1);
    }
}
