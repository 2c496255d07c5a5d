//! Idle pages in zram are compressed anew by a stronger algorithm, where the kernel can. It is slow work that frees memory, done
//! by a thread of idle priority while programs do not wait.

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

/// What rounds did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recompressed {
    /// Pool memory that this freed, in bytes.
    pub freed_bytes: u64,
    /// Rounds that a device refused.
    pub refused: u32,
}

/// Time between two rounds: a page is compressed anew when it has been idle for half as long again at most.
#[must_use]
pub fn interval(after_s: u64) -> Duration {
    Duration::from_secs(after_s / 2).max(LEAST_INTERVAL)
}

/// One round over all zram devices that are swapped on, about pages that were not accessed for so many seconds. What a device cannot
/// do is left out; what it refuses is counted. Takes about 10 µs a page that is worked on.
///
/// # Errors
/// [`FileError`] when the list of swap areas cannot be read.
pub fn recompress(root: &Root, after_s: u64) -> Result<Recompressed, FileError> {
    let mut done = Recompressed::default();
    let devices = Device::in_swap(root)?;
    for device in devices.iter().filter(|device| device.upkeep().recompresses) {
        let memory = || device.stats().map_or(0, |stats| stats.memory_bytes);
        let before = memory();
        let result = device.mark_idle(Some(after_s));
        let result = result.and_then(|()| device.recompress_idle());
        done.refused += u32::from(result.is_err());
        done.freed_bytes += before.saturating_sub(memory());
    }
    Ok(done)
}

/// The thread that does it. Dropping it has it end after the round that is under way, which is not waited for.
#[derive(Debug)]
pub(crate) struct Recompressor {
    after_s: u64,
    rounds: SyncSender<()>,
    done: Arc<Mutex<Recompressed>>,
}

impl Recompressor {
    /// Starts the thread. It sleeps until it is told to begin a round.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(root: &Root, after_s: u64) -> Result<Self, HostError> {
        // One round at a time.
        let (rounds, receiver) = sync_channel(0);
        let done = Arc::<Mutex<Recompressed>>::default();
        let (root, of_thread) = (root.clone(), Arc::clone(&done));
        std::thread::Builder::new()
            .name("recompress".to_owned())
            .spawn(move || run(&root, after_s, &receiver, &of_thread))
            .map_err(HostError::Thread)?;
        Ok(Self {
            after_s,
            rounds,
            done,
        })
    }

    /// Time between two rounds.
    pub fn interval(&self) -> Duration {
        interval(self.after_s)
    }

    /// A round begins, unless one is under way.
    pub fn round(&self) {
        let _ = self.rounds.try_send(());
    }

    /// What was done so far.
    pub fn done(&self) -> Recompressed {
        *self.done.lock()
    }
}

fn run(root: &Root, after_s: u64, rounds: &Receiver<()>, done: &Mutex<Recompressed>) {
    // Without it the work is done at normal priority.
    let _ = idle_priority();
    while rounds.recv().is_ok() {
        let round = recompress(root, after_s).unwrap_or(Recompressed {
            refused: 1,
            ..Recompressed::default()
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

    #[test]
    fn idle_pages_are_compressed_anew() {
        let machine = machine(&RECOMPRESSES);

        assert_eq!(
            recompress(&machine.root(), 60).unwrap(),
            Recompressed::default()
        );

        assert_eq!(
            written(&machine, ["idle", "recompress"]),
            ["60", "type=idle"]
        );
    }

    #[test]
    fn a_kernel_without_it_is_no_error() {
        let machine = machine(&[]);

        assert_eq!(
            recompress(&machine.root(), 60).unwrap(),
            Recompressed::default()
        );
    }

    #[test]
    fn what_a_device_refuses_is_counted() {
        // Ages need the kernel to track accesses: without, there is no idle file.
        let machine = machine(&RECOMPRESSES[..2]);

        assert_eq!(recompress(&machine.root(), 60).unwrap().refused, 1);

        assert_eq!(written(&machine, ["recompress"]), [""]);
    }

    #[test]
    fn a_thread_does_it_when_it_is_told() {
        let machine = machine(&RECOMPRESSES);
        let recompressor = Recompressor::start(&machine.root(), 60).unwrap();
        let is_done = || written(&machine, ["recompress"]) == ["type=idle"];
        assert!(!is_done());
        // The thread may not wait for a round yet.
        for _ in 0..10_000 {
            recompressor.round();
            if is_done() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing was recompressed");
    }

    #[test]
    fn rounds_are_as_far_apart_as_half_of_the_age() {
        assert_eq!(interval(60), LEAST_INTERVAL);
        assert_eq!(interval(600), Duration::from_secs(300));
    }
}
