//! The daemon over a host that panics, with a device of this machine.

use std::path::Path;

use warmswap_daemon::config::Config;
use warmswap_daemon::config::size::Facts;
use warmswap_daemon::host::Host;
use warmswap_daemon::run::run_over;
use warmswap_kernel::application::ProcessId;
use warmswap_kernel::host::Tick;
use warmswap_kernel::{AppId, Application, HostError, HostStatus};
use warmswap_sys::{Root, swap, zram};
use warmswap_testkit::skip;

/// A host whose first tick finds the device swapped on, and panics.
struct Panics;

fn devices() -> Vec<String> {
    let areas = swap::areas(&Root::machine()).unwrap();
    let ours = areas.into_iter().filter(|area| area.priority == PRIORITY);
    ours.map(|area| area.path).collect()
}

/// No other swap of a test has this one.
const PRIORITY: i32 = 4321;

impl Host for Panics {
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
        let found = devices();
        assert_eq!(found.len(), 1, "the device is there: {found:?}");
        panic!("on purpose, over {}", found[0]);
    }

    fn processes(&self, _: AppId) -> Result<Vec<ProcessId>, HostError> {
        Ok(Vec::new())
    }

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

#[test]
fn a_panic_leaves_no_device_and_no_socket() {
    let root = Root::machine();
    if let Err(error) = zram::probe(&root) {
        skip!("a_panic_leaves_no_device_and_no_socket", "{error}");
    }
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("run/daemon.sock");
    let mut config = Config::defaults(Facts { ram_bytes: 1 << 30 });
    let text = format!(
        "[daemon]\nsocket = {:?}\n[zram0]\nzram-size = 16\nswap-priority = {PRIORITY}\n\
         [discover]\nenable = false\n",
        socket
    );
    config.merge(&text, Path::new("/test")).unwrap();

    let ended = std::panic::catch_unwind(|| run_over(config, &root, |_| Ok(Panics)));

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
