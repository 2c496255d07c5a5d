//! A window manager that is played by the test: a server that speaks the IPC of sway and i3.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

pub const MAGIC: &[u8; 6] = b"i3-ipc";
pub const SUBSCRIBE: u32 = 2;
const GET_TREE: u32 = 4;
const WINDOW_EVENT: u32 = 0x8000_0003;

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
pub fn next_kind(stream: &mut UnixStream) -> Option<u32> {
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
pub enum Of {
    /// No window.
    Nothing,
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
        "window_rect": rect, "deco_rect": rect, "geometry": rect, "urgent": false, "focused": of != Of::Nothing,
        "focus": focus, "nodes": nodes, "floating_nodes": [], "sticky": false, "fullscreen_mode": 0,
    });
    match of {
        Of::Nothing => {}
        Of::Process(pid) => node["pid"] = json!(pid),
        Of::Window(id) => {
            node["window"] = json!(id);
            node["floating"] = json!("auto_off");
        }
    }
    node
}

/// A server where this window has the focus; `events` are sent to the subscriber, until they end.
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
                let workspace = node(2, "workspace", Of::Nothing, &[window]);
                // i3 has places for panels beside the workspaces.
                let panels = node(4, "dockarea", Of::Nothing, &[]);
                let tree = node(1, "root", Of::Nothing, &[workspace, panels]);
                stream.write_all(&message(GET_TREE, &tree)).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

/// An event of a window.
pub fn change(change: &str, of: Of) -> Value {
    json!({"change": change, "container": node(7, "con", of, &[])})
}

/// A window manager where this window has the focus: its folder, its socket, and where its events go in.
pub fn server(focused: Of) -> (tempfile::TempDir, PathBuf, Sender<Value>) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sway-ipc.1000.1.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (sender, events) = channel();
    std::thread::spawn(move || serve(listener, focused, events));
    (place, path, sender)
}
