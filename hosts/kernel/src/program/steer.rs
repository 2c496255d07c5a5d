//! The thread that keeps group and pool to the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use warmswap_sys::cpu_time::CpuClock;
use warmswap_sys::memcg::{Group, own_limit_bytes};
use warmswap_sys::meminfo::{Meminfo, SwapTraffic};
use warmswap_sys::psi::MemoryPressure;
use warmswap_sys::{FileError, Root, monotonic_ns};

use super::bound::{Bound, Waker};
use super::membership::Membership;
use super::swap::ProgramSwap;
use super::{ProgramError, ProgramOptions, ProgramUsage};
use crate::error::HostError;
use crate::status::SwapStatus;

/// Between looks while the bound is being lowered.
const LOWERING: Duration = Duration::from_millis(1);

/// Between looks while the program is at its bound.
const PAGED: Duration = Duration::from_millis(5);

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

/// Where less swap is free, no limit holds: the kernel cannot reclaim from the group. Other programs swap to the same
/// devices. As a part of the budget, and at least.
const LEAST_SWAP_PART: u64 = 4;
const LEAST_SWAP_BYTES: u64 = 16 << 20;

/// See above, for a program with this budget.
pub(super) fn least_swap_bytes(budget_bytes: u64) -> u64 {
    (budget_bytes / LEAST_SWAP_PART).max(LEAST_SWAP_BYTES)
}

/// With less room than this in swap a device is added: several times what goes to swap while that is done (20 ms).
const GROW_BYTES: u64 = 64 << 20;

/// Smaller changes of the pool are let be.
const GRAIN_BYTES: u64 = 128 << 10;

/// However large the pool, the group keeps this part of the budget, as a divisor, beside what cannot be reclaimed from it and
/// room for what comes before the next look: page tables and stacks of new processes, and pages in use at one moment. Where
/// that was too little, the room doubles.
const LEAST_PART: u64 = 8;
const ROOM_BYTES: u64 = 8 << 20;

/// The bound is not lowered for so long after members starved.
const HOLD_NS: u64 = 1_000_000_000;

/// What a group with this budget keeps at least, when so much cannot be reclaimed from it.
fn floor_bytes(budget_bytes: u64, held_bytes: u64, room_bytes: u64) -> u64 {
    (budget_bytes / LEAST_PART)
        .saturating_add(held_bytes)
        .saturating_add(room_bytes)
}

