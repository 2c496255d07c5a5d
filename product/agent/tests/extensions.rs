//! A display that is a socket anywhere, and has no extension.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use warmswap_agent::{Heard, x11};
use x11rb::protocol::xproto::{
    AtomEnum, CHANGE_WINDOW_ATTRIBUTES_REQUEST, GET_INPUT_FOCUS_REQUEST, GET_PROPERTY_REQUEST,
    INTERN_ATOM_REQUEST, QUERY_EXTENSION_REQUEST, Screen, Setup,
};
use x11rb::x11_utils::Serialize as _;

/// How long a message may take that will come.
const PATIENCE: Duration = Duration::from_secs(60);

/// The active window, and the process that it says is its own.
const WINDOW: u32 = 0x0020_0001;
const PROCESS: u32 = 4711;

fn setup() -> Vec<u8> {
    let mut setup = Setup {
        status: 1,
        protocol_major_version: 11,
        resource_id_mask: 0x001f_ffff,
        maximum_request_length: u16::MAX,
        roots: vec![Screen {
            root: 1,
            ..Screen::default()
        }],
        ..Setup::default()
    };
    setup.length = u16::try_from((setup.serialize().len() - 8) / 4).unwrap();
    setup.serialize()
}

/// A reply with one word at `at`; a property's is of 32 bits and follows the header.
fn reply(number: u16, length_words: u8, format: u8, words: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 32 + usize::from(length_words) * 4];
    bytes[..2].copy_from_slice(&[1, format]);
    bytes[2..4].copy_from_slice(&number.to_ne_bytes());
    bytes[4] = length_words;
    for &(at, word) in words {
        bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Answers until the other side hangs up.
fn serve(mut stream: UnixStream) -> std::io::Result<()> {
    let mut hello = [0; 12];
    stream.read_exact(&mut hello)?;
    let padded = |at: usize| {
        let length = u16::from_ne_bytes([hello[at], hello[at + 1]]);
        usize::from(length).next_multiple_of(4)
    };
    stream.read_exact(&mut vec![0; padded(6) + padded(8)])?;
    stream.write_all(&setup())?;
    for number in 1u16.. {
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let bytes = usize::from(u16::from_ne_bytes([header[2], header[3]])) * 4;
        let mut body = vec![0; bytes - header.len()];
        stream.read_exact(&mut body)?;
        let answer = match header[0] {
            INTERN_ATOM_REQUEST => reply(number, 0, 0, &[(8, number.into())]),
            CHANGE_WINDOW_ATTRIBUTES_REQUEST => continue,
            GET_INPUT_FOCUS_REQUEST => reply(number, 0, 0, &[(8, WINDOW)]),
            GET_PROPERTY_REQUEST => {
                let kind = u32::from_ne_bytes(body[8..12].try_into().unwrap());
                let value = if kind == u32::from(AtomEnum::WINDOW) {
                    WINDOW
                } else {
                    PROCESS
                };
                reply(number, 1, 32, &[(8, kind), (16, 1), (32, value)])
            }
            QUERY_EXTENSION_REQUEST => reply(number, 0, 0, &[]),
            other => panic!("request {other} is not one that every display answers"),
        };
        stream.write_all(&answer)?;
    }
    Ok(())
}

#[test]
fn the_process_is_what_the_window_says_where_the_display_cannot() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("display");
    let listener = UnixListener::bind(&socket).unwrap();
    let display = format!("unix:{}", socket.display());
    std::thread::spawn(move || serve(listener.accept().unwrap().0));
    let (heard, told) = channel();
    std::thread::spawn(move || {
        let error = x11::follow(&display, |what| heard.send(Ok(what)).is_ok()).unwrap_err();
        heard.send(Err(error.to_string()))
    });
    let next = || told.recv_timeout(PATIENCE).unwrap();

    let first = next();
    assert!(matches!(first, Ok(Heard::Live(_))), "{first:?}");
    assert_eq!(next(), Ok(Heard::Window(PROCESS)));
}
