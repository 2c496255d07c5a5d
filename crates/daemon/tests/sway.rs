//! The focused window of sway, told by a server that speaks its IPC.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};
use warmswap_daemon::config::Config;
use warmswap_daemon::config::sections::Place;
use warmswap_daemon::config::size::Facts;
use warmswap_daemon::event::{Event, Events, Source};
use warmswap_daemon::signals::{Heard, start, sway};
use warmswap_sys::Root;

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

/// A node of sway's tree.
fn node(id: i64, kind: &str, pid: Option<i32>, nodes: &[Value]) -> Value {
    let rect = json!({"x": 0, "y": 0, "width": 100, "height": 100});
    let focus: Vec<&Value> = nodes.iter().map(|node| &node["id"]).collect();
    let mut node = json!({
        "id": id, "name": null, "type": kind, "border": "none", "current_border_width": 0,
        "layout": "splith", "orientation": "horizontal", "percent": null, "rect": rect,
        "window_rect": rect, "deco_rect": rect, "geometry": rect, "urgent": false, "focused": pid.is_some(),
        "focus": focus, "nodes": nodes, "floating_nodes": [], "sticky": false, "fullscreen_mode": 0,
    });
    if let Some(pid) = pid {
        node["pid"] = json!(pid);
    }
    node
}

/// A server where the window of process 11 has the focus; `events` are sent to who subscribes, until they end.
fn serve(listener: UnixListener, events: Receiver<Value>) {
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
                let window = node(3, "con", Some(11), &[]);
                let tree = node(1, "root", None, &[node(2, "workspace", None, &[window])]);
                stream.write_all(&message(GET_TREE, &tree)).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

fn change(change: &str, pid: i32) -> Value {
    json!({"change": change, "container": node(7, "con", Some(pid), &[])})
}

fn server() -> (tempfile::TempDir, PathBuf, Sender<Value>) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sway-ipc.1000.1.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (sender, events) = channel();
    std::thread::spawn(move || serve(listener, events));
    (place, path, sender)
}

#[test]
fn the_focused_window_is_told_now_and_when_it_changes() {
    let (_place, path, sender) = server();
    let (heard, told) = channel();
    let follower = std::thread::spawn(move || {
        sway::follow(&path, |what| heard.send(what).is_ok())
            .unwrap_err()
            .to_string()
    });
    let next = || told.recv_timeout(PATIENCE).unwrap();

    assert!(matches!(next(), Heard::Live(_)));
    assert_eq!(next(), Heard::Window(11), "of the tree");
    sender.send(change("title", 12)).unwrap();
    sender.send(change("focus", 13)).unwrap();
    assert_eq!(next(), Heard::Window(13), "a title is no focus");
    sender.send(change("focus", 11)).unwrap();
    assert_eq!(next(), Heard::Window(11));

    drop(sender);
    let error = follower.join().unwrap();
    assert!(!error.is_empty(), "sway ended, and that is told");
}

#[test]
fn the_daemon_hears_of_it_by_its_configuration() {
    let (_place, path, _sender) = server();
    let facts = Facts { ram_bytes: 1 << 30 };
    let mut config = Config::defaults(facts).signals;
    config.x11 = Place::Off;
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
    } = second
    else {
        panic!("{second:?}");
    };
}

#[test]
fn a_socket_that_nobody_serves_is_told_as_absent() {
    let place = tempfile::tempdir().unwrap();
    let facts = Facts { ram_bytes: 1 << 30 };
    let mut config = Config::defaults(facts).signals;
    config.x11 = Place::Off;
    config.sway = Place::At(place.path().join("none.sock").display().to_string());
    let (events, heard) = Events::new();

    start(&config, &Root::machine(), &events).unwrap();

    let Event::Source { state, is_live, .. } = heard.recv_timeout(PATIENCE).unwrap() else {
        panic!("a state");
    };
    assert!(!is_live && state.contains("none.sock"), "{state}");
}
