//! The resident pages in the order of one of several rules, and what all of the rules know of each page.

use super::history::{History, IN_WINDOW, PATTERNS, TOUCHED, UNTOUCHED, after};
use crate::list::PageList;
use crate::page::{Hotness, PageId, PageTable};

/// What decides which page leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The last touch.
    Lru,
    /// The last touch but one.
    Lru2,
    /// Expected use by expected wait.
    History,
}

impl Rule {
    /// All of them; the first is what nothing may be worse than.
    pub const ALL: [Self; 3] = [Self::Lru, Self::Lru2, Self::History];

    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Lru2 => "lru-2",
            Self::History => "history",
        }
    }
}

/// What is known of a page. 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    /// The last touch and the one before, on the clock of touches; 0 for none.
    last: u32,
    before: u32,
    /// The session of its application in which it was last touched, from 1; 0 for a page that is not known.
    session: u32,
    pattern: u8,
    now: u8,
}

#[derive(Debug)]
struct App {
    history: History,
    session: u32,
    /// By what the session did with the page and its pattern.
    lists: Vec<PageList>,
}

impl Default for App {
    fn default() -> Self {
        Self {
            history: History::default(),
            session: 1,
            lists: vec![PageList::default(); 3 * PATTERNS],
        }
    }
}

/// Lists by the time of the last touch but one, in quanta.
const RING: usize = 128;
/// A quantum is a touch for so many resident pages at most, so that the ring spans eight times as many touches.
const PAGES_OF_A_QUANTUM: usize = 16;

/// The resident pages in their order. Every call is constant time in the number of pages, but for a change of the rule.
#[derive(Debug)]
pub struct Board {
    rule: Rule,
    info: Vec<Info>,
    apps: Vec<App>,
    clock: u32,
    launches: u32,
    foreground: usize,
    in_window: bool,
    recency: PageList,
    ring: Vec<PageList>,
    /// The quantum of the oldest list of the ring.
    base: u32,
    quantum: u32,
    len: usize,
}

