//! The daemon over devices and processes of this machine.

mod stuck;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use stuck::Stuck;
use warmswap_daemon::config::Config;
use warmswap_daemon::config::size::Facts;
use warmswap_daemon::host::{Host, kernel_host};
use warmswap_daemon::run::run_over;
use warmswap_kernel::application::ProcessId;
use warmswap_kernel::host::Tick;
use warmswap_kernel::{AppId, Application, HostError, HostStatus};
use warmswap_protocol::{AppEvent, Client, DaemonStatus, Request};
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramSwap};
use warmswap_sys::{Root, swap, zram};
use warmswap_testkit::skip;

/// Only one test at a time changes the machine, and sends this process signals.
static MACHINE: Mutex<()> = Mutex::new(());

/// A host that does this at each tick.
struct Ticks<F>(F);

fn devices() -> Vec<String> {
    let areas = swap::areas(&Root::machine()).unwrap();
    let ours = areas.into_iter().filter(|area| area.priority == PRIORITY);
    ours.map(|area| area.path).collect()
}

/// No other swap of a test has this one.
const PRIORITY: i32 = 4321;

impl<F: FnMut() -> Tick> Host for Ticks<F> {
    fn add(&mut self, _: Application) -> Result<(AppId, Option<String>), HostError> {
        Ok((AppId(0), None))
    }

    fn remove(&mut self, _: AppId) -> Result<(), HostError> {
        Ok(())
    }

    fn switch_to(&mut self, _: AppId) -> Result<(), HostError> {
        Ok(())
    }

    fn launch_done(&mut self, _: AppId) -> Result<(), HostError> {
        Ok(())
    }

    fn background(&mut self, _: AppId) -> Result<(), HostError> {
        Ok(())
    }

    fn tick(&mut self) -> Tick {
        self.0()
    }

    fn processes(&self, _: AppId) -> Result<Vec<ProcessId>, HostError> {
        Ok(Vec::new())
    }

    fn leave_to_itself(&mut self, _id: ProcessId) {}

    fn save(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn save_app(&mut self, _: AppId) -> Result<(), String> {
        Ok(())
    }

    fn status(&self) -> HostStatus {
        HostStatus::default()
    }
}

/// A daemon's configuration with its files in `place`.
fn config(place: &Path, text: &str) -> Config {
    let mut config = Config::defaults(Facts { ram_bytes: 1 << 30 });
    let (socket, state) = (place.join("run/daemon.sock"), place.join("learned"));
    let text = format!(
        "[daemon]\nsocket = {socket:?}\nstate-folder = {state:?}\n[discover]\nenable = false\n{text}"
    );
    config.merge(&text, Path::new("/test")).unwrap();
    config
}

fn stop() {
    kill_process(getpid(), Signal::TERM).unwrap();
}

#[test]
fn a_panic_leaves_no_device_and_no_socket() {
    let _turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let root = Root::machine();
    if let Err(error) = zram::probe(&root) {
        skip!("a_panic_leaves_no_device_and_no_socket", "{error}");
    }
    let place = tempfile::tempdir().unwrap();
    let text = format!("[zram0]\nzram-size = 16\nswap-priority = {PRIORITY}\n");
    let config = config(place.path(), &text);
    let socket = config.daemon.socket.clone();
    let host = Ticks(|| {
        let found = devices();
        assert_eq!(found.len(), 1, "the device is there: {found:?}");
        panic!("on purpose, over {}", found[0]);
    });

    let ended = std::panic::catch_unwind(|| run_over(config, &root, |_| Ok(host)));

    let panic = ended.expect_err("it panics");
    let message = panic.downcast_ref::<String>().unwrap();
    let device = message.strip_prefix("on purpose, over ").expect(message);
    assert!(devices().is_empty());
    assert!(!Path::new(device).exists(), "{device}");
    assert!(!socket.exists());
    let state = place.path().join("run/daemon.state");
    assert_eq!(
        std::fs::read_dir(state).unwrap().count(),
        0,
        "nothing is pending"
    );
}

#[test]
fn swap_that_comes_while_the_daemon_starts_is_seen() {
    let name = "swap_that_comes_while_the_daemon_starts_is_seen";
    let _turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let root = Root::machine();
    if let Err(error) = zram::probe(&root) {
        skip!(name, "{error}");
    }
    if !swap::areas(&root).unwrap().is_empty() {
        skip!(name, "this machine has swap");
    }
    let place = tempfile::tempdir().unwrap();
    let text =
        format!("[zram0]\nzram-size = 16\nswap-priority = {PRIORITY}\nonly-without-swap = true\n");
    let config = config(place.path(), &text);
    let undo = Undo::open(&root, &place.path().join("undo")).unwrap();
    let other = ZramConfig {
        disk_bytes: 16 << 20,
        algorithm: "lzo-rle".to_owned(),
        second_algorithm: None,
        backing_device: None,
        memory_limit_bytes: None,
        priority: 5,
    };
    let mut came = None;
    let mut looks = 0;
    let host = Ticks(|| {
        looks += 1;
        assert!(looks < 600, "its own device stays");
        if devices().is_empty() {
            stop();
        }
        std::thread::sleep(Duration::from_millis(100));
        Tick::default()
    });

    // The host is made between the first look at swap and the thread that follows it.
    let ended = run_over(config, &root, |_| {
        assert_eq!(devices().len(), 1);
        came = Some(ZramSwap::create(&undo, &other).unwrap());
        Ok(host)
    });

    ended.unwrap();
    assert_eq!(swap::areas(&root).unwrap().len(), 1);
    drop(came);
}

#[test]
fn a_process_that_does_not_answer_keeps_no_request_waiting() {
    let name = "a_process_that_does_not_answer_keeps_no_request_waiting";
    let _turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tempfile::tempdir().unwrap();
    let stuck = match Stuck::start(place.path()) {
        Ok(stuck) => stuck,
        Err(reason) => skip!(name, "{reason}"),
    };
    let root = Root::machine();
    let config = config(place.path(), "");
    let socket = config.daemon.socket.clone();
    std::thread::scope(|scope| {
        let daemon = scope.spawn(|| run_over(config, &root, |config| kernel_host(config, &root)));
        // The client's own deadline is far: each answer comes from a daemon that waits for nothing.
        let deadline = Duration::from_secs(600);
        let mut client = loop {
            match Client::connect(&socket, deadline) {
                Ok(client) => break client,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let mut tell = |event| {
            let name = "stuck".to_owned();
            client.tell(&Request::App { name, event }).unwrap();
        };
        tell(AppEvent::Launch { pid: stuck.pid() });
        let mut client = Client::connect(&socket, deadline).unwrap();
        let mut until = |is_so: fn(&DaemonStatus) -> bool| {
            loop {
                let status = client.daemon().unwrap();
                if is_so(&status) {
                    break status;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        until(|status| status.apps[0].processes == 1);
        // Its page table is looked at, by a thread that waits for it from then on.
        tell(AppEvent::Switch);
        let status = until(|status| !status.unanswering.is_empty());
        let name = format!("({})", stuck.pid());
        assert!(status.unanswering[0].ends_with(&name), "{status:?}");
        assert_eq!(status.apps[0].unreadable_processes, 1);
        stop();
        daemon.join().unwrap().unwrap();
    });
    assert!(stuck.is_stuck(), "all the while");
}
