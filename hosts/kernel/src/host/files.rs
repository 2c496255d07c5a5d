//! Pages of files in launches: what of them is mapped is looked at when a window opens and when it closes, and what
//! belongs to the footprint is read ahead (ASAP sections 4.2 and 5.2).
//!
//! The engine holds no pages of files between two launches: the kernel drops clean ones for nothing, and sees every
//! access to them that is not by a mapping.

use rustc_hash::FxHashSet;
use warmswap_page::{FileId, PageAddr};
use warmswap_policy::reclaim::Arrival;
use warmswap_sys::pagemap::Residence;

use super::app::App;
use super::core::Core;
use crate::files::joined;
use crate::pages::{ALL, Change, Pages, What, note};
use crate::watch::Watched;

/// The kernel maps so many pages of a file around the one that is touched, if they are in memory, and reads at least as
/// many around one that is not.
const AROUND_PAGES: u64 = 16;

/// Pages of files that the engine holds for a launch.
type Held = Vec<(FileId, u64)>;

/// What a launch made of pages of files.
#[derive(Default)]
pub(super) struct FilesOfLaunch {
    held: Held,
    /// Pages that were touched first in the launch, and had not been read ahead.
    pub faults: u64,
    /// Pages that were read ahead and touched.
    pub used: u64,
    /// Pages that are held to be touched, since they were lately.
    pub kept: u64,
}

impl Core {
    /// Looks at what the application has mapped of files, where it is not to be told `exactly` only in processes that have
    /// more or less of it mapped than at the last look; what came since then.
    pub fn look_at_files(&mut self, app: &mut App, exactly: bool) -> Vec<(FileId, Change)> {
        for process in app.processes.iter_mut() {
            match process.look_at_files(&self.root, &mut self.names, exactly) {
                Ok(()) => {}
                Err(e) if e.is_gone() => self.counters.process_gone += 1,
                Err(_) => self.counters.process_unreadable += 1,
            }
        }
        let ranges = app.processes.iter().flat_map(|p| p.files.ranges());
        let now = joined(ranges.copied());
        let (mut came, mut changes) = (Vec::new(), Vec::new());
        for &file in now.keys() {
            app.files.entry(file).or_insert_with(Pages::of_file);
        }
        for (&file, pages) in &mut app.files {
            let mut fresh = Vec::new();
            let regions = now.get(&file).into_iter().flatten();
            regions.for_each(|&region| note(&mut fresh, region));
            pages.compare(ALL, &fresh, &mut changes);
            let is_news = |change: &Change| change.what != What::Left;
            came.extend(
                changes
                    .drain(..)
                    .filter(is_news)
                    .map(|change| (file, change)),
            );
        }
        // What no process maps any more is not known any more.
        let processes = &app.processes;
        app.files
            .retain(|&file, pages| pages.present() > 0 || is_mapped(processes, file));
        came
    }

    /// Finds out what is missing of the pages of files that belong to the footprint of the launch that begins, and is worth
    /// reading: the process of the application that has it mapped, and the number of the page there, in the same order.
    /// What is mapped was just looked at.
    pub fn files_ahead(
        &mut self,
        app: &mut App,
        footprint: &[(FileId, u64)],
        room_pages: u64,
    ) -> Vec<(usize, u64)> {
        let Some(window) = &mut app.window else {
            return Vec::new();
        };
        let mut missing = Vec::new();
        let mut present_pages = 0;
        for of_file in footprint.chunk_by(|a, b| a.0 == b.0) {
            let file = of_file[0].0;
            let pages = app.files.get(&file);
            let is_present =
                |page| pages.is_some_and(|pages| pages.residence(page) == Some(Residence::Present));
            let mut processes: Vec<_> = app.processes.iter().enumerate().collect();
            processes.retain(|(_, process)| process.files.maps(file));
            for &(_, page) in of_file {
                let mut places = processes
                    .iter()
                    .filter_map(|(at, process)| Some((*at, process.files.place(file, page)?)));
                if is_present(page) {
                    present_pages += 1;
                    window.files.unseen.push((file, page));
                } else if let Some(place) = places.next() {
                    missing.push(((file, page), place));
                } else {
                    // No process maps it any more.
                    window.files.left.push((file, page));
                }
            }
        }
        let missing_pages = missing.len() as u64;
        let worth = self
            .engine
            .files_to_read(app.id, missing_pages, present_pages);
        let most = usize::try_from(worth.min(room_pages)).unwrap_or(usize::MAX);
        let left_out = missing.split_off(most.min(missing.len()));
        window.files.left.extend(left_out.iter().map(|m| m.0));
        for &(file, page) in &window.files.left {
            self.engine.file_left(app.id, file, page);
        }
        for &((file, page), _) in &missing {
            window.files.read.push((file, page));
            let pages = app.files.get_mut(&file);
            pages.into_iter().for_each(|pages| pages.mark_ahead(page));
        }
        missing.into_iter().map(|m| m.1).collect()
    }

