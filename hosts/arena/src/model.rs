//! The gate under many schedules (shuttle), and once with real threads.
//!
//! The file of the gate is compiled again here, over a word whose sleepers have no time limit: a wake-up that is missing is a
//! deadlock, which shuttle reports, and not a delay. Shuttle's atomics are sequentially consistent: what depends on weaker
//! orders is not found here.

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use gate::Gate;

#[path = "gate.rs"]
#[allow(
    clippy::duplicate_mod,
    dead_code,
    reason = "over another word, as far as the model goes"
)]
mod gate;

mod sync {
    use shuttle::sync::atomic::{AtomicU32, Ordering};
    use shuttle::sync::{Condvar, Mutex};

    /// As [`crate::sync::Word`].
    #[derive(Debug, Default)]
    pub struct Word {
        value: AtomicU32,
        /// The kernel's lock on the queue of sleepers: value and sleep are one step.
        queue: Mutex<()>,
        sleepers: Condvar,
    }

    impl Word {
        pub fn load(&self) -> u32 {
            self.value.load(Ordering::SeqCst)
        }

        pub fn store(&self, value: u32) {
            self.value.store(value, Ordering::SeqCst);
        }

        pub fn update(&self, change: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
            self.value
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, change)
        }

        pub fn decrement(&self) -> u32 {
            self.value.fetch_sub(1, Ordering::SeqCst)
        }

        pub fn wait(&self, seen: u32) {
            let queue = self.queue.lock().expect("no panic");
            if self.value.load(Ordering::SeqCst) == seen {
                drop(self.sleepers.wait(queue).expect("no panic"));
            }
        }

        pub fn wake(&self) {
            let _queue = self.queue.lock().expect("no panic");
            self.sleepers.notify_all();
        }
    }
}

const SCHEDULES: usize = 2000;

/// Runs a test under many schedules: uniformly random ones, and ones that put rare orders to the fore.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

/// The gate, and how many threads are inside.
#[derive(Default)]
struct Guarded {
    gate: Gate,
    inside: AtomicUsize,
}

impl Guarded {
    fn work(&self) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn close(&self) {
        self.gate.close();
        for _ in 0..3 {
            assert!(self.gate.is_closed());
            assert_eq!(self.inside.load(Ordering::SeqCst), 0, "a closed gate");
        }
    }
}

fn spawn(
    shared: &Arc<Guarded>,
    run: impl FnOnce(&Guarded) + Send + 'static,
) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(&shared))
}

#[test]
fn nothing_is_inside_a_closed_gate() {
    explore(|| {
        let shared = Arc::new(Guarded::default());
        let mut threads: Vec<_> = (0..2)
            .map(|_| {
                spawn(&shared, |shared| {
                    for _ in 0..2 {
                        let _inside = shared.gate.enter();
                        shared.work();
                    }
                })
            })
            .collect();
        threads.push(spawn(&shared, |shared| {
            let _inside = shared.gate.enter_as_pager();
            shared.work();
        }));
        for _ in 0..2 {
            shared.close();
            shared.gate.open();
        }
        for thread in threads {
            thread.join().expect("it has said why");
        }
        assert!(!shared.gate.is_closed());
    });
}

#[test]
fn several_threads_close_it_one_after_the_other() {
    explore(|| {
        let shared = Arc::new(Guarded::default());
        let closers = [false, true].map(|stays| {
            spawn(&shared, move |shared| {
                shared.close();
                if stays {
                    let _inside = shared.gate.open_and_stay();
                    shared.work();
                } else {
                    shared.gate.open();
                }
            })
        });
        let _inside = shared.gate.enter();
        shared.work();
        drop(_inside);
        for closer in closers {
            closer.join().expect("it has said why");
        }
    });
}

/// Work that is inside waits for the pager; the pager must get in while the gate is closing.
#[test]
fn the_pager_enters_a_closing_gate() {
    explore(|| {
        let shared = Arc::new(Guarded::default());
        let (done, wait) = shuttle::sync::mpsc::channel();
        let worker = spawn(&shared, move |shared| {
            let _inside = shared.gate.enter();
            // In place of a frame that only the pager can make.
            let pager = wait.recv();
            assert!(pager.is_ok());
            shared.work();
        });
        let pager = spawn(&shared, move |shared| {
            let _inside = shared.gate.enter_as_pager();
            done.send(()).expect("the worker waits");
        });
        let closer = spawn(&shared, |shared| {
            shared.close();
            shared.gate.open();
        });
        for thread in [worker, pager, closer] {
            thread.join().expect("it has said why");
        }
    });
}

/// A thread that must not wait for a closed gate is turned away.
#[test]
fn a_closed_gate_turns_away_threads_that_cannot_wait() {
    explore(|| {
        let shared = Arc::new(Guarded::default());
        let visitor = spawn(&shared, |shared| {
            let inside = shared.gate.enter_as_handler();
            if inside.is_some() {
                shared.work();
            }
        });
        shared.close();
        // The visitor ends while the gate is closed: it entered before, or was turned away.
        visitor.join().expect("it has said why");
        assert!(shared.gate.enter_as_handler().is_none());
        shared.gate.open();
        assert!(shared.gate.enter_as_handler().is_some());
    });
}

#[test]
fn closing_waits_for_real_threads() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let gate = crate::gate::Gate::default();
    let was_open_again = AtomicBool::new(false);
    let inside = gate.enter();
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| gate.close());
        // The gate turns this thread away once it closes, and takes it while it is open.
        drop(gate.enter_as_pager());
        assert!(!gate.is_closed());
        drop(inside);
        closer.join().expect("it closes");
        assert!(gate.is_closed() && gate.enter_as_handler().is_none());
        scope.spawn(|| {
            let _inside = gate.enter();
            assert!(was_open_again.load(Ordering::SeqCst));
        });
        was_open_again.store(true, Ordering::SeqCst);
        gate.open();
    });
    assert!(!gate.is_closed());
}

#[test]
fn threads_are_known_while_work_may_wait_for_them() {
    let gate = crate::gate::Gate::default();
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let inside = gate.enter();
    assert!(gate.holds_up(own) && !gate.holds_up(own + 1) && !gate.holds_up(0));
    drop(inside);
    assert!(!gate.holds_up(own) && !gate.is_held_up());
    assert!(gate.enter_as_handler().is_some_and(|(_, closing)| !closing));
    assert!(!gate.is_held_up(), "handlers hold no lock that others need");

    gate.close();
    assert!(gate.holds_up(own) && gate.enter_as_handler().is_none());
    drop(gate.open_and_stay());
    gate.close();
    gate.open();
    assert!(!gate.is_held_up());
}

#[test]
fn more_threads_than_seats_come_in_one_after_another() {
    use std::sync::atomic::{AtomicU32, Ordering};
    const THREADS: u32 = 200;
    let gate = crate::gate::Gate::default();
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let guard = gate.enter();
                inside.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                drop(guard);
            });
        }
        gate.close();
        gate.open();
    });
    assert_eq!(inside.load(Ordering::SeqCst), THREADS);
    assert!(!gate.is_held_up());
}
