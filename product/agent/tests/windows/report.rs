//! The daemon's end, played by the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use warmswap_agent::report::Reporter;
use warmswap_protocol::{Answer, Refusal, RefusalKind, Request, Server, WindowEvent, WindowSystem};

/// How long a message may take that will come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is refused.
const FOREIGN: u32 = 13;

/// A daemon that writes down what it is told, until it is dropped.
struct Daemon {
    told: Receiver<WindowEvent>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn at(path: &Path) -> Self {
        let (sender, told) = channel();
        let end = Arc::new(AtomicBool::new(false));
        let mut server = Server::bind(path).unwrap();
        let ended = Arc::clone(&end);
        let thread = std::thread::spawn(move || {
            while !ended.load(Relaxed) {
                let poll = server.poll_once(Some(Duration::from_millis(5)), |request| {
                    answer(&sender, request)
                });
                poll.unwrap();
            }
        });
        Self {
            told,
            end,
            thread: Some(thread),
        }
    }

    fn next(&self) -> WindowEvent {
        self.told.recv_timeout(PATIENCE).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn answer(told: &Sender<WindowEvent>, request: Request) -> Result<Answer, Refusal> {
    let Request::Window { system, event } = request else {
        panic!("{request:?}");
    };
    assert_eq!(system, WindowSystem::Sway);
    let is_refused = event == WindowEvent::Focus { pid: FOREIGN };
    let _ = told.send(event);
    match is_refused {
        true => Err(Refusal::new(RefusalKind::Denied, "not yours")),
        false => Ok(Answer::Done),
    }
}

fn live() -> WindowEvent {
    WindowEvent::Live {
        place: "socket /s".to_owned(),
    }
}

fn focus(pid: u32) -> WindowEvent {
    WindowEvent::Focus { pid }
}

/// A reporter to that socket, which runs until the sender is dropped.
fn reporter(
    socket: PathBuf,
) -> (
    std::sync::mpsc::SyncSender<warmswap_agent::Event>,
    JoinHandle<()>,
) {
    let (events, heard) = sync_channel(16);
    let thread = std::thread::spawn(move || Reporter::new(&socket).run(&heard));
    (events, thread)
}

#[test]
fn what_is_heard_is_told_and_told_again_to_a_new_daemon() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("daemon.sock");
    let daemon = Daemon::at(&socket);
    let (events, thread) = reporter(socket.clone());
    let hear = |event| events.send((WindowSystem::Sway, event)).unwrap();
    hear(live());
    assert_eq!(daemon.next(), live());
    hear(focus(11));
    assert_eq!(daemon.next(), focus(11));
    hear(focus(FOREIGN));
    assert_eq!(daemon.next(), focus(FOREIGN));
    assert_eq!(daemon.next(), WindowEvent::Elsewhere, "what was refused");

    drop(daemon);
    let daemon = Daemon::at(&socket);
    hear(focus(12));
    assert_eq!(daemon.next(), live(), "the new one knows nothing");
    assert_eq!(daemon.next(), focus(12));

    drop(events);
    thread.join().unwrap();
}

#[test]
fn a_daemon_that_comes_later_hears_the_last_window() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("daemon.sock");
    let (events, thread) = reporter(socket.clone());
    for event in [live(), focus(11), focus(12)] {
        events.send((WindowSystem::Sway, event)).unwrap();
    }

    let daemon = Daemon::at(&socket);

    assert_eq!(daemon.next(), live());
    let mut window = daemon.next();
    while window == focus(11) {
        window = daemon.next();
    }
    assert_eq!(window, focus(12));
    drop(events);
    thread.join().unwrap();
}
