//! The arena's own threads: pager, fault handlers, restorers.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warmswap_uffd::{Event, Waiter};

use crate::address_map::AddressMap;
use crate::error::{AbortOnPanic, FaultError, die};
use crate::fault::{Core, Served, Wanted};
use crate::hooks::HandlerHooks;
use crate::lock::Mutex;
use crate::pager::Pager;
use crate::restore::Jobs;

/// How long the pager sleeps when no thread calls it.
const PAGER_SLEEP: Duration = Duration::from_millis(50);

/// Faults wait in vain for so many turns of the pager, and for so long, before they are given frames beyond the budget: a
/// thread that is about to give one up may be waiting for a processor. The time does not count where pool and backing
/// file are full, since nothing can leave then, nor where the budget is exceeded already.
const PATIENT_TURNS: u32 = 3;
const PATIENCE: Duration = Duration::from_millis(20);

/// How long the pager sleeps between two such turns, unless it is called.
const STUCK_SLEEP: Duration = Duration::from_millis(1);

/// How often fault handlers look whether they are to end.
const HANDLER_POLL_MS: u32 = 50;

/// The threads of one arena; all ended by [`Threads::stop`].
#[derive(Debug, Default)]
pub struct Threads {
    handles: Vec<JoinHandle<()>>,
    /// Their numbers, to ask for their CPU time.
    numbers: Arc<Mutex<Vec<i32>>>,
    is_stopped: Arc<AtomicBool>,
    /// Set when there is something to work for.
    begun: Arc<OnceLock<()>>,
    pub jobs: Arc<Jobs>,
}

impl Threads {
    /// Starts the pager.
    pub fn start_pager<M: AddressMap>(
        &mut self,
        core: &Arc<Core>,
        pager: &Arc<Mutex<Pager<M>>>,
    ) -> io::Result<()> {
        let (core, pager) = (Arc::clone(core), Arc::clone(pager));
        let is_stopped = Arc::clone(&self.is_stopped);
        self.start("pager", move || {
            core.hooks.thread_begins();
            let before_turn = Arc::clone(&core.hooks).before_pager_turn();
            move || run_pager(&core, &pager, before_turn, &is_stopped)
        })
    }

    /// Starts threads that read and serve faults.
    pub fn start_handlers(&mut self, core: &Arc<Core>, count: usize) -> io::Result<()> {
        for _ in 0..count.max(1) {
            let core = Arc::clone(core);
            let is_stopped = Arc::clone(&self.is_stopped);
            self.start("fault handler", move || {
                core.hooks.thread_begins();
                let handler = Handler::new(core);
                move || handler.run(&is_stopped)
            })?;
        }
        Ok(())
    }

