//! What the admission policy is shown of a page before it is stored.

use super::Engine;
use crate::decision::Cause;
use warmswap_policy::ChunkId;
use warmswap_policy::admission::Candidate;
use warmswap_policy::page::Mark;

impl Engine {
    /// Whether this chunk's store waits for [`Self::admit`].
    pub fn wants_sample(&self, chunk: ChunkId) -> bool {
        self.chunks[chunk].wants_sample()
    }

    /// Whether [`Self::admit`] would let this chunk into the pool with so many bytes, as things are now.
    pub fn would_admit(&self, chunk: ChunkId, estimated_bytes: u32) -> bool {
        let candidate = Candidate {
            hotness: self.chunks[chunk].hotness(),
            is_file: self.chunks[chunk].is_of_file(),
        };
        let limit_bytes = self.budget.limits.pool_limit_bytes;
        let admission = &self.scheme.admission;
        admission.admits(candidate, estimated_bytes, limit_bytes)
    }

    /// What the first page of a chunk whose `Store` [wants](Self::wants_sample) it is expected to compress
    /// to, from its head ([`estimate_bytes`](warmswap_policy::admission::estimate_bytes), or as much of it as
    /// [`Self::would_admit`] needs: [`estimate_for`](warmswap_policy::admission::estimate_for)). True: the chunk
    /// is to be stored now. False: the engine has taken the chunk back, and nothing is to be reported of
    /// it; its pages pass by the pool, or wait for room in it.
    pub fn admit(&mut self, chunk: ChunkId, estimated_bytes: u32, cause: Cause) -> bool {
        debug_assert!(self.wants_sample(chunk));
        self.chunks[chunk].set_wants_sample(false);
        self.counters.sampled_chunks += 1;
        let admitted = self.would_admit(chunk, estimated_bytes);
        if admitted && !self.budget.pool_is_full() {
            return true;
        }
        for page in self.unbind(chunk).into_iter().rev() {
            if admitted {
                self.table[page].set(Mark::Admitted);
                self.outbox.push_front((page, cause));
            } else {
                self.counters.not_admitted += 1;
                self.pass_page_by_pool(page, cause);
            }
        }
        false
    }
}
