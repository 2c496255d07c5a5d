//! The kernel host in a thread of its own, as the daemon runs it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use warmswap_apps::RunningApp;
use warmswap_kernel::host::AFTER_SWITCH;
use warmswap_kernel::{AppId, Application, Host, HostConfig, HostStatus, Members};
use warmswap_sys::Root;
use warmswap_sys::process::Stat;

use crate::BenchError;

#[derive(Debug)]
enum Event {
    Switch(AppId),
    Done(AppId),
    Replace(AppId, Application),
    Status(Sender<HostStatus>),
}

/// An application as a host knows it: all processes of the program that was started.
///
/// # Errors
/// [`BenchError`] when it has ended.
pub fn application(app: &RunningApp, root: &Root) -> Result<Application, BenchError> {
    let pid = app.process();
    Ok(Application {
        name: app.spec().name.clone(),
        members: Members::Tree {
            pid,
            start_ticks: Stat::read(root, pid)?.start_ticks,
            with_root: true,
        },
    })
}

/// A host that runs.
#[derive(Debug)]
pub struct HostThread {
    events: Option<Sender<Event>>,
    thread: Option<JoinHandle<()>>,
}

impl HostThread {
    /// Starts a host over these applications; the n-th has the number n.
    pub fn start(
        config: HostConfig,
        root: &Root,
        applications: Vec<Application>,
    ) -> Result<Self, BenchError> {
        let mut host = Host::new(config, root)?;
        for application in applications {
            host.add(application)?;
        }
        host.tick();
        let (events, receiver) = channel();
        let thread = std::thread::spawn(move || run(host, &receiver));
        Ok(Self {
            events: Some(events),
            thread: Some(thread),
        })
    }

    fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            // The thread lives as long as the sender.
            let _ = events.send(event);
        }
    }

    /// An application comes to the foreground. Does not wait for the host: the application does not either.
    pub fn switch(&self, app: usize) {
        self.tell(Event::Switch(AppId(app as u16)));
    }

    /// It has answered.
    pub fn done(&self, app: usize) {
        self.tell(Event::Done(AppId(app as u16)));
    }

    /// It was killed, and runs again as this application.
    pub fn replace(&self, app: usize, application: Application) {
        self.tell(Event::Replace(AppId(app as u16), application));
    }

    /// What the host knows, once it has heard all that it was told.
    ///
    /// # Errors
    /// [`BenchError::Thread`]: its thread panicked.
    pub fn status(&self) -> Result<HostStatus, BenchError> {
        let (sender, receiver) = channel();
        self.tell(Event::Status(sender));
        receiver.recv().map_err(|_| BenchError::Thread)
    }
}

impl Drop for HostThread {
    fn drop(&mut self) {
        drop(self.events.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut host: Host, events: &Receiver<Event>) {
    let mut due = Instant::now();
    loop {
        let wait = due.saturating_duration_since(Instant::now());
        // Only numbers that it gave out come back: no event fails.
        let _ = match events.recv_timeout(wait) {
            Ok(Event::Switch(app)) => {
                due = due.min(Instant::now() + AFTER_SWITCH);
                host.switch_to(app)
            }
            Ok(Event::Done(app)) => host.launch_done(app),
            // The number that is free is given out again.
            Ok(Event::Replace(app, application)) => {
                let added = host.remove(app).and_then(|()| host.add(application));
                added.map(|id| debug_assert_eq!(id, app))
            }
            Ok(Event::Status(to)) => {
                let _ = to.send(host.status());
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => {
                due = Instant::now() + host.tick().wait;
                Ok(())
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
    }
}
