//! The list-based policies against slow models of themselves, made of plain vectors.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use warmswap_policy::eviction::{Coldest, Eviction, LruChunks};
use warmswap_policy::reclaim::{Arrival, HotnessOrg, Lru, Reclaim, Urgency};
use warmswap_policy::{ChunkId, Hotness, PageId, PageState, PageTable, entry, reclaim};
use warmswap_trace::{AppId, FileId, LaunchKind, PageAddr};

/// What happens to a reclaim policy.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// The application touches one of its pages, or one of a file's.
    Touch {
        app: u16,
        page: u64,
        file: bool,
    },
    /// A page comes into a frame without having been asked for.
    Arrive {
        app: u16,
        page: u64,
    },
    LaunchBegin(u16, LaunchKind),
    LaunchEnd(u16),
    Victims(usize, Urgency),
    VictimsOf(u16),
    /// A resident page is freed.
    Free {
        app: u16,
        page: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let (app, page) = (0..3_u16, 0..12_u64);
    prop_oneof![
        12 => (app.clone(), page.clone(), prop::bool::weighted(0.2))
            .prop_map(|(app, page, file)| Op::Touch { app, page, file }),
        2 => (app.clone(), page.clone()).prop_map(|(app, page)| Op::Arrive { app, page }),
        2 => (app.clone(), prop_oneof![Just(LaunchKind::Cold), Just(LaunchKind::Relaunch)])
            .prop_map(|(app, kind)| Op::LaunchBegin(app, kind)),
        2 => app.clone().prop_map(Op::LaunchEnd),
        3 => (1..12_usize, prop_oneof![Just(Urgency::Background), Just(Urgency::Direct)])
            .prop_map(|(want, urgency)| Op::Victims(want, urgency)),
        1 => app.clone().prop_map(Op::VictimsOf),
        1 => (app, page).prop_map(|(app, page)| Op::Free { app, page }),
    ]
}

/// A model of a reclaim policy; pages are known by their number in the table.
trait Model {
    /// A touch of a page that is not in a frame (`resident` false), or of one that is.
    fn touch(&mut self, page: PageId, owner: u16, is_file: bool, resident: bool);
    fn arrive(&mut self, page: PageId, owner: u16, is_file: bool);
    fn launch_begin(&mut self, app: u16, kind: LaunchKind);
    fn launch_end(&mut self, app: u16);
    fn victims(&mut self, want: usize, urgency: Urgency) -> Vec<PageId>;
    fn victims_of(&mut self, app: u16) -> Vec<PageId>;
    fn free(&mut self, page: PageId);
    fn hotness(&self, page: PageId) -> Hotness;
    fn hot_pages(&self, app: u16) -> Option<u64>;
}

/// Does the same to policy and model, as the engine would, and compares every victim and every class.
fn compare(policy: &mut dyn Reclaim, model: &mut dyn Model, ops: &[Op]) {
    let mut table = PageTable::default();
    let mut known: BTreeMap<PageId, u16> = BTreeMap::new();
    let leave = |table: &mut PageTable, pages: &[PageId]| {
        for &page in pages {
            table[page].state = PageState::Stored;
        }
    };
    for &op in ops {
        match op {
            Op::Touch { app, page, file } => {
                let addr = address(page, file);
                let page = table.find_or_insert(AppId(app), addr);
                let owner = table.owner(page).0;
                known.insert(page, owner);
                let resident = table[page].state == PageState::Resident;
                model.touch(page, owner, file, resident);
                if resident {
                    policy.touch(&mut table, page);
                } else {
                    table[page].state = PageState::Resident;
                    policy.insert(&mut table, page, Arrival::Touched);
                }
            }
            Op::Arrive { app, page } => {
                let page = table.find_or_insert(AppId(app), address(page, false));
                if table[page].state != PageState::Resident {
                    known.insert(page, app);
                    table[page].state = PageState::Resident;
                    model.arrive(page, app, false);
                    policy.insert(&mut table, page, Arrival::Untouched);
                }
            }
            Op::LaunchBegin(app, kind) => {
                policy.launch_begin(&mut table, AppId(app), kind);
                model.launch_begin(app, kind);
            }
            Op::LaunchEnd(app) => {
                policy.launch_end(AppId(app));
                model.launch_end(app);
            }
            Op::Victims(want, urgency) => {
                let mut out = Vec::new();
                policy.victims(&mut table, want, urgency, &mut out);
                assert_eq!(out, model.victims(want, urgency), "{op:?}");
                leave(&mut table, &out);
            }
            Op::VictimsOf(app) => {
                let mut out = Vec::new();
                policy.victims_of(&mut table, AppId(app), &mut out);
                assert_eq!(out, model.victims_of(app), "{op:?}");
                leave(&mut table, &out);
            }
            Op::Free { app, page } => {
                let page = table.find_or_insert(AppId(app), address(page, false));
                if known.remove(&page).is_some() {
                    if table[page].state == PageState::Resident {
                        policy.remove(&mut table, page);
                    }
                    policy.forget(&table, page);
                    table[page].reset();
                    model.free(page);
                }
            }
        }
        for &page in known.keys() {
            assert_eq!(
                policy.hotness(&table, page),
                model.hotness(page),
                "{page:?} after {op:?}"
            );
        }
        for app in 0..3 {
            if let Some(expected) = model.hot_pages(app) {
                assert_eq!(
                    policy.hot_pages(AppId(app)),
                    expected,
                    "app {app} after {op:?}"
                );
            }
        }
    }
}

