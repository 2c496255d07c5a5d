//! `hotness`: HotnessOrg, three lists for each application (Ariadne section 4.2).

mod label;
mod order;
mod stay;

use super::refault::Departures;
use super::{Arrival, Reclaim, Urgency};
use crate::entry::{PolicyEntry, arguments};
use crate::list::PageList;
use crate::page::{Hotness, Mark, PageId, PageState, PageTable};
use label::{COLD, HOT, WARM, class_of, label, set_class, stay_of};
use order::{BY_CLASS, FOREGROUND_LAST, LAUNCHING_LAST, Order, Whose};
use warmswap_page::{AppId, LaunchKind, PageAddr};

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "hotness",
    summary: "hot, warm and cold list for each application; \
              hot=last|keep, foreground=alike|last, refaults=alike|stay, initial-hot=PAGES",
    source: "Ariadne section 4.2 (HotnessOrg); hot=keep is its scenario EHL, hot=last its AL (section 5)",
    build: |text| {
        let mut policy = HotnessOrg::default();
        for (key, value) in arguments(text) {
            match (key, value) {
                ("hot", "last") => policy.hot_pages = HotPages::Last,
                ("hot", "keep") => policy.hot_pages = HotPages::Keep,
                ("foreground", "alike") => policy.spares_foreground = false,
                ("foreground", "last") => policy.spares_foreground = true,
                ("refaults", "alike") => policy.departures = None,
                ("refaults", "stay") => policy.departures = Some(Departures::default()),
                ("initial-hot", pages) => {
                    policy.initial_hot_pages = pages
                        .parse()
                        .map_err(|_| format!("initial-hot={pages}: not a number of pages"))?;
                }
                _ => {
                    return Err(format!(
                        "'{key}={value}' is none of hot=last|keep, foreground=alike|last, \
                         refaults=alike|stay, initial-hot=PAGES"
                    ));
                }
            }
        }
        Ok(Box::new(policy))
    },
};

/// What becomes of hot pages under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotPages {
    /// They leave after all cold and warm pages (AL: compression works on all lists).
    Last,
    /// They leave only if a thread waits for a frame and nothing else is left (EHL: the hot list is
    /// excluded from compression).
    Keep,
}

#[derive(Debug, Default)]
struct AppLists {
    /// Indexed by hotness.
    lists: [PageList; 3],
    /// Counts launches modulo 255, from 1; a hot page belongs to the launch whose number it carries.
    epoch: u8,
    window: Window,
    /// Pages labelled hot in this epoch, resident or not.
    hot_total: u64,
    /// The hot list was learned in an earlier run, and no launch was seen since.
    is_taught: bool,
    /// When one of its pages was last touched, on the clock of switches between applications.
    last_used: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Window {
    #[default]
    Closed,
    /// A launch window; how many more pages it may add to the hot list.
    Open { room: u64 },
}

/// Hot, warm and cold lists for each application, and the applications in LRU order.
///
/// - The pages of the first launch make the initial hot list, up to `initial_hot_pages`; what comes later
///   starts cold, and moves to warm when it is touched again.
/// - At a relaunch the old hot list moves to warm; the pages that the relaunch touches become hot, in the
///   order of their first touch.
/// - A hot list that was learned in an earlier run ([`Reclaim::teach`]) takes the place of the initial one.
/// - Cold pages of all applications leave first, applications least recently used first, then warm, then
///   hot. The foreground application is the most recently used one, so that its pages of a class stay
///   longest. With `foreground=last`, which is ours, all its pages but the hot ones stay longer than others' cold
///   and warm pages; while its launch window is open, all its pages stay longer than all of others'.
/// - A page that came back unasked, with a neighbour of its chunk, is the first of its class to leave again.
/// - Warm pages that were touched since the policy last looked get a second chance; hot ones leave in the
///   order in which the launch touched them.
/// - With `refaults=stay`, which is ours, warm pages that came back soon after they left stay for more rounds
///   (see the module `refault`). For each that does, the oldest hot page of a foreground application whose launch
///   is over becomes warm, so that what it used at its launch does not displace what it uses now; and where it is
///   the only application, its hot pages are not spared when there are no others.
///
/// A page that is not resident keeps its label: it is hot if the last launch touched it. Every call but
/// `victims_of` is constant time in the number of pages, apart from relabelling the old hot list.
#[derive(Debug)]
pub struct HotnessOrg {
    hot_pages: HotPages,
    /// Pages of the foreground application stay longer than those of others.
    spares_foreground: bool,
    /// The application that was launched last.
    foreground: usize,
    /// Counted if pages that come back soon stay longer.
    departures: Option<Departures>,
    initial_hot_pages: u64,
    apps: Vec<AppLists>,
    most_recent: usize,
    clock: u64,
}

impl Default for HotnessOrg {
    fn default() -> Self {
        Self {
            hot_pages: HotPages::Last,
            spares_foreground: false,
            foreground: usize::MAX,
            departures: None,
            initial_hot_pages: u64::MAX,
            apps: Vec::new(),
            most_recent: usize::MAX,
            clock: 0,
        }
    }
}

impl HotnessOrg {
    /// As it serves a single program best whose touches are seen as faults only: hot pages are kept, and what comes back
    /// soon stays.
    pub(super) fn of_one_program() -> Self {
        Self {
            hot_pages: HotPages::Keep,
            departures: Some(Departures::default()),
            ..Self::default()
        }
    }

