//! How alike the footprints of ten switches are (ASAP Figures 5 to 7 and section 4.1), and how much of them is of large
//! files (Figure 10 and section 5.2).
//!
//! For each page that the launch windows of some relaunches in a row touch: how many of them do? Anonymous
//! pages and pages of files apart; nothing is replayed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::{LaunchKind, PageAddr};
use warmswap_policy::prefetch::footprint::Profiler;
use warmswap_policy::prefetch::footprint::profile::{KEPT_ABOVE_TENTHS, PROFILE_SWITCHES};
use warmswap_trace::{EventKind, FileInfo};

use crate::error::StudyError;
use crate::mean::{mean, share};
use crate::paper::Published;
use crate::subject::Subject;
use warmswap_columns::Described;

/// Share of the pages of files that nine or ten of ten switches touch.
pub const PAPER_FILE_INVARIANT: Published = Published::new(0.75, "ASAP, Figure 5 and section 4.1");

/// Share of the anonymous pages that nine or ten of ten switches touch.
pub const PAPER_ANON_INVARIANT: Published = Published::new(0.44, "ASAP, Figure 6 and section 4.1");

/// The largest files of Figure 10, as a share of all: section 5.2.
pub const LARGEST_SHARE: f64 = 0.15;

/// Share of the accessed pages of files that the largest [`LARGEST_SHARE`] of the files have.
pub const PAPER_OF_LARGEST: Published = Published::new(0.9, "ASAP, Figure 10 and section 5.2");

/// Which pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageOrigin {
    /// Of the application's own memory.
    Anonymous,
    /// Of files.
    File,
}

impl PageOrigin {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Anonymous, Self::File];

    /// The paper's share of invariant pages.
    pub fn paper(self) -> Published {
        match self {
            Self::Anonymous => PAPER_ANON_INVARIANT,
            Self::File => PAPER_FILE_INVARIANT,
        }
    }

    fn paper_of_largest(self) -> Option<Published> {
        (self == Self::File).then_some(PAPER_OF_LARGEST)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::File => "file",
        }
    }

    fn of(page: PageAddr) -> Self {
        match page {
            PageAddr::Anon { .. } => Self::Anonymous,
            PageAddr::File { .. } => Self::File,
        }
    }
}

/// One application and one kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
pub struct SwitchFootprint {
    /// The trace.
    #[column]
    pub trace: String,
    /// The application.
    #[column]
    pub app: String,
    /// Which pages.
    #[column(text, with = PageOrigin::name)]
    pub memory: PageOrigin,
    /// Relaunches that were looked at: the first ten, or all if there are fewer.
    #[column]
    pub switches: u32,
    /// Mean number of pages that one of them touches (Figure 7).
    #[column(count, "pages each")]
    pub pages: f64,
    /// Distinct pages that they touch together, by how many of them touch a page; the place is the number.
    pub by_switches: Vec<u64>,
    /// Share of the distinct pages that more than eight tenths of the switches touch: with ten, 9 or 10.
    #[column(percent, "9, 10 of 10", paper = self.memory.paper())]
    pub invariant: f64,
    /// Share of them that less than half of the switches touch.
    #[column(percent, "under 5")]
    pub rare: f64,
    /// Of the pages of files that the switches touch, the share that is of the largest 15 % of the files (Figure 10).
    #[serde(default)]
    #[column(percent, "of largest", paper = self.memory.paper_of_largest())]
    pub of_largest: Option<f64>,
    /// Whether pages of files left memory before each relaunch of the recording, so that the accesses to them are in it.
    #[serde(default)]
    pub cold_files: bool,
}

#[derive(Default)]
struct Windows {
    profilers: [Profiler<u32>; 2],
    /// Pages of each finished window, one entry for each.
    pages: [Vec<u64>; 2],
    touched: [rustc_hash::FxHashSet<(u32, u64)>; 2],
    /// Pages of each file in the windows, counted once for each window.
    of_files: rustc_hash::FxHashMap<u32, u64>,
    is_open: bool,
}

/// Looks at the first ten relaunches of every application; those with fewer than two are left out. One pass
/// over each trace.
///
/// # Errors
/// A trace cannot be read.
pub fn switches(subjects: &[Subject]) -> Result<Vec<SwitchFootprint>, StudyError> {
    let mut rows = Vec::new();
    for subject in subjects {
        let names = subject.app_names();
        let mut apps: Vec<Windows> = names.iter().map(|_| Windows::default()).collect();
        let mut events = subject.reader.events();
        let mut block = Vec::new();
        while events.next_block(&mut block)? {
            for event in &block {
                // The reader has checked that every application is in the table.
                apps[usize::from(event.app.0)].event(event.kind);
            }
        }
        for (name, app) in names.iter().zip(&apps) {
            let of_kind = |memory| {
                let row = app.row(&subject.name, name, memory)?;
                let files = subject.reader.files();
                Some(SwitchFootprint {
                    of_largest: (memory == PageOrigin::File)
                        .then(|| app.of_largest(files))
                        .flatten(),
                    cold_files: subject.has_cold_files(),
                    ..row
                })
            };
            rows.extend(PageOrigin::ALL.into_iter().filter_map(of_kind));
        }
    }
    Ok(rows)
}

