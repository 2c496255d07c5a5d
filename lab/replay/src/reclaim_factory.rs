//! A reclaim policy that has no name among the schemes: an idea, written outside.

use std::fmt;
use std::sync::Arc;

use warmswap_policy::reclaim::Reclaim;

/// Makes the policy, one for each replay.
#[derive(Clone)]
pub struct ReclaimFactory(Arc<dyn Fn() -> Box<dyn Reclaim> + Send + Sync>);

impl ReclaimFactory {
    /// A factory that calls this.
    pub fn new(make: impl Fn() -> Box<dyn Reclaim> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn make(&self) -> Box<dyn Reclaim> {
        (self.0)()
    }
}

impl fmt::Debug for ReclaimFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReclaimFactory")
    }
}

/// Two are equal when one is a copy of the other.
impl PartialEq for ReclaimFactory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
