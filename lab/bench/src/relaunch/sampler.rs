//! CPU time and I/O of a switch in slices (ASAP, Figures 13 and 14).
//!
//! What is read: a clock for each process of the group and each thread of the kernel, `schedstat` for each thread of
//! the arenas, `/proc/vmstat`; everything is found and opened before the switch. A reading takes some 200 µs
//! on a small virtual machine: every 10 ms, 2 % of one processor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::cpu_time::{CpuClock, ThreadTime};
use warmswap_sys::meminfo::{BlockTraffic, VmstatFile};
use warmswap_sys::{Root, monotonic_ns};

use crate::BenchError;

/// The arenas' threads by their names.
const ARENA_THREADS: &str = "warmswap";

/// One slice of a switch. CPU times are those of all processors together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Begin, in nanoseconds from the switch.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Whether the program had answered before it.
    pub is_after_answer: bool,
    /// CPU time of the applications, with what the kernel does in them.
    pub programs_ns: u64,
    /// CPU time of the kernel's threads.
    pub kernel_threads_ns: u64,
    /// CPU time of the thread that keeps the limit.
    pub limit_ns: u64,
    /// CPU time of paging in user space: the kernel host's threads, or the arenas' and what tells them of switches.
    pub host_ns: u64,
    /// Pages that the kernel read from swap.
    pub in_pages: u64,
    /// Pages that it wrote there.
    pub out_pages: u64,
    /// Bytes read from other block devices: files.
    pub read_bytes: u64,
}

impl Slice {
    /// All CPU time.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.programs_ns + self.kernel_threads_ns + self.limit_ns + self.host_ns
    }

    /// Its length.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

/// Whose time is read.
#[derive(Debug, Default)]
pub struct Sampled {
    /// Processes of the applications.
    pub programs: Vec<u32>,
    /// Whether there may be arenas in them.
    pub with_arenas: bool,
    /// Threads of the kernel.
    pub kernel_threads: Vec<u32>,
    /// The thread that keeps the limit.
    pub limit: Option<CpuClock>,
}

/// Where it is read.
#[derive(Debug)]
struct Sources {
    programs: Vec<CpuClock>,
    kernel_threads: Vec<CpuClock>,
    arenas: Vec<ThreadTime>,
    limit: Option<CpuClock>,
    /// This process.
    own: Option<CpuClock>,
    /// Threads of it that only measure.
    measuring: Vec<CpuClock>,
    vmstat: VmstatFile,
    readings: Vec<Reading>,
}

/// Counts at a time; all but the time and `traffic` are CPU nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    at_ns: u64,
    programs: u64,
    kernel_threads: u64,
    arenas: u64,
    limit: u64,
    own: u64,
    traffic: BlockTraffic,
    is_answer: bool,
}

impl Sources {
    fn open(root: &Root, sampled: &Sampled) -> Result<Self, BenchError> {
        let clocks = |pids: &[u32]| {
            let clocks = pids.iter().filter_map(|&pid| CpuClock::of_process(pid));
            clocks.collect()
        };
        let arenas = sampled.programs.iter().filter(|_| sampled.with_arenas);
        Ok(Self {
            programs: clocks(&sampled.programs),
            kernel_threads: clocks(&sampled.kernel_threads),
            arenas: arenas
                .flat_map(|&pid| ThreadTime::of_threads(root, pid, ARENA_THREADS))
                .collect(),
            limit: sampled.limit,
            own: CpuClock::of_process(std::process::id()),
            measuring: vec![CpuClock::of_this_thread()],
            vmstat: VmstatFile::open(root)?,
            readings: Vec::with_capacity(256),
        })
    }

    /// Reads everything. What has ended meanwhile counts as nothing, see [`slices`].
    fn read(&mut self, is_answer: bool) {
        let sum = |clocks: &[CpuClock]| clocks.iter().filter_map(|c| c.read_ns()).sum::<u64>();
        let limit = self.limit.and_then(CpuClock::read_ns).unwrap_or(0);
        let others = limit + sum(&self.measuring);
        let reading = Reading {
            at_ns: monotonic_ns(),
            programs: sum(&self.programs),
            kernel_threads: sum(&self.kernel_threads),
            arenas: self.arenas.iter().filter_map(ThreadTime::read_ns).sum(),
            limit,
            own: self
                .own
                .and_then(CpuClock::read_ns)
                .unwrap_or(0)
                .saturating_sub(others),
            traffic: self.vmstat.read().unwrap_or_default(),
            is_answer,
        };
        self.readings.push(reading);
    }
}

