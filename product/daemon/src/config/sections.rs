//! What can be configured: a struct for each section, with the table of its keys.

mod host;

use std::net::SocketAddr;
use std::path::PathBuf;

use super::keys::{
    Key, Section, absolute, number, optional_size, show_size, show_yes_no, size_comes_to, words,
    yes_no,
};
use super::size::{Facts, Size};

pub use self::host::HostSection;

/// `[daemon]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonSection {
    /// The control socket.
    pub socket: PathBuf,
    /// The group whose members may use it, besides root.
    pub socket_group: Option<String>,
    /// Where learned tables are kept.
    pub state_folder: PathBuf,
    /// Time between two savings of learned tables, in seconds.
    pub save_interval_seconds: u64,
}

impl Section for DaemonSection {
    const DOC: &'static str = "The daemon itself.";

    fn defaults(_: Facts) -> Self {
        Self {
            socket: PathBuf::from(warmswap_control::DAEMON_SOCKET),
            socket_group: None,
            state_folder: PathBuf::from("/var/lib/warmswap"),
            save_interval_seconds: 300,
        }
    }

    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "socket",
            doc: "The control socket, which `warmswap status` and `warmswap switch` speak to.",
            set: |to, value, _| absolute(value).map(|path| to.socket = path),
            show: |from| from.socket.display().to_string(),
            comes_to: None,
        },
        Key {
            name: "socket-group",
            doc: "The group whose members may use the socket, besides root. Each of them sees and steers applications \
                  whose processes are all his own. Empty: root alone.",
            set: |to, value, _| {
                to.socket_group = (!value.is_empty()).then(|| value.to_owned());
                Ok(())
            },
            show: |from| from.socket_group.clone().unwrap_or_default(),
            comes_to: None,
        },
        Key {
            name: "state-folder",
            doc: "Where hot lists and footprints are kept over a restart.",
            set: |to, value, _| absolute(value).map(|path| to.state_folder = path),
            show: |from| from.state_folder.display().to_string(),
            comes_to: None,
        },
        Key {
            name: "save-interval-seconds",
            doc: "How often they are saved, besides at the end.",
            set: |to, value, _| {
                number(value, 1, 86_400).map(|seconds| to.save_interval_seconds = seconds)
            },
            show: |from| from.save_interval_seconds.to_string(),
            comes_to: None,
        },
    ];
}

/// `[zram0]`, `[zram1]`, …: a swap device that the daemon makes. The kernel chooses its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZramSection {
    /// Capacity in uncompressed bytes.
    pub zram_size: Option<Size>,
    /// Memory that it may take.
    pub zram_resident_limit: Option<Size>,
    /// Algorithm, by the kernel's name.
    pub compression_algorithm: Option<String>,
    /// The algorithm by which idle pages are compressed anew.
    pub recompression_algorithm: Option<String>,
    /// Which swap is used first.
    pub swap_priority: u64,
    /// Whether it is left out where there is swap already.
    pub only_without_swap: bool,
}

impl Section for ZramSection {
    const DOC: &'static str = "A compressed swap device that the daemon makes, and removes at its end; keys as in \
                               zram-generator. The number in the section's name only tells several apart. \
                               Without such a section the swap that is there is used, and never changed.";

    fn defaults(facts: Facts) -> Self {
        Self {
            zram_size: Size::parse("min(ram / 2, 4096)", facts).ok(),
            zram_resident_limit: None,
            compression_algorithm: None,
            recompression_algorithm: None,
            swap_priority: 100,
            only_without_swap: false,
        }
    }

    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "zram-size",
            doc: "What it holds, before compression. A size in MiB.",
            set: |to, value, facts| {
                let size = Size::parse(value, facts)?;
                // A swap area has ten pages at least.
                if size.bytes < 64 << 10 {
                    return Err(format!("{value:?} comes to less than 64 KiB"));
                }
                to.zram_size = Some(size);
                Ok(())
            },
            show: |from| show_size(&from.zram_size),
            comes_to: Some(|from| size_comes_to(&from.zram_size)),
        },
        Key {
            name: "zram-resident-limit",
            doc: "Memory that its compressed pages may take. A size in MiB; empty or 0: no limit.",
            set: |to, value, facts| {
                let size = optional_size(value, facts)?;
                to.zram_resident_limit = size.filter(|size| size.bytes > 0);
                Ok(())
            },
            show: |from| show_size(&from.zram_resident_limit),
            comes_to: Some(|from| size_comes_to(&from.zram_resident_limit)),
        },
        Key {
            name: "compression-algorithm",
            doc: "Such as lz4, lzo-rle or zstd. Empty: the first of lz4 and lzo-rle that the kernel has.",
            set: |to, value, _| {
                algorithm(value).map(|algorithm| to.compression_algorithm = algorithm)
            },
            show: |from| from.compression_algorithm.clone().unwrap_or_default(),
            comes_to: None,
        },
        Key {
            name: "recompression-algorithm",
            doc: "The stronger algorithm by which idle pages are compressed anew (recompress-after-seconds above), such as zstd. \
                  Empty: none. The kernel must have CONFIG_ZRAM_MULTI_COMP.",
            set: |to, value, _| {
                algorithm(value).map(|algorithm| to.recompression_algorithm = algorithm)
            },
            show: |from| from.recompression_algorithm.clone().unwrap_or_default(),
            comes_to: None,
        },
        Key {
            name: "swap-priority",
            doc: "Swap of the highest priority is used first; 0 to 32767.",
            set: |to, value, _| {
                number(value, 0, 32_767).map(|priority| to.swap_priority = priority)
            },
            show: |from| from.swap_priority.to_string(),
            comes_to: None,
        },
        Key {
            name: "only-without-swap",
            doc: "Make the device only where no other swap is switched on.",
            set: |to, value, _| yes_no(value).map(|yes| to.only_without_swap = yes),
            show: |from| show_yes_no(from.only_without_swap),
            comes_to: None,
        },
    ];
}

