//! When each access of a trace is followed by another of the same page: for a clairvoyant reclaim.

use rustc_hash::FxHashMap;
use warmswap_page::{AppId, FileId, LaunchKind, PageAddr};
use warmswap_policy::reclaim::NextUse;
use warmswap_trace::{Event, EventKind, TraceError};

/// A page over the whole trace: of an application that did not end in between, or of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Anon { app: AppId, life: u32, number: u64 },
    File { file: FileId, number: u64 },
}

impl Key {
    /// Whether it is from `first` on and before `end`, which differ in their numbers alone.
    fn is_within(&self, first: &Self, end: &Self) -> bool {
        (first..end).contains(&self)
    }
}

/// What of an event matters here.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Access of a page, by its number among all pages, in the launch window of a relaunch or not.
    Access {
        page: u32,
        in_window: bool,
    },
    /// Up to so many pages are freed, whose numbers begin there in the list of freed pages.
    Free {
        from: u32,
        to: u32,
    },
    Other,
}

/// When each access is followed by the next one. 8 bytes for each event of the trace.
#[derive(Debug, Default)]
pub struct Future {
    by_event: Vec<NextUse>,
}

#[derive(Debug, Default)]
struct AppLife {
    life: u32,
    in_relaunch: bool,
}

impl Future {
    /// Reads a trace to its end. Traces have fewer than 2^32 events.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn of(
        events: impl IntoIterator<Item = Result<Event, TraceError>>,
    ) -> Result<Self, TraceError> {
        let mut pages: FxHashMap<Key, u32> = FxHashMap::default();
        let mut apps: Vec<AppLife> = Vec::new();
        let mut freed: Vec<u32> = Vec::new();
        let mut uses: Vec<Use> = Vec::new();
        for event in events {
            let event = event?;
            let index = usize::from(event.app.0);
            if apps.len() <= index {
                apps.resize_with(index + 1, AppLife::default);
            }
            let app = &mut apps[index];
            let key = |addr, more| match addr {
                PageAddr::Anon { number } => Key::Anon {
                    app: event.app,
                    life: app.life,
                    number: number.saturating_add(more),
                },
                PageAddr::File { file, number } => Key::File {
                    file,
                    number: number.saturating_add(more),
                },
            };
            let mut found = Use::Other;
            match event.kind {
                EventKind::Access { page, .. } => {
                    let new = pages.len() as u32;
                    found = Use::Access {
                        page: *pages.entry(key(page, 0)).or_insert(new),
                        in_window: app.in_relaunch,
                    };
                }
                EventKind::Free { page, pages: count } => {
                    let from = freed.len() as u32;
                    let (first, end) = (key(page, 0), key(page, count.into()));
                    // Whichever is less: the pages that are freed, or those that are known.
                    if u64::from(count) > pages.len() as u64 {
                        let among = pages.iter().filter(|(key, _)| key.is_within(&first, &end));
                        freed.extend(among.map(|(_, page)| page));
                    } else {
                        let all = (0..u64::from(count)).map(|more| key(page, more));
                        freed.extend(all.filter_map(|key| pages.get(&key)));
                    }
                    let to = freed.len() as u32;
                    found = Use::Free { from, to };
                }
                EventKind::LaunchBegin(kind) => app.in_relaunch = kind == LaunchKind::Relaunch,
                EventKind::LaunchEnd | EventKind::Background => app.in_relaunch = false,
                EventKind::Exit => {
                    app.life += 1;
                    app.in_relaunch = false;
                }
                EventKind::Content { .. } => {}
            }
            uses.push(found);
        }
        Ok(Self::backwards(&uses, &freed, pages.len()))
    }

    fn backwards(uses: &[Use], freed: &[u32], pages: usize) -> Self {
        let mut next = vec![NextUse::NEVER; pages];
        let mut by_event = vec![NextUse::NEVER; uses.len()];
        for (index, found) in uses.iter().enumerate().rev() {
            let at = index as u32;
            match *found {
                Use::Access { page, in_window } => {
                    let next = &mut next[page as usize];
                    by_event[index] = *next;
                    next.at = at;
                    if in_window {
                        next.in_window = at;
                    }
                }
                // What comes after is another content, which does not come back from anywhere.
                Use::Free { from, to } => {
                    for &page in &freed[from as usize..to as usize] {
                        next[page as usize] = NextUse::NEVER;
                    }
                }
                Use::Other => {}
            }
        }
        Self { by_event }
    }

    /// When the page that event `index` accesses is used after it.
    pub fn after(&self, index: u64) -> NextUse {
        let found = self.by_event.get(index as usize);
        found.copied().unwrap_or(NextUse::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(app: u16, kind: EventKind) -> Result<Event, TraceError> {
        Ok(Event {
            time_ns: 0,
            app: AppId(app),
            kind,
        })
    }

    fn access(app: u16, number: u64) -> Result<Event, TraceError> {
        let page = PageAddr::Anon { number };
        let kind = EventKind::Access {
            page,
            write: false,
            content: None,
        };
        event(app, kind)
    }

    #[test]
    fn the_next_use_is_that_of_the_same_page_in_the_same_life() {
        // As many pages as there are, and far more.
        for pages in [4, u32::MAX] {
            check(pages);
        }
    }

    fn check(pages: u32) {
        let free = EventKind::Free {
            page: PageAddr::Anon { number: 1 },
            pages,
        };
        let events = [
            access(0, 1),
            access(1, 1),
            access(0, 2),
            event(0, EventKind::LaunchBegin(LaunchKind::Relaunch)),
            access(0, 1),
            event(0, EventKind::LaunchEnd),
            access(0, 1),
            event(0, free),
            access(0, 1),
            access(0, 2),
            access(1, 1),
            event(1, EventKind::Exit),
            access(1, 1),
        ];
        let future = Future::of(events).expect("the events are whole");
        let never = u32::MAX;
        let after = |index| {
            let next = future.after(index);
            (next.at, next.in_window)
        };
        assert_eq!(after(0), (4, 4), "in the window");
        assert_eq!(after(1), (10, never), "of the other application");
        assert_eq!(after(2), (never, never), "it is freed before");
        assert_eq!(after(4), (6, never));
        assert_eq!(after(6), (never, never));
        assert_eq!(after(10), (never, never), "the application ended");
    }
}
