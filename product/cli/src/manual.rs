//! What the help and the manual page of each command say besides its options: examples, exit status and files.

/// What is told of one command.
#[derive(Debug)]
pub struct Page {
    /// The words behind `warmswap`; empty for the command itself.
    pub command: &'static str,
    /// Command lines, each with what it does.
    pub examples: &'static [(&'static str, &'static str)],
    /// Exit codes beyond those of [`EXIT`], or with another meaning.
    pub exit: &'static [(&'static str, &'static str)],
    /// Files, each with what it is.
    pub files: &'static [(&'static str, &'static str)],
}

/// How every command ends.
pub const EXIT: [(&str, &str); 3] = [
    ("0", "It did what was asked."),
    (
        "1",
        "It failed; one line on standard error says why, and what to do.",
    ),
    (
        "2",
        "The arguments, or a file that they name, cannot be used.",
    ),
];

/// `warmswap status` found neither a daemon nor a paged program.
pub const NOTHING_RUNS: u8 = 3;

/// `warmswap status` may not ask the daemon, or cannot see whether there is one.
pub const NOT_ALLOWED: u8 = 4;

const CONFIGURATION: [(&str, &str); 2] = [
    (
        "/etc/warmswap.conf",
        "The configuration, see warmswap.conf(5).",
    ),
    (
        "/etc/warmswap.conf.d/*.conf",
        "Drop-ins, which win over it; also in /run, /usr/local/lib and /usr/lib.",
    ),
];

const SOCKET: (&str, &str) = ("/run/warmswap/daemon.sock", "The daemon's control socket.");

const INSTALLED: (&str, &str) = (
    "/usr/share/warmswap",
    "Definitions of applications (apps/) and the recorded sample (traces/mixed.wst): what a relative path names that is \
     not in the working directory. Below the folder of the installation, so /usr/local/share/warmswap after `make install`.",
);

/// The page of a command, by the words behind `warmswap`.
pub fn page(command: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.command == command)
}

