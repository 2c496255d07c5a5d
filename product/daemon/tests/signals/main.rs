//! What window systems say: the listener by itself, and within the helper that has no rights.

#[path = "../display/mod.rs"]
mod display;
mod helper;
mod ipc;
mod manager;

/// Not a test of its own: what the daemon starts for a window system.
#[test]
fn serve_as_helper() {
    manager::serve_if_helper();
}
