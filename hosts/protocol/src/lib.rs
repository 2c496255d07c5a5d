//! What paged programs, the daemon and the command tell each other.
//!
//! | type | direction |
//! |---|---|
//! | [`RunSettings`] | from the command to the library that is preloaded, in the environment |
//! | [`Request`], [`Answer`] | a line of JSON each, over a Unix socket: [`Server`] in the program, [`Client`] in the command |
//! | [`ProgramStats`] | from the program: over the socket, and in a file at its end |
//! | [`DaemonStatus`] | from the daemon, which looks after programs that page nothing themselves |
//! | [`Switches`], [`Follower`] | from the daemon to programs that want to hear when they come and go |
//!
//! Both sides know programs with [`sanitizers`] by the same names.
//!
//! The server lives in programs that are not ours. So it starts no thread, never blocks on a client, raises
//! no SIGPIPE, and changes neither the process's umask nor its signals.

#![forbid(unsafe_code)]

mod client;
mod daemon;
mod peer;
mod places;
mod protocol;
pub mod sanitizers;
mod server;
mod settings;
mod socket;
mod stats;
mod switches;

pub use client::{Client, ClientError};
pub use daemon::{
    AppStatus, DaemonStatus, GivenBack, KEPT_RELAUNCHES, MemoryStatus, RelaunchStatus,
    SignalStatus, SwapStatus, Verdict,
};
pub use peer::Peer;
pub use places::{
    DAEMON_SOCKET, PlaceError, Running, remove_dead_sockets, running, socket_folder,
    socket_folders, socket_of, socket_path,
};
pub use protocol::{
    Answer, AppEvent, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, PROTOCOL_VERSION, Refusal, RefusalKind,
    Reply, Request, WINDOWS_HEARD_FOR, WindowEvent, WindowSystem,
};
pub use server::{Access, Listener, MAX_CLIENTS, Server, ServerError};
pub use settings::{
    DEFAULT_BACKING_LIMIT_BYTES, LEAST_BACKING_LIMIT_BYTES, PRELOAD_LIBRARY, PRELOAD_VARIABLE,
    RUN_VARIABLE, RunSettings, SettingsError,
};
pub use stats::{ExitState, FaultCounts, FileStats, Phase, ProgramStats, ProgramStatus};
pub use switches::{Follower, Standing, Switches};

// Of fields of these.
pub use warmswap_page::Mechanism;
pub use warmswap_page::latency::LatencySummary;
