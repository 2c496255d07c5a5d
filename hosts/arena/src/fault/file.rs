//! Pages of files: read into frames, several at a time where a file is read in order.

use std::fs::File;
use std::sync::atomic::Ordering;

use warmswap_page::PAGE_BYTES;
use warmswap_policy::reclaim::Arrival;
use warmswap_uffd::Twin;

use super::Core;
use super::fresh::WINDOW_PAGES;
use crate::error::FaultError;
use crate::files::{Source, read_at};
use crate::frames::Frame;
use crate::page_words::{Claim, State};

impl Core {
    /// Reads a page from its file, and those behind it that are nowhere else as far as there are frames.
    ///
    /// The file of an arena reads as zeros behind its end. A program's has no pages there: an access raises SIGBUS, as
    /// it does in a map of the kernel's.
    pub(super) fn fault_in_from_file(
        &self,
        claim: Claim<'_>,
        frame: Frame<'_>,
        arrival: Arrival,
    ) -> Result<(), FaultError> {
        self.counts.faults.fetch_add(1, Ordering::Relaxed);
        self.counts.file_faults.fetch_add(1, Ordering::Relaxed);
        let first = claim.page;
        let map = self.files.find(first).ok_or(FaultError::NotMapped)?;
        // Behind the map there may be another.
        let most = frame.count().min(WINDOW_PAGES);
        let most = most.min(map.range().end - first);
        let (mut along, count) = self.hold_behind(first, most, State::InFile);
        let offset = map.offset(first);
        let filled = match &map.source {
            Source::File(file) => self.read_in(file, offset, (first, count), frame)?,
            Source::Twin(twin) => {
                let frames = self.leave_for_copies(frame, count)?;
                let filled = self.copy_in_from(twin, offset, (first, count))?;
                // Those behind the file's end are given back below.
                frames.taken();
                filled
            }
        };
        self.counts
            .file_reads
            .fetch_add(filled as u64, Ordering::Relaxed);
        if filled > 0 {
            self.release(claim, |before| before.arrived(arrival));
        } else {
            // The kernel has something in its place, which never leaves. The engine does not hear of it.
            self.release(claim, |before| before.now(State::Resident).pinned(true));
        }
        let behind_end = along.iter_mut().skip(filled.max(1) - 1);
        for claim in behind_end.filter_map(Option::take) {
            self.release(claim, |before| before);
            self.frames.released(1);
        }
        self.release_along(along);
        Ok(())
    }

    /// Reads pages of an arena's file; how many, which is all.
    fn read_in(
        &self,
        file: &File,
        offset: usize,
        (first, count): (usize, usize),
        frame: Frame<'_>,
    ) -> Result<usize, FaultError> {
        let mut buffers = self.scratch();
        let (_, plain, _) = buffers.parts();
        let bytes = &mut plain[..count * PAGE_BYTES];
        read_at(file, offset, bytes).map_err(FaultError::File)?;
        self.install_copies(first, frame, bytes)?;
        Ok(count)
    }

    /// Copies pages of a program's file to their places; how many there are in the file. If it has not even the
    /// first, that is poisoned.
    fn copy_in_from(
        &self,
        twin: &Twin,
        offset: usize,
        (first, count): (usize, usize),
    ) -> Result<usize, FaultError> {
        let filled = self.memory.copy_in_from(first, count, (twin, offset))?;
        if filled == 0 && self.memory.poison(first).is_err() {
            return Err(FaultError::FileEnds);
        }
        Ok(filled)
    }
}
