//! The thread that watches memory while some of it is taken away, and gives it back when memory runs out.
//!
//! Two things say that it does. Available memory stays below a bound while all tasks wait for memory for a good part of
//! the time (PSI, "full"): what is left cannot be reclaimed without swap, and that is not fast enough. Or they wait
//! nearly all of the time: the machine only pages. Both must last, since a relaunch with little memory makes them for a
//! moment. Little available alone says nothing: the kernel gets along with hardly any page cache as long as it swaps.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Shared, lock};
use crate::cpu_time::CpuClock;
use crate::monotonic_ns;
use crate::psi::MemoryPressure;

/// Time between two looks. Each costs about 50 µs.
const INTERVAL: Duration = Duration::from_millis(100);

/// When memory has run out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Least memory that is to be available, in bytes.
    pub least_available_bytes: u64,
    /// How long there may be less.
    pub available_patience: Duration,
    /// Most of that time that all tasks may wait for memory, in percent. Where the kernel does not tell, too little
    /// available is enough.
    pub most_stall_percent_when_short: f64,
    /// Most of the time that all tasks may wait for memory, in percent; no effect where the kernel does not tell.
    pub most_stall_percent: f64,
    /// Over how long that is measured.
    pub stall_window: Duration,
}

impl Bounds {
    /// For a machine of which `left_bytes` are left: less than a 128th of that available for 2 s of which a
    /// quarter was waited, or 95 % of 10 s waited. A 128th of it is less than the kernel's own reserves, which do not
    /// count as available.
    #[must_use]
    pub fn of(left_bytes: u64) -> Self {
        Self {
            least_available_bytes: left_bytes / 128,
            available_patience: Duration::from_secs(2),
            most_stall_percent_when_short: 25.0,
            most_stall_percent: 95.0,
            stall_window: Duration::from_secs(10),
        }
    }
}

/// Why memory was given back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RanOut {
    /// Too little was available for too long.
    Available {
        /// What was, at the last look, in bytes.
        available_bytes: u64,
    },
    /// All tasks waited for memory for too long.
    Stall {
        /// Part of the time, in percent.
        percent: f64,
    },
}

impl fmt::Display for RanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Available { available_bytes } => {
                write!(f, "only {} MiB were available", available_bytes >> 20)
            }
            Self::Stall { percent } => {
                write!(f, "all tasks waited for memory {percent:.0} % of the time")
            }
        }
    }
}

/// What was seen in a time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// Looks.
    pub looks: u64,
    /// Sum of what was available at each, in bytes.
    pub sum_available_bytes: u64,
    /// The least, in bytes; 0 without a look.
    pub least_available_bytes: u64,
    /// Most of the time of a whole window that all tasks waited, in percent.
    pub most_stall_percent: f64,
    /// CPU time of the watching thread, in nanoseconds.
    pub cpu_ns: u64,
}

impl Seen {
    /// The mean of what was available, in bytes; 0 without a look.
    #[must_use]
    pub fn mean_available_bytes(&self) -> u64 {
        self.sum_available_bytes / self.looks.max(1)
    }

    /// This and what was seen before or after it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self.looks == 0 || other.looks == 0 {
            return if self.looks == 0 { other } else { self };
        }
        Self {
            looks: self.looks + other.looks,
            sum_available_bytes: self.sum_available_bytes + other.sum_available_bytes,
            least_available_bytes: self.least_available_bytes.min(other.least_available_bytes),
            most_stall_percent: self.most_stall_percent.max(other.most_stall_percent),
            cpu_ns: self.cpu_ns + other.cpu_ns,
        }
    }

    fn add(&mut self, available_bytes: u64, stall_percent: Option<f64>, cpu_ns: u64) {
        self.least_available_bytes = match self.looks {
            0 => available_bytes,
            _ => self.least_available_bytes.min(available_bytes),
        };
        self.looks += 1;
        self.sum_available_bytes += available_bytes;
        self.most_stall_percent = self.most_stall_percent.max(stall_percent.unwrap_or(0.0));
        self.cpu_ns += cpu_ns;
    }
}

/// One look at memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Of a clock that does not go back.
    pub at: Duration,
    pub available_bytes: u64,
    /// Since boot; `None` where the kernel does not tell.
    pub stall_us: Option<u64>,
}

