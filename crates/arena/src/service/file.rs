//! Pages of files: read into frames, several at a time where a file is read in order.

use std::sync::atomic::Ordering;

use warmswap_codec::PAGE_BYTES;
use warmswap_policy::reclaim::Arrival;

use super::Core;
use super::fresh::WINDOW_PAGES;
use crate::directory::{Claim, State};
use crate::error::ServeError;
use crate::frames::Frame;

impl Core {
    /// Reads a page from its file, and those behind it that are nowhere else as far as there are frames.
    pub(super) fn serve_file(
        &self,
        claim: Claim<'_>,
        frame: Frame,
        arrival: Arrival,
    ) -> Result<(), ServeError> {
        self.counts.faults.fetch_add(1, Ordering::Relaxed);
        let first = claim.page;
        let map = self.files.find(first).ok_or(ServeError::NotMapped)?;
        let most = frame.count().min(WINDOW_PAGES);
        let (along, count) = self.hold_behind(first, most, State::InFile);
        self.counts
            .file_reads
            .fetch_add(count as u64, Ordering::Relaxed);
        let mut service = self.service_slot();
        let (_, plain, _) = service.parts();
        let bytes = &mut plain[..count * PAGE_BYTES];
        map.read(first, bytes).map_err(ServeError::File)?;
        self.install_copies(first, frame, bytes)?;
        self.release(claim, |before| before.arrived(arrival));
        self.release_along(along);
        Ok(())
    }
}
