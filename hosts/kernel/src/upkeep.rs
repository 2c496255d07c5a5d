//! Upkeep of idle pages in zram, where the kernel can: compressed anew by a stronger algorithm, or written to a
//! backing device. It is slow work that frees memory, done by a thread of idle priority while programs do not wait.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use warmswap_sys::process::idle_priority;
use warmswap_sys::zram::Device;
use warmswap_sys::{FileError, Root};

use crate::error::HostError;

/// Rounds are at least so far apart: each looks at every page of a device.
const LEAST_INTERVAL: Duration = Duration::from_secs(30);

/// What is done to idle pages; by default nothing. On a device that does both, the longer time counts for both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Pages that were not accessed for so many seconds are compressed anew.
    pub recompress_after_s: Option<u64>,
    /// Pages that were not accessed for so many seconds are written to the backing device.
    pub write_back_after_s: Option<u64>,
}

/// What one round of upkeep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpkeepDone {
    /// Pool memory that this freed, in bytes.
    pub freed_bytes: u64,
    /// Steps that a device refused.
    pub refused: u32,
}

impl Upkeep {
    /// Nothing is to be done.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Time between two rounds: a page is worked on when it has been idle for half as long again at most.
    #[must_use]
    pub fn interval(&self) -> Duration {
        let ages_s = [self.recompress_after_s, self.write_back_after_s];
        let least_s = ages_s.into_iter().flatten().min().unwrap_or(0);
        Duration::from_secs(least_s / 2).max(LEAST_INTERVAL)
    }

    /// One round over all zram devices that are swapped on. What a device cannot do is left out; what it
    /// refuses is counted. Takes about 10 µs a page that is worked on.
    ///
    /// # Errors
    /// [`FileError`] when the list of swap areas cannot be read.
    pub fn run(&self, root: &Root) -> Result<UpkeepDone, FileError> {
        let mut done = UpkeepDone::default();
        if self.is_nothing() {
            return Ok(done);
        }
        for device in Device::in_swap(root)? {
            let memory = |device: &Device| device.stats().map_or(0, |stats| stats.memory_bytes);
            let before = memory(&device);
            let can = device.upkeep();
            let write_back_s = self.write_back_after_s.filter(|_| can.writes_back);
            let recompress_s = self.recompress_after_s.filter(|_| can.recompresses);
            // Before Linux 6.13 a mark stays until the page is accessed: one for the shorter time would count for both.
            let age_s = write_back_s.max(recompress_s);
            let mut work = |work: fn(&Device) -> Result<(), FileError>| {
                let result = device.mark_idle(age_s).and_then(|()| work(&device));
                done.refused += u32::from(result.is_err());
            };
            // What is written back need not be compressed anew.
            if write_back_s.is_some() {
                work(Device::write_back_idle);
            }
            if recompress_s.is_some() {
                work(Device::recompress_idle);
            }
            done.freed_bytes += before.saturating_sub(memory(&device));
        }
        Ok(done)
    }
}

/// The thread that does it. Dropping it has it end after the round that is under way, which is not waited for.
#[derive(Debug)]
pub(crate) struct Upkeeper {
    rounds: SyncSender<()>,
    done: Arc<Mutex<UpkeepDone>>,
}

impl Upkeeper {
    /// Starts the thread. It sleeps until it is told to begin a round.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(root: &Root, upkeep: Upkeep) -> Result<Self, HostError> {
        // One round at a time.
        let (rounds, receiver) = sync_channel(0);
        let done = Arc::<Mutex<UpkeepDone>>::default();
        let (root, of_thread) = (root.clone(), Arc::clone(&done));
        std::thread::Builder::new()
            .name("upkeep".to_owned())
            .spawn(move || run(&root, upkeep, &receiver, &of_thread))
            .map_err(HostError::Thread)?;
        Ok(Self { rounds, done })
    }

    /// A round begins, unless one is under way.
    pub fn round(&self) {
        let _ = self.rounds.try_send(());
    }

    /// What was done so far.
    pub fn done(&self) -> UpkeepDone {
        *self.done.lock()
    }
}