    /// Tells the engine what the launch that ends touched of files. Where memory was ample when it began nothing was
    /// read ahead, and nothing is learned.
    pub fn learn_files(&mut self, app: &mut App) -> FilesOfLaunch {
        let mut launch = FilesOfLaunch::default();
        let learns = app.window.as_ref().is_some_and(|w| w.learns_files);
        let came = if learns {
            self.look_at_files(app, true)
        } else {
            Vec::new()
        };
        let stirred: FxHashSet<(FileId, u64)> = came
            .iter()
            .map(|(file, change)| (*file, change.page / AROUND_PAGES))
            .collect();
        let window = app.window.as_ref();
        let read: FxHashSet<(FileId, u64)> = window
            .into_iter()
            .flat_map(|window| window.files.read.iter().copied())
            .collect();
        for (file, Change { page, .. }) in came {
            if let Some(pages) = app.files.get_mut(&file) {
                pages.mark_seen(page, app.launch);
            }
            launch.faults += u64::from(!read.contains(&(file, page)));
            self.touched(app, &mut launch.held, (file, page), Arrival::Touched);
        }
        let Some(window) = &app.window else {
            return launch;
        };
        // The kernel would have read them around those that were touched.
        for &(file, page) in &window.files.read {
            if stirred.contains(&(file, page / AROUND_PAGES)) {
                launch.used += 1;
                let page = PageAddr::File { file, number: page };
                self.engine.served(app.id, page, Arrival::Touched);
            }
        }
        // Of these nothing is known, unless they were seen lately.
        for &page in &window.files.unseen {
            self.touched(app, &mut launch.held, page, Arrival::Untouched);
        }
        for (&file, pages) in app.files.iter().filter(|_| learns) {
            for (page, _) in pages.held(app.launch, self.evidence_launches) {
                launch.kept += 1;
                self.engine.presume_file_touched(app.id, file, page);
            }
        }
        launch.held.extend(&window.files.read);
        launch.held.extend(&window.files.left);
        launch
    }

    fn touched(
        &mut self,
        app: &App,
        held: &mut Held,
        (file, number): (FileId, u64),
        arrival: Arrival,
    ) {
        let page = PageAddr::File { file, number };
        self.engine.served(app.id, page, arrival);
        held.push((file, number));
    }

    /// The launch has ended: the engine forgets its pages of files.
    pub fn forget_files(&mut self, app: &mut App, launch: FilesOfLaunch, read: &[(FileId, u64)]) {
        for (file, number) in launch.held {
            let page = PageAddr::File { file, number };
            self.engine.free(app.id, page, 1);
        }
        for (file, page) in read {
            if let Some(pages) = app.files.get_mut(file) {
                pages.take_ahead(*page);
            }
        }
        self.drain();
    }
}

fn is_mapped(processes: &[Watched], file: FileId) -> bool {
    processes.iter().any(|process| process.files.maps(file))
}