/// The bound of a group that has no members yet.
pub(super) fn first_limit_bytes(budget_bytes: u64, most_bytes: u64) -> u64 {
    let floor = floor_bytes(budget_bytes, 0, ROOM_BYTES);
    budget_bytes.max(floor).min(most_bytes)
}

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Steering {
    shared: Arc<SteeringState>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct SteeringState {
    done: AtomicBool,
    /// The program's first process; 0 before it is known.
    process: AtomicU32,
    usage: Mutex<ProgramUsage>,
}

impl Steering {
    pub fn start(
        root: &Root,
        group: Group,
        swap: &Arc<ProgramSwap>,
        options: &ProgramOptions,
    ) -> Result<Self, ProgramError> {
        let most_bytes = own_limit_bytes(root).unwrap_or(u64::MAX);
        let usage = ProgramUsage {
            device: swap.name(),
            is_own_device: swap.has_own(),
            budget_bytes: options.budget_bytes,
            limit_bytes: first_limit_bytes(options.budget_bytes, most_bytes),
            ..ProgramUsage::default()
        };
        let bound = Bound::new(group);
        bound.raise(usage.limit_bytes)?;
        let swap = Arc::clone(swap);
        let grow = Box::new(move || swap.grow().is_ok_and(|grew| grew).then(|| swap.name()));
        let mut steer = Steer::new(root, bound, usage.clone(), grow)?;
        let waker = Waker::new().map_err(HostError::Thread)?;
        let shared = Arc::new(SteeringState {
            usage: Mutex::new(usage),
            ..SteeringState::default()
        });
        let (of_thread, woken) = (Arc::clone(&shared), waker.clone());
        let run = move || {
            let clock = CpuClock::of_this_thread();
            while !of_thread.done.load(Ordering::Acquire) {
                steer.process = of_thread.process.load(Ordering::Relaxed);
                let wait = steer.step(monotonic_ns());
                steer.usage.steering_cpu_ns = clock.read_ns().unwrap_or(0);
                of_thread.usage.lock().clone_from(&steer.usage);
                steer.bound.wait(&woken, wait);
            }
            steer.account();
            of_thread.usage.lock().clone_from(&steer.usage);
        };
        let thread = std::thread::Builder::new().name("steer".to_owned());
        let thread = thread.spawn(run).map_err(HostError::Thread)?;
        Ok(Self {
            shared,
            waker,
            thread: Some(thread),
        })
    }

    /// The program's first process, which is in the group.
    pub fn started(&self, process: u32) {
        self.shared.process.store(process, Ordering::Relaxed);
    }

    pub fn usage(&self) -> ProgramUsage {
        self.shared.usage.lock().clone()
    }

    /// Ends the thread. What was used.
    pub fn finish(mut self) -> ProgramUsage {
        self.stop();
        self.usage()
    }

    fn stop(&mut self) {
        self.shared.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            self.waker.wake();
            let _ = thread.join();
        }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Gets more swap for a program: the names of all its devices, if there is more now.
pub(super) type Grow = Box<dyn Fn() -> Option<String> + Send>;

/// What the thread does, one step at a time.
pub(super) struct Steer {
    root: Root,
    bound: Bound,
    grow: Grow,
    pub(super) usage: ProgramUsage,
    /// The program's first process; 0 before it is known.
    pub(super) process: u32,
    membership: Membership,
    /// Swap traffic of group or machine when the program began.
    traffic: SwapTraffic,
    /// The pool before the program began, for kernels that do not say what a group has in swap.
    pool_before_bytes: u64,
    accounted_ns: Option<u64>,
    pool_ns: u64,
    /// No limit is lowered before.
    retry_ns: u64,
    /// No device is added before.
    grow_ns: u64,
    is_swap_full: bool,
    /// What cannot be reclaimed from the group: memory of the kernel, and memory that is locked.
    kernel_bytes: u64,
    locked_bytes: u64,
    /// Room for what comes before the next look.
    room_bytes: u64,
    /// Until when members that starved have what they use, and room.
    hold_until_ns: u64,
    /// The limit of the group that this process is in.
    most_bytes: u64,
}

impl Steer {
    pub(super) fn new(
        root: &Root,
        bound: Bound,
        usage: ProgramUsage,
        grow: Grow,
    ) -> Result<Self, ProgramError> {
        let own_traffic = own_traffic(bound.group());
        let usage = ProgramUsage {
            is_own_traffic: own_traffic.is_some(),
            ..usage
        };
        Ok(Self {
            pool_before_bytes: swap_status(root)?.pool_bytes,
            traffic: own_traffic.map_or_else(|| SwapTraffic::read(root), Ok)?,
            root: root.clone(),
            bound,
            grow,
            usage,
            process: 0,
            membership: Membership::default(),
            accounted_ns: None,
            pool_ns: 0,
            retry_ns: 0,
            grow_ns: 0,
            is_swap_full: false,
            kernel_bytes: 0,
            locked_bytes: 0,
            room_bytes: ROOM_BYTES,
            hold_until_ns: 0,
            most_bytes: own_limit_bytes(root).unwrap_or(u64::MAX),
        })
    }

    /// One look, and what follows. How long the next one can wait. What the kernel refuses is tried again then.
    pub(super) fn step(&mut self, now_ns: u64) -> Duration {
        if now_ns - self.pool_ns >= POOL_NS {
            self.pool_ns = now_ns;
            let _ = self.measure_pool(now_ns);
        }
        if self.accounted_ns.is_none_or(|at| now_ns - at >= ACCOUNT_NS) {
            self.accounted_ns = Some(now_ns);
            self.account();
        }
        self.usage.has_left_group |= self.membership.has_descendant_outside(
            &self.root,
            self.bound.group(),
            self.process,
            now_ns,
        );
        self.kernel_bytes = self.bound.kernel_bytes().unwrap_or(self.kernel_bytes);
        let Ok(used) = self.bound.group().usage_bytes() else {
            return REST;
        };
        self.usage.resident_bytes = used;
        if self.bound.is_starved() {
            self.usage.raised_limits += 1;
            self.room_bytes = self.room_bytes.saturating_mul(2);
            self.hold_until_ns = now_ns + HOLD_NS;
        }
        let is_reached = self.set_limit(now_ns);
        let usage = &mut self.usage;
        usage.resident_peak_bytes = usage.resident_peak_bytes.max(used);
        usage.used_peak_bytes = usage.used_peak_bytes.max(used + usage.pool_bytes);
        if !is_reached {
            return LOWERING;
        }
        let distance = usage.limit_bytes.saturating_sub(used) / MOST_BYTES_PER_NS;
        Duration::from_nanos(distance).clamp(PAGED, REST)
    }

    /// What the bound is to be: group and pool together are the budget, but the group keeps its floor.
    fn wanted_limit(&mut self, now_ns: u64) -> u64 {
        let usage = &mut self.usage;
        if self.is_swap_full {
            // More than the program would have without swap and a budget on top.
            let all = usage.budget_bytes + usage.resident_bytes + usage.swapped_bytes;
            return usage.limit_bytes.max(all).min(self.most_bytes);
        }
        let rest = usage.budget_bytes.saturating_sub(usage.pool_bytes);
        let held = self.kernel_bytes.saturating_add(self.locked_bytes);
        let mut floor = floor_bytes(usage.budget_bytes, held, self.room_bytes);
        if now_ns < self.hold_until_ns {
            floor = floor.max(usage.resident_bytes + self.room_bytes);
        }
        if floor > rest {
            usage.floor_bytes = usage.floor_bytes.max(floor);
        }
        rest.max(floor).min(self.most_bytes)
    }

    /// Moves the bound towards what it is to be; whether that is reached.
    fn set_limit(&mut self, now_ns: u64) -> bool {
        let mut wanted = self.wanted_limit(now_ns);
        let now = self.usage.limit_bytes;
        let mut is_reached = true;
        let is_set = if wanted + GRAIN_BYTES <= now {
            if now_ns < self.retry_ns {
                return true;
            }
            let resident = now.min(self.usage.resident_bytes);
            let next = wanted.max(resident.saturating_sub(STEP_BYTES));
            is_reached = next == wanted;
            wanted = next;
            self.bound.lower(wanted, now)
        } else if wanted >= now + GRAIN_BYTES {
            self.bound.raise(wanted)
        } else {
            return true;
        };
        match is_set {
            Ok(()) => self.usage.limit_bytes = wanted,
            Err(_) => {
                // It stopped on its way down.
                let group = self.bound.group();
                self.usage.limit_bytes = group.bound_bytes().filter(|&b| b > 0).unwrap_or(now);
                self.retry_ns = now_ns + RETRY_NS;
                is_reached = true;
            }
        }
        is_reached
    }

    /// The program's part of the pool, by its share of the pages that are in it; and whether swap has room.
    fn measure_pool(&mut self, now_ns: u64) -> Result<(), FileError> {
        let mut swap = swap_status(&self.root)?;
        let usage = &mut self.usage;
        let least = least_swap_bytes(usage.budget_bytes);
        if swap.free_bytes < GROW_BYTES.max(2 * least) && now_ns >= self.grow_ns {
            self.grow_ns = now_ns + HOLD_NS;
            if let Some(devices) = (self.grow)() {
                usage.added_devices += 1;
                usage.is_own_device = true;
                usage.device = devices;
                swap = swap_status(&self.root)?;
            }
        }
        let room = self.bound.group().swap_room_bytes().unwrap_or(u64::MAX);
        let is_full = swap.free_bytes.min(room) < least;
        usage.lifted_limits += u64::from(is_full && !self.is_swap_full);
        self.is_swap_full = is_full;
        match self.bound.group().swapped_bytes()? {
            Some(swapped) => {
                let share = swapped as f64 / swap.stored_bytes.max(1) as f64;
                usage.swapped_bytes = swapped;
                usage.pool_bytes = (swap.pool_bytes as f64 * share.min(1.0)) as u64;
            }
            None => {
                usage.pool_bytes = swap.pool_bytes.saturating_sub(self.pool_before_bytes);
                usage.swapped_bytes = swap.stored_bytes.min(usage.pool_bytes.saturating_mul(4));
            }
        }
        usage.pool_peak_bytes = usage.pool_peak_bytes.max(usage.pool_bytes);
        Ok(())
    }

    /// Reads the counters.
    pub(super) fn account(&mut self) {
        self.account_memory();
        self.account_traffic();
        let usage = &mut self.usage;
        if let Ok(hits) = self.bound.group().limit_hits() {
            usage.limit_hits = hits;
        }
        usage.oom_kills = self.bound.kills().or(usage.oom_kills);
        let group = self.bound.group();
        usage.has_left_group |= self
            .membership
            .has_member_left(&self.root, group, self.process);
        let stalled = MemoryPressure::of_group(group.path());
        usage.stalled_us = stalled.ok().flatten().map(|found| found.some.total_us);
    }

    fn account_memory(&mut self) {
        let usage = &mut self.usage;
        if let Ok(stats) = self.bound.group().stats() {
            // What can go to swap, wherever it is.
            let shared = self.bound.shared_bytes().unwrap_or(0);
            let needed = stats.anonymous_bytes + shared + usage.swapped_bytes;
            usage.needed_peak_bytes = usage.needed_peak_bytes.max(needed);
            usage.major_faults = stats.major_faults;
        }
        self.locked_bytes = self.bound.locked_bytes().unwrap_or(self.locked_bytes);
        if let Some(peak) = self.bound.peak_bytes() {
            usage.resident_peak_bytes = usage.resident_peak_bytes.max(peak);
            usage.used_peak_bytes = usage.used_peak_bytes.max(peak);
        }
    }

    fn account_traffic(&mut self) {
        let usage = &mut self.usage;
        let now = match usage.is_own_traffic {
            true => own_traffic(self.bound.group()),
            false => SwapTraffic::read(&self.root).ok(),
        };
        if let Some(now) = now {
            usage.out_pages = now.out_pages.saturating_sub(self.traffic.out_pages);
            usage.in_pages = now.in_pages.saturating_sub(self.traffic.in_pages);
        }
    }
}

/// What the group counts of its own traffic; `None` where it counts none.
fn own_traffic(group: &Group) -> Option<SwapTraffic> {
    SwapTraffic::of_group(group.path()).ok().flatten()
}

fn swap_status(root: &Root) -> Result<SwapStatus, FileError> {
    SwapStatus::read(root, &Meminfo::read(root)?)
}
