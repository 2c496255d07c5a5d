//! The end of the protocol that asks.

use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use warmswap_sys::FileError;

use crate::protocol::{MAX_ANSWER_BYTES, ReplyError, read_reply, request_line};
use crate::socket::{connect_to, failed};
use crate::{Answer, DaemonStatus, ProgramStats, ProgramStatus, Refusal, Request};

/// Time between two attempts to connect to a server that has not accepted earlier clients yet.
const CONNECT_INTERVAL: Duration = Duration::from_millis(2);

/// A request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no such socket.
    #[error("there is no socket {}: no such program runs, or it is not paged (`warmswap status` lists those that are)", path.display())]
    Missing {
        /// The socket.
        path: PathBuf,
    },
    /// The socket file is left over from a program that ended.
    #[error("no process listens on {}: the program has ended", path.display())]
    Dead {
        /// The socket.
        path: PathBuf,
    },
    /// It is another kind of file.
    #[error("{} is no socket", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses.
    #[error(transparent)]
    System(#[from] FileError),
    /// The program did not answer in time.
    #[error("no answer from {} within {} ms", path.display(), timeout.as_millis())]
    Timeout {
        /// The socket.
        path: PathBuf,
        /// The time it had.
        timeout: Duration,
    },
    /// The program ended before it answered.
    #[error("{} closed before it answered", path.display())]
    Closed {
        /// The socket.
        path: PathBuf,
    },
    /// What came back is no answer.
    #[error("{} gives no answer that can be understood: {what}", path.display())]
    Nonsense {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The program says no.
    #[error("{} refuses: {refusal}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Its reason.
        #[source]
        refusal: Refusal,
    },
}

fn is_socket(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.file_type().is_socket())
}

/// A connection to one paged program.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    timeout: Duration,
    /// What was read beyond the last answer.
    input: Vec<u8>,
}

impl Client {
    /// Connects to the socket at `path`, waiting for at most `timeout` while as many clients wait to be accepted as the
    /// kernel lets. Every request then has `timeout` to be answered.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, ClientError> {
        let deadline = Instant::now() + timeout;
        let socket = loop {
            match connect_to(path) {
                // The server has not accepted earlier clients.
                Err(Errno::AGAIN) if Instant::now() < deadline => {
                    std::thread::sleep(CONNECT_INTERVAL);
                }
                socket => break socket,
            }
        };
        let socket = socket.and_then(|socket| {
            rustix::io::ioctl_fionbio(&socket, false)?;
            Ok(socket)
        });
        let stream = UnixStream::from(socket.map_err(|errno| {
            let path = path.to_owned();
            match errno {
                Errno::NOENT => ClientError::Missing { path },
                Errno::CONNREFUSED if is_socket(&path) => ClientError::Dead { path },
                Errno::CONNREFUSED => ClientError::NotASocket { path },
                Errno::AGAIN => ClientError::Timeout { path, timeout },
                errno => failed("connect to", &path)(errno).into(),
            }
        })?);
        Ok(Self {
            stream,
            path: path.to_owned(),
            timeout,
            input: Vec::new(),
        })
    }

    /// Asks for something and waits for the answer. After an error other than [`ClientError::Refused`] the
    /// connection is of no more use.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&mut self, request: &Request) -> Result<Answer, ClientError> {
        let line = request_line(request).map_err(|error| self.nonsense(error.to_string()))?;
        let deadline = Instant::now() + self.timeout;
        self.write(&line, deadline)?;
        let line = self.read_line(deadline)?;
        match read_reply(&line) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(refusal)) => Err(ClientError::Refused {
                path: self.path.clone(),
                refusal,
            }),
            Err(error @ (ReplyError::Json(_) | ReplyError::Version(_) | ReplyError::Neither)) => {
                Err(self.nonsense(error.to_string()))
            }
        }
    }

    /// [`Request::Status`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&mut self) -> Result<ProgramStatus, ClientError> {
        match self.ask(&Request::Status)? {
            Answer::Status(status) => Ok(status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// [`Request::Stats`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn stats(&mut self) -> Result<ProgramStats, ClientError> {
        match self.ask(&Request::Stats)? {
            Answer::Stats(stats) => Ok(*stats),
            other => Err(self.unexpected(&other)),
        }
    }

    /// [`Request::Daemon`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn daemon(&mut self) -> Result<DaemonStatus, ClientError> {
        match self.ask(&Request::Daemon)? {
            Answer::Daemon(status) => Ok(*status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// A request that is answered by [`Answer::Done`], such as [`Request::Background`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn tell(&mut self, request: &Request) -> Result<(), ClientError> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn write(&self, mut line: &[u8], deadline: Instant) -> Result<(), ClientError> {
        while !line.is_empty() {
            let set = self.stream.set_write_timeout(Some(self.left(deadline)?));
            set.map_err(|error| self.system("set up", error))?;
            match send(&self.stream, line, SendFlags::NOSIGNAL) {
                Ok(len) => line = &line[len..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(self.closed()),
                Err(errno) => return Err(self.system("write to", errno.into())),
            }
        }
        Ok(())
    }

    fn read_line(&mut self, deadline: Instant) -> Result<Vec<u8>, ClientError> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.input[searched..].iter().position(|&b| b == b'\n') {
                let mut line: Vec<u8> = self.input.drain(..=searched + at).collect();
                line.pop();
                return Ok(line);
            }
            searched = self.input.len();
            if searched >= MAX_ANSWER_BYTES {
                return Err(self.nonsense(format!("more than {MAX_ANSWER_BYTES} bytes")));
            }
            let set = self.stream.set_read_timeout(Some(self.left(deadline)?));
            set.map_err(|error| self.system("set up", error))?;
            let mut buffer = [0u8; 8192];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(self.closed()),
                Ok(len) => self.input.extend_from_slice(&buffer[..len]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return Err(self.closed()),
                    _ => return Err(self.system("read from", error)),
                },
            }
        }
    }

    /// Time until `deadline`, never 0, which would mean for ever.
    fn left(&self, deadline: Instant) -> Result<Duration, ClientError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::Timeout {
                path: self.path.clone(),
                timeout: self.timeout,
            });
        }
        // The system counts microseconds.
        Ok(left.max(Duration::from_micros(1)))
    }

    fn closed(&self) -> ClientError {
        ClientError::Closed {
            path: self.path.clone(),
        }
    }

    fn system(&self, action: &'static str, source: io::Error) -> ClientError {
        failed(action, &self.path)(source).into()
    }

    fn nonsense(&self, what: String) -> ClientError {
        ClientError::Nonsense {
            path: self.path.clone(),
            what,
        }
    }

    fn unexpected(&self, answer: &Answer) -> ClientError {
        let kind = match answer {
            Answer::Status(_) => "a status",
            Answer::Stats(_) => "statistics",
            Answer::Daemon(_) => "the daemon's status",
            Answer::Done => "`done`",
        };
        self.nonsense(format!("{kind}, which was not asked for"))
    }
}