fn run(root: &Root, upkeep: Upkeep, rounds: &Receiver<()>, done: &Mutex<UpkeepDone>) {
    // Without it the work is done at normal priority.
    let _ = idle_priority();
    while rounds.recv().is_ok() {
        let round = upkeep.run(root).unwrap_or(UpkeepDone {
            refused: 1,
            ..UpkeepDone::default()
        });
        let mut done = done.lock();
        done.freed_bytes += round.freed_bytes;
        done.refused += round.refused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;

    /// Swaps to a zram device with these files.
    fn machine(files: &[(&str, &str)]) -> Machine {
        let machine = Machine::new();
        let swaps = "F T S U P\n/dev/zram0 partition 9 9 5\n";
        machine.write("proc/swaps", swaps);
        std::fs::create_dir_all(machine.path(DEVICE)).unwrap();
        for (name, text) in files {
            machine.write(&format!("{DEVICE}/{name}"), text);
        }
        machine
    }

    /// What was written to these files of the device.
    fn written<const N: usize>(machine: &Machine, names: [&str; N]) -> [String; N] {
        names.map(|name| machine.read(&format!("{DEVICE}/{name}")))
    }

    const DEVICE: &str = "sys/block/zram0";

    /// Of a device that can recompress.
    const RECOMPRESSES: [(&str, &str); 3] = [
        ("recomp_algorithm", "#1: [zstd]\n"),
        ("recompress", ""),
        ("idle", ""),
    ];

    const BOTH: Upkeep = Upkeep {
        recompress_after_s: Some(60),
        write_back_after_s: Some(600),
    };

    #[test]
    fn each_device_does_what_it_can() {
        let backing = [("backing_dev", "none\n"), ("writeback", "")];
        let machine = machine(&[&RECOMPRESSES[..], &backing].concat());

        assert_eq!(BOTH.run(&machine.root()).unwrap(), UpkeepDone::default());

        let files = written(&machine, ["idle", "recompress", "writeback"]);
        assert_eq!(files, ["60", "type=idle", ""]);
    }

    #[test]
    fn pages_are_not_written_back_before_their_time() {
        let backing = [("backing_dev", "/dev/vdb\n"), ("writeback", "")];
        let machine = machine(&[&RECOMPRESSES[..], &backing].concat());

        assert_eq!(BOTH.run(&machine.root()).unwrap(), UpkeepDone::default());

        // No page is marked after the shorter time.
        let files = written(&machine, ["idle", "recompress", "writeback"]);
        assert_eq!(files, ["600", "type=idle", "idle"]);
    }

    #[test]
    fn a_kernel_without_any_of_it_is_no_error() {
        let machine = machine(&[]);
        let root = machine.root();

        assert_eq!(BOTH.run(&root).unwrap(), UpkeepDone::default());
        assert_eq!(Upkeep::default().run(&root).unwrap(), UpkeepDone::default());
    }

    #[test]
    fn what_a_device_refuses_is_counted() {
        // Ages need the kernel to track accesses: without, there is no idle file.
        let machine = machine(&[("backing_dev", "/dev/vdb\n"), ("writeback", "")]);

        assert_eq!(BOTH.run(&machine.root()).unwrap().refused, 1);

        assert_eq!(written(&machine, ["writeback"]), [""]);
    }

    #[test]
    fn a_thread_does_it_when_it_is_told() {
        let machine = machine(&RECOMPRESSES);
        let upkeeper = Upkeeper::start(&machine.root(), BOTH).unwrap();
        let is_done = || written(&machine, ["recompress"]) == ["type=idle"];
        assert!(!is_done());
        // The thread may not wait for a round yet.
        for _ in 0..10_000 {
            upkeeper.round();
            if is_done() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing was recompressed");
    }

    #[test]
    fn rounds_are_as_far_apart_as_half_of_the_shorter_age() {
        assert_eq!(BOTH.interval(), LEAST_INTERVAL);
        let seldom = Upkeep {
            recompress_after_s: None,
            ..BOTH
        };
        assert_eq!(seldom.interval(), Duration::from_secs(300));
    }
}