/// All pages.
pub const PAGES: &[Page] = &[
    Page {
        command: "",
        examples: &[
            (
                "warmswap doctor",
                "what works on this machine, and what would fix the rest",
            ),
            (
                "warmswap status",
                "the daemon: is it working, and does it help?",
            ),
            (
                "warmswap run --budget 512M -- redis-server",
                "one program in less memory",
            ),
        ],
        exit: &[],
        files: &[CONFIGURATION[0], SOCKET, INSTALLED],
    },
    Page {
        command: "daemon",
        examples: &[
            (
                "systemctl enable --now warmswap",
                "from now on, with systemd",
            ),
            ("warmswap daemon", "until Ctrl-C, without"),
        ],
        exit: &[(
            "0",
            "A signal ended it, and what it had set up is taken back.",
        )],
        files: &[
            CONFIGURATION[0],
            CONFIGURATION[1],
            SOCKET,
            (
                "/var/lib/warmswap",
                "Hot lists and footprints, a file for each application.",
            ),
        ],
    },
    Page {
        command: "run",
        examples: &[
            ("warmswap doctor run", "can it work here?"),
            (
                "warmswap run --budget 512M -- redis-server --port 0",
                "with 512 MiB for its pages, compressed ones included",
            ),
            (
                "warmswap run --budget 40% --learned ~/.cache/warmswap -- python3 app.py",
                "with what earlier runs taught about it",
            ),
            (
                "warmswap run --host kernel --budget 50% -- ./static-program",
                "by the kernel's own swap, as root; any program",
            ),
        ],
        exit: &[
            (
                "any",
                "That of the program; 128 and the signal's number when a signal ended it.",
            ),
            ("1, 2", "Before the program starts: as with every command."),
        ],
        files: &[
            (
                "/usr/lib/warmswap/libwarmswap_preload.so",
                "The library that is preloaded; WARMSWAP_PRELOAD names another one.",
            ),
            (
                "/run/user/UID/warmswap/PID.sock",
                "Where a paged program listens.",
            ),
        ],
    },
    Page {
        command: "launch",
        examples: &[
            (
                "warmswap launch mail -- thunderbird",
                "as a member of the daemon's socket-group",
            ),
            (
                "sudo warmswap launch mail -- thunderbird",
                "as root: thunderbird runs as the user who called sudo",
            ),
        ],
        exit: &[("any", "That of the program, once it has started.")],
        files: &[SOCKET],
    },
    Page {
        command: "switch",
        examples: &[
            ("warmswap switch mail", "its user is back"),
            (
                "warmswap switch --background mail",
                "its user is gone: its pages may leave",
            ),
            (
                "warmswap switch --foreground 4711",
                "of a program under `warmswap run`, by its process",
            ),
        ],
        exit: &[],
        files: &[SOCKET],
    },
    Page {
        command: "config",
        examples: &[
            (
                "warmswap config --example",
                "every key with its meaning and default, as a file to begin with",
            ),
            (
                "warmswap config --effective",
                "what holds, with the file and line of each value",
            ),
        ],
        exit: &[(
            "2",
            "The configuration is wrong: all that is wrong with it, a line each.",
        )],
        files: &CONFIGURATION,
    },
    Page {
        command: "status",
        examples: &[
            (
                "warmswap status",
                "the daemon with its applications, and the paged programs",
            ),
            ("warmswap status 4711", "one paged program"),
            (
                "warmswap status --json -",
                "for scripts: see warmswap-json(5)",
            ),
        ],
        exit: &[
            (
                "3",
                "Neither a daemon nor a paged program of this user runs.",
            ),
            (
                "4",
                "This user may not connect to the daemon's socket, or not look for it; paged programs are shown all the same.",
            ),
        ],
        files: &[SOCKET],
    },
    Page {
        command: "top",
        examples: &[("warmswap top --interval 500", "twice a second")],
        exit: &[],
        files: &[SOCKET],
    },
    Page {
        command: "doctor",
        examples: &[
            ("warmswap doctor", "all parts"),
            (
                "warmswap doctor run",
                "what `warmswap run` needs, and whether it is there",
            ),
        ],
        exit: &[("1", "One of the parts that were named cannot work here.")],
        files: &[],
    },
    Page {
        command: "schemes",
        examples: &[("warmswap schemes", "what --scheme, --set and --device take")],
        exit: &[],
        files: &[],
    },
    Page {
        command: "trace",
        examples: &[(
            "warmswap trace info traces/mixed.wst",
            "what the recorded sample holds",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "trace info",
        examples: &[
            (
                "warmswap trace info traces/mixed.wst",
                "applications, pages and relaunches",
            ),
            (
                "warmswap trace info --verify mine.wst",
                "the same, with every block checked",
            ),
        ],
        exit: &[(
            "2",
            "The file is no trace, or damaged: the line says at which byte.",
        )],
        files: &[INSTALLED],
    },
    Page {
        command: "trace head",
        examples: &[(
            "warmswap trace head -n 5 --from 1000 traces/mixed.wst",
            "events 1000 to 1004",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "trace export",
        examples: &[(
            "warmswap trace export traces/mixed.wst --out mixed.parquet",
            "for data tools",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "trace import",
        examples: &[(
            "warmswap trace import artifact/ --out ariadne.wst",
            "from the Ariadne artifact",
        )],
        exit: &[],
        files: &[],
    },
    Page {
        command: "trace synth",
        examples: &[(
            "warmswap trace synth --out synthetic.wst --apps 5 --scale 0.1",
            "five applications, a tenth of the volumes of the papers",
        )],
        exit: &[],
        files: &[],
    },
    Page {
        command: "trace sample",
        examples: &[(
            "warmswap trace sample mine.wst --out small.wst --share 0.1",
            "a tenth of the pages",
        )],
        exit: &[],
        files: &[],
    },
    Page {
        command: "record",
        examples: &[(
            "warmswap record --apps apps/redis.toml,apps/cpython.toml --out mine.wst",
            "two programs, switched between, as root",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "replay",
        examples: &[
            (
                "warmswap replay traces/mixed.wst --scheme ariadne --budget 40%",
                "relaunch by relaunch, with 40 % of the memory that was recorded",
            ),
            (
                "warmswap replay traces/mixed.wst --set prefetch=none",
                "our scheme without its prefetching",
            ),
        ],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "compare",
        examples: &[(
            "warmswap compare traces/mixed.wst --schemes dram,zram,warmswap",
            "three schemes, with half of the memory that was recorded",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "report",
        examples: &[
            (
                "warmswap report results/*.json -o report.html",
                "charts, and every figure of the papers beside what was measured",
            ),
            (
                "warmswap report --compare before.json after.json -o difference.html",
                "what changed, and whether it is more than noise",
            ),
        ],
        exit: &[],
        files: &[],
    },
    Page {
        command: "study all",
        examples: &[(
            "warmswap study all traces/mixed.wst -o results/",
            "every study and the papers' comparisons, for `warmswap report`",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "study",
        examples: &[
            (
                "warmswap study similarity traces/mixed.wst",
                "Figure 5 of the Ariadne paper",
            ),
            (
                "warmswap study heap dump.hprof",
                "what Fleet would keep of a Java program",
            ),
        ],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "calibrate",
        examples: &[(
            "warmswap calibrate traces/mixed.wst --out costs.toml",
            "for sizing=measured:costs=costs.toml",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "bench",
        examples: &[(
            "warmswap bench relaunch --quick",
            "a first look at relaunches, as root",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "bench capacity",
        examples: &[
            ("warmswap bench capacity --quick", "a first look"),
            (
                "warmswap bench capacity --memory 1G --arms swap,zram,kernel,preload",
                "how many of four to sixteen programs stay alive in 1 GiB",
            ),
        ],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "bench relaunch",
        examples: &[
            ("warmswap bench relaunch --quick", "a first look"),
            (
                "warmswap bench relaunch --arms dram,zram,kernel",
                "without the preloaded library",
            ),
            (
                "warmswap bench relaunch --mixes 3 --quick",
                "three mixes of programs, drawn by seeds",
            ),
            (
                "warmswap bench relaunch --machine --quick",
                "the daemon beside zram, with the whole machine short of memory",
            ),
        ],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "bench faults",
        examples: &[(
            "warmswap bench faults --rounds 3",
            "what a page costs, in three rounds",
        )],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "bench program",
        examples: &[(
            "warmswap bench program --budget 50% -- sort --parallel=1 words",
            "a program in half of its memory, beside zram",
        )],
        exit: &[],
        files: &[],
    },
    Page {
        command: "bench redis",
        examples: &[("warmswap bench redis --keys 50000", "a smaller server")],
        exit: &[],
        files: &[INSTALLED],
    },
    Page {
        command: "bench fleet",
        examples: &[(
            "warmswap bench fleet --quick",
            "Fleet beside a native collector and Marvin",
        )],
        exit: &[],
        files: &[],
    },
];
