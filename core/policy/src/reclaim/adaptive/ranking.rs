//! The resident pages in the order of one of several rules, and what all of the rules know of each page.

mod value;

use super::history::{
    CLASSES, Experience, History, IN_WINDOW, SESSION_USES, TOUCHED, UNTOUCHED, after, is_long_ago,
    was_in_window,
};
use super::rule::Rule;
use crate::list::PageList;
use crate::list::classes::ClassLists;
use crate::page::{Hotness, PageId, PageTable};
use crate::reclaim::sieve::Sieve;
use crate::room::make_room;
use warmswap_page::{AppId, LaunchKind};

/// What is known of a page. 12 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    /// The last touch and the one before, on the clock of touches; 0 for none.
    last: u32,
    before: u32,
    /// The session of its application in which it was last touched, 1 to 65,535 over and over; 0 for a page that is not
    /// known.
    session: u16,
    class: u8,
    now: u8,
}

#[derive(Debug)]
struct AppHistory {
    history: History,
    session: u16,
    /// Its hot pages are known from an earlier run, and it was not launched since.
    is_taught: bool,
    /// By what the session did with the page and its class.
    lists: ClassLists,
}

impl Default for AppHistory {
    fn default() -> Self {
        Self {
            history: History::default(),
            session: 1,
            is_taught: false,
            lists: ClassLists::new(SESSION_USES * CLASSES),
        }
    }
}

/// The launch window of the application in the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    Closed,
    Open,
    /// Open, and the first launch of an application whose hot pages are known: what else it touches is not hot.
    Taught,
}

/// Which list a page is on.
#[derive(Clone, Copy, Debug)]
enum ListId {
    Recency,
    Ring(usize),
    Sieve,
    Class { app: usize, list: usize },
}

/// The label, in the page table, of a page that was hot in an earlier run and is not known otherwise.
pub const TAUGHT: u8 = u8::MAX;

/// Lists by the time of the last touch but one, in quanta.
const RING: usize = 128;
/// A quantum is a touch for so many resident pages at most, so that the ring spans eight times as many touches.
const PAGES_OF_A_QUANTUM: usize = 16;
/// For LRU-2 a page that was touched once was touched before, too, so many quanta earlier: else what a starting program has touched
/// would leave before what no program needs any more.
const ONCE_QUANTA: u32 = 11;
/// As long as this part of all pages is resident, pages that were touched once do leave first: they are few, and mostly of no more
/// use.
const ONCE_FIRST: (usize, usize) = (7, 8);

/// The resident pages in their order. Every call is constant time in the number of pages, but for a change of the rule.
#[derive(Debug)]
pub struct Ranking {
    rule: Rule,
    info: Vec<Info>,
    apps: Vec<AppHistory>,
    experience: Experience,
    clock: u32,
    launches: u32,
    foreground: usize,
    window: Window,
    recency: PageList,
    ring: Vec<PageList>,
    sieve: Sieve,
    /// For LRU-2: pages that were touched once leave first.
    is_once_first: bool,
    /// The quantum of the oldest list of the ring.
    base: u32,
    quantum: u32,
    len: usize,
    /// Pages that are known, resident or not.
    known: usize,
}

