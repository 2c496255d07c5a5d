//! Touches of pages that stay in memory: by their accessed bits where those can be read, or held to be by evidence.
//!
//! The bits are cleared when an application goes to the background, while memory is short. What is set when its next launch
//! ends was touched since then; what is set besides when it goes to the background again was touched in its use. Between
//! these, the bits of what stirs are read now and then, and cleared when they are old, so that what is always in use is told
//! from what was used once.

use std::cmp::Reverse;
use std::time::Duration;

use warmswap_engine::Unseen;
use warmswap_page::PageAddr;
use warmswap_policy::reclaim::Arrival;
use warmswap_sys::monotonic_ns;

use super::app::{App, addr};
use super::core::{Core, UNBOUNDED_BYTES};
use super::is_due;
use crate::prepage::thread_cpu_ns;

/// Accessed bits of an application that works on are cleared this often.
const CLEAR_INTERVAL: Duration = Duration::from_secs(10);

impl Core {
    /// A launch ends: tells the engine which pages were touched in it, of those that stayed in memory. How many they are.
    pub fn note_launch_touches(&mut self, app: &mut App) -> u64 {
        let are_seen = app.accessed_since_ns.is_some();
        if are_seen {
            self.engine.set_unseen(Unseen::Files);
            self.see_touches(app)
        } else {
            self.engine.set_unseen(Unseen::All);
            self.presume_touches(app)
        }
    }

    /// The application goes to the background: tells the engine what else was touched.
    pub fn note_use_touches(&mut self, app: &mut App) {
        if app.accessed_since_ns.is_some() {
            self.see_touches(app);
        }
    }

    /// The same between events, for what stirs. Old bits are cleared.
    pub fn note_touches_meanwhile(&mut self, app: &mut App, now_ns: u64) {
        if app.accessed_since_ns.is_none()
            || !app
                .processes
                .iter()
                .any(|process| process.stirs(&self.root))
        {
            return;
        }
        self.see_touches(app);
        if is_due(app.accessed_since_ns, CLEAR_INTERVAL, now_ns) {
            self.clear_accessed(app);
        }
    }

    /// Clears the accessed bits of an application, so that they tell what is touched from now on. With ample memory nobody
    /// asks, and they say nothing.
    pub fn clear_accessed(&mut self, app: &mut App) {
        app.accessed_since_ns = None;
        if self.accessed.is_err() || self.is_ample() {
            return;
        }
        let begin = thread_cpu_ns();
        for process in app.processes.iter_mut() {
            // One whose bits cannot be cleared has touched all its pages.
            let _ = process.clear_accessed(&self.root);
        }
        app.accessed_since_ns = Some(monotonic_ns());
        self.counters.access_clears += 1;
        self.count_access_cpu(app, begin);
    }

    /// Counts what accessed bits cost since then, in CPU time of this thread.
    fn count_access_cpu(&mut self, app: &mut App, begin_cpu_ns: u64) {
        let spent_ns = thread_cpu_ns() - begin_cpu_ns;
        app.sums.cpu_ns += spent_ns;
        self.counters.access_cpu_ns += spent_ns;
    }

    /// Reads the accessed bits of an application, and tells the engine of what they are news of: in a launch what was
    /// touched longest ago first, so that it leaves before the others. How many pages that is.
    fn see_touches(&mut self, app: &mut App) -> u64 {
        let Ok(accessed) = &mut self.accessed else {
            return 0;
        };
        let begin = thread_cpu_ns();
        let mut touched: Vec<(Reverse<u8>, PageAddr)> = Vec::new();
        let mut news = Vec::new();
        let (launch, is_launch) = (app.launch, app.window.is_some());
        for process in app.processes.iter_mut() {
            news.clear();
            // A program that cannot run any more tells nothing.
            if process.accessed(accessed, &self.root, &mut news).is_err() {
                continue;
            }
            let slice = process.slice();
            for &page in &news {
                let age = process.pages.age(page, launch, u8::MAX).unwrap_or(u8::MAX);
                if is_launch {
                    process.pages.mark_seen(page, launch);
                }
                touched.push((Reverse(age), addr(slice, page)));
            }
        }
        touched.sort_by_key(|&(age, _)| age);
        self.engine.set_budget_bytes(UNBOUNDED_BYTES);
        for &(_, page) in &touched {
            self.engine.served(app.id, page, Arrival::Touched);
        }
        self.drain();
        let count = touched.len() as u64;
        self.counters.accesses_seen += count;
        self.count_access_cpu(app, begin);
        count
    }

    /// Pages that stayed in memory, and that there is evidence for, are held to be touched in the launch under
    /// way: those with the oldest evidence first, so that they leave before the others. How many they are.
    fn presume_touches(&mut self, app: &App) -> u64 {
        let mut held: Vec<(Reverse<u8>, PageAddr)> = Vec::new();
        for process in app.processes.iter() {
            let pages = process.pages.held(app.launch, self.evidence_launches);
            held.extend(pages.map(|(page, age)| (Reverse(age), addr(process.slice(), page))));
        }
        held.sort_by_key(|&(age, _)| age);
        for &(_, page) in &held {
            self.engine.presume_touched(app.id, page);
        }
        held.len() as u64
    }
}
