//! The active window of a real X server without a screen (Xvfb).

mod display;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use warmswap_agent::{Heard, x11};
use warmswap_testkit::skip;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, PropMode, Window};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use display::{Server, window};

/// How long something may take that will happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Set for the process that opens a window; its display.
const CHILD: &str = "WARMSWAP_TEST_WINDOW";

fn atom(connection: &RustConnection, name: &str) -> u32 {
    let asked = connection.intern_atom(false, name.as_bytes()).unwrap();
    asked.reply().unwrap().atom
}

/// What a window manager does when a window is looked at.
fn activate(connection: &RustConnection, screen: usize, window: Window) {
    let root = connection.setup().roots[screen].root;
    let property = atom(connection, "_NET_ACTIVE_WINDOW");
    connection
        .change_property32(
            PropMode::REPLACE,
            root,
            property,
            AtomEnum::WINDOW,
            &[window],
        )
        .unwrap()
        .check()
        .unwrap();
}

/// Not a test of its own: run by the test below in another process, which opens a window, says which, and
/// waits for the end of its input.
#[test]
fn child() {
    let Some(display) = std::env::var_os(CHILD) else {
        return;
    };
    let (connection, screen) = x11rb::connect(display.to_str()).unwrap();
    println!("window {}", window(&connection, screen));
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn the_process_of_the_active_window_is_told() {
    let Some(server) = Server::start() else {
        skip!(
            "the_process_of_the_active_window_is_told",
            "Xvfb is not installed"
        );
    };
    let display = server.1.clone();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, &display)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let its_window: Window = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("window ")?.1.parse().ok())
        .expect("the other process says which window is its own");
    let (connection, screen) = x11rb::connect(Some(&display)).unwrap();
    let own_window = window(&connection, screen);
    activate(&connection, screen, own_window);

    let (heard, told) = channel();
    let follower = std::thread::spawn(move || {
        x11::follow(&display, |what| heard.send(what).is_ok())
            .unwrap_err()
            .to_string()
    });
    let next = || told.recv_timeout(PATIENCE).unwrap();

    assert!(matches!(next(), Heard::Live(_)));
    assert_eq!(next(), Heard::Window(std::process::id()), "active before");
    activate(&connection, screen, its_window);
    assert_eq!(next(), Heard::Window(other.id()));
    // Neither the same window again nor none at all is news.
    activate(&connection, screen, its_window);
    activate(&connection, screen, x11rb::NONE);
    activate(&connection, screen, own_window);
    assert_eq!(next(), Heard::Window(std::process::id()));

    drop(other.stdin.take());
    lines.for_each(drop);
    other.wait().unwrap();
    drop(server);
    let error = follower.join().unwrap();
    assert!(error.contains("display"), "{error}");
}

#[test]
fn the_window_says_its_process_where_a_display_that_is_a_path_cannot() {
    let name = "the_window_says_its_process_where_a_display_that_is_a_path_cannot";
    // One of the two is not display 0.
    let servers = [(); 2].map(|()| Server::start_with(&["-extension", "X-Resource"]));
    let [Some(_), Some(server)] = &servers else {
        skip!(name, "Xvfb is not installed");
    };
    let (connection, screen) = x11rb::connect(Some(&server.1)).unwrap();
    let own_window = window(&connection, screen);
    let property = atom(&connection, "_NET_WM_PID");
    let (mode, kind) = (PropMode::REPLACE, AtomEnum::CARDINAL);
    let changed = connection.change_property32(mode, own_window, property, kind, &[4711]);
    changed.unwrap().check().unwrap();
    activate(&connection, screen, own_window);
    let (heard, told) = channel();
    let display = format!("unix:/tmp/.X11-unix/X{}", &server.1[1..]);
    std::thread::spawn(move || x11::follow(&display, |what| heard.send(what).is_ok()));

    assert!(matches!(told.recv_timeout(PATIENCE), Ok(Heard::Live(_))));
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Heard::Window(4711)));
}

#[test]
fn a_display_that_is_not_there_is_an_error_that_names_it() {
    let error = x11::follow(":4077", |_| true).unwrap_err().to_string();
    assert!(
        error.contains(":4077") && error.contains("XAUTHORITY"),
        "{error}"
    );
}