/// Decides by the looks so far.
#[derive(Debug)]
pub(super) struct Judge {
    bounds: Bounds,
    /// The look since which too little was available.
    short_since: Option<Look>,
    /// The look with which the window of the stall begins.
    window: Option<Look>,
}

impl Judge {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            short_since: None,
            window: None,
        }
    }

    /// Whether memory has run out, and how much of the last window was waited, when one has just ended.
    pub fn look(&mut self, look: Look) -> (Option<RanOut>, Option<f64>) {
        let percent = self.stall_percent(look);
        let stall = percent.filter(|&percent| percent >= self.bounds.most_stall_percent);
        let stall = stall.map(|percent| RanOut::Stall { percent });
        (self.shortage(look).or(stall), percent)
    }

    fn shortage(&mut self, look: Look) -> Option<RanOut> {
        if look.available_bytes >= self.bounds.least_available_bytes {
            self.short_since = None;
            return None;
        }
        let since = *self.short_since.get_or_insert(look);
        if look.at.saturating_sub(since.at) < self.bounds.available_patience {
            return None;
        }
        let percent = waited_percent(since, look);
        if percent.is_some_and(|percent| percent < self.bounds.most_stall_percent_when_short) {
            // The kernel gets along; what is waited from now on counts.
            self.short_since = Some(look);
            return None;
        }
        Some(RanOut::Available {
            available_bytes: look.available_bytes,
        })
    }

    fn stall_percent(&mut self, look: Look) -> Option<f64> {
        look.stall_us?;
        let begin = *self.window.get_or_insert(look);
        if look.at.saturating_sub(begin.at) < self.bounds.stall_window {
            return None;
        }
        self.window = Some(look);
        waited_percent(begin, look)
    }
}

/// How much of the time between two looks all tasks waited for memory, in percent.
fn waited_percent(since: Look, look: Look) -> Option<f64> {
    let waited_us = look.stall_us?.saturating_sub(since.stall_us?) as f64;
    let passed_us = look.at.saturating_sub(since.at).as_micros().max(1) as f64;
    Some((waited_us / passed_us * 100.0).min(100.0))
}

/// Small files of the kernel that stay open, so that reading them takes no memory.
struct Sources {
    meminfo: File,
    pressure: Option<File>,
    text: Vec<u8>,
}

impl Sources {
    fn open(shared: &Shared) -> io::Result<Self> {
        let open = |path: &str| File::open(shared.root.path(Path::new(path)));
        Ok(Self {
            meminfo: open("/proc/meminfo")?,
            pressure: open("/proc/pressure/memory").ok(),
            text: vec![0; 8192],
        })
    }

    /// What is available now, and for how long all tasks have waited; nothing where the text is not whole.
    fn look(&mut self) -> Option<Look> {
        let len = self.meminfo.read_at(&mut self.text, 0).ok()?;
        let text = std::str::from_utf8(&self.text[..len]).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        let pressure = self.pressure.as_ref();
        let stall_us = pressure.and_then(|file| {
            let len = file.read_at(&mut self.text, 0).ok()?;
            let text = std::str::from_utf8(&self.text[..len]).ok()?;
            Some(MemoryPressure::parse(text)?.full.total_us)
        });
        Some(Look {
            at: Duration::from_nanos(monotonic_ns()),
            available_bytes: kib * 1024,
            stall_us,
        })
    }
}

/// Starts the watching thread.
pub(super) fn start(shared: &Arc<Shared>, bounds: Bounds) -> io::Result<JoinHandle<()>> {
    let mut sources = Sources::open(shared)?;
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("memory guard".to_owned());
    thread.spawn(move || watch(&shared, &mut sources, Judge::new(bounds)))
}

fn watch(shared: &Shared, sources: &mut Sources, mut judge: Judge) {
    let clock = CpuClock::of_this_thread();
    let mut cpu = 0;
    while !shared.ended.load(Ordering::Acquire) {
        if let Some(look) = sources.look() {
            let (ran_out, stall) = judge.look(look);
            let now = clock.read_ns().unwrap_or(cpu);
            lock(&shared.seen).add(look.available_bytes, stall, now - cpu);
            cpu = now;
            if let Some(why) = ran_out {
                // First the word, then the deed: when the owner finds everything given back, it finds why.
                *lock(&shared.ran_out) = Some(why);
                shared.give_back();
                return;
            }
        }
        std::thread::park_timeout(INTERVAL);
    }
}
