//! The daemon over a host that panics, with a device of this machine.

use std::path::Path;
use std::sync::OnceLock;

use warmswap_daemon::config::Config;
use warmswap_daemon::config::size::Facts;
use warmswap_daemon::host::Host;
use warmswap_daemon::run::run_over;
use warmswap_kernel::application::ProcessId;
use warmswap_kernel::host::Tick;
use warmswap_kernel::{AppId, Application, HostError, HostStatus};
use warmswap_sys::readahead::{Disk, KERNELS_KIB};
use warmswap_sys::tunable::sysctl_path;
use warmswap_sys::{Root, file, swap, vm, zram};
use warmswap_testkit::skip;

/// A host whose first tick finds the device swapped on, and panics.
struct Panics;

fn devices() -> Vec<String> {
    let areas = swap::areas(&Root::machine()).unwrap();
    let ours = areas.into_iter().filter(|area| area.priority == PRIORITY);
    ours.map(|area| area.path).collect()
}

/// The values of these settings of the kernel.
fn values(settings: [(&str, u64); 4]) -> [u64; 4] {
    settings.map(|(name, _)| file::read_u64(&sysctl_path(&Root::machine(), name)).unwrap())
}

/// What they are to be while the daemon runs. Unknown where somebody chose them, or swap is on a disk.
static WHILE_IT_RUNS: OnceLock<[u64; 4]> = OnceLock::new();

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
        if let Some(&expected) = WHILE_IT_RUNS.get() {
            assert_eq!(values(vm::COMPRESSED), expected);
            for disk in Disk::all(&Root::machine()).unwrap() {
                assert!(disk.readahead_kib <= KERNELS_KIB, "{disk:?}");
            }
        }
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
fn a_panic_leaves_no_device_no_setting_and_no_socket() {
    let root = Root::machine();
    if let Err(error) = zram::probe(&root) {
        skip!(
            "a_panic_leaves_no_device_no_setting_and_no_socket",
            "{error}"
        );
    }
    let before = values(vm::KERNEL);
    let disks = Disk::all(&root).unwrap();
    let kernels = vm::KERNEL.map(|(_, value)| value);
    if before == kernels && swap::areas(&root).unwrap().is_empty() {
        let suits = vm::scaled(&root, vm::COMPRESSED).unwrap();
        WHILE_IT_RUNS.set(suits.map(|(_, value)| value)).unwrap();
    }
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("run/daemon.sock");
    let mut config = Config::defaults(Facts { ram_bytes: 1 << 30 });
    let text = format!(
        "[daemon]\nsocket = {}\n[zram0]\nzram-size = 16\nswap-priority = {PRIORITY}\n\
         [metrics]\nlisten = 127.0.0.1:0\n[signals]\nx11 = no\nsway = no\ni3 = no\n[discover]\nenable = no\n",
        socket.display()
    );
    config.merge(&text, Path::new("/test")).unwrap();

    let ended = std::panic::catch_unwind(|| run_over(config, &root, |_| Ok(Panics)));

    let panic = ended.expect_err("it panics");
    let message = panic.downcast_ref::<String>().unwrap();
    let device = message.strip_prefix("on purpose, over ").expect(message);
    assert!(devices().is_empty());
    assert!(!Path::new(device).exists(), "{device}");
    assert!(!socket.exists());
    assert_eq!(values(vm::KERNEL), before);
    assert_eq!(Disk::all(&root).unwrap(), disks);
    let state = place.path().join("run/daemon.state");
    assert_eq!(
        std::fs::read_dir(state).unwrap().count(),
        0,
        "nothing is pending"
    );
}
