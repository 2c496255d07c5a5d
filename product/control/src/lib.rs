//! What a paged program, or the daemon, and the command tell each other.
//!
//! | type | direction |
//! |---|---|
//! | [`RunSettings`] | from the command to the library that is preloaded, in the environment |
//! | [`Request`], [`Answer`] | a line of JSON each, over a Unix socket: [`Server`] in the program, [`Client`] in the command |
//! | [`ProgramStats`] | from the program: over the socket, and in a file at its end |
//! | [`DaemonStatus`] | from the daemon, which looks after programs that page nothing themselves |
//! | [`LatencyHistogram`] | within the program: what its statistics are made of |
//!
//! The server lives in programs that are not ours. So it starts no thread, never blocks on a client, raises
//! no SIGPIPE, and changes neither the process's umask nor its signals.

#![forbid(unsafe_code)]

mod client;
mod daemon;
mod latency;
mod peer;
mod places;
mod protocol;
mod server;
mod settings;
mod socket;
mod stats;

pub use client::{Client, ClientError};
pub use daemon::{
    AppStatus, DaemonStatus, KEPT_RELAUNCHES, MemoryStatus, RelaunchStatus, SignalStatus,
    SwapStatus, WaitStatus,
};
pub use latency::{Latencies, LatencyHistogram, LatencySummary};
pub use peer::Peer;
pub use places::{
    DAEMON_SOCKET, PlaceError, Running, running, socket_folder, socket_folders, socket_of,
    socket_path,
};
pub use protocol::{
    Answer, AppEvent, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, PROTOCOL_VERSION, Refusal, RefusalKind,
    Reply, Request,
};
pub use server::{Access, Listener, MAX_CLIENTS, Server, ServerError};
pub use settings::{
    DEFAULT_BACKING_LIMIT_BYTES, Mechanism, PRELOAD_LIBRARY, PRELOAD_VARIABLE, RUN_VARIABLE,
    RunSettings, SettingsError,
};
pub use stats::{ExitState, FaultCounts, FileStats, Phase, ProgramStats, ProgramStatus};