/// One algorithm, or none.
fn algorithm(value: &str) -> Result<Option<String>, String> {
    if value.contains(char::is_whitespace) {
        return Err(format!("{value:?} is more than one algorithm"));
    }
    Ok((!value.is_empty()).then(|| value.to_owned()))
}

/// Where a source of switch signals is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Where it is found, if anywhere.
    #[default]
    Auto,
    /// It is not listened to.
    Off,
    /// A display, or a socket.
    At(String),
}

impl Place {
    fn parse(value: &str) -> Self {
        match value {
            "auto" | "yes" => Self::Auto,
            "no" | "off" => Self::Off,
            place => Self::At(place.to_owned()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Off => "no".to_owned(),
            Self::At(place) => place.clone(),
        }
    }
}

/// `[signals]`: how the daemon learns what its user looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalsSection {
    /// The X11 display.
    pub x11: Place,
    /// The socket of sway.
    pub sway: Place,
    /// The socket of i3.
    pub i3: Place,
    /// Whether an application that works after it rested counts as switched to.
    pub activity: bool,
    /// How long it must have rested, in seconds.
    pub idle_seconds: u64,
    /// CPU time within one look that counts as work, in ms a second.
    pub busy_ms_per_second: u64,
}

impl Section for SignalsSection {
    const DOC: &'static str = "How the daemon learns what its user looks at, besides `warmswap switch` and `warmswap launch`.";

    fn defaults(_: Facts) -> Self {
        Self {
            x11: Place::Auto,
            sway: Place::Auto,
            i3: Place::Auto,
            activity: true,
            idle_seconds: 30,
            busy_ms_per_second: 50,
        }
    }

    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "x11",
            doc: "The display whose active window is followed, such as :0; auto: $DISPLAY, or the first that \
                  is there. Authority is looked for in $XAUTHORITY.",
            set: |to, value, _| {
                to.x11 = Place::parse(value);
                Ok(())
            },
            show: |from| from.x11.show(),
            comes_to: None,
        },
        Key {
            name: "sway",
            doc: "The socket of sway whose focused window is followed; auto: $SWAYSOCK, or one in /run/user.",
            set: |to, value, _| {
                to.sway = Place::parse(value);
                Ok(())
            },
            show: |from| from.sway.show(),
            comes_to: None,
        },
        Key {
            name: "i3",
            doc: "The socket of i3 whose focused window is followed; auto: $I3SOCK, or one in /run/user. \
                  Which program a window belongs to, the display above says.",
            set: |to, value, _| {
                to.i3 = Place::parse(value);
                Ok(())
            },
            show: |from| from.i3.show(),
            comes_to: None,
        },
        Key {
            name: "activity",
            doc: "Whether an application that begins to work after it rested counts as switched to, where no \
                  window system says what is looked at.",
            set: |to, value, _| yes_no(value).map(|yes| to.activity = yes),
            show: |from| show_yes_no(from.activity),
            comes_to: None,
        },
        Key {
            name: "idle-seconds",
            doc: "How long it must have rested.",
            set: |to, value, _| number(value, 1, 86_400).map(|seconds| to.idle_seconds = seconds),
            show: |from| from.idle_seconds.to_string(),
            comes_to: None,
        },
        Key {
            name: "busy-ms-per-second",
            doc: "CPU time that counts as work; less of it is rest.",
            set: |to, value, _| number(value, 1, 1000).map(|ms| to.busy_ms_per_second = ms),
            show: |from| from.busy_ms_per_second.to_string(),
            comes_to: None,
        },
    ];
}

