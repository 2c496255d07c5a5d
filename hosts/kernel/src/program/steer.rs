//! The thread that keeps group and pool to the budget, and reclaims ahead of need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use warmswap_sys::cpu_time::CpuClock;
use warmswap_sys::memcg::{Group, own_limit_bytes};
use warmswap_sys::meminfo::SwapTraffic;
use warmswap_sys::psi::MemoryPressure;
use warmswap_sys::{FileError, Root, file, monotonic_ns};

use super::ahead::Ahead;
use super::swap::ProgramSwap;
use super::{ProgramError, ProgramOptions, ProgramUsage};
use crate::goal::{Gauge, Goal};

/// Between looks while the program is paged.
const PAGED: Duration = Duration::from_millis(1);

/// The longest time between looks. What a program takes in it is met by the limit.
const REST: Duration = Duration::from_millis(50);

/// A program takes no more than this in a nanosecond (1 GiB a second): so long it needs to its limit at least.
const MOST_BYTES_PER_NS: u64 = 1;

/// Counters that cost more are read so often.
const ACCOUNT_NS: u64 = 20_000_000;

/// The pool is measured so often while the program is paged: it grows by a MiB or two at most meanwhile.
const POOL_NS: u64 = 4_000_000;

/// One call reclaims so much at most. It ends when the group is below its target, and a program that takes pages back
/// meanwhile holds it up; the thread has to look and to count in between.
const STEP_BYTES: u64 = 1 << 20;

/// A limit that cannot be reached is tried again after so long.
const RETRY_NS: u64 = 50_000_000;

/// Where less swap is free, no limit holds: the kernel ends members of a group that it cannot reclaim. Other programs swap
/// to the same devices. As a part of the budget, and at least.
const LEAST_SWAP_PART: u64 = 4;
const LEAST_SWAP_BYTES: u64 = 16 << 20;

/// See above, for a program with this budget.
pub(super) fn least_swap_bytes(budget_bytes: u64) -> u64 {
    (budget_bytes / LEAST_SWAP_PART).max(LEAST_SWAP_BYTES)
}

/// Smaller changes of the pool are let be.
const GRAIN_BYTES: u64 = 128 << 10;

/// However large the pool, the group keeps this part of the budget, as a divisor: a program without memory does nothing.
const LEAST_PART: u64 = 8;

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Steering {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    done: AtomicBool,
    usage: Mutex<ProgramUsage>,
}

