//! Speaks as a window manager, sway or i3, to the agent's thread that listens to it.
//!
//! The input is what the window manager sends, in records of a length (2 bytes, little endian) and as many bytes: one for
//! the subscription, one for the tree, then events. Records that begin with the magic word go out as they are, which
//! includes wrong lengths; the others get the header of their place in the conversation.
#![no_main]

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use libfuzzer_sys::fuzz_target;
use warmswap_agent::x11::X11Error;
use warmswap_agent::{Heard, ipc};

const MAGIC: &[u8] = b"i3-ipc";
const SUBSCRIBE: u32 = 2;
const GET_TREE: u32 = 4;
const WINDOW_EVENT: u32 = 0x8000_0003;

/// What is told at most before the agent hangs up.
const MAX_TOLD: usize = 16;

/// What the window manager sends to a client that subscribes, and to one that asks for the tree.
struct Conversation {
    subscribed: Vec<u8>,
    tree: Vec<u8>,
}

static CONVERSATION: Mutex<Conversation> = Mutex::new(Conversation {
    subscribed: Vec::new(),
    tree: Vec::new(),
});

/// The socket of the window manager, whose thread serves one client after the other.
fn socket() -> &'static PathBuf {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    SOCKET.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary directory").keep();
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.expect("a client"));
            }
        });
        path
    })
}

fn serve(mut stream: UnixStream) {
    let mut header = [0; 14];
    if stream.read_exact(&mut header).is_err() {
        return;
    }
    let kind = u32::from_ne_bytes(header[10..].try_into().expect("four bytes"));
    let length = u32::from_ne_bytes(header[6..10].try_into().expect("four bytes"));
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).expect("a whole request");
    let conversation = CONVERSATION.lock().expect("no panic");
    let bytes = match kind {
        SUBSCRIBE => &conversation.subscribed,
        GET_TREE => &conversation.tree,
        kind => panic!("a request of kind {kind}"),
    };
    // A client that gave up is no failure.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
}

fn message(kind: u32, payload: &[u8]) -> Vec<u8> {
    if payload.starts_with(MAGIC) {
        return payload.to_vec();
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend((payload.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

/// The next record; what is left where its length is beyond the end.
fn record<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = data.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (record, rest) = rest.split_at(length);
    *data = rest;
    Some(record)
}

fuzz_target!(|data: &[u8]| {
    let mut rest = &data[..data.len().min(64 << 10)];
    let mut subscribed = message(SUBSCRIBE, record(&mut rest).unwrap_or_default());
    let tree = message(GET_TREE, record(&mut rest).unwrap_or_default());
    while let Some(event) = record(&mut rest) {
        subscribed.extend(message(WINDOW_EVENT, event));
    }
    *CONVERSATION.lock().expect("no panic") = Conversation { subscribed, tree };
    let told = Cell::new(0);
    let windows = || Err(X11Error::NoDisplay);
    let result = ipc::follow(socket(), windows, |heard| {
        if told.get() == 0 {
            assert!(matches!(heard, Heard::Live(_)), "first of all it is live");
        } else {
            assert!(matches!(heard, Heard::Window(_)));
        }
        told.set(told.get() + 1);
        told.get() < MAX_TOLD
    });
    match result {
        Ok(()) => assert_eq!(told.get(), MAX_TOLD, "it ends with its last listener"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
