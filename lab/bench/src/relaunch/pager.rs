//! What pages the applications of an arm, and is told of switches.

use warmswap_apps::RunningApp;
use warmswap_kernel::HostStatus;
use warmswap_sys::Root;

use super::daemon::DaemonProcess;
use super::host_thread::{HostThread, application};
use super::preload::{ArenaCounts, Arenas};
use crate::BenchError;

/// What is told.
#[derive(Debug)]
pub enum Pager {
    /// Memory without a limit, or the kernel by itself.
    None,
    /// The kernel host.
    Host(HostThread),
    /// The arenas of the programs.
    Arenas(Arenas),
    /// A daemon of its own, which is told of switches or not.
    Daemon(DaemonProcess),
}

/// What it did since it began.
#[derive(Debug, Default)]
pub struct PagerCounts {
    /// The kernel host, or the daemon's.
    pub host: Option<HostStatus>,
    /// The arenas by application, nothing in other arms.
    pub arenas: Vec<ArenaCounts>,
    /// CPU time of telling the arenas.
    pub told_ns: u64,
}

impl Pager {
    /// An application comes to the foreground. Does not wait.
    pub fn switch(&self, app: usize) {
        match self {
            Self::None => {}
            Self::Host(host) => host.switch(app),
            Self::Arenas(arenas) => arenas.switch(app),
            Self::Daemon(daemon) => daemon.switch(app),
        }
    }

    /// It has answered.
    pub fn done(&self, app: usize) {
        match self {
            // A user's desktop tells the daemon of switches, and not of answers.
            Self::None | Self::Daemon(_) => {}
            Self::Host(host) => host.done(app),
            Self::Arenas(arenas) => arenas.done(app),
        }
    }

    /// It was killed, and started again.
    pub fn restarted(&self, at: usize, app: &RunningApp, root: &Root) -> Result<(), BenchError> {
        match self {
            Self::None => {}
            Self::Host(host) => host.replace(at, application(app, root)?),
            Self::Arenas(arenas) => arenas.replace(at, app.folder().to_owned()),
            Self::Daemon(daemon) => daemon.launched(at, app)?,
        }
        Ok(())
    }

    /// What the arenas of one application did; `None` in other arms.
    pub fn arena(&self, app: usize) -> Result<Option<ArenaCounts>, BenchError> {
        match self {
            Self::Arenas(arenas) => arenas.counts(app).map(Some),
            _ => Ok(None),
        }
    }

    /// What it did, with so many applications.
    pub fn counts(&self, apps: usize) -> Result<PagerCounts, BenchError> {
        Ok(match self {
            Self::None => PagerCounts::default(),
            Self::Host(host) => PagerCounts {
                host: Some(host.status()?),
                ..PagerCounts::default()
            },
            Self::Daemon(daemon) => PagerCounts {
                host: Some(daemon.status()?),
                ..PagerCounts::default()
            },
            Self::Arenas(arenas) => PagerCounts {
                arenas: (0..apps)
                    .map(|app| arenas.counts(app))
                    .collect::<Result<_, _>>()?,
                told_ns: arenas.told_ns(),
                ..PagerCounts::default()
            },
        })
    }
}