    /// Starts threads that bring hot sets back when the processor has nothing else to do, and the sentinel that tells them.
    pub fn start_restorers(&mut self, core: &Arc<Core>, count: usize) -> io::Result<()> {
        let jobs = Arc::clone(&self.jobs);
        self.start("sentinel", move || move || jobs.give_permits())?;
        for _ in 0..count.max(1) {
            let (core, jobs) = (Arc::clone(core), Arc::clone(&self.jobs));
            self.start("restorer", move || {
                core.hooks.thread_begins();
                move || {
                    while let Some(job) = jobs.next() {
                        while jobs.take_permit(&job) && job.step(&core) {}
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Lets the threads that were started do their work.
    pub fn begin(&self) {
        // Once is enough.
        let _ = self.begun.set(());
    }

    /// Starts a thread, which is ready when this returns and waits for [`Self::begin`]. What `prepare` makes runs then,
    /// and allocates nothing: it has to hear of a fork whose thread holds the allocator.
    fn start<Body: FnOnce()>(
        &mut self,
        name: &'static str,
        prepare: impl FnOnce() -> Body + Send + 'static,
    ) -> io::Result<()> {
        let builder = std::thread::Builder::new().name(format!("warmswap {name}"));
        let (numbers, begun) = (Arc::clone(&self.numbers), Arc::clone(&self.begun));
        self.handles.push(builder.spawn(move || {
            let _abort = AbortOnPanic(name);
            let number = rustix::thread::gettid().as_raw_nonzero().get();
            let body = prepare();
            numbers.lock().push(number);
            begun.wait();
            body();
        })?);
        while self.numbers.lock().len() < self.handles.len() {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// CPU time of the threads so far.
    pub fn cpu_time(&self) -> Duration {
        let cpu_ns = |number: &i32| -> Option<u64> {
            let file = format!("/proc/self/task/{number}/schedstat");
            let text = std::fs::read_to_string(file).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        let numbers = self.numbers.lock();
        Duration::from_nanos(numbers.iter().filter_map(cpu_ns).sum())
    }

    /// Leaves threads that never began where they are: they wait for ever, since there is nothing to work for.
    pub fn abandon(&mut self) {
        self.handles.clear();
        self.numbers = Arc::default();
        self.begun = Arc::default();
    }

    /// Ends all threads and waits for them.
    pub fn stop(&mut self, core: &Core) {
        self.is_stopped.store(true, Ordering::Release);
        self.begin();
        self.jobs.stop();
        core.frames.call_pager();
        for handle in self.handles.drain(..) {
            // A thread that panicked has ended the process.
            let _ = handle.join();
        }
    }
}

fn run_pager<M: AddressMap>(
    core: &Core,
    pager: &Mutex<Pager<M>>,
    mut before_turn: Box<dyn FnMut()>,
    is_stopped: &AtomicBool,
) {
    let mut generation = core.frames.generation();
    let mut held = core.frames.held();
    let mut stuck_since: Option<Instant> = None;
    let mut stuck_turns = 0;
    while !is_stopped.load(Ordering::Acquire) {
        before_turn();
        let inside = core.gate.enter_as_pager();
        let mut guard = pager.lock();
        let has_more = match guard.work(core) {
            Ok(has_more) => has_more,
            Err(error) => die(core.memory.address(0), &error),
        };
        // Far beyond the budget, what is given up makes no frame available for long.
        let held_before = std::mem::replace(&mut held, core.frames.held());
        let is_stuck = core.frames.waiting() > 0
            && core.frames.available() == 0
            && core.frames.generation() == generation
            && held >= held_before;
        if is_stuck {
            stuck_turns += 1;
            let since = *stuck_since.get_or_insert_with(Instant::now);
            let is_vain = guard.engine.stores_are_full() || guard.is_beyond_budget();
            let is_over = is_vain || since.elapsed() >= PATIENCE;
            if stuck_turns > PATIENT_TURNS && is_over {
                guard.overcommit(core);
                (stuck_since, stuck_turns) = (None, 0);
            }
        } else {
            (stuck_since, stuck_turns) = (None, 0);
        }
        // No thread has to wait for that: what is beyond the budget is to leave all the same.
        let has_more = has_more || guard.let_pool_grow(core);
        // Few frames are free, and nothing can be given up for more: it will not be otherwise at once.
        let is_in_vain = !has_more && core.frames.generation() == generation;
        generation = core.frames.generation();
        drop(guard);
        drop(inside);
        pager.give_way();
        if is_stuck {
            // Faults under way may be about to be queued.
            core.frames.sleep_while_stuck(STUCK_SLEEP);
        } else if !has_more {
            core.frames.sleep(PAGER_SLEEP, is_in_vain, || {
                is_stopped.load(Ordering::Acquire)
            });
        }
    }
}

/// A thread that reads and serves faults.
struct Handler {
    core: Arc<Core>,
    waiter: Waiter,
    hooks: Box<dyn HandlerHooks>,
}

impl Handler {
    /// For the calling thread.
    fn new(core: Arc<Core>) -> Self {
        match core.memory.waiter() {
            Ok(waiter) => Self {
                waiter,
                hooks: Arc::clone(&core.hooks).handler(),
                core,
            },
            Err(error) => die(core.memory.address(0), &FaultError::Events(error)),
        }
    }

    fn run(mut self, is_stopped: &AtomicBool) {
        let handler_poll = Duration::from_millis(HANDLER_POLL_MS.into());
        while !is_stopped.load(Ordering::Acquire) {
            if !self.hooks.wait_for_turn(handler_poll) {
                continue;
            }
            let waited = self
                .waiter
                .wait(HANDLER_POLL_MS)
                .map_err(FaultError::Events);
            match waited.and_then(|()| self.drain_events()) {
                Ok(0) => self.hooks.idle(),
                Ok(_) => {}
                Err(error) => die(self.core.memory.address(0), &error),
            }
        }
        self.hooks.idle();
    }

    /// Resolves the faults that there are, at least those of one thread; how many.
    fn drain_events(&mut self) -> Result<u64, FaultError> {
        let core = &*self.core;
        let mut faults = 0;
        while self.hooks.has_turn() {
            // An event that was read is served before a fork, or put off until after it.
            let Some((_inside, is_closing)) = core.gate.enter_as_handler() else {
                core.hooks.fork_pending(core)?;
                continue;
            };
            if !is_closing {
                while let Some(page) = core.hooks.take_put_off() {
                    serve(core, core.memory.address(page), Wanted::Demand);
                }
            }
            match core.memory.read_event().map_err(FaultError::Events)? {
                Some(Event::Fault {
                    address, thread, ..
                }) => {
                    let holds_up = core.gate.holds_up(thread);
                    if is_closing && !holds_up {
                        core.hooks.put_off(core, address)?;
                        continue;
                    }
                    let start = Instant::now();
                    self.hooks.before_fault(thread);
                    let wanted = if holds_up {
                        Wanted::DemandAtOnce
                    } else {
                        Wanted::Demand
                    };
                    serve(core, address, wanted);
                    let time_ns = start.elapsed().as_nanos() as u64;
                    core.counts.latency.record(time_ns);
                    faults += 1;
                    if !self.hooks.reads_on() {
                        break;
                    }
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(faults)
    }
}

/// Serves a fault that a thread waits for.
fn serve(core: &Core, address: usize, wanted: Wanted) {
    let Some(page) = core.memory.page_of(address) else {
        die(address, &FaultError::NotMapped);
    };
    match core.fault_in(page, wanted) {
        Ok(Served::Brought) => return,
        // Another thread brought it, and may have woken its waiters before this one waited.
        Ok(Served::AlreadyResident | Served::NoFrame) => {}
        // It was unmapped meanwhile, by another thread or by its own, which went on when the page came along with another
        // one: the next access says so.
        Err(FaultError::NotMapped) => {}
        Err(error) => die(address, &error),
    }
    if let Err(error) = core.memory.wake(page) {
        die(address, &error);
    }
}

#[cfg(test)]
mod tests {
    use super::{Wanted, serve};
    use crate::pager::testing::arena;

    /// Its thread was woken by another handler, and dropped the region since.
    #[test]
    fn a_fault_that_is_resolved_after_its_region_was_dropped_ends_nothing() {
        let name = "a_fault_that_is_resolved_after_its_region_was_dropped_ends_nothing";
        let Some(arena) = arena(name, "zram") else {
            return;
        };
        let core = &arena.shared.core;
        let app = arena.application("a page").expect("an application");
        let region = app.region(4096).expect("a region");
        let address = core.memory.address(region.first);
        drop(region);
        serve(core, address, Wanted::Demand);
    }
}
