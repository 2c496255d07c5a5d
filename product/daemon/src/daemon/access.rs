//! What a user may see and steer: root everything, every other user the applications whose processes are all this
//! user's.
//!
//! The host holds processes by handles (pidfd) and knows when they started. So between the check and what follows from
//! it another process with the same number is not taken for the one that was checked.

use warmswap_kernel::AppId;
use warmswap_kernel::application::ProcessId;
use warmswap_protocol::{DaemonStatus, Peer, Refusal, RefusalKind};
use warmswap_sys::peer::Owned;

use super::Daemon;
use crate::host::Host;

/// Whose the processes of an application are, seen from one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// It has none.
    Empty,
    /// All are the user's.
    Own,
    /// At least one is not, or cannot be looked at.
    Foreign,
}

impl<H: Host> Daemon<H> {
    /// Costs about 20 µs a process.
    fn share(&self, user: u32, app: AppId) -> Share {
        let mut share = Share::Empty;
        for id in self.apps.processes(&self.host, app) {
            match self.share_of(user, id) {
                Share::Empty => {}
                Share::Own => share = Share::Own,
                Share::Foreign => return Share::Foreign,
            }
        }
        share
    }

    /// The same of one process.
    fn share_of(&self, user: u32, id: ProcessId) -> Share {
        match Owned::read(&self.root, id.pid) {
            Err(error) if error.is_gone() => Share::Empty,
            Ok(process) if process.stat.start_ticks != id.start_ticks => Share::Empty,
            Ok(process) if process.is_of(user) => Share::Own,
            Ok(_) | Err(_) => Share::Foreign,
        }
    }

    /// Whether the user may see the application, and say that it is looked at.
    pub(super) fn may_steer(&self, peer: Peer, app: AppId) -> bool {
        peer.is_root() || self.share(peer.user, app) == Share::Own
    }

    /// Refuses what [`Self::may_steer`] denies.
    pub(super) fn check_steer(&self, peer: Peer, name: &str, app: AppId) -> Result<(), Refusal> {
        if self.may_steer(peer, app) {
            return Ok(());
        }
        let message = format!("application {name:?} has no processes, or not only yours: ask root");
        Err(Refusal::new(RefusalKind::Denied, message))
    }

    /// Refuses to launch a process of another user, or under a name that another user's processes have.
    pub(super) fn check_launch(
        &self,
        peer: Peer,
        name: &str,
        process: &Owned,
    ) -> Result<(), Refusal> {
        if peer.is_root() {
            return Ok(());
        }
        let denied = |message| Err(Refusal::new(RefusalKind::Denied, message));
        if !process.is_of(peer.user) {
            let pid = process.stat.pid;
            return denied(format!("process {pid} belongs to another user: ask root"));
        }
        match self.apps.by_name(name) {
            Some(app) if self.share(peer.user, app) == Share::Foreign => denied(format!(
                "application {name:?} has processes of another user: choose another name"
            )),
            _ => Ok(()),
        }
    }

    /// Refuses a window's process that is not this user's. Of root's it need not be there any more.
    pub(super) fn check_window(&self, peer: Peer, pid: u32) -> Result<(), Refusal> {
        match peer.is_root() {
            true => Ok(()),
            false => self.check_process(peer, pid).map(drop),
        }
    }

    /// Refuses a process that is not this user's, or has the rights of another one.
    pub(super) fn check_process(&self, peer: Peer, pid: u32) -> Result<ProcessId, Refusal> {
        let process = Owned::read(&self.root, pid)
            .map_err(|error| Refusal::new(RefusalKind::Failed, error.to_string()))?;
        if peer.is_root() || process.is_of(peer.user) {
            let start_ticks = process.stat.start_ticks;
            return Ok(ProcessId { pid, start_ticks });
        }
        let message = format!("process {pid} belongs to another user");
        Err(Refusal::new(RefusalKind::Denied, message))
    }

    /// The applications that the user may hear of.
    pub(super) fn names_for(&self, peer: Peer) -> Vec<&str> {
        let may_see = |name: &&str| {
            self.apps
                .by_name(name)
                .is_some_and(|app| self.may_steer(peer, app))
        };
        self.apps.names().filter(may_see).collect()
    }

    /// All that the daemon knows and that the user may hear of. Warnings name programs, so that only root gets them.
    pub(super) fn status_for(&self, peer: Peer) -> DaemonStatus {
        let mut host = self.host.status();
        if peer.is_root() {
            return self.status_of(host, peer);
        }
        host.unanswering.retain(|process| {
            let (pid, start_ticks) = (process.pid, process.start_ticks);
            self.share_of(peer.user, ProcessId { pid, start_ticks }) == Share::Own
        });
        let mut status = self.status_of(host, peer);
        let all = status.apps.len();
        let names = self.names_for(peer);
        status.apps.retain(|app| names.contains(&app.name.as_str()));
        let hidden = all - status.apps.len();
        status.warnings.clear();
        if hidden > 0 {
            let warning =
                format!("applications that are not this user's alone are not shown: {hidden}");
            status.warnings.push(warning);
        }
        status
    }
}
