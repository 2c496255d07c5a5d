//! What page-outs are worth: whose choice of pages comes back less often, the host's or the kernel's, and whether it is
//! anonymous memory or files that launches have to bring back.
//!
//! Both are rates of what happens anyway, so that finding out costs nothing. A page in swap is *exposed* for every launch
//! that it stays there; the rate at which a choice comes back is its returns for each exposed page and launch. In steady
//! state as many pages leave as come back whoever chooses them; the better choice is the one that stays away longer.

use serde::{Deserialize, Serialize};
use warmswap_sys::meminfo::Refaults;

/// What is left of older evidence after each launch: about the last eight count.
const KEPT: f64 = 7.0 / 8.0;

/// Pages times launches that a choice must have been away before its rate says something.
const LEAST_EXPOSED: f64 = 8192.0;

/// So much more often the host's choice may come back than the kernel's before it is given up. The kernel chooses among
/// what the host left, which is warmer: equal rates are no reason to stop.
const TOLERATED: f64 = 1.1;

/// Refaults of a launch below which neither kind of memory pays.
const FEW_REFAULTS: f64 = 64.0;

/// Who chooses the pages that leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chooser {
    /// The engine of the host.
    #[default]
    Host,
    /// The kernel's own lists, since what the host chose came back more often.
    Kernel,
}

/// Pages that left by one choice.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    exposed: f64,
    returned: f64,
}

impl Choice {
    fn rate(&self) -> Option<f64> {
        (self.exposed >= LEAST_EXPOSED).then(|| self.returned / self.exposed)
    }

    fn launch(&mut self, swapped_pages: u64) {
        self.exposed = self.exposed * KEPT + swapped_pages as f64;
        self.returned *= KEPT;
    }
}

/// The evidence.
#[derive(Debug, Default)]
pub(super) struct Worth {
    host: Choice,
    kernel: Choice,
    last: Option<Refaults>,
    anonymous: f64,
    files: f64,
}

impl Worth {
    /// A page came back because it was touched; whether the host had sent it away.
    pub fn returned(&mut self, sent: bool) {
        let choice = if sent {
            &mut self.host
        } else {
            &mut self.kernel
        };
        choice.returned += 1.0;
    }

    /// A launch begins, with so many pages in swap that the host sent there and that the kernel did; `refaults` as the
    /// kernel counts them now.
    pub fn launch(&mut self, sent_pages: u64, other_pages: u64, refaults: Option<Refaults>) {
        self.host.launch(sent_pages);
        self.kernel.launch(other_pages);
        if let (Some(now), Some(last)) = (refaults, self.last) {
            let since = |now: u64, last: u64| now.saturating_sub(last) as f64;
            self.anonymous =
                self.anonymous * KEPT + since(now.anonymous_pages, last.anonymous_pages);
            self.files = self.files * KEPT + since(now.file_pages, last.file_pages);
        }
        self.last = refaults;
    }

    /// Who chooses best. The host, until its choice is seen to be worse; and again when that was long ago, since
    /// programs change.
    pub fn chooser(&self) -> Chooser {
        match (self.host.rate(), self.kernel.rate()) {
            (Some(host), Some(kernel)) if host > kernel * TOLERATED => Chooser::Kernel,
            _ => Chooser::Host,
        }
    }

    /// The share of idle page cache that is as good as free memory: the share that anonymous memory has in what is
    /// brought back. Where files are never read again, all of it; where only files are, none.
    pub fn spare_files(&self) -> f64 {
        let all = self.anonymous + self.files;
        if all < FEW_REFAULTS {
            return 1.0;
        }
        self.anonymous / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refaults(anonymous_pages: u64, file_pages: u64) -> Option<Refaults> {
        Some(Refaults {
            anonymous_pages,
            file_pages,
        })
    }

    #[test]
    fn a_choice_that_comes_back_more_often_is_given_up_and_tried_again_later() {
        let mut worth = Worth::default();
        for _ in 0..4 {
            worth.launch(5000, 5000, None);
            (0..2000).for_each(|_| worth.returned(true));
            (0..1000).for_each(|_| worth.returned(false));
        }
        assert_eq!(worth.chooser(), Chooser::Kernel);
        // The pages are back, and the host sends no others.
        for _ in 0..30 {
            worth.launch(0, 5000, None);
        }
        assert_eq!(worth.chooser(), Chooser::Host);
    }

    #[test]
    fn a_choice_without_evidence_against_it_stays() {
        let mut worth = Worth::default();
        assert_eq!(worth.chooser(), Chooser::Host);
        worth.launch(100, 9000, None);
        (0..900).for_each(|_| worth.returned(false));
        (0..100).for_each(|_| worth.returned(true));
        assert_eq!(worth.chooser(), Chooser::Host, "so few say nothing");
        for _ in 0..4 {
            worth.launch(9000, 9000, None);
            (0..900).for_each(|_| worth.returned(true));
            (0..900).for_each(|_| worth.returned(false));
        }
        assert_eq!(worth.chooser(), Chooser::Host, "no worse");
    }

    #[test]
    fn files_that_are_read_again_are_not_spare() {
        let mut worth = Worth::default();
        assert!((worth.spare_files() - 1.0).abs() < 1e-9);
        worth.launch(0, 0, refaults(1000, 1000));
        assert!((worth.spare_files() - 1.0).abs() < 1e-9, "the first look");
        worth.launch(0, 0, refaults(1000, 4000));
        assert!(worth.spare_files() < 1e-9);
        worth.launch(0, 0, refaults(5000, 4000));
        assert!((0.5..0.7).contains(&worth.spare_files()));
        // Counters of a group that was made anew begin at nothing.
        worth.launch(0, 0, refaults(0, 0));
        assert!((0.5..0.7).contains(&worth.spare_files()));
    }
}
