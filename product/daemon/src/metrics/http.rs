//! A page over HTTP/1.1: one thread, one request a connection.
//!
//! Enough for Prometheus and curl on this machine, and no more: no keep-alive, no bodies of requests, no TLS. A client has
//! [`PATIENCE`] in all; until then others wait in the kernel's queue.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// For a request and its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest request, headers included.
const MAX_REQUEST_BYTES: usize = 16 << 10;

/// Most headers of a request.
const MAX_HEADERS: usize = 64;

/// A moment after which there may be memory or descriptors again.
const RECOVERY: Duration = Duration::from_secs(1);

/// What is answered.
#[derive(Debug)]
pub struct Response {
    /// Code and reason, as in `200 OK`.
    pub status: &'static str,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Response {
    /// An answer in plain words.
    pub fn plain(status: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }
}

/// Where clients connect.
#[derive(Debug)]
pub enum Socket {
    /// A port.
    Port(TcpListener),
    /// A socket file, which is somebody else's to remove.
    File(UnixListener, PathBuf),
}

/// The end of a connection.
trait Connection: Read + Write {
    fn allow(&self, time: Duration) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn allow(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Connection for UnixStream {
    fn allow(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Socket {
    fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Self::Port(listener) => Box::new(listener.accept()?.0),
            Self::File(listener, _) => Box::new(listener.accept()?.0),
        })
    }

    fn waker(&self) -> io::Result<Waker> {
        Ok(match self {
            Self::Port(listener) => Waker::Port(listener.local_addr()?),
            Self::File(_, path) => Waker::File(path.clone()),
        })
    }
}

/// What a thread that waits for clients is woken by.
#[derive(Debug)]
enum Waker {
    Port(SocketAddr),
    File(PathBuf),
}

impl Waker {
    fn wake(&self) -> bool {
        match self {
            Self::Port(address) => TcpStream::connect(address).is_ok(),
            Self::File(path) => UnixStream::connect(path).is_ok(),
        }
    }
}

/// The thread that serves. Dropping it ends the thread.
#[derive(Debug)]
pub struct Server {
    thread: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
    waker: Waker,
}

impl Server {
    /// Serves what `respond` answers to a path that is asked for by GET or HEAD; it is called in the thread.
    ///
    /// # Errors
    /// No thread can be started, or the socket has no address.
    pub fn start(
        socket: Socket,
        respond: impl Fn(&str) -> Response + Send + 'static,
    ) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let waker = socket.waker()?;
        let end = Arc::clone(&ended);
        let serve = move || {
            while !end.load(Relaxed) {
                match socket.accept() {
                    Ok(_) if end.load(Relaxed) => {}
                    // A client that goes away, or waits too long, has no answer.
                    Ok(mut connection) => drop(answer(&mut *connection, &respond)),
                    Err(_) => std::thread::sleep(RECOVERY),
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        Ok(Self {
            thread: Some(thread.spawn(serve)?),
            ended,
            waker,
        })
    }

    /// The address of a port.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.waker {
            Waker::Port(address) => Some(address),
            Waker::File(_) => None,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        let woken = self.waker.wake();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// What a client asks for.
enum Request {
    Get(String),
    Head(String),
    /// The answer to what is no such request.
    Refused(Response),
}

fn answer(connection: &mut dyn Connection, respond: &impl Fn(&str) -> Response) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let (response, has_body) = match read(connection, deadline)? {
        Request::Get(path) => (respond(&path), true),
        Request::Head(path) => (respond(&path), false),
        Request::Refused(response) => (response, true),
    };
    let Response {
        status,
        content_type,
        body,
    } = response;
    let length = body.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if has_body {
        text += &body;
    }
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        connection.allow(left(deadline)?)?;
        match connection.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn read(connection: &mut dyn Connection, deadline: Instant) -> io::Result<Request> {
    let mut input = Vec::new();
    let mut part = [0; 4096];
    loop {
        connection.allow(left(deadline)?)?;
        match connection.read(&mut part) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => input.extend_from_slice(&part[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if let Some(request) = parse(&input) {
            return Ok(request);
        }
        if input.len() > MAX_REQUEST_BYTES {
            let why = "the request is too long\n";
            return Ok(Request::Refused(Response::plain("431 Too Long", why)));
        }
    }
}

/// What the input asks for; `None` while there is more to come.
fn parse(input: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let refused = |status, why: &str| Some(Request::Refused(Response::plain(status, why)));
    match request.parse(input) {
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default();
            let path = path.split_once('?').map_or(path, |(path, _)| path);
            match request.method {
                Some("GET") => Some(Request::Get(path.to_owned())),
                Some("HEAD") => Some(Request::Head(path.to_owned())),
                _ => refused("405 Method Not Allowed", "only GET and HEAD\n"),
            }
        }
        Err(error) => refused("400 Bad Request", &format!("{error}\n")),
    }
}

impl Socket {
    /// A port of this machine.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn port(address: &SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(Self::Port)
    }

    /// A socket file, which is there already.
    pub fn file(listener: UnixListener, path: &Path) -> Self {
        Self::File(listener, path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server() -> Server {
        let any = "127.0.0.1:0".parse().unwrap();
        let respond = |path: &str| Response::plain("200 OK", format!("this is {path}"));
        Server::start(Socket::port(&any).unwrap(), respond).unwrap()
    }

    fn say(server: &Server, parts: &[&str]) -> String {
        let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
        for part in parts {
            // One that has been refused already may close before the rest.
            let _ = stream.write_all(part.as_bytes());
        }
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        said
    }

    #[test]
    fn requests_in_pieces_and_with_queries_are_answered() {
        let server = server();
        let said = say(
            &server,
            &["GET /a", "?b=c HT", "TP/1.1\r\nHost: x\r\n", "\r\n"],
        );
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
        assert!(said.ends_with("\r\n\r\nthis is /a"), "{said}");
        let said = say(&server, &["HEAD /a HTTP/1.0\r\n\r\n"]);
        assert!(said.contains("Content-Length: 10\r\n"), "{said}");
        assert!(said.ends_with("\r\n\r\n"), "{said}");
    }

    #[test]
    fn what_is_no_request_is_refused_and_the_next_one_is_answered() {
        let server = server();
        let long = "x".repeat(2 * MAX_REQUEST_BYTES);
        for (sent, status) in [
            ("POST / HTTP/1.1\r\n\r\n", "405"),
            ("hello\r\n\r\n", "400"),
            ("GET / HTTP/9.9\r\n\r\n", "400"),
            (&format!("GET /{long}"), "431"),
        ] {
            let said = say(&server, &[sent]);
            // The kernel drops an answer where more was sent than was read.
            let expected = format!("HTTP/1.1 {status}");
            assert!(said.starts_with(&expected) || sent.len() > 4096, "{said}");
        }
        // A client that leaves.
        drop(TcpStream::connect(server.address().unwrap()).unwrap());
        assert!(say(&server, &["GET / HTTP/1.1\r\n\r\n"]).starts_with("HTTP/1.1 200"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), path in "[ -~]{0,20}") {
            let _ = parse(&bytes);
            let _ = parse(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes());
        }
    }
}
