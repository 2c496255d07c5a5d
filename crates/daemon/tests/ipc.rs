//! The focused window of sway and of i3, told by a server that speaks their IPC.

mod display;

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};
use warmswap_daemon::config::Config;
use warmswap_daemon::config::sections::{Place, SignalsSection};
use warmswap_daemon::config::size::Facts;
use warmswap_daemon::event::{Event, Events, Source};
use warmswap_daemon::signals::{Heard, ipc, start, x11};
use warmswap_sys::Root;
use warmswap_testkit::skip;

const MAGIC: &[u8; 6] = b"i3-ipc";
const SUBSCRIBE: u32 = 2;
const GET_TREE: u32 = 4;
const WINDOW_EVENT: u32 = 0x8000_0003;

/// How long a message may take that will come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A message as it goes over the socket.
fn message(kind: u32, payload: &Value) -> Vec<u8> {
    let payload = payload.to_string();
    let mut bytes = MAGIC.to_vec();
    bytes.extend((payload.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload.as_bytes());
    bytes
}

/// The kind of the next message; `None` when the client is gone.
fn next_kind(stream: &mut UnixStream) -> Option<u32> {
    let mut header = [0; 14];
    stream.read_exact(&mut header).ok()?;
    assert_eq!(&header[..6], MAGIC);
    let number = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
    let mut payload = vec![0; number(6) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(number(10))
}

/// Whose a window is, as its window manager says it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// No window.
    Nobody,
    /// sway: of this process.
    Process(i32),
    /// i3: the window of that number of its X server.
    Window(u32),
}

/// A node of the tree.
fn node(id: i64, kind: &str, of: Of, nodes: &[Value]) -> Value {
    let rect = json!({"x": 0, "y": 0, "width": 100, "height": 100});
    let focus: Vec<&Value> = nodes.iter().map(|node| &node["id"]).collect();
    let mut node = json!({
        "id": id, "name": null, "type": kind, "border": "none", "current_border_width": 0,
        "layout": "splith", "orientation": "horizontal", "percent": null, "rect": rect,
        "window_rect": rect, "deco_rect": rect, "geometry": rect, "urgent": false, "focused": of != Of::Nobody,
        "focus": focus, "nodes": nodes, "floating_nodes": [], "sticky": false, "fullscreen_mode": 0,
    });
    match of {
        Of::Nobody => {}
        Of::Process(pid) => node["pid"] = json!(pid),
        Of::Window(id) => {
            node["window"] = json!(id);
            node["floating"] = json!("auto_off");
        }
    }
    node
}

/// A server where this window has the focus; `events` are sent to who subscribes, until they end.
fn serve(listener: UnixListener, focused: Of, events: Receiver<Value>) {
    let mut events = Some(events);
    for stream in listener.incoming().take(2) {
        let mut stream = stream.unwrap();
        match next_kind(&mut stream) {
            Some(SUBSCRIBE) => {
                let done = message(SUBSCRIBE, &json!({"success": true}));
                stream.write_all(&done).unwrap();
                let events = events.take().expect("one subscription");
                std::thread::spawn(move || {
                    for event in events {
                        stream.write_all(&message(WINDOW_EVENT, &event)).unwrap();
                    }
                });
            }
            Some(GET_TREE) => {
                let window = node(3, "con", focused, &[]);
                let workspace = node(2, "workspace", Of::Nobody, &[window]);
                // i3 has places for panels beside the workspaces.
                let panels = node(4, "dockarea", Of::Nobody, &[]);
                let tree = node(1, "root", Of::Nobody, &[workspace, panels]);
                stream.write_all(&message(GET_TREE, &tree)).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

fn change(change: &str, of: Of) -> Value {
    json!({"change": change, "container": node(7, "con", of, &[])})
}

fn server(focused: Of) -> (tempfile::TempDir, PathBuf, Sender<Value>) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sway-ipc.1000.1.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (sender, events) = channel();
    std::thread::spawn(move || serve(listener, focused, events));
    (place, path, sender)
}

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
    sender.send(change("focus", Of::Nobody)).unwrap();
    sender.send(change("focus", Of::Process(11))).unwrap();
    assert_eq!(next(), Heard::Window(11), "an empty workspace is nobody's");

    drop(sender);
    let error = follower.join().unwrap();
    assert!(!error.is_empty(), "sway ended, and that is told");
}

#[test]
fn the_process_of_a_window_of_i3_is_asked_of_its_display() {
    let Some(display) = display::Server::start() else {
        skip!(
            "the_process_of_a_window_of_i3_is_asked_of_its_display",
            "Xvfb is not installed"
        );
    };
    let (connection, screen) = x11rb::connect(Some(&display.1)).unwrap();
    let window = display::window(&connection, screen);
    let (_place, path, sender) = server(Of::Window(window));
    let mut config = signals();
    config.x11 = Place::At(display.1.clone());
    config.i3 = Place::At(path.display().to_string());
    let (events, heard) = Events::new();

    start(&config, &Root::machine(), &events).unwrap();

    let next = || loop {
        let event = heard.recv_timeout(PATIENCE).unwrap();
        if let Event::Window { source, pid, .. } = event {
            return (source, pid);
        }
    };
    let own = (Source::I3, std::process::id());
    assert_eq!(next(), own, "of the tree");
    // One that is gone is nobody's, and the next is told all the same.
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

/// Nothing is followed but what a test names.
fn signals() -> SignalsSection {
    let facts = Facts { ram_bytes: 1 << 30 };
    let mut config = Config::defaults(facts).signals;
    config.x11 = Place::Off;
    config.sway = Place::Off;
    config.i3 = Place::Off;
    config
}

#[test]
fn the_daemon_hears_of_it_by_its_configuration() {
    let (_place, path, _sender) = server(Of::Process(11));
    let mut config = signals();
    config.sway = Place::At(path.display().to_string());
    let (events, heard) = Events::new();

    start(&config, &Root::machine(), &events).unwrap();

    let first = heard.recv_timeout(PATIENCE).unwrap();
    let Event::Source {
        source: Source::Sway,
        is_live: true,
        ..
    } = first
    else {
        panic!("{first:?}");
    };
    let second = heard.recv_timeout(PATIENCE).unwrap();
    let Event::Window {
        source: Source::Sway,
        pid: 11,
        ..
    } = second
    else {
        panic!("{second:?}");
    };
}

#[test]
fn a_socket_that_nobody_serves_is_told_as_absent() {
    let place = tempfile::tempdir().unwrap();
    let mut config = signals();
    config.sway = Place::At(place.path().join("none.sock").display().to_string());
    let (events, heard) = Events::new();

    start(&config, &Root::machine(), &events).unwrap();

    let Event::Source { state, is_live, .. } = heard.recv_timeout(PATIENCE).unwrap() else {
        panic!("a state");
    };
    assert!(!is_live && state.contains("none.sock"), "{state}");
}