    fn app(&mut self, app: AppId) -> &mut AppLists {
        let index = usize::from(app.0);
        if self.apps.len() <= index {
            self.apps.resize_with(index + 1, AppLists::default);
        }
        &mut self.apps[index]
    }

    /// Notes that a page of the application was touched.
    fn used(&mut self, app: AppId) {
        let index = usize::from(app.0);
        if self.most_recent != index {
            self.clock += 1;
            self.most_recent = index;
            self.app(app).last_used = self.clock;
        }
    }

    /// The class in which a touch puts the page, and its label. `None`: the launch window's hot list
    /// already holds it.
    fn class_after_touch(app: &AppLists, label_before: u8, epoch: u8) -> Option<u8> {
        match app.window {
            Window::Open { .. } if label_before == HOT && epoch == app.epoch => None,
            Window::Open { room: 1.. } => Some(HOT),
            _ if label_before == 0 => Some(COLD),
            // A hot page of this launch stays hot; every other page that is asked for again is warm.
            _ if label_before == HOT && epoch == app.epoch => None,
            _ => Some(WARM),
        }
    }

    /// Labels the page, which is on no list, and names the list where it belongs.
    fn label(&mut self, table: &mut PageTable, page: PageId, to: u8) -> &mut PageList {
        let owner = table.owner(page);
        let app = self.app(owner);
        let entry = &mut table[page];
        if to == HOT && !(class_of(entry) == HOT && entry.epoch == app.epoch) {
            app.hot_total += 1;
            if let Window::Open { room } = &mut app.window {
                *room = room.saturating_sub(1);
            }
        }
        set_class(entry, to);
        entry.epoch = app.epoch;
        &mut app.lists[usize::from(to) - 1]
    }

    fn unlink(&mut self, table: &mut PageTable, page: PageId) {
        let owner = table.owner(page);
        let list = usize::from(class_of(&table[page])) - 1;
        self.app(owner).lists[list].remove(table, page);
    }

    /// The application and class that give pages now, one turn after the other.
    fn order(&self) -> &'static Order {
        let foreground = self.apps.get(self.foreground);
        let is_launching = foreground.is_some_and(|app| app.window != Window::Closed);
        match (self.spares_foreground, is_launching) {
            (false, _) => &BY_CLASS,
            (true, false) => &FOREGROUND_LAST,
            (true, true) => &LAUNCHING_LAST,
        }
    }

    /// The applications with pages of that class whose turn it is, least recently used first.
    fn eviction_order(&self, (class, whose): (Hotness, Whose)) -> Vec<usize> {
        let has_turn = |app: usize| match whose {
            Whose::Everybodys => true,
            Whose::Foreground => app == self.foreground,
            Whose::Others => app != self.foreground,
        };
        let mut order: Vec<_> = (0..self.apps.len())
            .filter(|&app| has_turn(app) && !self.apps[app].lists[class.index()].is_empty())
            .collect();
        order.sort_by_key(|&app| self.apps[app].last_used);
        order
    }

    /// The foreground application, if no other has pages.
    fn alone(&self) -> Option<usize> {
        let has_pages = |&app: &usize| self.apps[app].lists.iter().any(|list| !list.is_empty());
        let mut with_pages = (0..self.apps.len()).filter(has_pages);
        let only = with_pages.next().filter(|&app| app == self.foreground);
        only.filter(|_| with_pages.next().is_none())
    }

    /// The epoch came around: labels of 255 launches ago must not read as hot again.
    fn wrap(table: &mut PageTable, app: AppId) {
        for page in table.all() {
            if class_of(&table[page]) == HOT && table.owner(page) == app {
                table[page].epoch = 0;
            }
        }
    }
}

