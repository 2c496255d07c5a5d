//! The end of the protocol that lives in a paged program.

mod connection;
mod listener;

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::accept_with;

pub(crate) use self::listener::remove_if_dead;
pub use self::listener::{Access, Listener, ServerError};

use self::connection::{Connection, Next};
use crate::socket::NONBLOCKING;
use crate::{Peer, Reply, Request};

/// Clients at the same time. Another one takes the place of the one that was quiet for longest.
pub const MAX_CLIENTS: usize = 16;

/// How long the listener rests at most when no descriptor is free.
const REST: Duration = Duration::from_millis(200);

/// Listens on a Unix socket and answers. It has no thread: the host calls [`Server::poll_once`] from one of its
/// own. Memory is bounded: [`MAX_CLIENTS`] times one request and one answer.
///
/// Dropping it removes the socket file, as [`Listener`] does.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    clients: Vec<Connection>,
    /// Counts calls of `poll_once`: the clock by which clients are quiet.
    turn: u64,
    /// The last accept found no free descriptor; the listener rests for one turn.
    exhausted: bool,
}

impl Server {
    /// Listens at `path`; see [`Listener::bind`].
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(path: &Path) -> Result<Self, ServerError> {
        Self::bind_for(path, Access::Owner)
    }

    /// As [`Server::bind`], for the users that `access` names.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind_for(path: &Path, access: Access) -> Result<Self, ServerError> {
        Ok(Self {
            listener: Listener::bind(path, access)?,
            clients: Vec::new(),
            turn: 0,
            exhausted: false,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// Waits for clients, at most `timeout` (`None`: for ever), then serves all that are ready, once, and
    /// returns the number of requests that `handler` was given. A signal ends the wait early.
    ///
    /// # Errors
    /// Those of poll(2), for want of memory. What goes wrong with a client ends that client only.
    pub fn poll_once(
        &mut self,
        timeout: Option<Duration>,
        mut handler: impl FnMut(Request) -> Reply,
    ) -> io::Result<usize> {
        self.poll_peers(timeout, |_, request| handler(request))
    }

    /// As [`Server::poll_once`]; the handler is given the peer, too. For servers that several users may connect to.
    ///
    /// # Errors
    /// As [`Server::poll_once`].
    pub fn poll_peers(
        &mut self,
        timeout: Option<Duration>,
        mut handler: impl FnMut(Peer, Request) -> Reply,
    ) -> io::Result<usize> {
        self.turn += 1;
        // While the listener rests, nothing else may wake this: it is tried again soon.
        let timeout = match self.exhausted {
            true => Some(timeout.map_or(REST, |timeout| timeout.min(REST))),
            false => timeout,
        };
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let accepting = if std::mem::take(&mut self.exhausted) {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let mut fds = vec![PollFd::new(&self.listener, accepting)];
        let clients = self.clients.iter();
        fds.extend(clients.map(|client| PollFd::from_borrowed_fd(client.fd(), client.interest())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(0),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let newcomers = ready.next() == Some(true);
        let ready: Vec<bool> = ready.collect();
        drop(fds);

        let mut served = 0;
        let mut ready = ready.into_iter();
        let turn = self.turn;
        self.clients.retain_mut(|client| {
            if ready.next() != Some(true) {
                return true;
            }
            client.last_active = turn;
            let (next, requests) = client.serve(&mut handler);
            served += requests;
            next == Next::Open
        });
        if newcomers {
            self.accept();
        }
        Ok(served)
    }

    fn accept(&mut self) {
        for _ in 0..MAX_CLIENTS {
            let fd = match accept_with(&self.listener, NONBLOCKING) {
                Ok(fd) => fd,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.exhausted = true;
                    return;
                }
                // No client is left, or one that gave up meanwhile.
                Err(_) => return,
            };
            // A client whose user the kernel does not tell gets no answer.
            let Ok(peer) = Peer::of(&fd) else {
                continue;
            };
            if self.clients.len() == MAX_CLIENTS {
                let quiet = self.clients.iter().enumerate();
                if let Some((index, _)) = quiet.min_by_key(|(_, client)| client.last_active) {
                    self.clients.swap_remove(index);
                }
            }
            self.clients.push(Connection::new(fd, peer, self.turn));
        }
    }
}
