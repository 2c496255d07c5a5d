//! Files that programs map to read them.

use crate::common::{Budget, Case, program};

/// A quarter of the file that the program maps.
const QUARTER: Budget = Budget { mib: 8 };
/// Pages of it.
const PAGES: u64 = 8000;

#[test]
fn a_file_that_is_read_through_a_map() {
    for (mechanism, scheme) in [
        ("move", "ezswap"),
        ("copy", "ezswap"),
        ("move", "asap"),
        ("copy", "warmswap+file-pages=on"),
    ] {
        let case = Case {
            mechanism,
            scheme,
            files: true,
            ..Case::new(QUARTER)
        };
        let Some(stats) = program("files", &case) else {
            return;
        };
        let files = &stats.files;
        assert!(stats.managed, "{mechanism}, {scheme}: it was never paged");
        assert!(
            files.mapped_peak_bytes >= PAGES << 12 && files.read_pages > 2 * PAGES,
            "{mechanism}, {scheme}: {stats:?}"
        );
        let is_pooled = scheme != "asap";
        assert_eq!(
            files.pooled_pages > PAGES,
            is_pooled,
            "{mechanism}, {scheme}: {stats:?}"
        );
        assert!(is_pooled || files.discarded_pages > PAGES, "{stats:?}");
        assert!(
            stats.resident_peak_bytes <= stats.budget_bytes,
            "{mechanism}, {scheme}: {stats:?}"
        );
    }
}

#[test]
fn a_file_is_the_kernels_when_it_is_not_asked_for() {
    let Some(stats) = program("files", &Case::new(QUARTER)) else {
        return;
    };
    assert_eq!(stats.files, warmswap_control::FileStats::default());
}