impl Windows {
    fn event(&mut self, kind: EventKind) {
        match kind {
            EventKind::LaunchBegin(kind) => {
                self.close();
                let enough = self.profilers[0].windows() >= PROFILE_SWITCHES;
                self.is_open = kind == LaunchKind::Relaunch && !enough;
            }
            EventKind::LaunchEnd | EventKind::Background | EventKind::Exit => self.close(),
            EventKind::Access { page, .. } if self.is_open => {
                let key = match page {
                    PageAddr::Anon { number } => (0, number),
                    PageAddr::File { file, number } => (file.0, number),
                };
                let memory = PageOrigin::of(page) as usize;
                self.profilers[memory].accessed(key.0, key.1);
                let is_new = self.touched[memory].insert(key);
                if let (PageAddr::File { file, .. }, true) = (page, is_new) {
                    *self.of_files.entry(file.0).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            for memory in PageOrigin::ALL.map(|memory| memory as usize) {
                self.profilers[memory].window_end();
                self.pages[memory].push(self.touched[memory].len() as u64);
                self.touched[memory].clear();
            }
        }
    }

    /// The share of the accessed pages that is of the largest files among those accessed.
    fn of_largest(&self, files: &[FileInfo]) -> Option<f64> {
        let size = |file: u32| files.get(file as usize).map_or(0, |info| info.size_bytes);
        let mut by_size: Vec<(u64, u64)> = self
            .of_files
            .iter()
            .map(|(&file, &pages)| (size(file), pages))
            .collect();
        by_size.sort_unstable_by(|a, b| b.cmp(a));
        let largest = (by_size.len() as f64 * LARGEST_SHARE).ceil() as usize;
        let pages = |files: &[(u64, u64)]| files.iter().map(|&(_, pages)| pages).sum();
        share(pages(&by_size[..largest]), pages(&by_size))
    }

    fn row(&self, trace: &str, app: &str, memory: PageOrigin) -> Option<SwitchFootprint> {
        let profiler = &self.profilers[memory as usize];
        let switches = profiler.windows();
        let by_switches = profiler.histogram();
        let total: u64 = by_switches.iter().sum();
        let pages_of = |wanted: &dyn Fn(u32) -> bool| {
            let counts = (0_u32..).zip(&by_switches);
            counts
                .filter(|&(n, _)| wanted(n))
                .map(|(_, &pages)| pages)
                .sum()
        };
        let invariant = share(pages_of(&|n| n * 10 > KEPT_ABOVE_TENTHS * switches), total)?;
        let rare = share(pages_of(&|n| n * 2 < switches), total)?;
        (switches >= 2).then(|| SwitchFootprint {
            trace: trace.to_owned(),
            app: app.to_owned(),
            memory,
            switches,
            pages: mean(self.pages[memory as usize].iter().map(|&n| n as f64)).unwrap_or_default(),
            by_switches,
            invariant,
            rare,
            of_largest: None,
            cold_files: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Script;
    use warmswap_page::FileId;

    #[test]
    fn pages_are_counted_by_the_switches_that_touch_them() {
        let mut script = Script::new(2);
        script.launch(0, &[1, 2, 3]).launch(1, &[1]);
        script.launch(0, &[1, 2, 2, 9]).execute(0, &[5]);
        script
            .launch(0, &[1, 9])
            .launch(0, &[1, 9, 7])
            .launch(0, &[1]);
        let rows = switches(&[script.subject()]).unwrap();
        assert_eq!(rows.len(), 1, "one relaunch is not enough, nor is no file");
        let row = &rows[0];
        assert_eq!((row.switches, row.memory), (4, PageOrigin::Anonymous));
        assert_eq!(row.by_switches, [0, 2, 0, 1, 1]);
        assert_eq!(row.pages, 9.0 / 4.0);
        assert_eq!((row.invariant, row.rare), (0.25, 0.5));
    }

    #[test]
    fn pages_of_the_largest_files_are_told_from_those_of_the_others() {
        let files: Vec<FileInfo> = (0..8)
            .map(|n| FileInfo {
                path: format!("/lib/{n}"),
                device: 1,
                inode: n,
                size_bytes: n << 20,
            })
            .collect();
        let mut windows = Windows::default();
        let begin = EventKind::LaunchBegin(LaunchKind::Relaunch);
        let read = |file, number| EventKind::Access {
            page: PageAddr::File {
                file: FileId(file),
                number,
            },
            write: false,
            content: None,
        };
        assert_eq!(windows.of_largest(&files), None);
        // Two of the eight files are the largest 15 %, rounded up: six of seven pages.
        windows.event(begin);
        for (file, number) in [(7, 1), (7, 2), (7, 2), (6, 1), (0, 1)] {
            windows.event(read(file, number));
        }
        for file in 1..6 {
            windows.of_files.insert(file, 0);
        }
        windows.event(EventKind::LaunchEnd);
        windows.event(begin);
        for (file, number) in [(7, 1), (7, 2), (6, 1)] {
            windows.event(read(file, number));
        }
        assert_eq!(windows.of_largest(&files), Some(6.0 / 7.0));
    }

    #[test]
    fn the_first_ten_switches_count() {
        let mut script = Script::new(1);
        script.launch(0, &[1]);
        for _ in 0..10 {
            script.launch(0, &[1, 2]);
        }
        script.launch(0, &[3]);
        let rows = switches(&[script.subject()]).unwrap();
        assert_eq!((rows[0].switches, rows[0].invariant), (10, 1.0));
    }
}
