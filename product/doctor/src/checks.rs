//! The table of checks, one file a group.

mod limits;
mod memory;
mod observation;
mod swap;
mod userfaultfd;

use crate::Check;

/// Every check, in the order in which they are shown.
pub const CHECKS: &[&[Check]] = &[
    userfaultfd::CHECKS,
    memory::CHECKS,
    limits::CHECKS,
    swap::CHECKS,
    observation::CHECKS,
];
