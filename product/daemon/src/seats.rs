//! Which users look at the machine, as logind says.
//!
//! Those in front of it come first: the users of active sessions at seats, a login screen aside. Where there are none, users of
//! sessions with a display of their own count (xrdp, VNC). Others, such as those of ssh and cron, count where neither is there,
//! and on machines without logind.
//!
//! The files are those that libsystemd reads for `sd_seat_get_active(3)` and `sd_session_get_type(3)`.

use std::collections::BTreeSet;
use std::path::Path;

use warmswap_sys::{Root, file};

/// The users of sessions, as far as it matters which of them look at something.
#[derive(Debug, Default)]
pub struct Seats {
    /// These look at the machine; none where logind knows of none.
    front: BTreeSet<u32>,
    /// Users of all sessions at seats.
    present: BTreeSet<u32>,
}

/// What logind writes of a seat or a session: lines of `KEY=value`.
struct Fields(String);

impl Fields {
    fn read(path: &Path) -> Self {
        Self(file::read(path).unwrap_or_default())
    }

    fn get(&self, key: &str) -> &str {
        let mut lines = self.0.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(found, _)| *found == key);
        found.map_or("", |(_, value)| value)
    }

    fn users(&self, key: &str) -> impl Iterator<Item = u32> {
        let users = self.get(key).split(' ');
        users.filter_map(|user| user.parse().ok())
    }

    /// A session with windows that is at no seat.
    fn is_remote_display(&self) -> bool {
        let has_display = matches!(self.get("TYPE"), "x11" | "wayland" | "mir");
        let is_open = self.get("STATE") != "closing";
        is_open && self.get("SEAT").is_empty() && (has_display || !self.get("DISPLAY").is_empty())
    }
}

impl Seats {
    /// Reads them. Costs about 20 µs for each seat, and as much for each session where no seat's is active.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let mut seats = Self::default();
        for seat in all(&root.path("/run/systemd/seats")) {
            seats.present.extend(seat.users("UIDS"));
            let session = Path::new("/run/systemd/sessions").join(seat.get("ACTIVE"));
            let is_greeter = Fields::read(&root.path(session)).get("CLASS") == "greeter";
            if !is_greeter {
                seats.front.extend(seat.users("ACTIVE_UID"));
            }
        }
        if seats.front.is_empty() {
            let sessions = all(&root.path("/run/systemd/sessions"));
            let displays = sessions.filter(Fields::is_remote_display);
            seats.front = displays
                .filter_map(|session| session.get("UID").parse().ok())
                .collect();
        }
        seats
    }

    /// Whether others look at the machine in place of this user.
    #[must_use]
    pub fn is_away(&self, user: u32) -> bool {
        match self.front.is_empty() {
            true => self.present.contains(&user),
            false => !self.front.contains(&user),
        }
    }
}

/// All files of a folder of logind's.
fn all(folder: &Path) -> impl Iterator<Item = Fields> + use<> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| Fields::read(&file.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: [u32; 3] = [1000, 1001, 1002];

    /// A machine with these files of logind's.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = place.path().join("run/systemd").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(place.path());
        (place, root)
    }

    fn away(files: &[(&str, &str)]) -> [bool; 3] {
        let (_place, root) = machine(files);
        USERS.map(|user| Seats::read(&root).is_away(user))
    }

    #[test]
    fn users_behind_another_are_away_and_so_are_those_without_a_seat() {
        assert_eq!(away(&[]), [false; 3], "no logind");
        let seat = "# This is private data. Do not parse.\nIS_SEAT0=1\nACTIVE=4\nACTIVE_UID=1000\n\
                    SESSIONS=4 2\nUIDS=1000 1001\n";
        let ssh = "UID=1002\nACTIVE=1\nSTATE=active\nREMOTE=1\nTYPE=tty\nCLASS=user\n";
        let found = away(&[("seats/seat0", seat), ("sessions/7", ssh)]);
        assert_eq!(found, [false, true, true]);
        // Nothing is in front, as on a text console without a session.
        let seat = "IS_SEAT0=1\nUIDS=1000 1001\n";
        let found = away(&[("seats/seat0", seat), ("sessions/7", ssh)]);
        assert_eq!(found, [true, true, false]);
    }

    #[test]
    fn remote_displays_count_where_no_seat_has_an_active_session() {
        let xrdp = "UID=1001\nSTATE=active\nREMOTE=0\nTYPE=x11\nCLASS=user\nDISPLAY=:10\n";
        let greeter = [
            ("seats/seat0", "ACTIVE=c1\nACTIVE_UID=120\nUIDS=1000 120\n"),
            (
                "sessions/c1",
                "UID=120\nTYPE=x11\nCLASS=greeter\nSEAT=seat0\n",
            ),
            ("sessions/3", "UID=1000\nTYPE=x11\nCLASS=user\nSEAT=seat0\n"),
            ("sessions/5", xrdp),
        ];
        assert_eq!(away(&greeter), [true, false, true]);
        let closing = xrdp.replace("active", "closing");
        let [seat, login, at_seat, _] = greeter;
        let found = away(&[seat, login, at_seat, ("sessions/5", &closing)]);
        assert_eq!(found, [true, false, false], "none has a display");
        let seat = ("seats/seat0", "ACTIVE=3\nACTIVE_UID=1000\nUIDS=1000\n");
        let found = away(&[seat, at_seat, ("sessions/5", xrdp)]);
        assert_eq!(found, [false, true, true]);
    }
}
