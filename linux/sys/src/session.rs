//! A child in a session of its own, which the undo list ends.

use std::io;
use std::process::{Child, Command};

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
    /// Starts the command.
    ///
    /// # Errors
    /// [`SessionError`]; nothing is left running.
    pub fn start(undo: &Undo, command: &mut Command) -> Result<Self, SessionError> {
        let pending = undo.register(Action::Nothing)?;
        in_new_session(command);
        let child = pending.make(|| {
            let mut child = command.spawn().map_err(SessionError::Start)?;
            match Stat::read(&Root::machine(), child.id()) {
                Ok(stat) => {
                    let (leader, start_ticks) = (stat.pid, stat.start_ticks);
                    let action = Action::EndSession {
                        leader,
                        start_ticks,
                    };
                    Ok((child, action))
                }
                Err(error) => {
                    let _ = child.kill().and_then(|()| child.wait());
                    Err(SessionError::File(error))
                }
            }
        })?;
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;
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
