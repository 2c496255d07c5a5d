//! A child in a session of its own, which the undo list ends.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::thread::Builder;

use crate::process::{Stat, in_new_session};
use crate::undo::{Action, Pending, Undo, UndoError};
use crate::{FileError, Root};

/// A child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The system refused.
    #[error("cannot start it: {0}")]
    Start(#[source] io::Error),
    /// It has ended at once.
    #[error(transparent)]
    File(#[from] FileError),
    /// It could not be registered.
    #[error(transparent)]
    Undo(#[from] UndoError),
}

/// A child with all processes of its session, out of reach of the terminal's signals. They end when this is dropped, at a
/// signal, and at the next command after a SIGKILL.
#[derive(Debug)]
pub struct Session {
    child: Child,
    pending: Option<Pending>,
}

impl Session {
    /// Starts the command, which is good for one start, and waits until its program executes.
    ///
    /// # Errors
    /// [`SessionError`]; nothing is left running.
    pub fn start(undo: &Undo, command: &mut Command) -> Result<Self, SessionError> {
        let pending = undo.register(Action::Nothing)?;
        in_new_session(command);
        let gate = Gate::install(command).map_err(SessionError::Start)?;
        let (registered, started) = std::thread::scope(|scope| {
            let register = || gate.register(&pending);
            let thread = Builder::new().spawn_scoped(scope, register)?;
            let started = command.spawn();
            gate.shut();
            // Its panic was told, and the child was not let through.
            let panicked = || io::Error::other("the thread that registers it panicked");
            Ok((thread.join().map_err(|_| panicked())?, started))
        })
        .map_err(SessionError::Start)?;
        registered?;
        let child = started.map_err(SessionError::Start)?;
        Ok(Self {
            child,
            pending: Some(pending),
        })
    }

    /// The child.
    #[must_use]
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends all processes of the session.
    ///
    /// # Errors
    /// [`UndoError`]; the next command tries again.
    pub fn end(&mut self) -> Result<(), UndoError> {
        let ended = self.pending.take().map_or(Ok(()), Pending::finish);
        let _ = self.child.wait();
        ended
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Holds a child up before it executes its program, until it is in the list: executing may take for ever where the program is on
/// a file system that does not answer, and the list's lock is not held meanwhile.
struct Gate(UnixStream);

impl Gate {
    /// Puts it behind all that the command does before.
    fn install(command: &mut Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let parents = ours.as_raw_fd();
        // SAFETY: between fork and exec only calls on the child's own descriptors are made, which are async-signal-safe, and
        // nothing is allocated.
        unsafe { command.pre_exec(move || pass(&theirs, parents)) };
        Ok(Self(ours))
    }

    /// Registers the child that comes, and lets it through; it ends otherwise. Nothing if none comes before the gate is shut.
    fn register(&self, pending: &Pending) -> Result<(), SessionError> {
        let mut pid = [0; size_of::<u32>()];
        if (&self.0).read_exact(&mut pid).is_err() {
            return Ok(());
        }
        let registered = pending.make(|| end_session(u32::from_ne_bytes(pid)));
        if registered.is_ok() {
            // A child that was killed meanwhile takes no answer.
            let _ = (&self.0).write_all(&[1]);
        }
        self.shut();
        registered
    }

    fn shut(&self) {
        // It may be shut already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// The child's side: says its number, and waits until it may go on.
fn pass(gate: &UnixStream, parents: RawFd) -> io::Result<()> {
    // SAFETY: the child's copy of the parent's end, which the parent holds open until the child is through. Without it the child
    // sees the parent's end.
    unsafe { libc::close(parents) };
    let pid = std::process::id().to_ne_bytes();
    // SAFETY: `pid` is a live array of that length, which the kernel reads.
    let sent = unsafe {
        libc::send(
            gate.as_raw_fd(),
            pid.as_ptr().cast(),
            pid.len(),
            libc::MSG_NOSIGNAL,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(gate, &mut answer))?;
    if read == 0 {
        return Err(io::Error::from_raw_os_error(libc::ECANCELED));
    }
    Ok(())
}

/// What ends the session that this process leads.
fn end_session(pid: u32) -> Result<((), Action), SessionError> {
    let stat = Stat::read(&Root::machine(), pid)?;
    let (leader, start_ticks) = (stat.pid, stat.start_ticks);
    let action = Action::EndSession {
        leader,
        start_ticks,
    };
    Ok(((), action))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
    use crate::tree;

    #[test]
    fn a_session_ends_with_its_grandchildren_and_one_that_cannot_start_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Root::machine(), &folder.path().join("state")).unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "sleep 60 & echo x; wait"])
            .stdout(Stdio::piped());

        let mut session = Session::start(&undo, &mut shell).unwrap();

        let mut started = [0; 2];
        let mut stdout = session.child().stdout.take().unwrap();
        stdout.read_exact(&mut started).unwrap();
        let family = tree::descendants(&Root::machine(), session.pid()).unwrap();
        assert_eq!(family.len(), 2);
        drop(session);
        for process in family {
            let now = Stat::read(&Root::machine(), process.pid);
            assert!(now.is_err() || now.is_ok_and(|now| now.state == 'Z'));
        }

        let error = Session::start(&undo, &mut Command::new("/nonexistent")).unwrap_err();
        assert!(matches!(error, SessionError::Start(_)), "{error}");
    }
}
