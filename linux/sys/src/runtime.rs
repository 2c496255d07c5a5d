//! The folders in `/run` and elsewhere that hold sockets and notes of running programs, and the users that may reach what is in them.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::Root;

/// The folder of root's programs and of the daemon.
pub const SYSTEM_FOLDER: &str = "/run/warmswap";

/// The users that may reach what is in a folder, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Its owner.
    Owner,
    /// All users: they learn whether a name exists, and what its own mode lets them open is open to them. Only the owner
    /// can list the folder and write to it.
    Everyone,
}

impl Reach {
    /// The mode of a folder: every user may ask whether the daemon's socket is in [`SYSTEM_FOLDER`]; all others are for their
    /// owners.
    #[must_use]
    pub fn of(root: &Root, folder: &Path) -> Self {
        if folder == root.path(SYSTEM_FOLDER) {
            Self::Everyone
        } else {
            Self::Owner
        }
    }

    /// The mode of a folder that is made.
    #[must_use]
    pub fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Everyone => 0o711,
        }
    }

    /// Gives a folder of this user the rights that it lacks: an older version made it for its owner, or the umask took
    /// them away. No right is withdrawn.
    ///
    /// # Errors
    /// Those of stat(2) and chmod(2).
    pub fn grant(self, folder: &Path) -> io::Result<()> {
        if self == Self::Owner {
            return Ok(());
        }
        let found = std::fs::symlink_metadata(folder)?;
        let (mode, wanted) = (found.permissions().mode() & 0o7777, self.mode());
        if !found.is_dir() || mode & wanted == wanted {
            return Ok(());
        }
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode | wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mode(folder: &Path) -> u32 {
        fs::metadata(folder).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn all_users_may_reach_what_is_in_the_system_folder_alone() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::at(place.path());
        let reach = |folder: &str| Reach::of(&root, &root.path(folder));
        assert_eq!(reach("/run/warmswap"), Reach::Everyone);
        for private in ["/run/warmswap/daemon.state", "/run", "/tmp/warmswap-0"] {
            assert_eq!(reach(private), Reach::Owner, "{private}");
        }
        assert_eq!(
            Reach::of(&Root::machine(), Path::new(SYSTEM_FOLDER)),
            Reach::Everyone
        );
    }

    #[test]
    fn rights_are_added_and_none_is_withdrawn() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        fs::create_dir(&folder).unwrap();
        for (before, reach, after) in [
            (0o700, Reach::Everyone, 0o711),
            (0o755, Reach::Everyone, 0o755),
            (0o710, Reach::Everyone, 0o711),
            (0o500, Reach::Owner, 0o500),
            (0o755, Reach::Owner, 0o755),
        ] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(before)).unwrap();
            reach.grant(&folder).unwrap();
            assert_eq!(mode(&folder), after, "{before:o} {reach:?}");
        }
        assert!(Reach::Everyone.grant(&place.path().join("none")).is_err());
    }
}
