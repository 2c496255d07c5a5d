//! What the policies learned about one application: hot lists and footprints that survive a restart.
//!
//! It is plain data. Hosts keep it in files (crate `warmswap-learned`).

use crate::prefetch::footprint::{Extent, Extents, FileTable};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Pages of one file. `F` names the file: a number within one run, a path between two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedFile<F> {
    /// The file.
    pub file: F,
    /// Its part of the offline candidate table (ASAP section 4.2).
    pub profile: Vec<Extent>,
    /// Its part of the prepaging target table.
    pub targets: Vec<Extent>,
}

/// What was learned about one application. Page numbers are addresses divided by the page size: they mean
/// something in a process that maps its memory where the one before did; what does not fit is forgotten in
/// a few launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learned<F> {
    /// Anonymous pages of the hot list (Ariadne section 4.2).
    pub hot: Vec<u64>,
    /// The prepaging target table of anonymous pages, in the order of access (ASAP section 4.3).
    pub anon_targets: Vec<u64>,
    /// Their online candidate table, likewise.
    pub anon_candidates: Vec<u64>,
    /// True once the offline profile is complete.
    pub is_profiled: bool,
    /// The files of profile and target table.
    pub files: Vec<LearnedFile<F>>,
}

impl<F> Default for Learned<F> {
    fn default() -> Self {
        Self {
            hot: Vec::new(),
            anon_targets: Vec::new(),
            anon_candidates: Vec::new(),
            is_profiled: false,
            files: Vec::new(),
        }
    }
}

/// Why tables cannot have been learned.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotLearned {
    /// A page number beyond the address space.
    #[error("page number {0:#x} is beyond the 52 bits of an address space")]
    PageBeyondAddressSpace(u64),
    /// An extent without pages.
    #[error("an extent at page {0:#x} has no pages")]
    EmptyExtent(u64),
}

/// Page numbers fit 52 bits.
const PAGES_END: u64 = 1 << 52;

impl<F> Learned<F> {
    /// True when nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.hot.is_empty()
            && self.anon_targets.is_empty()
            && self.anon_candidates.is_empty()
            && !self.is_profiled
            && self.files.is_empty()
    }

    /// Checks what comes from outside. Linear.
    ///
    /// # Errors
    /// The first page or extent that cannot exist.
    pub fn check(&self) -> Result<(), NotLearned> {
        let pages = [&self.hot, &self.anon_targets, &self.anon_candidates];
        if let Some(&page) = pages.into_iter().flatten().find(|&&page| page >= PAGES_END) {
            return Err(NotLearned::PageBeyondAddressSpace(page));
        }
        let files = self.files.iter();
        for extent in files.flat_map(|file| file.profile.iter().chain(&file.targets)) {
            if extent.pages == 0 {
                return Err(NotLearned::EmptyExtent(extent.first));
            }
            if extent.end() > PAGES_END {
                return Err(NotLearned::PageBeyondAddressSpace(extent.end() - 1));
            }
        }
        Ok(())
    }

    /// The same with files under other names; those for which `name` knows none are left out.
    pub fn rename<G>(self, mut name: impl FnMut(F) -> Option<G>) -> Learned<G> {
        let files = self.files.into_iter().filter_map(|learned| {
            Some(LearnedFile {
                file: name(learned.file)?,
                profile: learned.profile,
                targets: learned.targets,
            })
        });
        Learned {
            files: files.collect(),
            hot: self.hot,
            anon_targets: self.anon_targets,
            anon_candidates: self.anon_candidates,
            is_profiled: self.is_profiled,
        }
    }
}

impl<F: Copy + Ord> Learned<F> {
    /// Notes profile and target table of the files.
    pub(crate) fn set_files(&mut self, profile: &FileTable<F>, targets: &FileTable<F>) {
        let extents = |table: &FileTable<F>, file| {
            let extents = table.get(&file).map(Extents::iter);
            extents.into_iter().flatten().collect()
        };
        let mut files: Vec<F> = profile.keys().chain(targets.keys()).copied().collect();
        files.sort_unstable();
        files.dedup();
        let learned = files.into_iter().map(|file| LearnedFile {
            file,
            profile: extents(profile, file),
            targets: extents(targets, file),
        });
        self.is_profiled = true;
        self.files = learned.collect();
    }

    /// Profile and target table of the files, if the profile is complete.
    pub(crate) fn file_tables(&self) -> Option<(FileTable<F>, FileTable<F>)> {
        if !self.is_profiled {
            return None;
        }
        let (mut profile, mut targets) = (FileTable::new(), FileTable::new());
        for learned in &self.files {
            for (table, extents) in [
                (&mut profile, &learned.profile),
                (&mut targets, &learned.targets),
            ] {
                if !extents.is_empty() {
                    table.insert(learned.file, extents.iter().copied().collect());
                }
            }
        }
        Some((profile, targets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_other_names_and_unknown_ones_are_left_out() {
        let file = |file| LearnedFile {
            file,
            profile: vec![Extent::page(1)],
            targets: Vec::new(),
        };
        let learned = Learned {
            files: vec![file(1), file(2)],
            ..Learned::default()
        };
        let renamed = learned.rename(|file| (file == 2).then_some("two"));
        assert_eq!(renamed.files.len(), 1);
        assert_eq!(renamed.files[0].file, "two");
    }

    #[test]
    fn what_cannot_exist_is_refused() {
        let mut learned = Learned::<u8>::default();
        assert_eq!(learned.check(), Ok(()));
        learned.hot.push(1 << 52);
        let beyond = NotLearned::PageBeyondAddressSpace(1 << 52);
        assert_eq!(learned.check(), Err(beyond));
        learned.hot.clear();
        for (first, pages, error) in [
            (7, 0, NotLearned::EmptyExtent(7)),
            (
                u64::MAX,
                9,
                NotLearned::PageBeyondAddressSpace(u64::MAX - 1),
            ),
        ] {
            learned.files = vec![LearnedFile {
                file: 0,
                profile: Vec::new(),
                targets: vec![Extent { first, pages }],
            }];
            assert_eq!(learned.check(), Err(error));
        }
    }
}
