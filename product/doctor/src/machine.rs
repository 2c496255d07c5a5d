//! What is looked at: files, the kernel, and where the library is looked for.

use std::path::{Path, PathBuf};

use warmswap_sys::{Root, file};

use crate::{Kernel, ThisKernel};

/// Bits of the capability sets in `/proc/self/status` (linux/capability.h).
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Capability {
    IpcLock = 14,
    SysPtrace = 19,
    SysAdmin = 21,
    SysNice = 23,
}

/// A machine under examination.
#[derive(Debug)]
pub struct Machine {
    pub(crate) root: Root,
    pub(crate) kernel: Box<dyn Kernel>,
    /// What names the library outright.
    pub(crate) named_library: Option<PathBuf>,
    /// The command's own file, beside which the library is looked for.
    pub(crate) executable: Option<PathBuf>,
}

impl Machine {
    /// The running machine, with the library that this process would use.
    #[must_use]
    pub fn this() -> Self {
        Self {
            root: Root::machine(),
            kernel: Box::new(ThisKernel),
            named_library: std::env::var_os(warmswap_protocol::PRELOAD_VARIABLE).map(PathBuf::from),
            executable: std::env::current_exe().ok(),
        }
    }

    /// A machine of recorded files below `root` and of the answers of `kernel`, with the command at
    /// `executable`.
    #[must_use]
    pub fn recorded(root: Root, kernel: Box<dyn Kernel>, executable: &Path) -> Self {
        Self {
            root,
            kernel,
            named_library: None,
            executable: Some(executable.to_owned()),
        }
    }

    /// The content of a file without blanks around it; `None` when it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let text = file::read(&self.root.path(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// A number in a file of its own.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.read(path)?.parse().ok()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.path(path).exists()
    }

    /// The words after `name:` in `/proc/self/status`.
    fn status(&self, name: &str) -> Option<Vec<String>> {
        let text = self.read("/proc/self/status")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.split_whitespace().map(str::to_owned).collect())
    }

    /// Whether this process runs as root.
    pub(crate) fn is_root(&self) -> bool {
        // Real, effective, saved, of the file system.
        self.status("Uid")
            .is_some_and(|ids| ids.get(1).is_some_and(|id| id == "0"))
    }

    /// Whether this process has a capability.
    pub(crate) fn can(&self, capability: Capability) -> bool {
        let set = self.status("CapEff").and_then(|words| {
            let digits = words.first()?;
            u64::from_str_radix(digits, 16).ok()
        });
        set.is_some_and(|bits| bits & 1 << capability as u8 != 0)
    }

    /// Whether this process's users are not those of the machine.
    pub(crate) fn is_in_user_namespace(&self) -> bool {
        // The machine's own maps all numbers to themselves.
        let map = self.read("/proc/self/uid_map");
        map.is_some_and(|map| map.split_whitespace().ne(["0", "0", "4294967295"]))
    }

    /// Whether the file system that is mounted there is read-only, as far as this process sees.
    pub(crate) fn is_read_only(&self, mount: &str) -> bool {
        let mounts = self.read("/proc/self/mounts").unwrap_or_default();
        let mut of_mount = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let is_it = fields.next() == Some(mount);
            is_it.then(|| fields.nth(1))?
        });
        // The last one lies above the others.
        of_mount
            .next_back()
            .is_some_and(|options| options.split(',').any(|option| option == "ro"))
    }

    /// The soft and the hard limit in the line `name` of `/proc/self/limits`; `u64::MAX` is unlimited.
    pub(crate) fn limit(&self, name: &str) -> Option<(u64, u64)> {
        let text = self.read("/proc/self/limits")?;
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        let mut values = rest.split_whitespace().map(|word| match word {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        });
        Some((values.next()??, values.next()??))
    }

    /// Processors that are online, from ranges such as `0-3,6`; at least 1.
    pub(crate) fn processors(&self) -> u64 {
        let ranges = self.read("/sys/devices/system/cpu/online");
        let count = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|n| n.parse::<u64>().ok());
            Some(last?.saturating_sub(first?) + 1)
        };
        let sum = |ranges: String| ranges.split(',').filter_map(count).sum();
        ranges.map_or(1, sum).max(1)
    }

    /// The command with `sudo` in front where root is needed and missing.
    pub(crate) fn as_root(&self, command: &str) -> String {
        if self.is_root() {
            command.to_owned()
        } else {
            format!("sudo {command}")
        }
    }

    /// The command that sets a sysctl.
    pub(crate) fn sysctl(&self, setting: &str) -> String {
        self.as_root(&format!("sysctl -w {setting}"))
    }
}
