//! Pages of files that leave memory between launches, as memory pressure has them do (`--cold-files`).
//!
//! The applications run in a control group of their own. Before a relaunch the clean pages of files that are charged to
//! the group are dropped, those too that several processes have mapped, which advice leaves alone. What others brought
//! into memory is charged to them and stays. So each application is started once before the recording, and the files
//! that it maps are dropped when it has ended: its second start reads them anew, in the group.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{Advice, fadvise};
use warmswap_apps::{AppError, AppSpec, Request, RunningApp};
use warmswap_page::{FileId, PageAddr};
use warmswap_sys::advise::PageRange;
use warmswap_sys::maps::{Backing, FileIdentity, Maps};
use warmswap_sys::memcg::Memcg;
use warmswap_sys::mount::{is_local, types_of};
use warmswap_sys::page_cache::cached;
use warmswap_sys::perf::{DEFAULT_BUFFER_PAGES, FaultKind, PageFaults};
use warmswap_sys::undo::Undo;
use warmswap_sys::{FileError, Root};

use crate::config::RecordConfig;
use crate::error::RecordError;
use crate::faults::FaultLog;
use crate::schedule;
use crate::summary::ColdFiles;

/// The name of the control group, after the prefix that all of ours have.
const GROUP: &str = "record";

/// Drops pages of files, and keeps account of them.
pub(crate) struct Dropper {
    group: Memcg,
    /// Faults that waited for a disk or for swap.
    pub(crate) major_faults: FaultLog,
    /// Types of the file systems, by device as in memory maps.
    types: BTreeMap<String, String>,
    /// Pages that were in memory since the last drop.
    here: FxHashSet<PageAddr>,
    /// Pages that were dropped, and not accessed since.
    away: FxHashSet<PageAddr>,
    pub(crate) summary: ColdFiles,
}

impl Dropper {
    pub(crate) fn set_up(undo: &Undo) -> Result<Self, RecordError> {
        let root = undo.root();
        Ok(Self {
            group: Memcg::create_near(undo, GROUP)?,
            major_faults: FaultLog::new(PageFaults::open(
                root,
                FaultKind::Major,
                DEFAULT_BUFFER_PAGES,
            )?),
            types: types_of(root, std::process::id())?,
            here: FxHashSet::default(),
            away: FxHashSet::default(),
            summary: ColdFiles::default(),
        })
    }

    /// Starts each application once and ends it, then drops the files that it mapped.
    pub(crate) fn rehearse(
        &mut self,
        config: &RecordConfig,
        undo: &Undo,
    ) -> Result<(), RecordError> {
        let mut files = FxHashSet::default();
        for spec in &config.apps {
            let mut app = self.start(spec, config, undo)?;
            app.request(Request::Relaunch, schedule::request_seed(config.seed, 0, 0))?;
            for pid in app.pids()? {
                match mapped_files(undo.root(), pid) {
                    Err(e) if e.is_gone() => {}
                    found => files.extend(found?),
                }
            }
            app.stop()?;
        }
        for identity in files {
            if let Some(file) = self.open(&identity) {
                // What another process has mapped stays.
                let _ = fadvise(&file, 0, None, Advice::DontNeed);
            }
        }
        Ok(())
    }

    /// Starts an application in the group.
    pub(crate) fn start(
        &self,
        spec: &AppSpec,
        config: &RecordConfig,
        undo: &Undo,
    ) -> Result<RunningApp, AppError> {
        RunningApp::start_in(&self.group, spec, config.size, &config.directories, undo)
    }

    /// Takes note of the pages of `files` that are in memory.
    pub(crate) fn take_stock(&mut self, files: &FxHashMap<FileIdentity, FileId>) {
        for (file, numbers) in self.in_memory(files) {
            let pages = numbers.into_iter();
            self.here
                .extend(pages.map(|number| PageAddr::File { file, number }));
        }
    }

    /// Drops what can be dropped, and takes note of the pages of `files` that left memory since the last time.
    pub(crate) fn drop_pages(
        &mut self,
        files: &FxHashMap<FileIdentity, FileId>,
    ) -> Result<(), RecordError> {
        self.group.drop_file_pages()?;
        let left = self.in_memory(files);
        for page in std::mem::take(&mut self.here) {
            let PageAddr::File { file, number } = page else {
                continue;
            };
            // Of a file that cannot be looked at nothing is known.
            if left.get(&file).is_some_and(|left| !left.contains(&number)) {
                self.away.insert(page);
                self.summary.pages_dropped += 1;
            }
        }
        self.summary.drops += 1;
        Ok(())
    }

    /// `page` is accessed.
    pub(crate) fn accessed(&mut self, page: PageAddr) {
        if matches!(page, PageAddr::File { .. }) {
            self.summary.pages_accessed_again += u64::from(self.away.remove(&page));
            self.here.insert(page);
        }
    }

    /// The pages of files that are in memory.
    fn in_memory(
        &self,
        files: &FxHashMap<FileIdentity, FileId>,
    ) -> FxHashMap<FileId, FxHashSet<u64>> {
        let numbers = |runs: Vec<PageRange>| {
            let pages = runs.into_iter();
            pages
                .flat_map(|run| run.first..run.first + run.count)
                .collect()
        };
        let look = |(identity, &id): (&FileIdentity, &FileId)| {
            Some((id, numbers(cached(&self.open(identity)?).ok()?)))
        };
        files.iter().filter_map(look).collect()
    }

    /// The file, where it is one that may be dropped and still has its name.
    fn open(&self, identity: &FileIdentity) -> Option<File> {
        if !may_be_dropped(identity, &self.types) {
            return None;
        }
        let metadata = std::fs::metadata(&identity.path).ok()?;
        if !metadata.is_file() || metadata.ino() != identity.inode {
            return None;
        }
        File::open(&identity.path).ok()
    }
}

/// Files of a process's memory map.
fn mapped_files(root: &Root, pid: u32) -> Result<Vec<FileIdentity>, FileError> {
    let maps = Maps::read(root, pid)?;
    let files = maps.as_slice().iter().filter_map(|m| match &m.backing {
        Backing::File(identity) => Some(identity.clone()),
        _ => None,
    });
    Ok(files.collect())
}

/// Whether pages of the file may be dropped: it has a name, and lies on a disk of this machine. The kernel keeps memory
/// that processes share as files, too; those of a removed file go with its last user.
fn may_be_dropped(identity: &FileIdentity, types: &BTreeMap<String, String>) -> bool {
    let kind = types.get(&identity.device);
    let has_name = !identity
        .path
        .as_os_str()
        .as_encoded_bytes()
        .ends_with(b" (deleted)");
    has_name && kind.is_some_and(|kind| is_local(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(device: &str, path: &str) -> FileIdentity {
        FileIdentity {
            device: device.to_owned(),
            inode: 7,
            path: path.into(),
        }
    }

    #[test]
    fn files_with_a_name_on_a_disk_may_be_dropped_and_nothing_else() {
        let types = [("fe:00", "ext4"), ("00:2a", "nfs4"), ("00:15", "tmpfs")];
        let types = types
            .map(|(device, kind)| (device.to_owned(), kind.to_owned()))
            .into();
        let may = |device, path| may_be_dropped(&identity(device, path), &types);

        assert!(may("fe:00", "/usr/lib/libc.so.6"));
        assert!(!may("fe:00", "/usr/lib/old.so (deleted)"));
        assert!(!may("00:2a", "/home/shared/data"), "over a network");
        assert!(!may("00:15", "/dev/shm/segment"), "memory");
        assert!(!may("00:01", "/memfd:x"), "on no mounted file system");
    }
}