impl Ranking {
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            info: Vec::new(),
            apps: Vec::new(),
            experience: Experience::default(),
            clock: 0,
            launches: 0,
            foreground: usize::MAX,
            window: Window::Closed,
            recency: PageList::default(),
            ring: vec![PageList::default(); RING],
            sieve: Sieve::default(),
            is_once_first: true,
            base: 0,
            quantum: 64,
            len: 0,
            known: 0,
        }
    }

    pub fn rule(&self) -> Rule {
        self.rule
    }

    #[cfg(test)]
    pub fn set_clock(&mut self, clock: u32) {
        self.clock = clock;
    }

    /// Resident pages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Pages that exist, resident or not.
    pub fn known(&self) -> usize {
        self.known
    }

    fn app(&mut self, index: usize) -> &mut AppHistory {
        if self.apps.len() <= index {
            self.apps.resize_with(index + 1, AppHistory::default);
        }
        &mut self.apps[index]
    }

    /// What is known of the page, brought up to the session of its application.
    fn refresh(&mut self, table: &PageTable, page: PageId) -> usize {
        let owner = usize::from(table.owner(page).0);
        if self.info.len() <= page.index() {
            make_room(&mut self.info, page.index() + 1, 64);
            self.info.resize(page.index() + 1, Info::default());
        }
        let session = self.app(owner).session;
        let info = &mut self.info[page.index()];
        if info.session == 0 {
            self.known += 1;
            let class = match table[page].label {
                TAUGHT => after(0, IN_WINDOW),
                _ => 0,
            };
            self.apps[owner].history.add(class);
            *info = Info {
                session,
                class,
                ..Info::default()
            };
        }
        *info = info.at(session);
        owner
    }

    fn list_of(&mut self, table: &PageTable, page: PageId) -> ListId {
        let app = self.refresh(table, page);
        let info = self.info[page.index()];
        match self.rule {
            Rule::Lru => ListId::Recency,
            Rule::Sieve => ListId::Sieve,
            Rule::Lru2 if info.last == 0 || info.before == 0 && self.is_once_first => {
                ListId::Recency
            }
            Rule::Lru2 => {
                let before = match info.before {
                    0 => info.last.saturating_sub(ONCE_QUANTA * self.quantum),
                    before => before,
                };
                let quantum = (before / self.quantum).max(self.base);
                ListId::Ring(quantum as usize % RING)
            }
            _ => ListId::Class {
                app,
                list: usize::from(info.now) * CLASSES + usize::from(info.class),
            },
        }
    }

    fn push_back(&mut self, table: &mut PageTable, page: PageId) {
        match self.list_of(table, page) {
            ListId::Recency => self.recency.push_back(table, page),
            ListId::Ring(slot) => self.ring[slot].push_back(table, page),
            ListId::Sieve => self.sieve.push(table, page),
            ListId::Class { app, list } => self.apps[app].lists.push_back(table, page, list),
        }
    }

    fn push_front(&mut self, table: &mut PageTable, page: PageId) {
        match self.list_of(table, page) {
            ListId::Recency => self.recency.push_front(table, page),
            ListId::Ring(slot) => self.ring[slot].push_front(table, page),
            ListId::Sieve => self.sieve.push(table, page),
            ListId::Class { app, list } => self.apps[app].lists.push_front(table, page, list),
        }
    }

    fn unlink(&mut self, table: &mut PageTable, page: PageId) {
        match self.list_of(table, page) {
            ListId::Recency => self.recency.remove(table, page),
            ListId::Ring(slot) => self.ring[slot].remove(table, page),
            ListId::Sieve => self.sieve.unlink(table, page),
            ListId::Class { app, list } => self.apps[app].lists.remove(table, page, list),
        }
    }

    /// Notes a touch of a page whose place may change.
    fn note(&mut self, table: &mut PageTable, page: PageId) {
        let owner = self.refresh(table, page);
        self.clock += 1;
        let info = &mut self.info[page.index()];
        let now = match self.window {
            _ if owner != self.foreground => TOUCHED,
            Window::Open => IN_WINDOW,
            Window::Taught if was_in_window(info.class) => IN_WINDOW,
            Window::Taught | Window::Closed => TOUCHED,
        };
        (info.before, info.last) = (info.last, self.clock);
        if info.now < now {
            self.apps[owner].history.touch(info.class, info.now, now);
            info.now = now;
        }
        if self.clock == u32::MAX {
            self.halve_clock(table);
        }
        let newest = self.clock / self.quantum;
        while newest >= self.base + RING as u32 {
            let oldest = std::mem::take(&mut self.ring[self.base as usize % RING]);
            self.base += 1;
            let (mut all, next) = (oldest, self.base as usize % RING);
            all.append(table, &mut self.ring[next]);
            self.ring[next] = all;
        }
    }

    /// The clock of touches comes to its end: all stamps count half.
    fn halve_clock(&mut self, table: &mut PageTable) {
        self.rebuild(table, |ranking| {
            ranking.clock /= 2;
            for info in &mut ranking.info {
                (info.last, info.before) = (info.last / 2, info.before / 2);
            }
        });
    }

    pub fn insert(&mut self, table: &mut PageTable, page: PageId, touched: bool) {
        self.len += 1;
        if self.len > PAGES_OF_A_QUANTUM * self.quantum as usize {
            self.rebuild(table, |ranking| ranking.quantum *= 2);
        }
        if touched {
            self.note(table, page);
            self.push_back(table, page);
        } else {
            self.push_front(table, page);
        }
    }

    pub fn touch(&mut self, table: &mut PageTable, page: PageId) {
        if self.rule == Rule::Sieve {
            self.note(table, page);
            return Sieve::mark(table, page);
        }
        self.unlink(table, page);
        self.note(table, page);
        self.push_back(table, page);
    }

    pub fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.len -= 1;
        self.unlink(table, page);
    }

    /// The page, which is on no list, is no more.
    pub fn forget(&mut self, table: &PageTable, page: PageId) {
        if self
            .info
            .get(page.index())
            .is_some_and(|info| info.session != 0)
        {
            let owner = self.refresh(table, page);
            let info = std::mem::take(&mut self.info[page.index()]);
            self.known -= 1;
            self.apps[owner].history.remove(info.class, info.now);
        }
    }

    /// Takes up to `want` pages off, in the order in which they should leave.
    pub fn victims(&mut self, table: &mut PageTable, want: usize, out: &mut Vec<PageId>) {
        let before = out.len();
        let enough = before + want.min(self.len);
        while out.len() < enough {
            if self.rule.is_by_class() {
                self.least_valued(table, enough, out);
                continue;
            }
            if self.rule == Rule::Sieve {
                let left = enough - out.len();
                out.extend(std::iter::from_fn(|| self.sieve.take(table)).take(left));
                break;
            }
            let Some(list) = self.oldest_list() else {
                return;
            };
            while out.len() < enough
                && let Some(page) = list.pop_front(table)
            {
                out.push(page);
            }
        }
        self.len -= out.len() - before;
    }

    /// The list of the oldest pages, for rules that know no classes.
    fn oldest_list(&mut self) -> Option<&mut PageList> {
        if !self.recency.is_empty() {
            return Some(&mut self.recency);
        }
        let slots = self.base as usize..self.base as usize + RING;
        let oldest = slots
            .map(|at| at % RING)
            .find(|&slot| !self.ring[slot].is_empty());
        oldest.map(|slot| &mut self.ring[slot])
    }

    /// A launch begins, and with it ends the session of the application that was in the foreground.
    pub fn launch_begin(&mut self, table: &mut PageTable, app: AppId, kind: LaunchKind) {
        self.end_session(table);
        let is_once_first = self.len * ONCE_FIRST.1 >= self.known * ONCE_FIRST.0;
        if self.rule == Rule::Lru2 && self.is_once_first != is_once_first {
            self.rebuild(table, |ranking| ranking.is_once_first = is_once_first);
        }
        self.is_once_first = is_once_first;
        self.launches += 1;
        let launches = self.launches;
        self.foreground = usize::from(app.0);
        let app = self.app(self.foreground);
        app.history.launch(launches);
        let is_taught = std::mem::take(&mut app.is_taught) && kind == LaunchKind::Cold;
        self.window = if is_taught {
            Window::Taught
        } else {
            Window::Open
        };
    }

    pub fn launch_end(&mut self, app: AppId) {
        if usize::from(app.0) == self.foreground {
            self.window = Window::Closed;
        }
    }

    fn end_session(&mut self, table: &mut PageTable) {
        let Some(app) = self.apps.get_mut(self.foreground) else {
            return;
        };
        app.history.end_session(&mut self.experience);
        app.session = app.session.checked_add(1).unwrap_or(1);
        app.lists.rearrange(table, |list| {
            let (now, class) = ((list / CLASSES) as u8, (list % CLASSES) as u8);
            usize::from(after(class, now))
        });
    }

    /// The application's number is another's from now on.
    pub fn retire(&mut self, app: AppId) {
        if let Some(app) = self.apps.get_mut(usize::from(app.0)) {
            app.history.forget_experience();
            app.is_taught = false;
        }
    }

    /// Bytes of memory for what is known of pages.
    pub fn state_bytes(&self) -> usize {
        self.info.capacity() * size_of::<Info>()
    }

    /// Another rule: linear in the resident pages.
    pub fn set_rule(&mut self, table: &mut PageTable, rule: Rule) {
        self.rebuild(table, |ranking| ranking.rule = rule);
    }

    fn rebuild(&mut self, table: &mut PageTable, change: impl FnOnce(&mut Self)) {
        // A page that is about to come onto a list counts already.
        let len = self.len;
        self.len = self.dump(table).len();
        let mut pages = Vec::with_capacity(self.len);
        self.victims(table, self.len, &mut pages);
        self.len = len;
        change(self);
        // SIEVE has its order by what it saw: until it saw something, the order of the rule before is better than any other.
        if self.rule != Rule::Sieve {
            pages.sort_by_key(|page| self.info[page.index()].last);
        }
        self.base = (self.clock / self.quantum).saturating_sub(RING as u32 - 1);
        for page in pages {
            self.push_back(table, page);
        }
    }

    /// Hot: the application's last launch window touched it. Warm: a session that is remembered did.
    pub fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        let Some(info) = self.info.get(page.index()).filter(|info| info.session != 0) else {
            return Hotness::Cold;
        };
        let owner = usize::from(table.owner(page).0);
        let Some(app) = self.apps.get(owner) else {
            return Hotness::Cold;
        };
        let info = info.at(app.session);
        let is_in_use = owner == self.foreground;
        match info.now {
            IN_WINDOW => Hotness::Hot,
            UNTOUCHED if !is_in_use && was_in_window(info.class) => Hotness::Hot,
            UNTOUCHED if is_long_ago(info.class) => Hotness::Cold,
            _ => Hotness::Warm,
        }
    }

    /// Pages of the application that are hot, resident or not.
    pub fn hot_pages(&self, app: AppId) -> u64 {
        let app = usize::from(app.0);
        let history = self.apps.get(app).map(|app| &app.history);
        history.map_or(0, |history| history.hot_pages(app == self.foreground))
    }

    /// The application's hot pages are known from an earlier run.
    pub fn is_taught(&mut self, app: AppId) {
        self.app(usize::from(app.0)).is_taught = true;
    }

    /// All pages on the lists.
    pub fn dump(&self, table: &PageTable) -> Vec<PageId> {
        let ring = (self.base as usize..self.base as usize + RING).map(|at| &self.ring[at % RING]);
        let lists = std::iter::once(&self.recency).chain(ring);
        let of_apps = self.apps.iter().flat_map(|app| app.lists.iter(table));
        lists
            .flat_map(|list| list.iter(table))
            .chain(self.sieve.iter(table))
            .chain(of_apps)
            .collect()
    }
}

impl Info {
    /// The same in a later session.
    fn at(mut self, session: u16) -> Self {
        let behind = session.wrapping_sub(self.session);
        if behind > 0 {
            self.class = after(self.class, self.now);
            self.now = UNTOUCHED;
            for _ in 1..behind.min(CLASSES as u16) {
                self.class = after(self.class, UNTOUCHED);
            }
            self.session = session;
        }
        self
    }
}
