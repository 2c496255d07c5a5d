//! `warmswap daemon`: brings programs back from the kernel's swap; and how the command finds it.

use super::config::load;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use warmswap_protocol::{AppEvent, Client, ClientError, DAEMON_SOCKET, DaemonStatus, Request};
use warmswap_sys::Root;

/// How long the daemon has for its answer: the machine may be short of memory.
const TIMEOUT: Duration = Duration::from_secs(10);

const HELP: &str = "\
Examples:
  warmswap daemon
      until Ctrl-C; with systemd: systemctl enable --now warmswap

Files:
  /etc/warmswap.toml
      the configuration, see warmswap.toml(5)
  /etc/warmswap.d/*.toml
      drop-ins, which win over it; also in /run, /usr/local/lib and /usr/lib
  /run/warmswap/daemon.sock
      the control socket
  /var/lib/warmswap
      hot lists and footprints, a file for each application";

/// How it runs.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct DaemonArgs {
    /// Read this file only, in place of /etc/warmswap.toml and the others
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs until a signal ends it.
pub fn run(args: DaemonArgs) -> Result<()> {
    let config = load(args.config.as_deref())?;
    Ok(warmswap_daemon::run::run(config, &Root::machine())?)
}

/// Where the daemon is.
#[derive(Clone, Debug, Args)]
pub struct DaemonSocket {
    /// The daemon's control socket
    #[arg(long = "daemon", value_name = "SOCKET", default_value = DAEMON_SOCKET)]
    path: PathBuf,
}

impl DaemonSocket {
    /// The daemon that listens there.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Tells the daemon what happened to an application.
    pub fn tell(&self, name: &str, event: AppEvent) -> Result<()> {
        let request = Request::App {
            name: name.to_owned(),
            event,
        };
        let told = self.connect().and_then(|mut client| client.tell(&request));
        Ok(told.map_err(|error| Unreachable::of(error, &self.path))?)
    }

    /// What the daemon knows; `None` when there is no daemon.
    pub fn status(&self) -> Result<Option<DaemonStatus>, Unreachable> {
        match self.connect().and_then(|mut client| client.daemon()) {
            Ok(status) => Ok(Some(status)),
            Err(ClientError::Missing { .. } | ClientError::Dead { .. }) => Ok(None),
            Err(error) => Err(Unreachable::of(error, &self.path)),
        }
    }

    fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.path, TIMEOUT)
    }
}

/// The daemon does not do what it is asked for, with the way out.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// There is none.
    #[error("no daemon listens on {}: start it with `warmswap daemon`", path.display())]
    NotRunning {
        /// Its socket.
        path: PathBuf,
    },
    /// This user is neither root nor in its group.
    #[error(
        "the daemon's socket {} is not for this user: use sudo, or join its group (usermod -aG warmswap USER, then log \
         in anew; socket-group in warmswap.toml(5))",
        path.display()
    )]
    NotAllowed {
        /// Its socket.
        path: PathBuf,
    },
    /// This user cannot look for its socket.
    #[error(
        "{} may not be looked into by this user, so whether a daemon listens on {} is not known: use sudo",
        folder.display(),
        path.display()
    )]
    OutOfSight {
        /// The folder on the way to the socket that this user may not pass.
        folder: PathBuf,
        /// Its socket.
        path: PathBuf,
    },
    /// It does not answer as it should.
    #[error("{0}")]
    Other(ClientError),
}

impl Unreachable {
    fn of(error: ClientError, path: &Path) -> Self {
        let path = path.to_owned();
        match error {
            ClientError::Missing { .. } | ClientError::Dead { .. } => Self::NotRunning { path },
            ClientError::System(error)
                if error.source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                match closed_folder(&path) {
                    Some(folder) => Self::OutOfSight { folder, path },
                    None => Self::NotAllowed { path },
                }
            }
            other => Self::Other(other),
        }
    }
}

/// The folder on the way to `path` that this user may not pass, if there is one.
fn closed_folder(path: &Path) -> Option<PathBuf> {
    let is_closed = |path: &&Path| {
        let found = std::fs::symlink_metadata(path);
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    // All below a closed folder is out of sight, so the last is the one that stands in it.
    let hidden = path.ancestors().take_while(is_closed).last()?;
    hidden.parent().map(Path::to_owned)
}
