//! The descriptors of paged memory.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

use super::super::beyond_standard;
use super::{
    Addresses, FaultDelivery, Feature, Features, Mechanism, OpenError, PagedConfig, PagedError,
    Reach, Uffd,
};

/// Opens a descriptor for such memory.
pub(super) fn open_uffd(config: PagedConfig) -> Result<(Uffd, Reach), OpenError> {
    let mut features = vec![match config.mechanism {
        Mechanism::Move => Feature::Move,
        Mechanism::Copy => Feature::WriteProtect,
    }];
    let open = |reach, features: &[Feature]| {
        Uffd::open(reach, Features::of(features)).map(|uffd| (uffd, reach))
    };
    match config.delivery {
        FaultDelivery::Signal => {
            features.push(Feature::Sigbus);
            open(Reach::UserOnly, &features)
        }
        // With the right to it, faults within system calls are served as well.
        FaultDelivery::Events => {
            if matches!(config.addresses, Addresses::Whole { .. }) {
                features.extend([Feature::ThreadId, Feature::WriteProtect]);
                // To hear of forks takes another right (CAP_SYS_PTRACE).
                let forks = [&features[..], &[Feature::EventFork]].concat();
                if let Ok(opened) = open(Reach::Everything, &forks) {
                    return Ok(opened);
                }
            }
            match open(Reach::Everything, &features) {
                Err(OpenError::Open(_)) => open(Reach::UserOnly, &features),
                result => result,
            }
        }
    }
}

/// Opens the map of this process's pages.
pub(super) fn open_pagemap() -> Result<OwnedFd, PagedError> {
    rustix::fs::open(
        "/proc/self/pagemap",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(std::io::Error::from)
    .and_then(beyond_standard)
    .map_err(PagedError::Pagemap)
}
