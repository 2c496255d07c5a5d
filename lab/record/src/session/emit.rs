//! From what happened in a period to the events of the trace.

use warmswap_page::PAGE_BYTES;
use warmswap_page::{LaunchKind, PageAddr};
use warmswap_sys::advise::PageRange;
use warmswap_sys::monotonic_ns;
use warmswap_trace::EventKind;

use super::{Scans, Session, What, Window};
use crate::error::RecordError;
use crate::subject::Subject;
use crate::summary::{RelaunchSummary, similarity};
use crate::tape::Change;

impl Session<'_> {
    /// Writes all that happened, by time, then what the scans of the application at `place` found besides.
    pub(super) fn write_queue(
        &mut self,
        place: usize,
        scans: &mut Scans,
    ) -> Result<(), RecordError> {
        let mut queue = std::mem::take(&mut self.queue);
        queue.sort_by_key(|entry| entry.time_ns);
        for entry in queue {
            match entry.what {
                What::Mark(kind) => {
                    // A sample follows the end of a window at once: what came back belongs to the window.
                    if kind == EventKind::LaunchEnd && entry.app == place {
                        self.write_unseen(place, entry.time_ns, scans)?;
                    }
                    self.write_mark(entry.app, entry.time_ns, kind)?;
                }
                What::Touch { pid, address } => {
                    self.write_touch(entry.app, entry.time_ns, (pid, address), scans)?
                }
            }
        }
        if place < self.apps.len() {
            let time_ns = monotonic_ns();
            self.write_unseen(place, time_ns, scans)?;
            self.write_rest(place, time_ns, scans)?;
        }
        Ok(())
    }

    fn write_mark(
        &mut self,
        place: usize,
        time_ns: u64,
        kind: EventKind,
    ) -> Result<(), RecordError> {
        let app = &mut self.apps[place];
        self.tape.event(time_ns, app.id, kind)?;
        match kind {
            EventKind::LaunchBegin(launch) => {
                app.window = Some(Window {
                    relaunch: launch == LaunchKind::Relaunch,
                    ..Window::default()
                });
            }
            EventKind::LaunchEnd => {
                if let Some(window) = app.window.take().filter(|w| w.relaunch) {
                    app.summary.relaunches.push(RelaunchSummary {
                        latency_ns: 0,
                        pages: window.pages.len() as u64,
                        similarity: app
                            .last_window
                            .as_ref()
                            .map(|last| similarity(last, &window.pages)),
                    });
                    app.last_window = Some(window.pages);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// One fault: an access, unless the page was reported in this period already.
    fn write_touch(
        &mut self,
        place: usize,
        time_ns: u64,
        (pid, address): (u32, u64),
        scans: &mut Scans,
    ) -> Result<(), RecordError> {
        let app = &mut self.apps[place];
        let Some(subject) = app.subjects.iter_mut().find(|s| s.process.pid() == pid) else {
            return Ok(());
        };
        let number = address / PAGE_BYTES as u64;
        if subject.reported.contains(&number) {
            return Ok(());
        }
        let seen = scans
            .get_mut(&pid)
            .and_then(|scan| scan.seen.get_mut(&number));
        let (page, change) = match seen {
            Some(seen) => (seen.page, std::mem::replace(&mut seen.change, Change::Same)),
            None => match subject.resolve(address, &mut self.tape)? {
                Some(page) => (page, Change::Same),
                None => return Ok(()),
            },
        };
        if matches!(page, PageAddr::File { .. }) && !self.config.files {
            return Ok(());
        }
        subject.reported.insert(number);
        self.write_access(place, time_ns, page, change)
    }

    fn write_access(
        &mut self,
        place: usize,
        time_ns: u64,
        page: PageAddr,
        change: Change,
    ) -> Result<(), RecordError> {
        let app = &mut self.apps[place];
        let write = matches!(change, Change::Written(_));
        self.tape.event(
            time_ns,
            app.id,
            EventKind::Access {
                page,
                write,
                content: change.content(),
            },
        )?;
        app.summary.accesses += 1;
        app.summary.writes += u64::from(write);
        if let Some(window) = &mut app.window {
            window.pages.insert(page);
        }
        if let Some(dropper) = &mut self.dropper {
            dropper.accessed(page);
        }
        Ok(())
    }

    /// Pages that are there again without a fault event: anonymous ones were touched by the kernel for the
    /// process, pages of files were mapped along with a neighbour.
    fn write_unseen(
        &mut self,
        place: usize,
        time_ns: u64,
        scans: &mut Scans,
    ) -> Result<(), RecordError> {
        let mut unseen = Vec::new();
        let app = &mut self.apps[place];
        for subject in &mut app.subjects {
            let Some(scan) = scans.get_mut(&subject.process.pid()) else {
                continue;
            };
            for number in scan.order().to_vec() {
                let Some(seen) = scan.seen.get_mut(&number) else {
                    continue;
                };
                if !seen.came_back || subject.reported.contains(&number) {
                    continue;
                }
                subject.reported.insert(number);
                if matches!(seen.page, PageAddr::Anon { .. }) {
                    unseen.push((seen.page, std::mem::replace(&mut seen.change, Change::Same)));
                } else {
                    app.summary.pages_mapped_around += 1;
                }
            }
        }
        app.summary.accesses_without_fault += unseen.len() as u64;
        for (page, change) in unseen {
            self.write_access(place, time_ns, page, change)?;
        }
        Ok(())
    }

    /// Contents that no access has told, and pages that were given back.
    fn write_rest(
        &mut self,
        place: usize,
        time_ns: u64,
        scans: &mut Scans,
    ) -> Result<(), RecordError> {
        let app = &self.apps[place];
        let pids: Vec<u32> = app
            .subjects
            .iter()
            .map(|s: &Subject| s.process.pid())
            .collect();
        for pid in pids {
            let Some(scan) = scans.get(&pid) else {
                continue;
            };
            for seen in scan.order().iter().map(|number| scan.seen[number]) {
                if let Some(content) = seen.change.content() {
                    self.tape.event(
                        time_ns,
                        self.apps[place].id,
                        EventKind::Content {
                            page: seen.page,
                            content,
                        },
                    )?;
                }
            }
            for &range in &scan.freed {
                self.write_free(place, time_ns, range)?;
            }
        }
        Ok(())
    }

    /// Pages that are no longer used. `range` is one of page numbers, the process's place included.
    pub(super) fn write_free(
        &mut self,
        place: usize,
        time_ns: u64,
        range: PageRange,
    ) -> Result<(), RecordError> {
        let app = &mut self.apps[place];
        app.summary.pages_freed += range.count;
        let (mut first, mut left) = (range.first, range.count);
        while left > 0 {
            let pages = u32::try_from(left).unwrap_or(u32::MAX);
            let page = PageAddr::Anon { number: first };
            self.tape
                .event(time_ns, app.id, EventKind::Free { page, pages })?;
            first += u64::from(pages);
            left -= u64::from(pages);
        }
        Ok(())
    }
}
