//! Which users sit in front of the machine, as logind says.
//!
//! The files are those that libsystemd reads for `sd_seat_get_active(3)`. Where there are none, and for users of remote
//! sessions, which are at no seat, nothing says that a user is away.

use std::collections::BTreeSet;

use warmswap_sys::{Root, file};

/// The users of sessions at seats.
#[derive(Debug, Default)]
pub struct Seats {
    /// Their session is in front.
    active: BTreeSet<u32>,
    /// All of them.
    present: BTreeSet<u32>,
}

impl Seats {
    /// Reads them. Costs about 20 µs.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let mut seats = Self::default();
        let files = std::fs::read_dir(root.path("/run/systemd/seats"));
        for seat in files.into_iter().flatten().flatten() {
            for line in file::read(&seat.path()).unwrap_or_default().lines() {
                let (users, value) = match line.split_once('=') {
                    Some(("ACTIVE_UID", value)) => (&mut seats.active, value),
                    Some(("UIDS", value)) => (&mut seats.present, value),
                    _ => continue,
                };
                users.extend(value.split(' ').filter_map(|user| user.parse::<u32>().ok()));
            }
        }
        seats
    }

    /// Whether another user's session is in front of this user's.
    #[must_use]
    pub fn is_away(&self, user: u32) -> bool {
        self.present.contains(&user) && !self.active.contains(&user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_behind_another_is_away_and_one_without_a_seat_is_not() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::at(place.path());
        assert!(!Seats::read(&root).is_away(1000), "no logind");
        let folder = root.path("/run/systemd/seats");
        std::fs::create_dir_all(&folder).unwrap();
        let seat = "# This is private data. Do not parse.\nIS_SEAT0=1\nACTIVE=4\nACTIVE_UID=1000\n\
                    SESSIONS=4 2\nUIDS=1000 1001\n";
        std::fs::write(folder.join("seat0"), seat).unwrap();
        let away = |user| Seats::read(&root).is_away(user);
        assert_eq!([1000, 1001, 1002].map(away), [false, true, false]);
        // Nothing is in front, as on a text console without a session.
        std::fs::write(folder.join("seat0"), "IS_SEAT0=1\nUIDS=1000 1001\n").unwrap();
        assert_eq!([1000, 1001, 1002].map(away), [true, true, false]);
    }
}