/// A switch that is being sampled.
#[derive(Debug)]
pub struct Sampler {
    sources: Arc<Mutex<Sources>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn lock(sources: &Mutex<Sources>) -> MutexGuard<'_, Sources> {
    sources.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampler {
    /// Finds what is to be read, reads it, and does so again every so often.
    pub fn start(root: &Root, every: Duration, sampled: &Sampled) -> Result<Self, BenchError> {
        let sources = Sources::open(root, sampled)?;
        let sources = Arc::new(Mutex::new(sources));
        let is_over = Arc::new(AtomicBool::new(false));
        let (for_thread, until) = (Arc::clone(&sources), Arc::clone(&is_over));
        let (ready, wait) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let clock = CpuClock::of_this_thread();
            lock(&for_thread).measuring.push(clock);
            let _ = ready.send(());
            loop {
                std::thread::park_timeout(every);
                if until.load(Ordering::Acquire) {
                    return;
                }
                lock(&for_thread).read(false);
            }
        });
        let _ = wait.recv();
        lock(&sources).read(false);
        Ok(Self {
            sources,
            is_over,
            thread: Some(thread),
        })
    }

    /// The program has answered.
    pub fn answered(&self) {
        lock(&self.sources).read(true);
    }

    /// Reads for the last time; all slices.
    pub fn finish(mut self) -> Vec<Slice> {
        self.stop();
        let mut sources = lock(&self.sources);
        sources.read(false);
        slices(&sources.readings)
    }

    fn stop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What was used between readings. A sum falls when a process ends: that slice has nothing of it.
fn slices(readings: &[Reading]) -> Vec<Slice> {
    let Some(first) = readings.first() else {
        return Vec::new();
    };
    let answer = readings.iter().position(|reading| reading.is_answer);
    let pairs = readings.windows(2).enumerate();
    pairs
        .map(|(at, pair)| {
            let (from, to) = (&pair[0], &pair[1]);
            let of = |value: fn(&Reading) -> u64| value(to).saturating_sub(value(from));
            let arenas_ns = of(|r| r.arenas);
            let in_pages = of(|r| r.traffic.in_pages);
            let swapped_bytes = in_pages * PAGE_BYTES as u64;
            Slice {
                begin_ns: from.at_ns - first.at_ns,
                end_ns: to.at_ns - first.at_ns,
                is_after_answer: answer.is_some_and(|answer| at >= answer),
                programs_ns: of(|r| r.programs).saturating_sub(arenas_ns),
                kernel_threads_ns: of(|r| r.kernel_threads),
                limit_ns: of(|r| r.limit),
                host_ns: of(|r| r.own) + arenas_ns,
                in_pages,
                out_pages: of(|r| r.traffic.out_pages),
                // What is read from swap is read from a block device.
                read_bytes: of(|r| r.traffic.read_bytes).saturating_sub(swapped_bytes),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_the_differences_and_know_the_answer() {
        let reading = |at_ns, programs, in_pages, is_answer| Reading {
            at_ns,
            programs,
            own: programs / 10,
            arenas: programs / 2,
            traffic: BlockTraffic {
                in_pages,
                out_pages: 0,
                read_bytes: in_pages * 4096 + at_ns,
                ..BlockTraffic::default()
            },
            is_answer,
            ..Reading::default()
        };
        let readings = [
            reading(1000, 100, 5, false),
            reading(1010, 120, 7, false),
            reading(1013, 120, 7, true),
            reading(1020, 90, 8, false),
        ];

        let slices = slices(&readings);

        let times: Vec<_> = slices.iter().map(|s| (s.begin_ns, s.end_ns)).collect();
        assert_eq!(times, [(0, 10), (10, 13), (13, 20)]);
        let after: Vec<_> = slices.iter().map(|s| s.is_after_answer).collect();
        assert_eq!(after, [false, false, true]);
        let first = slices[0];
        assert_eq!((first.programs_ns, first.host_ns), (10, 12));
        assert_eq!((first.in_pages, first.read_bytes), (2, 10));
        assert_eq!((first.cpu_ns(), first.length_ns()), (22, 10));
        // A process ended.
        assert_eq!(slices[2].programs_ns, 0);
        assert_eq!(super::slices(&[]), []);
    }

    #[test]
    fn a_process_that_works_is_seen_in_every_slice() {
        let root = Root::machine();
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let sampled = Sampled {
            programs: vec![busy.id()],
            with_arenas: true,
            ..Sampled::default()
        };
        let every = Duration::from_millis(5);
        let sampler = Sampler::start(&root, every, &sampled).unwrap();
        // Until it had some time of a processor, however busy the machine is.
        let clock = CpuClock::of_process(busy.id()).unwrap();
        let begin = clock.read_ns().unwrap();
        while clock.read_ns().unwrap() < begin + 50_000_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        sampler.answered();
        let slices = sampler.finish();
        busy.kill().unwrap();
        busy.wait().unwrap();

        assert!(slices.len() >= 3, "{slices:?}");
        let seen: u64 = slices.iter().map(|s| s.programs_ns).sum();
        assert!(seen >= 45_000_000, "{seen}");
        assert!(slices.last().is_some_and(|s| s.is_after_answer) && !slices[0].is_after_answer);
        assert!(
            slices
                .windows(2)
                .all(|pair| pair[0].end_ns == pair[1].begin_ns)
        );
    }
}
