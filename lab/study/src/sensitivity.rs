//! What unsuitable chunk sizes do (Ariadne Figure 15 and section 6.3).
//!
//! The paper gives no numbers in its text; it finds that these sizes cost either time or ratio.

use warmswap_policy::{PolicyError, SchemeSpec};

use crate::compression::parse_schemes;

/// The schemes of Figure 15; [`compression`](crate::compression::compression) runs them.
pub const SCHEMES: [&str; 3] = ["zram", "ariadne-al-1k-4k-64k", "ariadne-al-256-1k-4k"];

/// The schemes, each with the same changes behind it.
///
/// # Errors
/// A change that does not exist.
pub fn schemes(changes: &[&str]) -> Result<Vec<SchemeSpec>, PolicyError> {
    parse_schemes(&SCHEMES, changes)
}