fn address(number: u64, file: bool) -> PageAddr {
    if file {
        let file = FileId(0);
        PageAddr::File { file, number }
    } else {
        PageAddr::Anon { number }
    }
}

/// The same cases on every run, unless `PROPTEST_CASES` asks for others.
fn for_all<S: Strategy>(strategy: S, check: impl Fn(S::Value)) {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => TestRunner::new(config),
        None => {
            let config = Config {
                cases: 400,
                ..config
            };
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        }
    };
    let outcome = runner.run(&strategy, |value| {
        check(value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

// ---- HotnessOrg ----

#[derive(Default)]
struct HotnessApp {
    /// Hot, warm and cold pages in frames, the next to leave first.
    lists: [Vec<PageId>; 3],
    window: bool,
    room: u64,
}

/// Section 4.2 of the Ariadne paper, written down as it reads.
#[derive(Default)]
struct HotnessModel {
    keep_hot: bool,
    initial_hot: u64,
    apps: BTreeMap<u16, HotnessApp>,
    /// The class of every page that exists, in a frame or not.
    class: BTreeMap<PageId, (u16, Hotness)>,
    referenced: BTreeMap<PageId, bool>,
    /// Least recently used first.
    recency: Vec<u16>,
}

impl HotnessModel {
    fn used(&mut self, app: u16) {
        self.recency.retain(|&other| other != app);
        self.recency.push(app);
    }

    /// Applications in the order in which they give pages: those first whose pages nobody ever asked for.
    fn order(&self) -> Vec<u16> {
        let unused = |app: &u16| !self.recency.contains(app);
        let mut order: Vec<_> = self.apps.keys().copied().filter(unused).collect();
        order.extend(&self.recency);
        order
    }

    fn take_off(&mut self, page: PageId) {
        for app in self.apps.values_mut() {
            app.lists
                .iter_mut()
                .for_each(|list| list.retain(|&p| p != page));
        }
    }

    fn put(&mut self, page: PageId, owner: u16, class: Hotness) {
        self.take_off(page);
        self.class.insert(page, (owner, class));
        self.apps.entry(owner).or_default().lists[class.index()].push(page);
    }

    fn take_from(&mut self, app: u16, class: Hotness, want: usize) -> Vec<PageId> {
        let mut out = Vec::new();
        let Some(app) = self.apps.get_mut(&app) else {
            return out;
        };
        let list = &mut app.lists[class.index()];
        // A warm page that was touched since the last look goes to the back once.
        let mut chances = if class == Hotness::Warm {
            list.len()
        } else {
            0
        };
        while out.len() < want && !list.is_empty() {
            let page = list.remove(0);
            let referenced = self.referenced.insert(page, false).unwrap_or(false);
            if referenced && chances > 0 {
                chances -= 1;
                list.push(page);
            } else {
                out.push(page);
            }
        }
        out
    }
}

impl Model for HotnessModel {
    fn touch(&mut self, page: PageId, owner: u16, _: bool, resident: bool) {
        self.used(owner);
        if resident {
            self.referenced.insert(page, true);
        }
        let before = self.class.get(&page).map(|&(_, class)| class);
        let app = self.apps.entry(owner).or_default();
        let after = if before == Some(Hotness::Hot) {
            Hotness::Hot
        } else if app.window && app.room > 0 {
            app.room -= 1;
            Hotness::Hot
        } else if before.is_none() {
            Hotness::Cold
        } else {
            Hotness::Warm
        };
        if !resident || Some(after) != before {
            self.put(page, owner, after);
        }
    }

    fn arrive(&mut self, page: PageId, owner: u16, _: bool) {
        let class = self
            .class
            .get(&page)
            .map_or(Hotness::Cold, |&(_, class)| class);
        self.put(page, owner, class);
    }

    fn launch_begin(&mut self, app: u16, kind: LaunchKind) {
        self.used(app);
        for (owner, class) in self.class.values_mut() {
            if *owner == app && *class == Hotness::Hot {
                *class = Hotness::Warm;
            }
        }
        let initial = self.initial_hot;
        let app = self.apps.entry(app).or_default();
        let old_hot = std::mem::take(&mut app.lists[Hotness::Hot.index()]);
        app.lists[Hotness::Warm.index()].extend(old_hot);
        app.window = true;
        app.room = if kind == LaunchKind::Cold {
            initial
        } else {
            u64::MAX
        };
    }

    fn launch_end(&mut self, app: u16) {
        self.apps.entry(app).or_default().window = false;
    }

    fn victims(&mut self, want: usize, urgency: Urgency) -> Vec<PageId> {
        let mut out = Vec::new();
        for class in [Hotness::Cold, Hotness::Warm, Hotness::Hot] {
            let spared = class == Hotness::Hot && self.keep_hot && urgency == Urgency::Background;
            for app in self.order() {
                if !spared {
                    out.extend(self.take_from(app, class, want - out.len()));
                }
            }
        }
        out
    }

    fn victims_of(&mut self, app: u16) -> Vec<PageId> {
        let mut out = Vec::new();
        let app = self.apps.entry(app).or_default();
        for class in [Hotness::Cold, Hotness::Warm, Hotness::Hot] {
            if !(class == Hotness::Hot && self.keep_hot) {
                out.append(&mut app.lists[class.index()]);
            }
        }
        out.iter().for_each(|&page| {
            self.referenced.insert(page, false);
        });
        out
    }

    fn free(&mut self, page: PageId) {
        self.take_off(page);
        self.class.remove(&page);
        self.referenced.remove(&page);
    }

    fn hotness(&self, page: PageId) -> Hotness {
        self.class[&page].1
    }

    fn hot_pages(&self, app: u16) -> Option<u64> {
        let hot = |&&(owner, class): &&(u16, Hotness)| owner == app && class == Hotness::Hot;
        Some(self.class.values().filter(hot).count() as u64)
    }
}

#[test]
fn hotness_org_chooses_as_the_paper_says() {
    for (keep_hot, initial) in [(false, u64::MAX), (true, u64::MAX), (false, 5), (true, 0)] {
        let hot = if keep_hot { "keep" } else { "last" };
        let text = format!("hotness:hot={hot},initial-hot={initial}");
        for_all(prop::collection::vec(op(), 1..150), |ops| {
            let mut policy = entry::build("reclaim", reclaim::ENTRIES, &text).unwrap();
            let mut model = HotnessModel {
                keep_hot,
                initial_hot: initial,
                ..HotnessModel::default()
            };
            compare(&mut *policy, &mut model, &ops);
        });
    }
}

#[test]
fn hotness_org_forgets_old_launches_of_file_pages_when_its_launch_counter_wraps() {
    let file = |page| Op::Touch {
        app: 0,
        page,
        file: true,
    };
    let mut ops = vec![Op::LaunchBegin(0, LaunchKind::Cold), file(0), file(1)];
    ops.push(Op::Victims(2, Urgency::Direct));
    for _ in 0..255 {
        ops.push(Op::LaunchBegin(0, LaunchKind::Relaunch));
    }
    ops.push(file(1));
    let mut model = HotnessModel {
        initial_hot: u64::MAX,
        ..HotnessModel::default()
    };
    compare(&mut HotnessOrg::default(), &mut model, &ops);
}

// ---- active and inactive lists ----

/// Two lists for each kind of page, the next to leave first; `true` stands for pages of files.
#[derive(Default)]
struct LruModel {
    inactive: BTreeMap<bool, Vec<PageId>>,
    active: BTreeMap<bool, Vec<PageId>>,
    referenced: BTreeMap<PageId, bool>,
    /// The kind, the owner, and whether the page was last on the active list.
    pages: BTreeMap<PageId, (bool, u16, bool)>,
    /// How many victims anonymous pages owe, in 65536ths.
    owed: i64,
}

impl LruModel {
    fn len(&self, file: bool) -> i64 {
        let len = |lists: &BTreeMap<bool, Vec<PageId>>| lists.get(&file).map_or(0, Vec::len);
        (len(&self.inactive) + len(&self.active)) as i64
    }

    fn push(&mut self, page: PageId, to_active: bool) {
        let entry = self.pages.get_mut(&page).expect("known");
        entry.2 = to_active;
        let lists = if to_active {
            &mut self.active
        } else {
            &mut self.inactive
        };
        lists.entry(entry.0).or_default().push(page);
    }

    fn enter(&mut self, page: PageId, owner: u16, is_file: bool) {
        self.pages.insert(page, (is_file, owner, false));
        self.push(page, false);
    }

    fn one(&mut self, file: bool) -> PageId {
        let mut chances = self.len(file);
        loop {
            let active = self.active.entry(file).or_default();
            let inactive = self.inactive.entry(file).or_default();
            if active.len() > inactive.len() {
                let page = active.remove(0);
                self.referenced.insert(page, false);
                self.push(page, false);
                continue;
            }
            let page = inactive.remove(0);
            let referenced = self.referenced.insert(page, false).unwrap_or(false);
            if !(referenced && chances > 0) {
                return page;
            }
            chances -= 1;
            self.push(page, true);
        }
    }
}

impl Model for LruModel {
    fn touch(&mut self, page: PageId, owner: u16, is_file: bool, resident: bool) {
        self.referenced.insert(page, true);
        if !resident {
            self.enter(page, owner, is_file);
        }
    }

    fn arrive(&mut self, page: PageId, owner: u16, is_file: bool) {
        self.enter(page, owner, is_file);
    }

    fn launch_begin(&mut self, _: u16, _: LaunchKind) {}
    fn launch_end(&mut self, _: u16) {}

    fn victims(&mut self, want: usize, _: Urgency) -> Vec<PageId> {
        let mut out = Vec::new();
        while out.len() < want {
            let (anon, file) = (self.len(false), self.len(true));
            let from_file = match (anon, file) {
                (0, 0) => break,
                (0, _) => true,
                (_, 0) => false,
                _ => {
                    // In proportion to the lengths, by error diffusion.
                    let from_file = self.owed < 0;
                    self.owed += (anon << 16) / (anon + file);
                    self.owed -= if from_file { 0 } else { 1 << 16 };
                    from_file
                }
            };
            out.push(self.one(from_file));
        }
        out
    }

    fn victims_of(&mut self, app: u16) -> Vec<PageId> {
        let mut out = Vec::new();
        for file in [false, true] {
            for lists in [&mut self.inactive, &mut self.active] {
                let list = lists.entry(file).or_default();
                let theirs = |page: &PageId| self.pages[page].1 == app;
                out.extend(list.iter().copied().filter(theirs));
                list.retain(|page| !theirs(page));
            }
        }
        out
    }

    fn free(&mut self, page: PageId) {
        for lists in [&mut self.inactive, &mut self.active] {
            lists
                .values_mut()
                .for_each(|list| list.retain(|&p| p != page));
        }
        self.pages.remove(&page);
        self.referenced.remove(&page);
    }

    fn hotness(&self, page: PageId) -> Hotness {
        if self.pages[&page].2 {
            Hotness::Warm
        } else {
            Hotness::Cold
        }
    }

    fn hot_pages(&self, _: u16) -> Option<u64> {
        None
    }
}

#[test]
fn lru_chooses_as_two_lists_with_second_chance_do() {
    for_all(prop::collection::vec(op(), 1..150), |ops| {
        compare(&mut Lru::default(), &mut LruModel::default(), &ops);
    });
}

// ---- eviction ----

/// Chunks in the order of entry, each with its class.
type Entered = Vec<(ChunkId, Hotness)>;

fn compare_eviction(
    policy: &mut dyn Eviction,
    ops: &[(u32, usize)],
    expected: impl Fn(&Entered) -> Option<ChunkId>,
) {
    let mut entered = Entered::new();
    for &(chunk, class) in ops {
        let chunk = ChunkId(chunk);
        if entered.iter().any(|&(other, _)| other == chunk) {
            policy.remove(chunk);
            entered.retain(|&(other, _)| other != chunk);
        } else {
            policy.insert(chunk, Hotness::ALL[class]);
            entered.push((chunk, Hotness::ALL[class]));
        }
        assert_eq!(policy.victim(), expected(&entered), "{entered:?}");
    }
}

#[test]
fn evictions_name_the_oldest_and_the_oldest_of_the_coldest() {
    for_all(
        prop::collection::vec((0..40_u32, 0..3_usize), 1..300),
        |ops| {
            compare_eviction(&mut LruChunks::default(), &ops, |entered| {
                entered.first().map(|&(chunk, _)| chunk)
            });
            compare_eviction(&mut Coldest::default(), &ops, |entered| {
                let coldest = entered.iter().map(|&(_, class)| class).max()?;
                let oldest = entered.iter().find(|&&(_, class)| class == coldest)?;
                Some(oldest.0)
            });
        },
    );
}
