//! Faults of an application between two looks.

use crate::relaunch::preload::ArenaCounts;
use crate::relaunch::usage::Faults;

/// Faults so far.
pub struct Look {
    /// Of the application's processes, as the kernel counts them.
    pub faults: Faults,
    /// Of all in the group, those that the kernel served by reading something.
    pub group_major: u64,
    /// Of the application's arenas.
    pub arena: Option<ArenaCounts>,
}

impl Look {
    /// Major and minor faults.
    ///
    /// A fault that an arena serves is a minor one to some kernels, and to others a major one, whatever it brought.
    /// So with an arena the major ones are those that brought a page from the pool, and those of the kernel's own
    /// that the group was charged.
    pub fn faults_since(&self, before: &Self) -> (u64, u64) {
        let major = self.faults.major.saturating_sub(before.faults.major);
        let minor = self.faults.minor.saturating_sub(before.faults.minor);
        let Some((now, then)) = self.arena.zip(before.arena) else {
            return (major, minor);
        };
        let group_major = self.group_major.saturating_sub(before.group_major);
        let arena_major = now.since(then).pool_faults;
        let all_major = major.min(group_major) + arena_major;
        (all_major, (major + minor).saturating_sub(all_major))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_an_arena_serves_are_major_when_they_bring_a_page_from_the_pool() {
        let look = |major, minor, group_major, pool_faults: Option<u64>| Look {
            faults: Faults { major, minor },
            group_major,
            arena: pool_faults.map(|pool_faults| ArenaCounts {
                pool_faults,
                ..ArenaCounts::default()
            }),
        };

        let plain = look(12, 50, 90, None).faults_since(&look(2, 10, 10, None));
        assert_eq!(plain, (10, 40));
        // One kernel counts the arena's 30 faults as minor ones, another as major ones; 5 are its own.
        let begin = look(0, 0, 0, Some(0));
        let new = look(5, 70, 5, Some(20)).faults_since(&begin);
        let old = look(35, 40, 5, Some(20)).faults_since(&begin);
        assert_eq!((new, old), ((25, 50), (25, 50)));
    }
}
