//! Speaks as an X server to the agent's thread that listens to it.
//!
//! The input is what the server sends, in records of a length (2 bytes, little endian) and as many bytes: the first one
//! for the connection's setup, then one for each request (empty where a request has no reply), with the number of its
//! request put in. Where bit 15 of the length is set the record is an event: it waits for no request and is sent as it is.
#![no_main]

use std::cell::Cell;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use warmswap_agent::{Heard, x11};

/// What is told at most before the agent hangs up.
const MAX_TOLD: usize = 16;

/// Bit of a record's length: it is an event.
const EVENT: u16 = 1 << 15;

/// How long the server waits for a request that may never come, since the client may be waiting for an event.
const REQUEST_WAIT: Duration = Duration::from_millis(5);

static RECORDS: Mutex<Vec<(bool, Vec<u8>)>> = Mutex::new(Vec::new());

/// Where x11rb looks for the sockets of servers.
const SOCKETS: &str = "/tmp/.X11-unix";

/// The displays of fuzzers, far from those of servers and before the last that has a port.
const DISPLAYS: Range<u32> = 50_000..59_000;

/// Removes what fuzzers left that ended.
fn remove_dead_sockets() {
    for entry in fs::read_dir(SOCKETS).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let number = name.strip_prefix('X').and_then(|name| name.parse().ok());
        if number.is_some_and(|number| DISPLAYS.contains(&number))
            && UnixStream::connect(entry.path()).is_err()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn display() -> &'static str {
    static DISPLAY: OnceLock<String> = OnceLock::new();
    DISPLAY.get_or_init(|| {
        // The agent ignores the signal from its start on, as every program whose `main` is Rust's; the fuzzer's is not.
        let is_raised = Arc::default();
        signal_hook::flag::register(signal_hook::consts::SIGPIPE, is_raised).expect("a handler");
        fs::create_dir_all(SOCKETS).expect("the folder of sockets");
        remove_dead_sockets();
        let display = DISPLAYS.start + std::process::id() % DISPLAYS.len() as u32;
        let path = format!("{SOCKETS}/X{display}");
        let listener = UnixListener::bind(path).expect("a socket");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that gave up is no failure.
                let _ = serve(stream.expect("a client"));
            }
        });
        format!(":{display}")
    })
}

fn padded(length: u16) -> usize {
    usize::from(length).next_multiple_of(4)
}

fn serve(mut stream: UnixStream) -> std::io::Result<()> {
    let records = std::mem::take(&mut *RECORDS.lock().expect("no panic"));
    let mut records = records.into_iter();
    let mut setup = [0; 12];
    stream.read_exact(&mut setup)?;
    let word = |bytes: &[u8], at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let mut names = vec![0; padded(word(&setup, 6)) + padded(word(&setup, 8))];
    stream.read_exact(&mut names)?;
    let Some((_, answer)) = records.next() else {
        return Ok(());
    };
    stream.write_all(&answer)?;
    stream.set_read_timeout(Some(REQUEST_WAIT))?;
    let mut number = 0u16;
    for (is_event, mut packet) in records {
        let mut header = [0; 4];
        if !is_event && stream.read_exact(&mut header).is_ok() {
            let length = usize::from(word(&header, 2)) * 4;
            stream.read_exact(&mut vec![0; length.saturating_sub(4)])?;
            number = number.wrapping_add(1);
            if packet.len() >= 4 {
                packet[2..4].copy_from_slice(&number.to_ne_bytes());
            }
        }
        stream.write_all(&packet)?;
    }
    stream.shutdown(Shutdown::Write)
}

/// The next record; what is left where its length is beyond the end.
fn record(data: &mut &[u8]) -> Option<(bool, Vec<u8>)> {
    let (length, rest) = data.split_first_chunk()?;
    let length = u16::from_le_bytes(*length);
    let (record, rest) = rest.split_at(usize::from(length & !EVENT).min(rest.len()));
    *data = rest;
    Some((length & EVENT != 0, record.to_vec()))
}

fuzz_target!(|data: &[u8]| {
    let mut rest = &data[..data.len().min(64 << 10)];
    *RECORDS.lock().expect("no panic") = std::iter::from_fn(|| record(&mut rest)).collect();
    let told = Cell::new(0);
    let result = x11::follow(display(), |heard| {
        if told.get() == 0 {
            assert!(matches!(heard, Heard::Live(_)), "first of all it is live");
        } else {
            assert!(matches!(heard, Heard::Window(pid) if pid != 0));
        }
        told.set(told.get() + 1);
        told.get() < MAX_TOLD
    });
    match result {
        Ok(()) => assert_eq!(told.get(), MAX_TOLD, "it ends with its last listener"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