impl Shared {
    fn usage(&self) -> MutexGuard<'_, ProgramUsage> {
        // The numbers of a thread that panicked are numbers still.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steering {
    pub fn start(
        root: &Root,
        group: Group,
        swap: &ProgramSwap,
        options: &ProgramOptions,
    ) -> Result<Self, ProgramError> {
        let usage = ProgramUsage {
            device: swap.name(),
            is_own_device: matches!(swap, ProgramSwap::Own(_)),
            budget_bytes: options.budget_bytes,
            limit_bytes: options.budget_bytes,
            ..ProgramUsage::default()
        };
        let has_others = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        let is_ahead = options.ahead && has_others;
        let mut steer = Steer::new(root, group, usage.clone(), is_ahead)?;
        let shared = Arc::new(Shared {
            done: AtomicBool::new(false),
            usage: Mutex::new(usage),
        });
        let of_thread = Arc::clone(&shared);
        let run = move || {
            let clock = CpuClock::of_this_thread();
            while !of_thread.done.load(Ordering::Acquire) {
                let wait = steer.step(monotonic_ns());
                steer.usage.steering_cpu_ns = clock.read_ns().unwrap_or(0);
                of_thread.usage().clone_from(&steer.usage);
                std::thread::park_timeout(wait);
            }
            steer.account();
            of_thread.usage().clone_from(&steer.usage);
        };
        let thread = std::thread::Builder::new().name("steer".to_owned());
        let thread = thread.spawn(run).map_err(ProgramError::Thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub fn usage(&self) -> ProgramUsage {
        self.shared.usage().clone()
    }

    /// Ends the thread. What was used.
    pub fn finish(mut self) -> ProgramUsage {
        self.stop();
        self.usage()
    }

    fn stop(&mut self) {
        self.shared.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread does, one step at a time.
pub(super) struct Steer {
    root: Root,
    group: Group,
    gauge: Gauge,
    ahead: Ahead,
    pub(super) usage: ProgramUsage,
    /// Swap traffic of the machine when the program began.
    traffic: SwapTraffic,
    /// The pool before the program began, for kernels that do not say what a group has in swap.
    pool_before_bytes: u64,
    accounted_ns: Option<u64>,
    pool_ns: u64,
    /// No limit is lowered before.
    retry_ns: u64,
    is_swap_full: bool,
    /// The limit of the group that this process is in.
    most_bytes: u64,
}

impl Steer {
    pub(super) fn new(
        root: &Root,
        group: Group,
        usage: ProgramUsage,
        is_ahead: bool,
    ) -> Result<Self, ProgramError> {
        let gauge = Gauge::new(root, &Goal::default())?;
        Ok(Self {
            ahead: Ahead::new(usage.budget_bytes, is_ahead, group.limit_hits()?),
            pool_before_bytes: gauge.swap()?.pool_bytes,
            traffic: SwapTraffic::read(root)?,
            root: root.clone(),
            group,
            gauge,
            usage,
            accounted_ns: None,
            pool_ns: 0,
            retry_ns: 0,
            is_swap_full: false,
            most_bytes: own_limit_bytes(root).unwrap_or(u64::MAX),
        })
    }

    /// One look, and what follows. How long the next one can wait. What the kernel refuses is tried again then.
    pub(super) fn step(&mut self, now_ns: u64) -> Duration {
        let is_due = self.accounted_ns.is_none_or(|at| now_ns - at >= ACCOUNT_NS);
        if is_due {
            self.gauge.find_devices();
        }
        if is_due || now_ns - self.pool_ns >= POOL_NS {
            self.pool_ns = now_ns;
            let _ = self.measure_pool();
        }
        if is_due {
            self.accounted_ns = Some(now_ns);
            self.account();
        }
        if let Ok(hits) = self.group.limit_hits() {
            let root = &self.root;
            self.ahead.met(hits, now_ns, || has_idle_processor(root));
        }
        self.set_limit(now_ns);
        let Ok(used) = self.group.usage_bytes() else {
            return REST;
        };
        let usage = &mut self.usage;
        usage.resident_bytes = used;
        usage.resident_peak_bytes = usage.resident_peak_bytes.max(used);
        usage.used_peak_bytes = usage.used_peak_bytes.max(used + usage.pool_bytes);
        if !self.is_swap_full
            && let Some(target) = self.ahead.target(used, usage.limit_bytes)
        {
            let next = target.max(used.saturating_sub(STEP_BYTES));
            match self.group.reclaim_to(next, usage.limit_bytes) {
                Ok(()) => usage.ahead_rounds += 1,
                Err(_) => {
                    let hits = self.group.limit_hits().unwrap_or(u64::MAX);
                    self.ahead.failed(hits);
                }
            }
        }
        if self.ahead.is_active() {
            return PAGED;
        }
        let distance = usage.limit_bytes.saturating_sub(used) / MOST_BYTES_PER_NS;
        Duration::from_nanos(distance).clamp(5 * PAGED, REST)
    }

    /// The limit follows the pool: together they are the budget.
    fn set_limit(&mut self, now_ns: u64) {
        let budget = self.usage.budget_bytes;
        let now = self.usage.limit_bytes;
        let mut wanted = if self.is_swap_full {
            // More than the program would have without swap and a budget on top.
            now.max(budget + self.usage.resident_bytes + self.usage.swapped_bytes)
                .min(self.most_bytes)
        } else {
            let rest = budget.saturating_sub(self.usage.pool_bytes);
            rest.max(budget / LEAST_PART)
        };
        let is_set = if wanted + GRAIN_BYTES <= now {
            if now_ns < self.retry_ns {
                return;
            }
            wanted = wanted.max(
                now.min(self.usage.resident_bytes)
                    .saturating_sub(STEP_BYTES),
            );
            self.group.lower_limit(wanted, now)
        } else if wanted >= now + GRAIN_BYTES {
            self.group.set_limit(Some(wanted))
        } else {
            return;
        };
        match is_set {
            Ok(()) => self.usage.limit_bytes = wanted,
            Err(_) => self.retry_ns = now_ns + RETRY_NS,
        }
    }

    /// The program's part of the pool: by its share of the pages that are in it.
    fn measure_pool(&mut self) -> Result<(), FileError> {
        let pool = self.gauge.swap()?;
        let usage = &mut self.usage;
        let room = self.group.swap_room_bytes().unwrap_or(u64::MAX);
        let is_full = pool.free_bytes.min(room) < least_swap_bytes(usage.budget_bytes);
        usage.lifted_limits += u64::from(is_full && !self.is_swap_full);
        self.is_swap_full = is_full;
        match self.group.swapped_bytes()? {
            Some(swapped) => {
                let share = swapped as f64 / pool.stored_bytes.max(1) as f64;
                usage.swapped_bytes = swapped;
                usage.pool_bytes = (pool.pool_bytes as f64 * share.min(1.0)) as u64;
            }
            None => {
                usage.pool_bytes = pool.pool_bytes.saturating_sub(self.pool_before_bytes);
                usage.swapped_bytes = pool.stored_bytes.min(usage.pool_bytes.saturating_mul(4));
            }
        }
        usage.pool_peak_bytes = usage.pool_peak_bytes.max(usage.pool_bytes);
        Ok(())
    }

    /// Reads the counters.
    pub(super) fn account(&mut self) {
        let usage = &mut self.usage;
        if let Ok(stats) = self.group.stats() {
            let needed = stats.anonymous_bytes + usage.swapped_bytes;
            usage.needed_peak_bytes = usage.needed_peak_bytes.max(needed);
            usage.major_faults = stats.major_faults;
        }
        if let Ok(traffic) = SwapTraffic::read(&self.root) {
            usage.out_pages = traffic.out_pages.saturating_sub(self.traffic.out_pages);
            usage.in_pages = traffic.in_pages.saturating_sub(self.traffic.in_pages);
        }
        if let Ok(hits) = self.group.limit_hits() {
            usage.limit_hits = hits;
        }
        let stalled = MemoryPressure::of_group(self.group.path());
        usage.stalled_us = stalled.ok().flatten().map(|found| found.some.total_us);
    }
}

/// Whether no more threads want to run than there are processors, those of the program and this one included. True where
/// that cannot be read.
fn has_idle_processor(root: &Root) -> bool {
    let text = file::read(&root.path("/proc/loadavg")).unwrap_or_default();
    let running = text.split(' ').nth(3).and_then(|field| {
        let (running, _) = field.split_once('/')?;
        running.parse::<usize>().ok()
    });
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    running.is_none_or(|running| running <= processors)
}