impl Reclaim for HotnessOrg {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        let owner = table.owner(page);
        match arrival {
            Arrival::Touched => {
                self.used(owner);
                if class_of(&table[page]) != 0 {
                    self.came_back(table, page);
                }
                let (before, epoch) = (class_of(&table[page]), table[page].epoch);
                let to = Self::class_after_touch(self.app(owner), before, epoch).unwrap_or(HOT);
                self.label(table, page, to).push_back(table, page);
            }
            // It was not asked for: it keeps its class, and is the first of it to leave again.
            Arrival::Untouched => {
                let to = label(self.hotness(table, page));
                self.label(table, page, to).push_front(table, page);
            }
        }
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        let owner = table.owner(page);
        self.used(owner);
        let entry = &mut table[page];
        entry.set(Mark::Referenced);
        let (before, epoch) = (class_of(entry), entry.epoch);
        match Self::class_after_touch(&self.apps[usize::from(owner.0)], before, epoch) {
            Some(to) if to != before || to == HOT => {
                self.unlink(table, page);
                self.label(table, page, to).push_back(table, page);
            }
            _ => {}
        }
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.unlink(table, page);
        self.leaves(table, page);
    }

    fn victims(
        &mut self,
        table: &mut PageTable,
        want: usize,
        urgency: Urgency,
        out: &mut Vec<PageId>,
    ) {
        let enough = out.len() + want;
        let spare_hot = self.hot_pages == HotPages::Keep && urgency == Urgency::Background;
        for &(class, whose) in self.order() {
            if class == Hotness::Hot && spare_hot {
                if let Some(app) = self.alone().filter(|_| self.departures.is_some()) {
                    self.take(table, app, class, enough - out.len(), out);
                }
                return;
            }
            for app in self.eviction_order((class, whose)) {
                if out.len() >= enough {
                    return;
                }
                self.take(table, app, class, enough - out.len(), out);
            }
        }
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        let keep_hot = self.hot_pages == HotPages::Keep;
        for class in [Hotness::Cold, Hotness::Warm, Hotness::Hot] {
            if class == Hotness::Hot && keep_hot {
                return;
            }
            while let Some(page) = self.app(app).lists[class.index()].pop_front(table) {
                table[page].take(Mark::Referenced);
                self.leaves(table, page);
                out.push(page);
            }
        }
    }

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        let entry = &table[page];
        let epoch = self
            .apps
            .get(usize::from(table.owner(page).0))
            .map_or(0, |app| app.epoch);
        match class_of(entry) {
            HOT if entry.epoch == epoch => Hotness::Hot,
            HOT | WARM => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    fn stays_long(&self, table: &PageTable, page: PageId) -> bool {
        self.departures.is_some() && stay_of(&table[page]).is_long()
    }

    fn hot_pages(&self, app: AppId) -> u64 {
        self.apps
            .get(usize::from(app.0))
            .map_or(0, |app| app.hot_total)
    }

    fn hot_list(&self, table: &PageTable, app: AppId) -> Vec<PageId> {
        let app = self.apps.get(usize::from(app.0));
        let list = app.map(|app| &app.lists[Hotness::Hot.index()]);
        list.into_iter().flat_map(|list| list.iter(table)).collect()
    }

    fn launch_begin(&mut self, table: &mut PageTable, app: AppId, kind: LaunchKind) {
        let initial = self.initial_hot_pages;
        self.used(app);
        self.foreground = usize::from(app.0);
        let this = self.app(app);
        if std::mem::take(&mut this.is_taught) && kind == LaunchKind::Cold {
            // The first launch touches far more than a relaunch: what was learned is the better list.
            this.window = Window::Open { room: 0 };
            return;
        }
        // Old hot -> warm: only those that are resident are on a list; the others' labels age by epoch.
        let mut old_hot = std::mem::take(&mut this.lists[Hotness::Hot.index()]);
        let pages: Vec<_> = old_hot.iter(table).collect();
        let cools = |&page: &PageId| set_class(&mut table[page], WARM);
        pages.iter().for_each(cools);
        this.lists[Hotness::Warm.index()].append(table, &mut old_hot);
        this.hot_total = 0;
        this.window = Window::Open {
            room: if kind == LaunchKind::Cold {
                initial
            } else {
                u64::MAX
            },
        };
        this.epoch = this.epoch % 255 + 1;
        if this.epoch == 1 {
            Self::wrap(table, app);
        }
    }

    fn launch_end(&mut self, app: AppId) {
        self.app(app).window = Window::Closed;
    }

    fn teach(&mut self, table: &mut PageTable, app: AppId, hot: &[u64]) {
        let foreground = self.foreground;
        self.launch_begin(table, app, LaunchKind::Relaunch);
        self.foreground = foreground;
        self.launch_end(app);
        for &number in hot {
            let page = table.find_or_insert(app, PageAddr::Anon { number });
            // A page that exists has earned its class.
            if table[page].state == PageState::Absent {
                self.label(table, page, HOT);
            }
        }
        self.app(app).is_taught = true;
    }

    fn forget(&mut self, table: &PageTable, page: PageId) {
        if self.hotness(table, page) == Hotness::Hot {
            let owner = table.owner(page);
            self.app(owner).hot_total -= 1;
        }
    }

    fn retire(&mut self, app: AppId) {
        let index = usize::from(app.0);
        *self.app(app) = AppLists::default();
        for of in [&mut self.foreground, &mut self.most_recent] {
            if *of == index {
                *of = usize::MAX;
            }
        }
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        self.order()
            .iter()
            .flat_map(|&(class, whose)| {
                self.eviction_order((class, whose))
                    .into_iter()
                    .map(move |app| (app, class))
            })
            .flat_map(|(app, class)| self.apps[app].lists[class.index()].iter(table))
            .collect()
    }
}

#[cfg(test)]
mod tests;
