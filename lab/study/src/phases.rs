//! What each launch of a trace used: hot pages in its window, warm ones after it.

use rustc_hash::FxHashMap;
use warmswap_page::{LaunchKind, PageAddr};
use warmswap_trace::{Event, EventKind, TraceError, TraceReader};

/// The anonymous pages that one launch used, by page number, in the order of their first touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPages {
    /// How the application came to the foreground.
    pub kind: LaunchKind,
    /// Touched in the launch window.
    pub hot: Vec<u64>,
    /// Touched from its end to the next launch, and not hot.
    pub warm: Vec<u64>,
}

#[derive(Default)]
struct LaunchHistory {
    launches: Vec<LaunchPages>,
    in_window: bool,
    /// The launch in which each page was last touched, from 1.
    used_in: FxHashMap<u64, u32>,
}

/// The launches of each application, in order; the place is the [`AppId`](warmswap_page::AppId). One
/// pass. Memory: 8 bytes for each page that a launch used, and 12 for each page.
///
/// # Errors
/// The trace cannot be read.
pub fn launch_pages(trace: &TraceReader) -> Result<Vec<Vec<LaunchPages>>, TraceError> {
    let mut apps: Vec<LaunchHistory> = trace
        .apps()
        .iter()
        .map(|_| LaunchHistory::default())
        .collect();
    let mut events = trace.events();
    let mut block: Vec<Event> = Vec::new();
    while events.next_block(&mut block)? {
        for event in &block {
            // The reader has checked that every application is in the table.
            apps[usize::from(event.app.0)].event(event.kind);
        }
    }
    Ok(apps.into_iter().map(|app| app.launches).collect())
}

impl LaunchHistory {
    fn event(&mut self, kind: EventKind) {
        match kind {
            EventKind::LaunchBegin(kind) => {
                self.in_window = true;
                self.launches.push(LaunchPages {
                    kind,
                    hot: Vec::new(),
                    warm: Vec::new(),
                });
            }
            EventKind::LaunchEnd | EventKind::Background | EventKind::Exit => {
                self.in_window = false;
            }
            EventKind::Access {
                page: PageAddr::Anon { number },
                ..
            } => {
                let serial = self.launches.len() as u32;
                let Some(launch) = self.launches.last_mut() else {
                    return;
                };
                if self.used_in.insert(number, serial) != Some(serial) {
                    if self.in_window {
                        launch.hot.push(number);
                    } else {
                        launch.warm.push(number);
                    }
                }
            }
            _ => {}
        }
    }
}
