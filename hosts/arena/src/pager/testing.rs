//! What unit tests of the pager share.

use warmswap_policy::SchemeSpec;

use crate::{Arena, ArenaConfig};

/// An arena with more memory than a test needs. None where userfaultfd does not work.
pub fn arena(test: &str, scheme: &str) -> Option<Arena> {
    let scheme = SchemeSpec::parse(scheme).expect("a scheme");
    let config = ArenaConfig {
        address_space_bytes: 64 << 20,
        ..ArenaConfig::new(16 << 20, scheme)
    };
    Arena::new(config)
        .inspect_err(|error| warmswap_testkit::record_skip(test, &error.to_string()))
        .ok()
}
