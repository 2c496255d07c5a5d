//! Server and clients over real sockets, and what clients can do to a server.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;
use warmswap_protocol::{
    Answer, Client, ClientError, MAX_CLIENTS, MAX_REQUEST_BYTES, Peer, ProgramStats, Refusal,
    RefusalKind, Reply, Request, Server, ServerError,
};

const TIMEOUT: Duration = Duration::from_secs(60);

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.sock");
    (folder, path)
}

fn stats() -> ProgramStats {
    ProgramStats {
        pid: 4711,
        name: "redis-server".to_owned(),
        managed: true,
        resident_bytes: 7 << 20,
        ..ProgramStats::default()
    }
}

fn handle(request: Request) -> Reply {
    match request {
        Request::Status => Ok(Answer::Status(stats().status())),
        Request::Stats => Ok(Answer::Stats(Box::new(stats()))),
        Request::LaunchDone => Err(Refusal::new(RefusalKind::NotNow, "no launch is open")),
        _ => Ok(Answer::Done),
    }
}

/// Runs `clients` against a server that answers from a thread of its own.
fn with_server<T>(path: &Path, clients: impl FnOnce() -> T) -> T {
    let mut server = Server::bind(path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                server
                    .poll_once(Some(Duration::from_millis(5)), handle)
                    .unwrap();
            }
        });
        // The server stops when the clients fail, too.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        clients()
    })
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn line(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn every_request_has_its_answer() {
    let (_folder, path) = place();
    with_server(&path, || {
        let mut client = Client::connect(&path, TIMEOUT).unwrap();

        assert_eq!(client.status().unwrap(), stats().status());
        assert_eq!(client.stats().unwrap(), stats());
        client.tell(&Request::Background).unwrap();
        client.tell(&Request::Foreground).unwrap();

        let error = client.tell(&Request::LaunchDone).unwrap_err();
        assert!(
            error.to_string().ends_with("refuses: no launch is open"),
            "{error}"
        );
        let ClientError::Refused { refusal, .. } = error else {
            panic!("a refusal");
        };
        assert_eq!(refusal.kind, RefusalKind::NotNow);
        let error = client.tell(&Request::Status).unwrap_err();
        assert!(matches!(error, ClientError::Nonsense { .. }), "{error}");
    });
}

/// Set for the process that asks as another user: the socket.
const SOCKET: &str = "WARMSWAP_TEST_SOCKET";

/// Not a test of its own: run by the test below in another process, as another user.
#[test]
fn child() {
    if let Some(path) = std::env::var_os(SOCKET) {
        let mut client = Client::connect(Path::new(&path), TIMEOUT).unwrap();
        client.tell(&Request::Background).unwrap();
    }
}

#[test]
fn the_server_hears_which_user_asks() {
    let (folder, path) = place();
    let mut server = Server::bind(&path).unwrap();
    let own = rustix::process::geteuid();
    // Without root there is one user only, whose number must be told all the same.
    let user = if own.is_root() { 65_534 } else { own.as_raw() };
    for open in [folder.path(), &path] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child"]).env(SOCKET, &path);
    if own.is_root() {
        child.uid(user).gid(user);
    }
    let mut child = child.spawn().unwrap();

    let mut heard = Vec::new();
    while heard.is_empty() && child.try_wait().unwrap().is_none() {
        let answer = |peer, request| {
            heard.push((peer, request));
            Ok(Answer::Done)
        };
        server
            .poll_peers(Some(Duration::from_millis(5)), answer)
            .unwrap();
    }

    assert_eq!(heard, [(Peer { user }, Request::Background)]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_socket_is_for_its_user_alone_and_goes_with_the_server() {
    let (_folder, path) = place();
    let server = Server::bind(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    drop(server);
    assert!(!path.exists());
}

#[test]
fn a_dead_socket_is_replaced_and_a_living_one_left_alone() {
    let (_folder, path) = place();
    drop(UnixListener::bind(&path).unwrap());
    let server = Server::bind(&path).unwrap();

    let error = Server::bind(&path).unwrap_err();

    assert!(matches!(error, ServerError::InUse { .. }), "{error}");
    assert!(path.exists());
    drop(server);
    fs::write(&path, "a file").unwrap();
    let error = Server::bind(&path).unwrap_err();
    assert!(matches!(error, ServerError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
}

#[test]
fn a_server_does_not_remove_its_successors_socket() {
    let (_folder, path) = place();
    let old = Server::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let _new = Server::bind(&path).unwrap();
    drop(old);
    assert!(path.exists());
}

#[test]
fn of_many_servers_at_once_one_gets_the_socket() {
    let (_folder, path) = place();
    drop(UnixListener::bind(&path).unwrap());
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Server::bind(&path)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let bound = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(bound, 1, "{results:?}");
    assert!(path.exists());
}

#[test]
fn paths_that_cannot_be_used_are_named() {
    let (folder, path) = place();
    let long = folder.path().join("x".repeat(200));
    let missing = folder.path().join("missing/1.sock");
    for bad in [&long, &missing] {
        let error = Server::bind(bad).unwrap_err().to_string();
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    }
    let error = Client::connect(&path, TIMEOUT).unwrap_err();
    assert!(matches!(error, ClientError::Missing { .. }), "{error}");
    drop(UnixListener::bind(&path).unwrap());
    let error = Client::connect(&path, TIMEOUT).unwrap_err();
    assert!(matches!(error, ClientError::Dead { .. }), "{error}");
}

#[test]
fn requests_in_pieces_and_in_bunches_are_answered_in_order() {
    let (_folder, path) = place();
    with_server(&path, || {
        let mut stream = connect(&path);
        let request = b"{\"warmswap\":1,\"request\":\"status\"}\n";
        for piece in request.chunks(5) {
            stream.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(line(&stream).contains("redis-server"));

        let bunch = b"{\"warmswap\":1,\"request\":\"launch_done\"}\nnonsense\n\
                      {\"warmswap\":1,\"request\":\"background\"}\n{\"warmswap\":1,";
        stream.write_all(bunch).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        let answers: Vec<_> = answers.lines().collect();
        assert_eq!(answers.len(), 3, "a half line is no request: {answers:?}");
        assert!(answers[0].contains("not_now"), "{answers:?}");
        assert!(answers[1].contains("malformed"), "{answers:?}");
        assert!(answers[2].contains("done"), "{answers:?}");
    });
}

#[test]
fn a_line_without_end_is_refused_and_ends_the_connection() {
    let (_folder, path) = place();
    with_server(&path, || {
        let mut stream = connect(&path);
        // The server may close before all of it is written.
        let _ = stream.write_all(&vec![b'x'; 2 * MAX_REQUEST_BYTES]);
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.is_empty() || answer.contains("longer than"),
            "{answer}"
        );
        assert!(answer.lines().count() <= 1, "{answer}");
        Client::connect(&path, TIMEOUT).unwrap().status().unwrap();
    });
}

#[test]
fn a_client_that_reads_nothing_holds_up_nobody() {
    let (_folder, path) = place();
    with_server(&path, || {
        let mut deaf = connect(&path);
        deaf.set_nonblocking(true).unwrap();
        let request = b"{\"warmswap\":1,\"request\":\"stats\"}\n";
        let requests = request.repeat(100);
        // Until neither direction takes more.
        let mut written = 0;
        let mut refused = 0;
        while refused < 100 {
            match deaf.write(&requests[written % request.len()..]) {
                Ok(len) => (written, refused) = (written + len, 0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    refused += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }

        Client::connect(&path, TIMEOUT).unwrap().status().unwrap();

        // And none of its answers is lost when it begins to read.
        deaf.set_nonblocking(false).unwrap();
        deaf.shutdown(Shutdown::Write).unwrap();
        let answers = BufReader::new(&deaf).lines().map(Result::unwrap);
        assert_eq!(
            answers.filter(|line| line.contains("4711")).count(),
            written / request.len()
        );
    });
}

#[test]
fn idle_clients_give_way_to_new_ones() {
    let (_folder, path) = place();
    with_server(&path, || {
        let idle: Vec<_> = (0..3 * MAX_CLIENTS).map(|_| connect(&path)).collect();
        let mut client = Client::connect(&path, TIMEOUT).unwrap();
        client.status().unwrap();
        // The first came long before the last.
        assert_eq!(line(&idle[0]), "", "closed");
        client.status().unwrap();
    });
}

#[test]
fn clients_that_vanish_raise_no_signal() {
    let (_folder, path) = place();
    with_server(&path, || {
        for _ in 0..100 {
            let mut stream = connect(&path);
            stream
                .write_all(b"{\"warmswap\":1,\"request\":\"stats\"}\n")
                .unwrap();
        }
        Client::connect(&path, TIMEOUT).unwrap().status().unwrap();
    });
}

#[test]
fn a_client_waits_for_earlier_ones_to_be_accepted() {
    let (_folder, path) = place();
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waiting = connect(&path);
    let error = Client::connect(&path, Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| Client::connect(&path, TIMEOUT).map(drop));
        listener.accept().unwrap();
        client.join().unwrap().unwrap();
    });
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let (_folder, path) = place();
    let _server = Server::bind(&path).unwrap();
    let mut client = Client::connect(&path, Duration::from_millis(20)).unwrap();
    let error = client.status().unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("20 ms"), "{error}");
}

#[test]
fn a_server_that_talks_nonsense_or_ends_is_an_error() {
    let (_folder, path) = place();
    let listener = UnixListener::bind(&path).unwrap();
    let say = |words: &'static [u8]| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = listener.accept().unwrap();
                line(&stream);
                (&stream).write_all(words).unwrap();
            });
            Client::connect(&path, TIMEOUT)
                .unwrap()
                .status()
                .unwrap_err()
        })
    };
    assert!(matches!(say(b"hello\n"), ClientError::Nonsense { .. }));
    assert!(matches!(
        say(b"{\"warmswap\":9}\n"),
        ClientError::Nonsense { .. }
    ));
    assert!(matches!(
        say(b"{\"warmswap\":1,"),
        ClientError::Closed { .. }
    ));
}

#[test]
fn an_answer_without_end_is_an_error() {
    let (_folder, path) = place();
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            // Until the client has had enough.
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        });
        let mut client = Client::connect(&path, TIMEOUT).unwrap();
        let error = client.status().unwrap_err();
        assert!(matches!(error, ClientError::Nonsense { .. }), "{error}");
        drop(client);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn garbage_harms_no_server(
        lines in proptest::collection::vec("\\PC{0,60}|\\{\"warmswap\":1,\"request\":\"(status|x)\"\\}", 1..8),
        bytes: Vec<u8>,
    ) {
        let (_folder, path) = place();
        with_server(&path, || {
            let mut stream = connect(&path);
            let text = lines.join("\n");
            stream.write_all(text.as_bytes()).unwrap();
            stream.write_all(b"\n").unwrap();
            stream.write_all(&bytes).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answers = String::new();
            stream.read_to_string(&mut answers).unwrap();
            // Each complete line has one answer.
            let asked = text.matches('\n').count() + 1 + bytes.iter().filter(|&&b| b == b'\n').count();
            prop_assert_eq!(answers.lines().count(), asked);
            Client::connect(&path, TIMEOUT).unwrap().status().unwrap();
            Ok(())
        })?;
    }
}
