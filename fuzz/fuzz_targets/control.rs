//! Speaks to both ends of the control protocol over real sockets.
//!
//! The first byte of the input chooses the end. A server gets the rest as a client's requests: it answers each complete
//! line with one line, whatever stands there. A client gets the rest as a server's answer: what it understands is what
//! comes out of a server that is told to give the same answer.
#![no_main]

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use warmswap_protocol::{
    Answer, Client, ClientError, MAX_REQUEST_BYTES, PROTOCOL_VERSION, ProgramStats, Refusal,
    RefusalKind, Reply, Request, Server,
};

/// Bounds a read that nothing answers: a failure, never the measure of one.
const PATIENCE: Duration = Duration::from_secs(60);

struct Ends {
    server: Server,
    server_path: PathBuf,
    listener: UnixListener,
    listener_path: PathBuf,
    _folder: tempfile::TempDir,
}

thread_local! {
    static ENDS: RefCell<Ends> = RefCell::new(ends());
}

fn ends() -> Ends {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server_path, listener_path) = (folder.path().join("server"), folder.path().join("fake"));
    Ends {
        server: Server::bind(&server_path).expect("a socket"),
        server_path,
        listener: UnixListener::bind(&listener_path).expect("a socket"),
        listener_path,
        _folder: folder,
    }
}

fn answer(request: Request) -> Reply {
    match request {
        Request::Stats => Ok(Answer::Stats(Box::default())),
        Request::Status => Ok(Answer::Status(ProgramStats::default().status())),
        Request::App { name, .. } => Err(Refusal::new(RefusalKind::NotNow, name)),
        _ => Ok(Answer::Done),
    }
}

/// Lines of `data` that the server takes: all complete ones before one that is too long, and that one.
fn lines(data: &[u8]) -> usize {
    let mut count = 0;
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        if line.len() > MAX_REQUEST_BYTES {
            return count + 1;
        }
        count += usize::from(line.ends_with(b"\n"));
    }
    count
}

fn ask_server(ends: &mut Ends, data: &[u8]) {
    let mut client = UnixStream::connect(&ends.server_path).expect("connect");
    // A socket takes some 200 KiB before its writer waits; inputs are shorter, and answers are read as they come.
    let data = &data[..data.len().min(100 << 10)];
    client.write_all(data).expect("write");
    client.shutdown(Shutdown::Write).expect("shut down");
    client.set_nonblocking(true).expect("not blocking");
    let mut replies = Vec::new();
    loop {
        ends.server
            .poll_once(Some(Duration::ZERO), answer)
            .expect("poll");
        match client.read_to_end(&mut replies) {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // The server closed with requests unread behind a line that is too long.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(replies.is_empty() || replies.ends_with(b"\n"));
    let mut answered = 0;
    for line in replies.split_inclusive(|&byte| byte == b'\n') {
        let reply: Value = serde_json::from_slice(line).expect("a reply is JSON");
        assert_eq!(reply["warmswap"], PROTOCOL_VERSION);
        assert!(reply["answer"].is_null() != reply["refusal"].is_null());
        answered += 1;
    }
    assert_eq!(answered, lines(data));
}

/// What a client makes of these bytes as the answer to its request.
fn ask_fake(ends: &Ends, bytes: &[u8]) -> Result<Answer, ClientError> {
    let mut client = Client::connect(&ends.listener_path, PATIENCE).expect("connect");
    let (mut stream, _) = ends.listener.accept().expect("accept");
    let bytes = &bytes[..bytes.len().min(100 << 10)];
    stream.write_all(bytes).expect("write");
    stream.shutdown(Shutdown::Write).expect("shut down");
    client.ask(&Request::Status)
}

/// The line that a server sends for an answer.
fn line_of(ends: &mut Ends, answer: &Answer) -> Vec<u8> {
    let mut client = UnixStream::connect(&ends.server_path).expect("connect");
    client
        .write_all(b"{\"warmswap\":1,\"request\":\"status\"}\n")
        .expect("write");
    client.shutdown(Shutdown::Write).expect("shut down");
    client.set_nonblocking(true).expect("not blocking");
    let mut line = Vec::new();
    loop {
        ends.server
            .poll_once(Some(Duration::ZERO), |_| Ok(answer.clone()))
            .expect("poll");
        match client.read_to_end(&mut line) {
            Ok(_) => return line,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn ask_client(ends: &mut Ends, data: &[u8]) {
    let Ok(answer) = ask_fake(ends, data) else {
        return;
    };
    let line = line_of(ends, &answer);
    match ask_fake(ends, &line) {
        // Fractions may lose their last bit on the way through text, and then no more: compare the text.
        Ok(again) => assert_eq!(line_of(ends, &again).len(), line.len()),
        Err(ClientError::Refused { refusal, .. }) => {
            assert!(refusal.message.contains("too long"), "{refusal}");
        }
        Err(error) => panic!("{error}"),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&end, rest)) = data.split_first() else {
        return;
    };
    ENDS.with_borrow_mut(|ends| {
        if end % 2 == 0 {
            ask_server(ends, rest);
        } else {
            ask_client(ends, rest);
        }
    });
});
