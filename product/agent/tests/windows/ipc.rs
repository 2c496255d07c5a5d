//! The focused window of sway and of i3, told by a server that speaks their IPC.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;
use std::time::Duration;

use warmswap_agent::{Address, Heard, Sources, follow, ipc, x11};
use warmswap_protocol::{WindowEvent, WindowSystem};
use warmswap_testkit::skip;

use crate::manager::{MAGIC, Of, SUBSCRIBE, change, next_kind, server};

/// How long a message may take that will come.
const PATIENCE: Duration = Duration::from_secs(60);

/// There is no display to ask.
fn no_display() -> Result<x11::Windows, x11::X11Error> {
    Err(x11::X11Error::NoDisplay)
}

#[test]
fn the_focused_window_is_told_now_and_when_it_changes() {
    let (_place, path, sender) = server(Of::Process(11));
    let (heard, told) = channel();
    let follower = std::thread::spawn(move || {
        ipc::follow(&path, no_display, |what| heard.send(what).is_ok())
            .unwrap_err()
            .to_string()
    });
    let next = || told.recv_timeout(PATIENCE).unwrap();

    assert!(matches!(next(), Heard::Live(_)));
    assert_eq!(next(), Heard::Window(11), "of the tree");
    sender.send(change("title", Of::Process(12))).unwrap();
    sender.send(change("focus", Of::Process(13))).unwrap();
    assert_eq!(next(), Heard::Window(13), "a title is no focus");
    sender.send(change("focus", Of::Nothing)).unwrap();
    sender.send(change("focus", Of::Process(11))).unwrap();
    assert_eq!(
        next(),
        Heard::Window(11),
        "an empty workspace has no process"
    );

    drop(sender);
    let error = follower.join().unwrap();
    assert!(!error.is_empty(), "sway ended, and that is told");
}

#[test]
fn the_process_of_a_window_of_i3_is_asked_of_its_display() {
    let Some(display) = crate::display::Server::start() else {
        skip!(
            "the_process_of_a_window_of_i3_is_asked_of_its_display",
            "Xvfb is not installed"
        );
    };
    let (connection, screen) = x11rb::connect(Some(&display.1)).unwrap();
    let window = crate::display::window(&connection, screen);
    let (_place, path, sender) = server(Of::Window(window));
    let sources = Sources {
        x11: Address::At(display.1.clone()),
        i3: Address::At(path.display().to_string()),
        ..nothing()
    };

    let heard = follow(&sources).unwrap();

    let next = || loop {
        let (system, event) = heard.recv_timeout(PATIENCE).unwrap();
        if let WindowEvent::Focus { pid } = event {
            return (system, pid);
        }
    };
    let own = (WindowSystem::I3, std::process::id());
    assert_eq!(next(), own, "of the tree");
    // One that is gone has no process, and the next is told all the same.
    sender
        .send(change("focus", Of::Window(window + 1)))
        .unwrap();
    sender.send(change("focus", Of::Window(window))).unwrap();
    assert_eq!(next(), own);
}

#[test]
fn i3_without_its_display_is_told_as_absent() {
    let (_place, path, _sender) = server(Of::Window(7));

    let error = ipc::follow(&path, no_display, |_| true).unwrap_err();

    assert!(error.to_string().contains("display"), "{error}");
}

#[test]
fn a_message_that_is_announced_too_long_is_not_made_room_for() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sway.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(next_kind(&mut stream), Some(SUBSCRIBE));
        let mut header = MAGIC.to_vec();
        header.extend(u32::MAX.to_ne_bytes());
        header.extend(SUBSCRIBE.to_ne_bytes());
        stream.write_all(&header).unwrap();
        // It says no more, and goes when the client has.
        assert_eq!(next_kind(&mut stream), None);
    });

    let error = ipc::follow(&path, no_display, |_| true).unwrap_err();

    assert!(
        matches!(error, ipc::IpcError::TooLong { bytes: u32::MAX }),
        "{error}"
    );
    server.join().unwrap();
}

/// Nothing is followed but what a test names.
fn nothing() -> Sources {
    Sources {
        x11: Address::Off,
        sway: Address::Off,
        i3: Address::Off,
        ..Sources::default()
    }
}

#[test]
fn what_is_named_is_followed_and_nothing_else() {
    let (_place, path, _sender) = server(Of::Process(11));
    let sources = Sources {
        sway: Address::At(path.display().to_string()),
        ..nothing()
    };

    let heard = follow(&sources).unwrap();

    let first = heard.recv_timeout(PATIENCE).unwrap();
    assert!(
        matches!(&first, (WindowSystem::Sway, WindowEvent::Live { .. })),
        "{first:?}"
    );
    let second = heard.recv_timeout(PATIENCE).unwrap();
    assert_eq!(second, (WindowSystem::Sway, WindowEvent::Focus { pid: 11 }));
    assert!(follow(&nothing()).unwrap().recv().is_err(), "no thread");
}

#[test]
fn a_socket_without_a_server_is_told_as_absent() {
    let place = tempfile::tempdir().unwrap();
    let sources = Sources {
        sway: Address::At(place.path().join("none.sock").display().to_string()),
        ..nothing()
    };

    let (system, event) = follow(&sources).unwrap().recv_timeout(PATIENCE).unwrap();

    let WindowEvent::Absent { why } = event else {
        panic!("{event:?}");
    };
    assert_eq!(system, WindowSystem::Sway);
    assert!(why.contains("none.sock"), "{why}");
}
