//! HotnessOrg, three lists for each application.

use super::Model;
use std::collections::BTreeMap;
use warmswap_page::LaunchKind;
use warmswap_policy::reclaim::Urgency;
use warmswap_policy::{Hotness, PageId};

#[derive(Default)]
struct HotnessApp {
    /// Hot, warm and cold pages in frames, the next to leave first.
    lists: [Vec<PageId>; 3],
    window: bool,
    room: u64,
}

/// Section 4.2 of the Ariadne paper, written down as it reads.
#[derive(Default)]
pub struct HotnessModel {
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
    /// With hot pages excluded or not, and so many of them from a first launch.
    pub fn new(keep_hot: bool, initial_hot: u64) -> Self {
        Self {
            keep_hot,
            initial_hot,
            ..Self::default()
        }
    }

    fn used(&mut self, app: u16) {
        self.recency.retain(|&other| other != app);
        self.recency.push(app);
    }

    /// Applications in the order in which they give pages: those first whose pages were never asked for.
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
        // It was not asked for, so it is the first of its class to leave.
        let list = &mut self.apps.entry(owner).or_default().lists[class.index()];
        list.rotate_right(1);
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
