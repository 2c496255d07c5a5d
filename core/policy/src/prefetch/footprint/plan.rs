//! In which order a footprint comes back (ASAP sections 5.1 and 5.2).

use super::extents::{Extent, Extents};
use super::profile::FileTable;

/// Anonymous pages that a worker takes at a time (section 5.1).
pub const ANON_BATCH_PAGES: usize = 16;

/// A metadata block of a file names the places of this many pages (section 5.2, F2FS).
pub const METADATA_STRIDE_PAGES: u64 = 512;

/// The most pages of a file that are read at once (2 MiB).
pub const READ_PAGES: u64 = 512;

/// What one worker does next for a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch<F> {
    /// These anonymous pages come back, in this order; at most [`ANON_BATCH_PAGES`].
    Anon(Vec<u64>),
    /// This page of a file is read by itself and first, so that the file system's metadata for the 512
    /// pages around it is in memory before the large reads queue up.
    Metadata {
        /// The file.
        file: F,
        /// A page that is wanted anyway.
        page: u64,
    },
    /// These pages of a file are read at once; at most [`READ_PAGES`].
    Read {
        /// The file.
        file: F,
        /// The pages.
        extent: Extent,
    },
}

/// The pages of one file that come back: the unit of work of a file worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlan<F> {
    /// The file.
    pub file: F,
    /// Its pages, by offset.
    pub extents: Vec<Extent>,
    /// How many.
    pub pages: u64,
}

impl<F: Copy> FilePlan<F> {
    fn of(file: F, extents: &Extents) -> Self {
        Self {
            file,
            extents: extents.iter().collect(),
            pages: extents.pages(),
        }
    }

    /// One wanted page of each metadata block, by offset: to be read first.
    pub fn metadata_pages(&self) -> impl Iterator<Item = u64> + '_ {
        let mut next_block = 0;
        let touched = self.extents.iter().flat_map(|extent| {
            let first = extent.first / METADATA_STRIDE_PAGES;
            let last = (extent.end() - 1) / METADATA_STRIDE_PAGES;
            (first..=last).map(|block| (block, extent.first.max(block * METADATA_STRIDE_PAGES)))
        });
        touched.filter_map(move |(block, page)| {
            let is_new = block >= next_block;
            next_block = next_block.max(block + 1);
            is_new.then_some(page)
        })
    }

    /// The work for this file: metadata, then its pages.
    pub fn batches(&self) -> impl Iterator<Item = Batch<F>> + '_ {
        let file = self.file;
        let metadata = self.metadata_pages();
        let metadata = metadata.map(move |page| Batch::Metadata { file, page });
        let reads = self.extents.iter().flat_map(move |&extent| {
            let firsts = (extent.first..extent.end()).step_by(READ_PAGES as usize);
            firsts.map(move |first| Batch::Read {
                file,
                extent: Extent {
                    first,
                    pages: READ_PAGES.min(extent.end() - first),
                },
            })
        });
        metadata.chain(reads)
    }
}

/// The files of a target table, those with most pages first: nine tenths of the pages are in a few large
/// files (Figure 10), which must not wait.
pub fn files_largest_first<F: Copy + Ord>(targets: &FileTable<F>) -> Vec<FilePlan<F>> {
    let plans = targets.iter().map(|(&file, e)| FilePlan::of(file, e));
    let mut plans: Vec<_> = plans.filter(|plan| plan.pages > 0).collect();
    plans.sort_by_key(|plan| (std::cmp::Reverse(plan.pages), plan.file));
    plans
}

/// The batches of anonymous pages.
pub fn anon_batches<F>(pages: &[u64]) -> impl Iterator<Item = Batch<F>> + '_ {
    let batches = pages.chunks(ANON_BATCH_PAGES);
    batches.map(|batch| Batch::Anon(batch.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_come_first_and_metadata_before_pages() {
        let extent = |first, pages| Extent { first, pages };
        let targets = FileTable::from([
            ('a', [extent(3, 2)].into_iter().collect()),
            (
                'b',
                [extent(500, 600), extent(2000, 5), extent(2040, 1)]
                    .into_iter()
                    .collect(),
            ),
        ]);
        let plans = files_largest_first(&targets);
        assert_eq!(plans.iter().map(|p| p.file).collect::<String>(), "ba");
        let metadata: Vec<_> = plans[0].metadata_pages().collect();
        assert_eq!(
            metadata,
            [500, 512, 1024, 2000],
            "2000 and 2040 share block 3"
        );
        let batches: Vec<_> = plans[0].batches().skip(4).collect();
        let read = |first, pages| Batch::Read {
            file: 'b',
            extent: extent(first, pages),
        };
        assert_eq!(
            batches,
            [read(500, 512), read(1012, 88), read(2000, 5), read(2040, 1)]
        );
    }

    #[test]
    fn anonymous_pages_come_in_batches_of_16() {
        let pages: Vec<_> = (0..40).collect();
        let sizes: Vec<_> = anon_batches::<u32>(&pages)
            .map(|batch| match batch {
                Batch::Anon(pages) => pages.len(),
                _ => 0,
            })
            .collect();
        assert_eq!(sizes, [16, 16, 8]);
    }
}
