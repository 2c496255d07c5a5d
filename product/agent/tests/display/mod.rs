//! An X server without a screen (Xvfb), and windows on it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateWindowAux, Window, WindowClass};
use x11rb::rust_connection::RustConnection;

/// An X server of our own, which ends with it.
pub struct Server(Child, pub String);

impl Server {
    /// `None` where there is no Xvfb.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// With further arguments.
    pub fn start_with(args: &[&str]) -> Option<Self> {
        let mut child = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "640x480x24",
                "-nolisten",
                "tcp",
            ])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut number = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut number).unwrap();
        assert!(!number.trim().is_empty(), "Xvfb says which display it has");
        Some(Self(child, format!(":{}", number.trim())))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A window of this process.
pub fn window(connection: &RustConnection, screen: usize) -> Window {
    let id = connection.generate_id().unwrap();
    let root = connection.setup().roots[screen].root;
    connection
        .create_window(
            x11rb::COPY_DEPTH_FROM_PARENT,
            id,
            root,
            0,
            0,
            10,
            10,
            0,
            WindowClass::INPUT_OUTPUT,
            0,
            &CreateWindowAux::new(),
        )
        .unwrap()
        .check()
        .unwrap();
    id
}