/// `[metrics]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsSection {
    /// Where Prometheus may ask.
    pub listen: Option<Listen>,
    /// Whether every user of the machine may read the names of applications.
    pub app_names: bool,
}

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address of the loopback interface: every user of the machine can connect to it.
    Loopback(SocketAddr),
    /// A socket file that root alone can open.
    Socket(PathBuf),
}

impl Listen {
    fn parse(value: &str) -> Result<Self, String> {
        if value.starts_with('/') {
            return absolute(value).map(Self::Socket);
        }
        let address: SocketAddr = value.parse().map_err(|_| {
            format!(
                "{value:?} is neither an address with a port, such as 127.0.0.1:9733, nor a path that begins with /"
            )
        })?;
        if !address.ip().is_loopback() {
            return Err(format!("{value:?} is no address of the loopback interface"));
        }
        Ok(Self::Loopback(address))
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Loopback(address) => write!(f, "{address}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Section for MetricsSection {
    const DOC: &'static str = "Metrics for Prometheus.";

    fn defaults(_: Facts) -> Self {
        Self::default()
    }

    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "listen",
            doc: "A socket file that root alone can open, such as /run/warmswap/metrics.sock; or address and port of the \
                  loopback interface, such as 127.0.0.1:9733, which every user of this machine can read; the systemd unit \
                  says which lines it needs for that. The page is /metrics. Empty: none.",
            set: |to, value, _| {
                to.listen = match value {
                    "" => None,
                    value => Some(Listen::parse(value)?),
                };
                Ok(())
            },
            show: |from| {
                from.listen
                    .as_ref()
                    .map_or_else(String::new, Listen::to_string)
            },
            comes_to: None,
        },
        Key {
            name: "app-names",
            doc: "Whether the page on the loopback interface tells applications one by one, with their names. \
                  no: it tells the memory of all together. The page on a socket file always has the names.",
            set: |to, value, _| yes_no(value).map(|yes| to.app_names = yes),
            show: |from| show_yes_no(from.app_names),
            comes_to: None,
        },
    ];
}

/// `[discover]`: applications that nobody described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoverSection {
    /// Whether they are looked for.
    pub enable: bool,
    /// Memory that makes an application worth it.
    pub min_size: Option<Size>,
    /// Names that are left alone.
    pub exclude: Vec<String>,
}

impl Section for DiscoverSection {
    const DOC: &'static str = "Applications that have no section of their own: processes of one executable, \
                               large enough to matter.";

    fn defaults(facts: Facts) -> Self {
        let exclude = "init systemd* dbus* Xorg Xwayland Xvfb sway i3 gnome-shell kwin* plasmashell mutter* \
                       weston pipewire* wireplumber pulseaudio sshd login agetty warmswap";
        Self {
            enable: true,
            min_size: Size::parse("32", facts).ok(),
            exclude: words(exclude),
        }
    }

    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "enable",
            doc: "Whether they are looked for.",
            set: |to, value, _| yes_no(value).map(|yes| to.enable = yes),
            show: |from| show_yes_no(from.enable),
            comes_to: None,
        },
        Key {
            name: "min-size",
            doc: "Memory, swapped out or not, from which on an application is looked after. A size in MiB.",
            set: |to, value, facts| optional_size(value, facts).map(|size| to.min_size = size),
            show: |from| show_size(&from.min_size),
            comes_to: Some(|from| size_comes_to(&from.min_size)),
        },
        Key {
            name: "exclude",
            doc: "Names of executables that are left alone; * stands for any characters.",
            set: |to, value, _| {
                to.exclude = words(value);
                Ok(())
            },
            show: |from| from.exclude.join(" "),
            comes_to: None,
        },
    ];
}

/// `[app NAME]`: an application, by its executable or its control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppSection {
    /// Pattern over executables.
    pub executable: Option<String>,
    /// Control group.
    pub cgroup: Option<String>,
}

impl Section for AppSection {
    const DOC: &'static str = "An application and how its processes are found: by one of the two keys. Without \
                               any, only `warmswap launch NAME -- COMMAND` gives it processes.";

    fn defaults(_: Facts) -> Self {
        Self::default()
    }

    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "executable",
            doc: "Name or, with a slash, whole path of the executable; * stands for any characters.",
            set: |to, value, _| {
                to.executable = (!value.is_empty()).then(|| value.to_owned());
                Ok(())
            },
            show: |from| from.executable.clone().unwrap_or_default(),
            comes_to: None,
        },
        Key {
            name: "cgroup",
            doc: "Control group, as in /proc/PID/cgroup; the groups below it count too.",
            set: |to, value, _| {
                if !value.is_empty() && !value.starts_with('/') {
                    return Err(format!("{value:?} is no control group that begins with /"));
                }
                to.cgroup = (!value.is_empty()).then(|| value.to_owned());
                Ok(())
            },
            show: |from| from.cgroup.clone().unwrap_or_default(),
            comes_to: None,
        },
    ];
}