impl Board {
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            info: Vec::new(),
            apps: Vec::new(),
            clock: 0,
            launches: 0,
            foreground: usize::MAX,
            in_window: false,
            recency: PageList::default(),
            ring: vec![PageList::default(); RING],
            base: 0,
            quantum: 64,
            len: 0,
        }
    }

    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Resident pages.
    pub fn len(&self) -> usize {
        self.len
    }

    fn app(&mut self, index: usize) -> &mut App {
        if self.apps.len() <= index {
            self.apps.resize_with(index + 1, App::default);
        }
        &mut self.apps[index]
    }

    /// What is known of the page, brought up to the session of its application.
    fn refresh(&mut self, table: &PageTable, page: PageId) -> usize {
        let owner = usize::from(table.owner(page).0);
        if self.info.len() <= page.index() {
            let more = (self.info.len() / 32).max(64);
            self.info
                .reserve_exact(page.index() + 1 - self.info.len() + more);
            self.info.resize(page.index() + 1, Info::default());
        }
        let session = self.app(owner).session;
        let info = &mut self.info[page.index()];
        if info.session == 0 {
            self.apps[owner].history.add();
            *info = Info {
                session,
                ..Info::default()
            };
        }
        let mut behind = session - info.session;
        if behind > 0 {
            info.pattern = after(info.pattern, info.now);
            info.now = UNTOUCHED;
            behind -= 1;
            info.pattern = (0..behind.min(3)).fold(info.pattern, |it, _| after(it, UNTOUCHED));
            info.session = session;
        }
        owner
    }

    fn list(&mut self, table: &PageTable, page: PageId) -> &mut PageList {
        let owner = self.refresh(table, page);
        let info = self.info[page.index()];
        match self.rule {
            Rule::Lru => &mut self.recency,
            Rule::Lru2 if info.before == 0 => &mut self.recency,
            Rule::Lru2 => {
                let quantum = (info.before / self.quantum).max(self.base);
                &mut self.ring[quantum as usize % RING]
            }
            Rule::History => {
                let list = usize::from(info.now) * PATTERNS + usize::from(info.pattern);
                &mut self.apps[owner].lists[list]
            }
        }
    }

    /// Notes a touch of a page that is on no list.
    fn note(&mut self, table: &mut PageTable, page: PageId) {
        let owner = self.refresh(table, page);
        self.clock += 1;
        let now = if self.in_window && owner == self.foreground {
            IN_WINDOW
        } else {
            TOUCHED
        };
        let info = &mut self.info[page.index()];
        (info.before, info.last) = (info.last, self.clock);
        if info.now < now {
            self.apps[owner].history.touch(info.pattern, info.now, now);
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
        self.rebuild(table, |board| {
            board.clock /= 2;
            for info in &mut board.info {
                (info.last, info.before) = (info.last / 2, info.before / 2);
            }
        });
    }

    pub fn insert(&mut self, table: &mut PageTable, page: PageId, touched: bool) {
        self.len += 1;
        if self.len > PAGES_OF_A_QUANTUM * self.quantum as usize {
            self.len -= 1;
            self.rebuild(table, |board| board.quantum *= 2);
            self.len += 1;
        }
        if touched {
            self.note(table, page);
            self.list(table, page).push_back(table, page);
        } else {
            self.list(table, page).push_front(table, page);
        }
    }

    pub fn touch(&mut self, table: &mut PageTable, page: PageId) {
        self.list(table, page).remove(table, page);
        self.note(table, page);
        self.list(table, page).push_back(table, page);
    }

    pub fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.len -= 1;
        self.list(table, page).remove(table, page);
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
            self.apps[owner].history.remove(info.pattern, info.now);
        }
    }

    /// Takes up to `want` pages off, in the order in which they should leave.
    pub fn victims(&mut self, table: &mut PageTable, want: usize, out: &mut Vec<PageId>) {
        let before = out.len();
        let enough = before + want.min(self.len);
        while out.len() < enough {
            let Some(list) = self.next_list() else { return };
            while out.len() < enough
                && let Some(page) = list.pop_front(table)
            {
                out.push(page);
            }
        }
        self.len -= out.len() - before;
    }

    /// The list that the next page leaves from.
    fn next_list(&mut self) -> Option<&mut PageList> {
        if self.rule == Rule::History {
            return self.least_valued();
        }
        if !self.recency.is_empty() {
            return Some(&mut self.recency);
        }
        let slots = self.base as usize..self.base as usize + RING;
        let oldest = slots
            .map(|at| at % RING)
            .find(|&slot| !self.ring[slot].is_empty());
        oldest.map(|slot| &mut self.ring[slot])
    }

    fn least_valued(&mut self) -> Option<&mut PageList> {
        let mut least: Option<(f32, usize, usize)> = None;
        for (index, app) in self.apps.iter().enumerate() {
            let foreground = (index == self.foreground).then_some(self.in_window);
            for (at, list) in app
                .lists
                .iter()
                .enumerate()
                .filter(|(_, list)| !list.is_empty())
            {
                let _ = list;
                let (now, pattern) = ((at / PATTERNS) as u8, (at % PATTERNS) as u8);
                let value = app.history.value(pattern, now, self.launches, foreground);
                if least.is_none_or(|(other, ..)| value < other) {
                    least = Some((value, index, at));
                }
            }
        }
        let (_, app, list) = least?;
        Some(&mut self.apps[app].lists[list])
    }

    /// A launch begins, and with it ends the session of the application that was in the foreground.
    pub fn launch_begin(&mut self, table: &mut PageTable, app: usize) {
        self.end_session(table);
        self.launches += 1;
        let launches = self.launches;
        self.app(app).history.launch(launches);
        self.foreground = app;
        self.in_window = true;
    }

    pub fn launch_end(&mut self, app: usize) {
        self.in_window &= app != self.foreground;
    }

    fn end_session(&mut self, table: &mut PageTable) {
        let Some(app) = self.apps.get_mut(self.foreground) else {
            return;
        };
        app.history.end_session();
        app.session += 1;
        let mut lists = vec![PageList::default(); 3 * PATTERNS];
        for (at, list) in app.lists.iter_mut().enumerate() {
            let (now, pattern) = ((at / PATTERNS) as u8, (at % PATTERNS) as u8);
            lists[usize::from(after(pattern, now))].append(table, list);
        }
        app.lists = lists;
    }

    /// The application's number is another's from now on.
    pub fn retire(&mut self, app: usize) {
        if let Some(app) = self.apps.get_mut(app) {
            app.history.forget_experience();
        }
    }

    /// Bytes of memory for what is known of pages.
    pub fn state_bytes(&self) -> usize {
        self.info.capacity() * size_of::<Info>()
    }

    /// Another rule: linear in the resident pages.
    pub fn set_rule(&mut self, table: &mut PageTable, rule: Rule) {
        self.rebuild(table, |board| board.rule = rule);
    }

    fn rebuild(&mut self, table: &mut PageTable, change: impl FnOnce(&mut Self)) {
        let pages = self.drain(table);
        change(self);
        self.base = (self.clock / self.quantum).saturating_sub(RING as u32 - 1);
        self.len = pages.len();
        for page in pages {
            self.list(table, page).push_back(table, page);
        }
    }

    /// Hot: the application's last launch window touched it. Warm: a session that is remembered did.
    pub fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        let Some(info) = self.info.get(page.index()).filter(|info| info.session != 0) else {
            return Hotness::Cold;
        };
        let owner = usize::from(table.owner(page).0);
        let behind = self
            .apps
            .get(owner)
            .map_or(0, |app| app.session - info.session);
        match (info.now, behind) {
            (IN_WINDOW, 0..=1) => Hotness::Hot,
            (UNTOUCHED, _) if info.pattern == 0 => Hotness::Cold,
            (_, 0..=3) => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    /// All pages on the lists.
    pub fn dump(&self, table: &PageTable) -> Vec<PageId> {
        let ring = (self.base as usize..self.base as usize + RING).map(|at| &self.ring[at % RING]);
        let of_apps = self.apps.iter().flat_map(|app| &app.lists);
        let lists = std::iter::once(&self.recency).chain(ring).chain(of_apps);
        lists.flat_map(|list| list.iter(table)).collect()
    }

    fn drain(&mut self, table: &mut PageTable) -> Vec<PageId> {
        let mut pages = Vec::with_capacity(self.len);
        self.victims(table, self.len, &mut pages);
        pages.sort_by_key(|page| self.info[page.index()].last);
        pages
    }
}
