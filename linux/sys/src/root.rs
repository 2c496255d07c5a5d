//! Where `/proc`, `/sys` and `/dev` are found.

use std::path::{Path, PathBuf};

/// The directory under which the kernel's file systems are looked up: `/`, or a folder of recorded files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The running machine.
    #[must_use]
    pub fn machine() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A folder that stands in for `/` (tests).
    #[must_use]
    pub fn at(prefix: impl Into<PathBuf>) -> Self {
        Self(prefix.into())
    }

    /// The place of `path`, which is given as on the machine ("/proc/swaps").
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// `/proc/PID/NAME`.
    #[must_use]
    pub fn proc_file(&self, pid: u32, name: &str) -> PathBuf {
        self.0.join("proc").join(pid.to_string()).join(name)
    }
}

impl Default for Root {
    fn default() -> Self {
        Self::machine()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_goes_in_front_of_machine_paths() {
        let root = Root::at("/fixtures/a");

        assert_eq!(
            root.path("/proc/swaps"),
            Path::new("/fixtures/a/proc/swaps")
        );
        assert_eq!(
            root.proc_file(7, "maps"),
            Path::new("/fixtures/a/proc/7/maps")
        );
        assert_eq!(Root::machine().path("/sys"), Path::new("/sys"));
    }
}
